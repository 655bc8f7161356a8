/* Sync files and software timelines as sync_file.c and sw_sync.c of Linux have them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

struct merge { char name[32]; int32_t fd2, fence; uint32_t flags, pad; };
struct info { char name[32]; int32_t status; uint32_t flags, count, pad; uint64_t fences; };
struct fence { char timeline[32], driver[32]; int32_t status; uint32_t flags; uint64_t when; };
struct create { uint32_t value; char name[32]; int32_t fence; };
struct set_deadline { uint64_t at, pad; };
struct get_deadline { uint64_t at; uint32_t pad; int32_t fence; };

#define MERGE _IOWR('>', 3, struct merge)
#define INFO _IOWR('>', 4, struct info)
#define SET_DEADLINE _IOW('>', 5, struct set_deadline)
#define CREATE _IOWR('W', 0, struct create)
#define INC _IOW('W', 1, uint32_t)
#define GET_DEADLINE _IOWR('W', 2, struct get_deadline)

static int timeline(void)
{
	int fd = open("/sys/kernel/debug/sync/sw_sync", O_RDWR);
	CHECK(fd >= 0);
	return fd;
}

static int fence(int timeline, uint32_t value)
{
	struct create create = {.value = value, .name = "ignored", .fence = -1};
	CHECK(ioctl(timeline, CREATE, &create) == 0);
	CHECK(fcntl(create.fence, F_GETFD) == FD_CLOEXEC);
	return create.fence;
}

static int merge(int first, int second)
{
	struct merge merge = {.name = "merged", .fd2 = second};
	CHECK(ioctl(first, MERGE, &merge) == 0);
	return merge.fence;
}

static void increase(int timeline, uint32_t by)
{
	CHECK(ioctl(timeline, INC, &by) == 0);
}

static struct info info(int fd, struct fence *fences, uint32_t room)
{
	struct info info = {.count = room, .fences = (uintptr_t)fences};
	CHECK(ioctl(fd, INFO, &info) == 0);
	return info;
}

static int status(int fd)
{
	return info(fd, NULL, 0).status;
}

static int is_ready(int fd)
{
	struct pollfd poll_ = {.fd = fd, .events = POLLIN};
	return poll(&poll_, 1, 0) == 1 && poll_.revents == POLLIN;
}

/* Of one timeline the last fence stays, what is done is left out, others are listed each. */
static void merges_keep_the_last_fence_of_each_timeline(void)
{
	struct fence fences[3];
	int first = timeline(), second = timeline();
	int one = fence(first, 1), two = fence(first, 2), other = fence(second, 5);
	int both = merge(two, one);
	CHECK(info(both, NULL, 0).count == 1);
	increase(first, 1);
	CHECK(status(one) == 1 && status(both) == 0 && is_ready(one) && !is_ready(both));
	int all = merge(both, other);
	CHECK(info(all, fences, 3).count == 2 && strcmp(info(all, fences, 3).name, "merged") == 0);
	CHECK(fences[0].status == 0 && fences[1].status == 0 && fences[0].when == 0);
	CHECK(strcmp(fences[0].driver, "sw_sync") == 0);
	/* Done parts are not waited for again, and go with the next merge. */
	increase(second, 5);
	struct info partly = info(all, fences, 2);
	CHECK(partly.status == 0 && fences[0].status + fences[1].status == 1);
	CHECK(fences[0].when + fences[1].when > 0 && !is_ready(all));
	CHECK(info(merge(all, one), NULL, 0).count == 1);
	increase(first, 1);
	CHECK(status(all) == 1 && is_ready(all));
	/* Nothing pending: one fence that is done. */
	int none = merge(all, one);
	CHECK(info(none, fences, 3).count == 1 && fences[0].status == 1 && is_ready(none));
	/* With itself. */
	int three = fence(first, 3);
	CHECK(info(merge(three, three), NULL, 0).count == 1);
}

static void a_short_array_is_refused_and_a_failed_request_writes_nothing(void)
{
	struct fence fences[2];
	int first = timeline(), second = timeline();
	int both = merge(fence(first, 1), fence(second, 1));
	struct info short_ = {.count = 1, .fences = (uintptr_t)fences, .name = "kept"};
	CHECK(ioctl(both, INFO, &short_) == -1 && errno == EINVAL);
	CHECK(short_.count == 1 && strcmp(short_.name, "kept") == 0);
	struct merge bad = {.name = "kept", .fd2 = first, .fence = -7};
	CHECK(ioctl(both, MERGE, &bad) == -1 && errno == ENOENT && bad.fence == -7);
	bad.flags = 1;
	CHECK(ioctl(both, MERGE, &bad) == -1 && errno == EINVAL);
	/* No descriptor is made of which the program does not hear. */
	int next = dup(0);
	CHECK(next >= 0 && close(next) == 0);
	struct create *locked = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ioctl(first, CREATE, locked) == -1 && errno == EFAULT);
	CHECK(dup(0) == next && close(next) == 0);
	/* Requests of the other kind, and of other sizes. */
	CHECK(ioctl(both, CREATE, &short_) == -1 && errno == ENOTTY);
	CHECK(ioctl(first, INFO, &short_) == -1 && errno == ENOTTY);
	CHECK(ioctl(both, _IOWR('>', 4, struct fence), fences) == -1 && errno == ENOTTY);
}

static void names_tell_the_timeline(void)
{
	int first = timeline();
	struct fence one;
	int fd = fence(first, 7);
	struct info told = info(fd, &one, 1);
	CHECK(strncmp(told.name, "sw_sync-program", 15) == 0);
	CHECK(strcmp(told.name + strlen(told.name) - 2, "-7") == 0);
	CHECK(strcmp(one.timeline, "program") == 0);
}

static void values_wrap_and_long_steps_pass_all(void)
{
	int first = timeline();
	int near = fence(first, 10), far = fence(first, 0x7fffffff), passed = fence(first, 0x90000000);
	/* More than half the range ahead counts as behind. */
	CHECK(status(near) == 0 && status(far) == 0 && status(passed) == 1);
	increase(first, UINT32_MAX);
	CHECK(status(near) == 1 && status(far) == 1);
	increase(first, 1);
	CHECK(status(fence(first, 1)) == 0 && status(fence(first, 0)) == 1);
}

static void deadlines_are_kept_for_the_timeline(void)
{
	int first = timeline(), second = timeline();
	int one = fence(first, 1), other = fence(second, 1);
	struct get_deadline get = {.fence = one};
	CHECK(ioctl(first, GET_DEADLINE, &get) == -1 && errno == ENOENT);
	struct set_deadline set = {.at = 500};
	CHECK(ioctl(merge(one, other), SET_DEADLINE, &set) == 0);
	set.at = 900;
	CHECK(ioctl(one, SET_DEADLINE, &set) == 0);
	CHECK(ioctl(first, GET_DEADLINE, &get) == 0 && get.at == 500);
	CHECK(ioctl(first, GET_DEADLINE, &get) == -1 && errno == EINVAL);
	get = (struct get_deadline){.fence = first};
	CHECK(ioctl(first, GET_DEADLINE, &get) == -1 && errno == EINVAL);
	set.pad = 1;
	CHECK(ioctl(one, SET_DEADLINE, &set) == -1 && errno == EINVAL);
}

/* Whatever closes the last descriptor of a timeline ends its fences. */
static void a_closed_timeline_ends_its_fences(void)
{
	for (int how = 0; how < 4; how++) {
		int first = timeline(), pending = fence(first, 1);
		int copy = dup(first);
		CHECK(close(first) == 0 && status(pending) == 0);
		CHECK(how == 0   ? close(copy) == 0
		      : how == 1 ? dup2(0, copy) == copy
		      : how == 2 ? dup3(0, copy, O_CLOEXEC) == copy
				 : close_range(copy, copy, 0) == 0);
		CHECK(is_ready(pending) && status(pending) == -ENOENT);
	}
}

int main(void)
{
	merges_keep_the_last_fence_of_each_timeline();
	a_short_array_is_refused_and_a_failed_request_writes_nothing();
	names_tell_the_timeline();
	values_wrap_and_long_steps_pass_all();
	deadlines_are_kept_for_the_timeline();
	a_closed_timeline_ends_its_fences();
	return 0;
}
