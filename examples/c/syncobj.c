/* Seed 004's scene without a GPU: a wait on any of several objects, and a timeline of frames, without a
 * temporary allocation and without entering the kernel for what is done already.
 *
 *   cc -std=c11 syncobj.c -ltowpath -lpthread -o syncobj */
#define _GNU_SOURCE
#include "common.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FRAMES = 1000, IN_FLIGHT = 1, ROUNDS = 5 };

/* What carries "frame n is submitted" and "frame n is finished" between the program and its "GPU", a thread that
 * finishes each frame that was handed to it, in order. Before: a descriptor each that is polled, one message a frame. */
struct lane {
    int bells[2];
    tp_sync *timelines[2];
    void (*signal)(const struct lane *, int which, uint64_t frame);
    void (*wait)(const struct lane *, int which, uint64_t frame);
};

enum { SUBMITTED, FINISHED };

static void bell_signal(const struct lane *lane, int which, uint64_t frame)
{
    const uint64_t one = 1;
    (void)frame;
    CHECK(write(lane->bells[which], &one, sizeof one) == sizeof one);
}

static void bell_wait(const struct lane *lane, int which, uint64_t frame)
{
    struct pollfd bell = { lane->bells[which], POLLIN, 0 };
    uint64_t one;
    (void)frame;
    CHECK(poll(&bell, 1, -1) == 1);
    CHECK(read(lane->bells[which], &one, sizeof one) == sizeof one);
}

static void timeline_signal(const struct lane *lane, int which, uint64_t frame)
{
    MUST(tp_sync_signal(lane->timelines[which], frame));
}

static void timeline_wait(const struct lane *lane, int which, uint64_t frame)
{
    const tp_sync *objects[1] = { lane->timelines[which] };
    MUST(tp_sync_wait(objects, &frame, 1, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL));
}

static void *work(void *argument)
{
    const struct lane *lane = argument;
    for (uint64_t frame = 1; frame <= FRAMES; frame++) {
        lane->wait(lane, SUBMITTED, frame);
        lane->signal(lane, FINISHED, frame);
    }
    return NULL;
}

/* Frames through a lane, never more than IN_FLIGHT ahead; returns the milliseconds. */
static double frames_in_flight(struct lane *lane)
{
    pthread_t thread;
    for (int which = SUBMITTED; which <= FINISHED; which++) {
        lane->bells[which] = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
        CHECK(lane->bells[which] >= 0);
        MUST(tp_sync_create(0, &lane->timelines[which]));
    }
    CHECK(pthread_create(&thread, NULL, work, lane) == 0);
    double start = now_ms();
    for (uint64_t frame = 1; frame <= FRAMES; frame++) {
        if (frame > IN_FLIGHT)
            lane->wait(lane, FINISHED, frame - IN_FLIGHT);
        lane->signal(lane, SUBMITTED, frame);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    double spent = now_ms() - start;
    uint64_t reached = 0;
    MUST(tp_sync_query(lane->timelines[FINISHED], &reached));
    CHECK(reached == (lane->wait == timeline_wait ? FRAMES : 0));
    for (int which = SUBMITTED; which <= FINISHED; which++) {
        MUST(tp_sync_free(lane->timelines[which]));
        close(lane->bells[which]);
    }
    return spent;
}

static void wait_any(void)
{
    enum { COUNT = 4 };
    tp_sync *objects[COUNT];
    const tp_sync *list[COUNT];
    uint64_t points[COUNT] = { 1, 1, 1, 1 };
    for (int i = 0; i < COUNT; i++) {
        MUST(tp_sync_create(0, &objects[i]));
        list[i] = objects[i];
    }
    size_t first = 99;
    /* Nothing was submitted: said at once, as the kernel does. */
    CHECK(tp_sync_wait(list, points, COUNT, 0, INT64_MAX, &first) == TP_ERROR_NOT_FOUND);
    /* With the flag the wait goes on until the deadline. */
    CHECK(tp_sync_wait(list, points, COUNT, TP_WAIT_FOR_SUBMIT, tp_deadline_after(2000000), &first) ==
          TP_ERROR_TIMEOUT);
    MUST(tp_sync_signal(objects[2], 1));
    MUST(tp_sync_wait(list, points, COUNT, TP_WAIT_FOR_SUBMIT, INT64_MAX, &first));
    CHECK(first == 2);
    for (int i = 0; i < COUNT; i++)
        MUST(tp_sync_free(objects[i]));
    puts("wait any: object 2 of 4");
}

int main(void)
{
    double before = 1e9, ours = 1e9;
    /* One processor for both threads: how far apart two are differs from run to run. */
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    wait_any();
    for (int round = 0; round < ROUNDS; round++) {
        struct lane bells = { .signal = bell_signal, .wait = bell_wait };
        struct lane timelines = { .signal = timeline_signal, .wait = timeline_wait };
        double by_bells = frames_in_flight(&bells), by_timelines = frames_in_flight(&timelines);
        before = by_bells < before ? by_bells : before;
        ours = by_timelines < ours ? by_timelines : ours;
    }
    says_ratio("1000 frames, one in flight", before, ours);
    puts("ok");
    return 0;
}
