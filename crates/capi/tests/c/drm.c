/* The kernel's sync objects through a render node: points, waits, descriptors, sync files, eventfds.
 *
 *   drm NODE */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int main(int count, char **words)
{
    CHECK(count == 2);
    int node = open(words[1], O_RDWR | O_CLOEXEC);
    CHECK(node >= 0);
    tp_provider *provider = NULL, *other = NULL;
    tp_sync *sync = NULL, *twin = NULL, *binary = NULL, *local = NULL;
    MUST(tp_provider_create_drm(node, &provider));
    MUST(tp_provider_create_drm(node, &other));
    close(node);
    MUST(tp_sync_create_in(provider, 0, &sync));
    MUST(tp_sync_create_in(provider, 0, &binary));
    MUST(tp_sync_create(0, &local));

    const tp_sync *list[2] = { sync, binary };
    uint64_t points[2] = { 3, 0 }, reached = 0;
    size_t first = 99;
    CHECK(tp_sync_wait(list, points, 2, 0, INT64_MAX, &first) == TP_ERROR_NOT_FOUND);
    CHECK(tp_sync_wait(list, points, 2, TP_WAIT_FOR_SUBMIT, tp_deadline_after(2000000), &first) == TP_ERROR_TIMEOUT);
    MUST(tp_sync_signal(sync, 3));
    MUST(tp_sync_query(sync, &reached));
    CHECK(reached == 3);
    MUST(tp_sync_wait(list, points, 2, TP_WAIT_FOR_SUBMIT, INT64_MAX, &first));
    CHECK(first == 0);

    /* The same object by its descriptor, as another process would have it. */
    int fd = -1;
    MUST(tp_sync_export(sync, &fd));
    MUST(tp_sync_import(other, fd, &twin));
    close(fd);
    MUST(tp_sync_signal(twin, 7));
    MUST(tp_sync_query(sync, &reached));
    CHECK(reached == 7);

    /* A fence out of one object and into another. */
    CHECK(tp_sync_export_file(binary, 0, &fd) == TP_ERROR_NOT_FOUND);
    MUST(tp_sync_export_file(sync, 7, &fd));
    MUST(tp_sync_import_file(binary, 0, fd));
    close(fd);
    list[0] = binary;
    points[0] = 0;
    MUST(tp_sync_wait(list, points, 1, TP_WAIT_ALL, INT64_MAX, NULL));
    CHECK(tp_sync_import_file(binary, 0, 0) != TP_OK); /* the standard input is no sync file */

    /* A poll loop, and a wait on both kinds. */
    struct pollfd bell = { eventfd(0, EFD_CLOEXEC), POLLIN, 0 };
    MUST(tp_sync_eventfd(sync, 9, bell.fd));
    CHECK(poll(&bell, 1, 0) == 0);
    MUST(tp_sync_signal(twin, 9));
    CHECK(poll(&bell, 1, 10000) == 1);
    close(bell.fd);
    list[0] = local;
    list[1] = sync;
    points[0] = 1;
    points[1] = 9;
    MUST(tp_sync_wait(list, points, 2, TP_WAIT_FOR_SUBMIT, INT64_MAX, &first));
    CHECK(first == 1);
    /* Objects of two handles of one node. */
    list[0] = twin;
    points[0] = 9;
    MUST(tp_sync_wait(list, points, 2, TP_WAIT_ALL, INT64_MAX, NULL));
    MUST(tp_sync_reset(sync));
    CHECK(tp_sync_wait(list, points, 1, 0, 0, NULL) == TP_ERROR_NOT_FOUND);

    MUST(tp_provider_free(provider));
    MUST(tp_provider_free(other));
    MUST(tp_sync_signal(twin, 10));
    MUST(tp_sync_free(sync));
    MUST(tp_sync_free(twin));
    MUST(tp_sync_free(binary));
    MUST(tp_sync_free(local));
    puts("ok");
    return 0;
}
