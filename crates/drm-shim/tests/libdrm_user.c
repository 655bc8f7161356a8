/* A program that uses libdrm as Mesa does, and knows nothing of who answers. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

struct eventfd_request {
	uint32_t handle, flags;
	uint64_t point;
	int32_t fd;
	uint32_t pad;
};

static int64_t in_ms(int64_t ms)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec + ms * 1000000;
}

int main(void)
{
	void *drm = dlopen("libdrm.so.2", RTLD_NOW);
	CHECK(drm);
	int (*create)(int, uint32_t, uint32_t *) = dlsym(drm, "drmSyncobjCreate");
	int (*destroy)(int, uint32_t) = dlsym(drm, "drmSyncobjDestroy");
	int (*wait)(int, uint32_t *, uint64_t *, unsigned, int64_t, unsigned, uint32_t *) =
		dlsym(drm, "drmSyncobjTimelineWait");
	int (*signal)(int, const uint32_t *, uint64_t *, uint32_t) =
		dlsym(drm, "drmSyncobjTimelineSignal");
	int (*query)(int, uint32_t *, uint64_t *, uint32_t) = dlsym(drm, "drmSyncobjQuery");
	int (*get_cap)(int, uint64_t, uint64_t *) = dlsym(drm, "drmGetCap");
	int (*export)(int, uint32_t, int *) = dlsym(drm, "drmSyncobjExportSyncFile");
	CHECK(create && destroy && wait && signal && query && get_cap && export);

	int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	uint64_t value = 0;
	CHECK(get_cap(fd, 0x14, &value) == 0 && value == 1);

	uint32_t handles[4], first;
	uint64_t points[4] = {7, 7, 7, 7};
	for (int i = 0; i < 4; i++)
		CHECK(create(fd, 0, &handles[i]) == 0);
	CHECK(signal(fd, handles, points, 4) == 0);
	CHECK(query(fd, handles, &value, 1) == 0 && value == 7);

	for (int i = 0; i < 10; i++)
		CHECK(wait(fd, handles, points, 1, INT64_MAX, 0, &first) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(wait(fd, handles, points, 4, INT64_MAX, 1, &first) == 0);
	uint64_t later = 8;
	for (int i = 0; i < 5; i++)
		CHECK(wait(fd, handles, &later, 1, 0, 2, &first) == -62);
	CHECK(wait(fd, handles, &later, 1, in_ms(5), 2, &first) == -62);

	int file = -1;
	CHECK(export(fd, handles[0], &file) == 0 && file >= 0);
	close(file);

	int bell = eventfd(0, EFD_CLOEXEC), other = eventfd(0, EFD_CLOEXEC);
	CHECK(bell >= 0 && other >= 0);
	struct eventfd_request request = {.handle = handles[0], .point = 8, .fd = bell};
	CHECK(ioctl(fd, _IOWR('d', 0xcf, struct eventfd_request), &request) == 0);
	CHECK(signal(fd, handles, &later, 1) == 0);
	uint64_t rung = 0;
	CHECK(read(bell, &rung, 8) == 8 && rung == 1);

	for (int i = 0; i < 4; i++)
		CHECK(destroy(fd, handles[i]) == 0);
	CHECK(destroy(fd, handles[0]) != 0);
	close(fd);
	return 0;
}
