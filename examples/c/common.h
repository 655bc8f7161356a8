/* What the examples share: a clock and a check that ends the program with the reason. */
#ifndef TOWPATH_EXAMPLE_COMMON_H
#define TOWPATH_EXAMPLE_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "towpath.h"

static inline double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* Both ways' times, in the form that benches read. */
static inline void says_ratio(const char *what, double before_ms, double ours_ms)
{
    printf("%s: before %.6f ms, ours %.6f ms, ratio %.3f\n", what, before_ms, ours_ms, before_ms / ours_ms);
}

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#define MUST(call)                                                                        \
    do {                                                                                  \
        int status_ = (int)(call);                                                        \
        if (status_ != TP_OK) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, tp_strerror(status_)); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#endif
