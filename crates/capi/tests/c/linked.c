/* The library linked in from libtowpath.a and, opened by its path, libtowpath.so: two copies that do not know of each
 * other, whatever names the program shows.
 *
 *   linked LIBRARY */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { POINTS = 500 };

/* The functions of one copy. */
struct copy {
    tp_status (*create)(int32_t, tp_sync **);
    tp_status (*destroy)(tp_sync *);
    tp_status (*signal)(const tp_sync *, uint64_t);
    tp_status (*wait)(const tp_sync *const *, const uint64_t *, size_t, uint32_t, int64_t, size_t *);
    tp_status (*query)(const tp_sync *, uint64_t *);
    tp_status (*measure)(const double *, const double *, size_t, const tp_question *, tp_judgement *);
    const char *(*text)(int32_t);
    tp_sync *sync;
};

static struct copy linked_copy(void)
{
    struct copy copy = { tp_sync_create, tp_sync_free,      tp_sync_signal, tp_sync_wait,
                         tp_sync_query,  tp_measure_paired, tp_strerror,    NULL };
    return copy;
}

static struct copy opened_copy(const char *path)
{
    struct copy copy = linked_copy();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&copy.create = dlsym(library, "tp_sync_create");
    *(void **)&copy.destroy = dlsym(library, "tp_sync_free");
    *(void **)&copy.signal = dlsym(library, "tp_sync_signal");
    *(void **)&copy.wait = dlsym(library, "tp_sync_wait");
    *(void **)&copy.query = dlsym(library, "tp_sync_query");
    *(void **)&copy.measure = dlsym(library, "tp_measure_paired");
    *(void **)&copy.text = dlsym(library, "tp_strerror");
    return copy;
}

static void *signals(void *argument)
{
    const struct copy *copy = argument;
    for (uint64_t point = 1; point <= POINTS; point++)
        CHECK(copy->signal(copy->sync, point) == TP_OK);
    return NULL;
}

static void *waits(void *argument)
{
    const struct copy *copy = argument;
    const tp_sync *list[1] = { copy->sync };
    for (uint64_t point = 1; point <= POINTS; point++)
        CHECK(copy->wait(list, &point, 1, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL) == TP_OK);
    return NULL;
}

/* A handle of the other copy, which may be of another version: refused, untouched, and good where it is from. */
static void foreign(const struct copy *own, const struct copy *other)
{
    uint64_t reached = 77;
    const tp_sync *mixed[2] = { own->sync, other->sync };
    const uint64_t points[2] = { 1, 1 };
    CHECK(own->signal(other->sync, 1000) == TP_ERROR_HANDLE);
    CHECK(own->query(other->sync, &reached) == TP_ERROR_HANDLE && reached == 77);
    CHECK(own->wait(mixed, points, 2, TP_WAIT_ALL, 0, NULL) == TP_ERROR_HANDLE);
    CHECK(own->destroy(other->sync) == TP_ERROR_HANDLE);
    CHECK(other->query(other->sync, &reached) == TP_OK && reached == POINTS);
}

int main(int count, char **words)
{
    CHECK(count == 2);
    struct copy copies[2] = { linked_copy(), opened_copy(words[1]) };
    pthread_t threads[4];
    CHECK(copies[0].create != copies[1].create && copies[0].measure != copies[1].measure);
    for (int i = 0; i < 2; i++) {
        CHECK(copies[i].create(0, &copies[i].sync) == TP_OK);
        CHECK(pthread_create(&threads[2 * i], NULL, waits, &copies[i]) == 0);
        CHECK(pthread_create(&threads[2 * i + 1], NULL, signals, &copies[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    foreign(&copies[0], &copies[1]);
    foreign(&copies[1], &copies[0]);
    /* The same numbers, to the last bit. */
    const double a[6] = { 10.1, 10.3, 9.9, 10.2, 10.0, 10.4 }, b[6] = { 9.0, 9.2, 8.9, 9.1, 9.0, 9.2 };
    const tp_question question = { 0, 0.01, 0.05 };
    tp_judgement judged[2];
    memset(judged, 0, sizeof judged);
    for (int i = 0; i < 2; i++) {
        CHECK(copies[i].measure(a, b, 6, &question, &judged[i]) == TP_OK);
        CHECK(judged[i].verdict == TP_FASTER);
        CHECK(copies[i].destroy(copies[i].sync) == TP_OK);
    }
    CHECK(judged[0].estimate == judged[1].estimate && judged[0].p == judged[1].p);
    CHECK(strcmp(copies[0].text(TP_ERROR_HANDLE), copies[1].text(TP_ERROR_HANDLE)) == 0);
    puts("ok");
    return 0;
}
