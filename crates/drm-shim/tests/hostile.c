/* What a careless or hostile program passes: each is a code of errno.h, none a crash. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

struct create { uint32_t handle, flags; };
struct handle { uint32_t handle, flags; int32_t fd; uint32_t pad; uint64_t point; };
struct array { uint64_t handles; uint32_t count, pad; };
struct timeline_array { uint64_t handles, points; uint32_t count, flags; };
struct wait { uint64_t handles, points; int64_t timeout; uint32_t count, flags, first, pad; };

#define CREATE _IOWR('d', 0xbf, struct create)
#define TO_FD _IOWR('d', 0xc1, struct handle)
#define RESET _IOWR('d', 0xc4, struct array)
#define TIMELINE_WAIT _IOWR('d', 0xca, struct wait)
#define QUERY _IOWR('d', 0xcb, struct timeline_array)
#define SIGNAL _IOWR('d', 0xcd, struct timeline_array)

static int node;

static void *sleeper(void *handle)
{
	uint64_t point = 1;
	struct wait wait = {.handles = (uintptr_t)handle, .points = (uintptr_t)&point,
			    .timeout = INT64_MAX, .count = 1, .flags = 2};
	return ioctl(node, TIMELINE_WAIT, &wait) == 0 ? handle : NULL;
}

static void addresses(void)
{
	uint32_t handles[2];
	struct create create = {0};
	for (int i = 0; i < 2; i++) {
		CHECK(ioctl(node, CREATE, &create) == 0);
		handles[i] = create.handle;
	}
	/* The struct itself. */
	CHECK(ioctl(node, CREATE, NULL) == -1 && errno == EFAULT);
	CHECK(ioctl(node, TIMELINE_WAIT, (void *)8) == -1 && errno == EFAULT);
	/* A struct that may be read but not written. */
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	CHECK(munmap(page + 4096, 4096) == 0);
	memcpy(page, &create, sizeof create);
	CHECK(mprotect(page, 4096, PROT_READ) == 0);
	CHECK(ioctl(node, CREATE, page) == -1 && errno == EFAULT);
	/* Arrays: of unmapped memory, across the end of a mapping, absurdly long. */
	struct array array = {.handles = 8, .count = 2};
	CHECK(ioctl(node, RESET, &array) == -1 && errno == EFAULT);
	array.handles = (uintptr_t)page + 4092;
	CHECK(ioctl(node, RESET, &array) == -1 && errno == EFAULT);
	array.count = UINT32_MAX;
	CHECK(ioctl(node, RESET, &array) == -1 && (errno == ENOMEM || errno == EFAULT));
	struct timeline_array points = {.handles = (uintptr_t)handles, .points = 8, .count = 2};
	CHECK(ioctl(node, SIGNAL, &points) == -1 && errno == EFAULT);
	CHECK(ioctl(node, QUERY, &points) == -1 && errno == EFAULT);
	/* Unknown requests and sizes. */
	CHECK(ioctl(node, _IOWR('d', 0x7f, struct create), &create) == -1 && errno == EINVAL);
	CHECK(ioctl(node, _IO('d', 0xbf)) >= -1);
}

static void full_table(void)
{
	struct create create = {0};
	CHECK(ioctl(node, CREATE, &create) == 0);
	struct rlimit old, low;
	CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
	low = old;
	low.rlim_cur = 3;
	CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	struct handle handle = {.handle = create.handle, .fd = -1};
	CHECK(ioctl(node, TO_FD, &handle) == -1 && errno == EMFILE);
	handle.flags = 1;
	CHECK(ioctl(node, TO_FD, &handle) == -1 && (errno == EMFILE || errno == EINVAL));
	CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
	handle.flags = 0;
	CHECK(ioctl(node, TO_FD, &handle) == 0);
	close(handle.fd);
}

static void fork_in_a_wait(void)
{
	struct create create = {0};
	CHECK(ioctl(node, CREATE, &create) == 0);
	static uint32_t handle;
	handle = create.handle;
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, sleeper, &handle) == 0);
	usleep(20000);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		/* The child's copy has a waiter that does not exist here. */
		struct create own = {0};
		if (ioctl(node, CREATE, &own) != 0)
			_exit(1);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	uint64_t point = 1;
	struct timeline_array signal = {.handles = (uintptr_t)&handle, .points = (uintptr_t)&point,
					.count = 1};
	CHECK(ioctl(node, SIGNAL, &signal) == 0);
	void *answer = NULL;
	CHECK(pthread_join(thread, &answer) == 0 && answer == &handle);
}

static volatile int caught;

static void handler(int number)
{
	caught = number;
}

static int64_t now(void)
{
	struct timespec now;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Waits for what nobody brings while one alarm rings. */
static int alarmed(int flags, int64_t timeout, uint32_t *handles, uint32_t count)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval soon = {.it_value = {.tv_usec = 50000}};
	uint64_t points[2] = {1, 1};
	struct wait wait = {.handles = (uintptr_t)handles, .points = (uintptr_t)points,
			    .timeout = timeout, .count = count, .flags = 2};
	caught = 0;
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	CHECK(ioctl(node, TIMELINE_WAIT, &wait) == -1);
	int code = errno;
	CHECK(caught == SIGALRM);
	return code;
}

/* A handler ends a wait, unless it was set to restart calls: then the wait goes on to its time. */
static void signals_end_waits(void)
{
	struct create create = {0};
	uint32_t handles[2];
	for (int i = 0; i < 2; i++) {
		CHECK(ioctl(node, CREATE, &create) == 0);
		handles[i] = create.handle;
	}
	for (uint32_t count = 1; count <= 2; count++) {
		CHECK(alarmed(0, INT64_MAX, handles, count) == EINTR);
		CHECK(alarmed(0, now() + INT64_C(60000000000), handles, count) == EINTR);
		int64_t until = now() + 150000000;
		CHECK(alarmed(SA_RESTART, until, handles, count) == ETIME && now() >= until);
	}
}

static uint32_t awaited;

static void signalling(int number)
{
	uint64_t point = 1;
	struct timeline_array signal = {.handles = (uintptr_t)&awaited,
					.points = (uintptr_t)&point, .count = 1};
	int code = errno;
	caught = ioctl(node, SIGNAL, &signal) == 0 ? number : -errno;
	errno = code;
}

/* A handler brings what its own thread waits for. */
static void a_handler_may_signal(void)
{
	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		struct create create = {0};
		CHECK(ioctl(node, CREATE, &create) == 0);
		awaited = create.handle;
		struct sigaction action = {.sa_handler = signalling, .sa_flags = flags};
		CHECK(sigaction(SIGALRM, &action, NULL) == 0);
		struct itimerval soon = {.it_value = {.tv_usec = 50000}};
		CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
		uint64_t point = 1;
		struct wait wait = {.handles = (uintptr_t)&awaited, .points = (uintptr_t)&point,
				    .timeout = INT64_MAX, .count = 1, .flags = 2};
		int answer = ioctl(node, TIMELINE_WAIT, &wait);
		CHECK(caught == SIGALRM);
		CHECK(answer == 0 || errno == EINTR);
		wait.timeout = 0;
		CHECK(ioctl(node, TIMELINE_WAIT, &wait) == 0);
	}
}

int main(void)
{
	node = open("/dev/dri/renderD128", O_RDWR);
	CHECK(node >= 0);
	addresses();
	full_table();
	fork_in_a_wait();
	signals_end_waits();
	a_handler_may_signal();
	return 0;
}
