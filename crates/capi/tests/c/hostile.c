/* Many threads on one handle, forks, no descriptors left, the library closed with work under way, a second copy in a
 * namespace of its own. Nothing here may hang or end the process.
 *
 *   hostile LIBRARY FOLDER */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 300, MANY = 5000 };

struct shared {
    tp_sync *local, *other;
    tp_pool *pool;
    tp_blob *blob;
};

static int32_t source(void *context, size_t *bytes, void *data)
{
    uint8_t blob[200] = { 32, 0, 0, 0, 1, 0, 0, 0 };
    blob[100] = *(uint8_t *)context;
    if (data != NULL)
        memcpy(data, blob, *bytes < sizeof blob ? *bytes : sizeof blob);
    *bytes = sizeof blob;
    return 0;
}

static void *hammers(void *argument)
{
    struct shared *shared = argument;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const tp_sync *list[2] = { shared->local, shared->other };
        const uint64_t points[2] = { round, round };
        uint64_t reached;
        tp_buffer *buffer;
        void *data;
        size_t bytes;
        MUST(tp_sync_signal(shared->local, round));
        MUST(tp_sync_signal(shared->other, round));
        MUST(tp_sync_query(shared->other, &reached));
        MUST(tp_sync_wait(list, points, 2, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL));
        MUST(tp_pool_take(shared->pool, 10000 + round % 7 * 4096, &buffer));
        MUST(tp_buffer_data(buffer, &data, &bytes));
        memset(data, (int)round, bytes);
        CHECK(((uint8_t *)data)[bytes - 1] == (uint8_t)round);
        MUST(tp_buffer_free(buffer));
        if (round % 32 == 0) {
            int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            MUST(tp_sync_eventfd(shared->other, round + 1, fd));
            close(fd);
            uint8_t number = (uint8_t)round;
            tp_status status = tp_blob_save(shared->blob, source, &number, 1, NULL);
            CHECK(status == TP_OK);
            MUST(tp_pool_trim(shared->pool));
        }
    }
    return NULL;
}

static void threads(const char *folder)
{
    struct shared shared;
    tp_provider *provider = NULL;
    pthread_t thread[THREADS];
    MUST(tp_provider_create_shared(&provider));
    MUST(tp_sync_create(0, &shared.local));
    MUST(tp_sync_create_in(provider, 0, &shared.other));
    MUST(tp_pool_create(TP_MEMORY_ORDINARY, 1 << 20, &shared.pool));
    MUST(tp_blob_open(folder, "many", &shared.blob));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, hammers, &shared) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    MUST(tp_sync_free(shared.local));
    MUST(tp_sync_free(shared.other));
    MUST(tp_pool_free(shared.pool));
    MUST(tp_blob_free(shared.blob));
    MUST(tp_provider_free(provider));
}

/* A child goes on with its copies; what is shared stays shared. */
static void forks(void)
{
    tp_provider *provider = NULL;
    tp_sync *local = NULL, *other = NULL;
    tp_pool *pool = NULL;
    MUST(tp_provider_create_shared(&provider));
    MUST(tp_sync_create(0, &local));
    MUST(tp_sync_create_in(provider, 0, &other));
    MUST(tp_pool_create(TP_MEMORY_ORDINARY, 1 << 20, &pool));
    int bell = eventfd(0, EFD_CLOEXEC);
    MUST(tp_sync_eventfd(other, 1, bell));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        tp_buffer *buffer = NULL;
        uint64_t reached = 0;
        size_t cold = 0;
        MUST(tp_sync_signal(local, 5));
        MUST(tp_sync_query(local, &reached));
        CHECK(reached == 5);
        MUST(tp_pool_take(pool, 100000, &buffer));
        MUST(tp_buffer_free(buffer));
        tp_status status = tp_memory_cold(&reached, sizeof reached, &cold);
        CHECK(status == TP_OK || status == TP_ERROR_UNSUPPORTED);
        MUST(tp_sync_signal(other, 1));
        MUST(tp_sync_free(local));
        MUST(tp_sync_free(other));
        MUST(tp_provider_free(provider));
        MUST(tp_pool_free(pool));
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    uint64_t reached = 9, rung = 0;
    MUST(tp_sync_query(local, &reached));
    CHECK(reached == 0);
    MUST(tp_sync_query(other, &reached));
    CHECK(reached == 1);
    /* By the parent's helper; the child has a copy of the watch and may have rung as well. */
    CHECK(read(bell, &rung, sizeof rung) == sizeof rung && rung >= 1);
    close(bell);
    MUST(tp_sync_free(local));
    MUST(tp_sync_free(other));
    MUST(tp_provider_free(provider));
    MUST(tp_pool_free(pool));
}

static void limits(void)
{
    /* More objects than fit without an allocation, one of them twice. */
    static tp_sync *objects[MANY];
    static const tp_sync *list[MANY];
    static uint64_t points[MANY];
    size_t first = 0;
    for (size_t i = 0; i < MANY; i++) {
        MUST(tp_sync_create(0, &objects[i]));
        list[i] = objects[i];
        points[i] = 1;
    }
    list[7] = list[8];
    MUST(tp_sync_signal(objects[MANY - 1], 1));
    MUST(tp_sync_wait(list, points, MANY, TP_WAIT_FOR_SUBMIT, INT64_MAX, &first));
    CHECK(first == MANY - 1);
    CHECK(tp_sync_wait(list, points, MANY, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, 1, NULL) == TP_ERROR_TIMEOUT);
    for (size_t i = 0; i < MANY; i++)
        MUST(tp_sync_free(objects[i]));
    CHECK(tp_sync_wait(list, points, 0, 0, 0, NULL) != TP_ERROR_DEFECT);
    /* No descriptor left. */
    tp_provider *provider = NULL;
    tp_sync *sync = NULL;
    int fd = -1;
    struct rlimit before, none;
    MUST(tp_provider_create_shared(&provider));
    MUST(tp_sync_create_in(provider, 0, &sync));
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    tp_status exported = tp_sync_export(sync, &fd), bell = tp_sync_eventfd(sync, 1, 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(exported != TP_OK && exported != TP_ERROR_DEFECT && fd == -1);
    CHECK(bell != TP_OK && bell != TP_ERROR_DEFECT);
    MUST(tp_sync_free(sync));
    MUST(tp_provider_free(provider));
}

/* Closed while its helper still watches, in this namespace and in one of its own. */
static void closed(void *library)
{
    tp_status (*provider_create)(tp_provider **);
    tp_status (*provider_free)(tp_provider *);
    tp_status (*create)(const tp_provider *, int32_t, tp_sync **);
    tp_status (*watch)(const tp_sync *, uint64_t, int32_t);
    tp_status (*sync_free)(tp_sync *);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&provider_create = dlsym(library, "tp_provider_create_shared");
    *(void **)&provider_free = dlsym(library, "tp_provider_free");
    *(void **)&create = dlsym(library, "tp_sync_create_in");
    *(void **)&watch = dlsym(library, "tp_sync_eventfd");
    *(void **)&sync_free = dlsym(library, "tp_sync_free");
    tp_provider *provider = NULL;
    tp_sync *sync = NULL;
    int fd = eventfd(0, EFD_CLOEXEC);
    MUST(provider_create(&provider));
    MUST(create(provider, 0, &sync));
    MUST(watch(sync, 3, fd));
    /* No handle of this copy. */
    CHECK(tp_sync_signal(sync, 1) == TP_ERROR_HANDLE && tp_sync_free(sync) == TP_ERROR_HANDLE);
    MUST(sync_free(sync));
    MUST(provider_free(provider));
    CHECK(dlclose(library) == 0);
    usleep(250000);
    close(fd);
}

/* Everything from a thread with as little room as programs give theirs. */
static void *little_stack(void *argument)
{
    enum { OBJECTS = 64, VALUES = 1000 };
    static double a[VALUES], b[VALUES];
    static tp_metric metrics[64];
    tp_sync *objects[OBJECTS];
    const tp_sync *list[OBJECTS];
    uint64_t points[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        MUST(tp_sync_create(0, &objects[i]));
        list[i] = objects[i];
        points[i] = 1;
    }
    CHECK(tp_sync_wait(list, points, OBJECTS, TP_WAIT_FOR_SUBMIT, tp_deadline_after(1000000), NULL) ==
          TP_ERROR_TIMEOUT);
    for (int i = 0; i < OBJECTS; i++)
        MUST(tp_sync_free(objects[i]));
    tp_cache_identity identity;
    memset(&identity, 0, sizeof identity);
    tp_cache *cache = NULL;
    uint8_t number = 9;
    MUST(tp_cache_open(argument, &identity, 0, NULL, &cache));
    CHECK(tp_cache_save(cache, source, &number, 1, NULL) != TP_ERROR_DEFECT);
    MUST(tp_cache_free(cache));
    for (int i = 0; i < VALUES; i++) {
        a[i] = 1 + i % 7;
        b[i] = 1 + i % 5;
    }
    const tp_question question = { 0, 0.01, 0.05 };
    tp_judgement judgement;
    size_t room = 64;
    MUST(tp_measure_paired(a, b, VALUES, &question, &judgement));
    MUST(tp_measure_unpaired(a, VALUES, b, VALUES, &question, &judgement));
    MUST(tp_frames_metrics(a, VALUES, 0.0, metrics, &room));
    return NULL;
}

static void little(char *folder)
{
    pthread_attr_t small;
    pthread_t thread;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 128 << 10) == 0);
    CHECK(pthread_create(&thread, &small, little_stack, folder) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&small);
}

static tp_sync *last;
static const char *last_folder;

/* After main has returned, when the library's own are gone if it had any. */
static void late(void)
{
    uint64_t reached = 0;
    uint8_t number = 7;
    tp_blob *blob = NULL;
    MUST(tp_sync_signal(last, 3));
    MUST(tp_sync_query(last, &reached));
    CHECK(reached == 3);
    MUST(tp_sync_free(last));
    MUST(tp_blob_open(last_folder, "late", &blob));
    MUST(tp_blob_save(blob, source, &number, 1, NULL));
    MUST(tp_blob_free(blob));
    puts("ok");
}

int main(int count, char **words)
{
    CHECK(count == 3);
    last_folder = words[2];
    MUST(tp_sync_create(0, &last));
    CHECK(atexit(late) == 0);
    threads(words[2]);
    little(words[2]);
    forks();
    limits();
    closed(dlopen(words[1], RTLD_NOW | RTLD_LOCAL));
    closed(dlmopen(LM_ID_NEWLM, words[1], RTLD_NOW | RTLD_LOCAL));
    return 0;
}
