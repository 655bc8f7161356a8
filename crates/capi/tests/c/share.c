/* Objects between processes: exported, passed on, imported, signalled there; and what goes wrong with them. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 200 };

/* The other side: finds both objects by their descriptors and answers each point of one at the other. */
static void answer(int asked_fd, int answered_fd)
{
    tp_provider *provider = NULL;
    tp_sync *asked = NULL, *answered = NULL;
    MUST(tp_provider_create_shared(&provider));
    MUST(tp_sync_import(provider, asked_fd, &asked));
    MUST(tp_sync_import(provider, answered_fd, &answered));
    MUST(tp_provider_free(provider));
    MUST(tp_sync_promise(answered));
    const tp_sync *list[1] = { asked };
    for (uint64_t point = 1; point <= ROUNDS; point++) {
        MUST(tp_sync_wait(list, &point, 1, TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL));
        MUST(tp_sync_signal(answered, point));
    }
    /* Killed here, with a promise that it can keep no more. */
    raise(SIGKILL);
}

static void two_processes(void)
{
    tp_provider *provider = NULL;
    tp_sync *asked = NULL, *answered = NULL, *local = NULL;
    MUST(tp_provider_create_shared(&provider));
    MUST(tp_sync_create_in(provider, 0, &asked));
    MUST(tp_sync_create_in(provider, 0, &answered));
    MUST(tp_sync_create(0, &local));
    int asked_fd = -1, answered_fd = -1;
    MUST(tp_sync_export(asked, &asked_fd));
    MUST(tp_sync_export(answered, &answered_fd));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        answer(asked_fd, answered_fd);
        _exit(1);
    }
    close(asked_fd);
    close(answered_fd);
    for (uint64_t point = 1; point <= ROUNDS; point++) {
        const tp_sync *list[1] = { answered };
        MUST(tp_sync_signal(asked, point));
        MUST(tp_sync_wait(list, &point, 1, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL));
    }
    uint64_t reached = 0;
    MUST(tp_sync_query(answered, &reached));
    CHECK(reached == ROUNDS);
    /* Two kinds in one wait: the shared one is done, the local one is not. */
    const tp_sync *both[2] = { local, answered };
    const uint64_t points[2] = { 1, ROUNDS };
    size_t first = 99;
    MUST(tp_sync_wait(both, points, 2, TP_WAIT_FOR_SUBMIT, INT64_MAX, &first));
    CHECK(first == 1);
    CHECK(tp_sync_wait(both, points, 2, TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT, tp_deadline_after(1000000), NULL) ==
          TP_ERROR_TIMEOUT);
    /* Nobody is left who could bring the next point. */
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    const tp_sync *list[1] = { answered };
    const uint64_t next = ROUNDS + 1;
    CHECK(tp_sync_wait(list, &next, 1, TP_WAIT_FOR_SUBMIT, INT64_MAX, NULL) == TP_ERROR_GONE);
    MUST(tp_provider_free(provider));
    MUST(tp_sync_free(asked));
    MUST(tp_sync_free(answered));
    MUST(tp_sync_free(local));
}

/* The descriptor of a poll loop, rung by a helper thread and by this one. */
static void poll_loop(void)
{
    tp_provider *provider = NULL;
    tp_sync *sync = NULL;
    MUST(tp_provider_create_shared(&provider));
    MUST(tp_sync_create_in(provider, 0, &sync));
    struct pollfd bell = { eventfd(0, EFD_CLOEXEC), POLLIN, 0 };
    CHECK(bell.fd >= 0);
    MUST(tp_sync_eventfd(sync, 3, bell.fd));
    CHECK(poll(&bell, 1, 0) == 0);
    MUST(tp_sync_signal(sync, 3));
    CHECK(poll(&bell, 1, 10000) == 1);
    /* Freed while one is still watched. */
    MUST(tp_sync_eventfd(sync, 9, bell.fd));
    MUST(tp_sync_free(sync));
    MUST(tp_provider_free(provider));
    close(bell.fd);
}

static void refused(void)
{
    tp_provider *provider = NULL;
    tp_sync *sync = NULL, *made = NULL;
    int fd = 7;
    MUST(tp_sync_create(0, &sync));
    CHECK(tp_sync_export(sync, &fd) == TP_ERROR_UNSUPPORTED && fd == 7);
    CHECK(tp_sync_export_file(sync, 0, &fd) == TP_ERROR_UNSUPPORTED && fd == 7);
    CHECK(tp_sync_import_file(sync, 0, 0) == TP_ERROR_UNSUPPORTED);
    MUST(tp_sync_promise(sync));
    MUST(tp_sync_free(sync));
    MUST(tp_provider_create_shared(&provider));
    CHECK(tp_provider_create_shared(NULL) == TP_ERROR_NULL);
    CHECK(tp_sync_create_in(NULL, 0, &made) == TP_ERROR_NULL);
    CHECK(tp_sync_create_in(provider, 0, NULL) == TP_ERROR_NULL);
    uint64_t zeros[16] = { 0 };
    CHECK(tp_sync_create_in((const tp_provider *)zeros, 0, &made) == TP_ERROR_HANDLE);
    CHECK(tp_sync_import(provider, -1, &made) == TP_ERROR_INVALID);
    CHECK(tp_sync_import(provider, 1 << 20, &made) != TP_OK);
    int file = memfd_create("not ours", MFD_CLOEXEC | MFD_ALLOW_SEALING), null = open("/dev/null", O_RDWR);
    CHECK(file >= 0 && null >= 0 && ftruncate(file, 1 << 20) == 0);
    CHECK(tp_sync_import(provider, file, &made) != TP_OK);
    CHECK(tp_sync_import(provider, null, &made) != TP_OK);
    CHECK(tp_provider_create_drm(null, &provider) == TP_ERROR_UNSUPPORTED);
    CHECK(tp_provider_create_drm(-1, &provider) == TP_ERROR_INVALID);
    CHECK(made == NULL);
    MUST(tp_sync_create_in(provider, 1, &made));
    CHECK(tp_sync_export(made, NULL) == TP_ERROR_NULL);
    CHECK(tp_provider_free((tp_provider *)made) == TP_ERROR_HANDLE);
    MUST(tp_sync_free(made));
    MUST(tp_provider_free(provider));
    CHECK(tp_provider_free(provider) == TP_ERROR_HANDLE);
    MUST(tp_provider_free(NULL));
    close(file);
    close(null);
}

int main(void)
{
    refused();
    two_processes();
    poll_loop();
    puts("ok");
    return 0;
}
