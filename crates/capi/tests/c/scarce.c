/* Little address space left: what takes memory by the size of its arguments says so, at whatever size it is scarce. */
#define _GNU_SOURCE
#include "common.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 17, MOST_MIB = 24 };

static double *numbers;
static uint64_t *points;
static const tp_sync **syncs;
static tp_file_piece *pieces;
static tp_pool *pool;

static void *memory(size_t bytes)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED);
    return made;
}

static tp_status frames(void)
{
    static tp_metric metrics[64];
    size_t room = 64;
    return tp_frames_metrics(numbers, COUNT, 0, metrics, &room);
}

static const tp_question QUESTION = { 0, 0.01, 0.05 };

static tp_status paired(void)
{
    tp_judgement judgement;
    return tp_measure_paired(numbers, numbers, COUNT, &QUESTION, &judgement);
}

static tp_status unpaired(void)
{
    tp_judgement judgement;
    return tp_measure_unpaired(numbers, COUNT, numbers, COUNT, &QUESTION, &judgement);
}

static tp_status waits(void)
{
    return tp_sync_wait(syncs, points, COUNT, TP_WAIT_ALL, 0, NULL);
}

/* More than there are mappings, or than there is memory for. */
static tp_status views(void)
{
    tp_view *view = NULL;
    tp_status status = tp_view_create(pieces, COUNT, &view);
    return status == TP_ERROR_INVALID ? TP_OK : status;
}

static tp_status identities(void)
{
    tp_cache *cache = NULL;
    tp_cache_identity identity;
    memset(&identity, 0, sizeof identity);
    identity.extra = numbers;
    identity.extra_bytes = COUNT * sizeof *numbers;
    return tp_cache_open("/proc/nowhere", &identity, 1, NULL, &cache);
}

static tp_status buffers(void)
{
    tp_buffer *buffer = NULL;
    return tp_pool_take(pool, 16 << 20, &buffer);
}

static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%zu", &pages) == 1 && fclose(file) == 0);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* In a process of its own that may take `mib` MiB more. */
static tp_status with_room(tp_status (*call)(void), size_t mib)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit limit = { address_space() + (mib << 20), RLIM_INFINITY };
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        _exit((int)call());
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    return (tp_status)WEXITSTATUS(status);
}

int main(void)
{
    tp_status (*const calls[])(void) = { frames, paired, unpaired, waits, views, identities, buffers };
    numbers = memory(COUNT * sizeof *numbers);
    points = memory(COUNT * sizeof *points);
    syncs = memory(COUNT * sizeof *syncs);
    pieces = memory(COUNT * sizeof *pieces);
    tp_sync *sync = NULL;
    int fd = memfd_create("scarce", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    MUST(tp_sync_create(1, &sync));
    MUST(tp_pool_create(TP_MEMORY_ORDINARY, 0, &pool));
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = 1 + (double)(i * 7919 % 1009);
        syncs[i] = sync;
        pieces[i] = (tp_file_piece){ fd, 0, 4096 };
    }
    /* What is small comes from here: where that fails the library ends the process, as its header says. */
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1);
    for (int i = 0; i < 8; i++)
        free(memset(malloc((1 << 20) - 64), i, 1));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK(with_room(calls[i], 0) == TP_ERROR_MEMORY);
        for (size_t mib = 1; mib < MOST_MIB; mib += 2) {
            tp_status status = with_room(calls[i], mib);
            CHECK(status == TP_OK || status == TP_ERROR_MEMORY);
        }
        CHECK(with_room(calls[i], MOST_MIB) == TP_OK);
    }
    puts("ok");
    return 0;
}
