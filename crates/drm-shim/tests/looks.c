/* What a program sees of a node before and after it opens it, by which functions ever. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "check.h"

#define NODE "/dev/dri/renderD128"
#define SW_SYNC "/sys/kernel/debug/sync/sw_sync"

/* Of glibc, called where the flags are no constant and _FORTIFY_SOURCE is defined. */
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int folder, const char *path, int flags);
extern int __openat64_2(int folder, const char *path, int flags);

static int is_node(const struct stat *stat)
{
	return S_ISCHR(stat->st_mode) && stat->st_rdev == makedev(226, 128);
}

int main(void)
{
	struct stat told;
	struct statx wide;
	CHECK(stat(NODE, &told) == 0 && is_node(&told));
	CHECK(lstat(NODE, &told) == 0 && is_node(&told));
	CHECK(fstatat(AT_FDCWD, NODE, &told, 0) == 0 && is_node(&told));
	CHECK(statx(AT_FDCWD, NODE, 0, STATX_BASIC_STATS, &wide) == 0);
	CHECK(S_ISCHR(wide.stx_mode) && wide.stx_rdev_major == 226 && wide.stx_rdev_minor == 128);
	CHECK(access(NODE, R_OK | W_OK) == 0 && faccessat(AT_FDCWD, NODE, F_OK, 0) == 0);
	CHECK(access(NODE, X_OK) == -1 && errno == EACCES);
	CHECK(stat(SW_SYNC, &told) == 0 && S_ISREG(told.st_mode));
	CHECK(stat("/dev/dri", &told) == 0 && S_ISDIR(told.st_mode));
	/* Others are as they are. */
	CHECK(stat("/dev/dri/renderD199", &told) == -1 && errno == ENOENT);
	CHECK(access("/dev/dri/renderD199", F_OK) == -1 && errno == ENOENT);
	CHECK(stat("/dev/null", &told) == 0 && told.st_rdev == makedev(1, 3));
	CHECK(stat("/proc", &told) == 0 && S_ISDIR(told.st_mode) && told.st_ino != 0);

	int fds[] = {
		open(NODE, O_RDWR),
		open64(NODE, O_RDWR | O_CLOEXEC),
		openat(AT_FDCWD, NODE, O_RDWR),
		__open_2(NODE, O_RDWR),
		__open64_2(NODE, O_RDWR),
		__openat_2(AT_FDCWD, NODE, O_RDWR),
		__openat64_2(AT_FDCWD, NODE, O_RDWR),
	};
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
		uint64_t cap[2] = {0x14, 0};
		CHECK(fds[i] >= 0 && fstat(fds[i], &told) == 0 && is_node(&told));
		CHECK(ioctl(fds[i], _IOWR('d', 0x0c, cap), cap) == 0 && cap[1] == 1);
		CHECK(statx(fds[i], "", AT_EMPTY_PATH, STATX_BASIC_STATS, &wide) == 0);
		CHECK(S_ISCHR(wide.stx_mode));
	}
	/* A copy is the same node, by whichever way it is made. */
	int copy = fcntl(dup2(dup(fds[0]), 99), F_DUPFD_CLOEXEC, 0);
	CHECK(fstat(copy, &told) == 0 && is_node(&told));
	/* No terminal, and no request of other devices; what does not go in is zeros to the core. */
	CHECK(!isatty(fds[0]));
	uint32_t create[2] = {77, 1};
	CHECK(ioctl(fds[0], _IOR('d', 0xbf, create), create) == 0 && create[0] == 1);
	CHECK(create[1] == 0);
	/* Shorter and longer structs: zeros beyond, and nothing written there. */
	uint64_t longer[4] = {0, 5, 6, 7};
	CHECK(ioctl(fds[0], _IOWR('d', 0xbf, longer), longer) == 0);
	CHECK((uint32_t)longer[0] == 2 && longer[1] == 5 && longer[2] == 6 && longer[3] == 7);
	uint32_t shorter[2] = {9, 9};
	CHECK(ioctl(fds[0], _IOWR('d', 0xbf, uint32_t), shorter) == 0);
	CHECK(shorter[0] == 3 && shorter[1] == 9);
	return 0;
}
