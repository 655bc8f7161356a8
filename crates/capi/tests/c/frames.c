/* Frame metrics: asked for their number, then for themselves; wrong calls. */
#define _GNU_SOURCE
#include "common.h"

#include <math.h>
#include <string.h>

int main(void)
{
    double frames[100];
    for (int i = 0; i < 100; i++)
        frames[i] = i % 10 == 9 ? 40.0 : 10.0;
    size_t count = 0;
    MUST(tp_frames_metrics(frames, 100, 60.0, NULL, &count));
    CHECK(count > 20 && count < 64);
    tp_metric metrics[64];
    size_t room = count - 1;
    CHECK(tp_frames_metrics(frames, 100, 60.0, metrics, &room) == TP_ERROR_ROOM && room == count);
    room = 64;
    MUST(tp_frames_metrics(frames, 100, 60.0, metrics, &room));
    CHECK(room == count);
    int seen = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(metrics[i].name[0] && metrics[i].definition[0]);
        CHECK(memchr(metrics[i].name, 0, sizeof metrics[i].name) != NULL);
        if (strcmp(metrics[i].name, "fps") == 0) {
            /* 1300 ms for 100 frames. */
            CHECK(fabs(metrics[i].value - 1e5 / 1300.0) < 1e-9 && metrics[i].higher_is_better);
            CHECK(strcmp(metrics[i].unit, "fps") == 0 && !metrics[i].needs_all);
            seen++;
        } else if (strcmp(metrics[i].name, "over-25ms") == 0) {
            CHECK(metrics[i].value == 10.0 && !metrics[i].higher_is_better && metrics[i].unit[0] == 0);
            seen++;
        } else if (strcmp(metrics[i].name, "low-1%") == 0) {
            CHECK(fabs(metrics[i].value - 25.0) < 1e-9 && metrics[i].needs_all);
            seen++;
        }
    }
    CHECK(seen == 3);
    room = 64;
    CHECK(tp_frames_metrics(NULL, 100, 60.0, metrics, &room) == TP_ERROR_NULL);
    CHECK(tp_frames_metrics(frames, 100, 60.0, metrics, NULL) == TP_ERROR_NULL);
    CHECK(tp_frames_metrics(frames, 0, 60.0, metrics, &room) == TP_ERROR_INVALID);
    CHECK(tp_frames_metrics(frames, (size_t)-1, 60.0, metrics, &room) == TP_ERROR_INVALID);
    CHECK(tp_frames_metrics(frames, 100, -60.0, metrics, &room) == TP_ERROR_INVALID);
    CHECK(tp_frames_metrics(frames, 100, NAN, metrics, &room) == TP_ERROR_INVALID);
    frames[50] = INFINITY;
    CHECK(tp_frames_metrics(frames, 100, 60.0, metrics, &room) == TP_ERROR_INVALID);
    frames[50] = 0.0;
    CHECK(tp_frames_metrics(frames, 100, 60.0, metrics, &room) == TP_ERROR_INVALID);
    CHECK(room == 64);
    frames[50] = 10.0;
    MUST(tp_frames_metrics(frames, 1, 0.0, metrics, &room));
    puts("ok");
    return 0;
}
