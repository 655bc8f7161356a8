/* Several copies of the library in one process, each opened by its path, used at once and by turns.
 *
 *   copies [--node] LIBRARY...
 *
 * With --node the DRM shim is beside them: the render node that it answers for must open. */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 4, POINTS = 500 };

struct copy {
    void *library;
    tp_status (*create)(int32_t, tp_sync **);
    tp_status (*destroy)(tp_sync *);
    tp_status (*signal)(const tp_sync *, uint64_t);
    tp_status (*wait)(const tp_sync *const *, const uint64_t *, size_t, uint32_t, int64_t, size_t *);
    tp_status (*query)(const tp_sync *, uint64_t *);
    tp_status (*prefault)(void *, size_t, uint32_t);
    tp_sync *sync;
};

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

static void load(struct copy *copy, const char *path)
{
    copy->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (copy->library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&copy->create = symbol(copy->library, "tp_sync_create");
    *(void **)&copy->destroy = symbol(copy->library, "tp_sync_free");
    *(void **)&copy->signal = symbol(copy->library, "tp_sync_signal");
    *(void **)&copy->wait = symbol(copy->library, "tp_sync_wait");
    *(void **)&copy->query = symbol(copy->library, "tp_sync_query");
    *(void **)&copy->prefault = symbol(copy->library, "tp_memory_prefault");
    CHECK(copy->create(0, &copy->sync) == TP_OK);
}

static void *signals(void *argument)
{
    struct copy *copy = argument;
    for (uint64_t point = 1; point <= POINTS; point++)
        CHECK(copy->signal(copy->sync, point) == TP_OK);
    return NULL;
}

static void *waits(void *argument)
{
    struct copy *copy = argument;
    const tp_sync *list[1] = { copy->sync };
    for (uint64_t point = 1; point <= POINTS; point++)
        CHECK(copy->wait(list, &point, 1, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL) == TP_OK);
    return NULL;
}

/* A sync object by the kernel's request: only the shim answers it on this machine. */
static void node(void)
{
    struct {
        uint32_t handle, flags;
    } create = { 0, 0 };
    int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(ioctl(fd, _IOWR('d', 0xBF, create), &create) == 0);
    CHECK(create.handle != 0);
    close(fd);
}

int main(int count, char **words)
{
    static struct copy copies[MOST];
    pthread_t threads[2 * MOST];
    int used = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--node") == 0) {
            node();
        } else {
            CHECK(used < MOST);
            load(&copies[used++], words[i]);
        }
    }
    CHECK(used >= 1);
    for (int i = 1; i < used; i++)
        /* Really another copy, not the same one by another name. */
        CHECK((void *)copies[i].create != (void *)copies[0].create);
    for (int i = 0; i < used; i++) {
        CHECK(pthread_create(&threads[2 * i], NULL, waits, &copies[i]) == 0);
        CHECK(pthread_create(&threads[2 * i + 1], NULL, signals, &copies[i]) == 0);
    }
    for (int i = 0; i < 2 * used; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    size_t bytes = 16 << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (int i = 0; i < used; i++) {
        uint64_t reached = 0;
        CHECK(copies[i].query(copies[i].sync, &reached) == TP_OK && reached == POINTS);
        CHECK(copies[i].prefault(memory, bytes, 2) == TP_OK);
        CHECK(copies[i].destroy(copies[i].sync) == TP_OK);
    }
    /* One leaves; the others go on. */
    CHECK(dlclose(copies[0].library) == 0);
    for (int i = 1; i < used; i++) {
        CHECK(copies[i].create(1, &copies[i].sync) == TP_OK);
        CHECK(copies[i].destroy(copies[i].sync) == TP_OK);
    }
    puts("ok");
    return 0;
}
