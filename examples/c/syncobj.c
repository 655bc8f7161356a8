/* Seed 004's scene without a GPU: a wait on any of several objects, and a timeline of frames, without a
 * temporary allocation and without entering the kernel for what is done already.
 *
 *   cc -std=c11 syncobj.c -ltowpath -lpthread -o syncobj */
#define _GNU_SOURCE
#include "common.h"

#include <pthread.h>
#include <stdint.h>

enum { FRAMES = 1000, IN_FLIGHT = 3 };

/* The "GPU": finishes each frame that was handed to it, in order. */
struct gpu {
    tp_sync *submitted;
    tp_sync *finished;
};

static void *work(void *argument)
{
    struct gpu *gpu = argument;
    for (uint64_t frame = 1; frame <= FRAMES; frame++) {
        const tp_sync *objects[1] = { gpu->submitted };
        MUST(tp_sync_wait(objects, &frame, 1, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL));
        MUST(tp_sync_signal(gpu->finished, frame));
    }
    return NULL;
}

static void frames_in_flight(void)
{
    struct gpu gpu = { NULL, NULL };
    MUST(tp_sync_create(0, &gpu.submitted));
    MUST(tp_sync_create(0, &gpu.finished));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, &gpu) == 0);
    double start = now_ms();
    for (uint64_t frame = 1; frame <= FRAMES; frame++) {
        if (frame > IN_FLIGHT) {
            const tp_sync *objects[1] = { gpu.finished };
            uint64_t oldest = frame - IN_FLIGHT;
            MUST(tp_sync_wait(objects, &oldest, 1, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL));
        }
        MUST(tp_sync_signal(gpu.submitted, frame));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    uint64_t reached = 0;
    MUST(tp_sync_query(gpu.finished, &reached));
    CHECK(reached == FRAMES);
    printf("%d frames, %d in flight: %.2f us a frame\n", FRAMES, IN_FLIGHT,
           (now_ms() - start) * 1e3 / FRAMES);
    MUST(tp_sync_free(gpu.submitted));
    MUST(tp_sync_free(gpu.finished));
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
    CHECK(tp_sync_wait(list, points, COUNT, 1u << 30, 0, NULL) == TP_ERROR_INVALID);
    CHECK(tp_sync_wait(NULL, points, COUNT, 0, 0, NULL) == TP_ERROR_NULL);
    for (int i = 0; i < COUNT; i++)
        MUST(tp_sync_free(objects[i]));
    puts("wait any: object 2 of 4");
}

int main(void)
{
    wait_any();
    frames_in_flight();
    puts("ok");
    return 0;
}
