/* What a program may do wrong, and the status that says so. Nothing here may end the process. */
#define _GNU_SOURCE
#include "common.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t HUGE_SIZE = SIZE_MAX / 2 + 1;

static void handles(void)
{
    tp_sync *sync = NULL;
    uint64_t reached = 0;
    MUST(tp_sync_create(0, &sync));
    /* NULL, where it is not allowed and where it is. */
    CHECK(tp_sync_create(0, NULL) == TP_ERROR_NULL);
    CHECK(tp_sync_signal(NULL, 1) == TP_ERROR_NULL);
    CHECK(tp_sync_query(sync, NULL) == TP_ERROR_NULL);
    CHECK(tp_sync_query(NULL, &reached) == TP_ERROR_NULL);
    CHECK(tp_sync_reset(NULL) == TP_ERROR_NULL);
    MUST(tp_sync_free(NULL));
    MUST(tp_blob_free(NULL));
    MUST(tp_view_free(NULL));
    /* A handle of another kind, memory that never was a handle, an address that cannot be one. */
    void *data = NULL;
    size_t bytes = 7;
    CHECK(tp_view_data((const tp_view *)sync, &data, &bytes) == TP_ERROR_HANDLE);
    CHECK(data == NULL && bytes == 7);
    CHECK(tp_blob_free((tp_blob *)sync) == TP_ERROR_HANDLE);
    /* As every other kind: none looks further than it may. */
    CHECK(tp_cache_free((tp_cache *)sync) == TP_ERROR_HANDLE);
    CHECK(tp_view_free((tp_view *)sync) == TP_ERROR_HANDLE);
    CHECK(tp_pool_free((tp_pool *)sync) == TP_ERROR_HANDLE);
    CHECK(tp_buffer_free((tp_buffer *)sync) == TP_ERROR_HANDLE);
    CHECK(tp_provider_free((tp_provider *)sync) == TP_ERROR_HANDLE);
    CHECK(tp_transfer_free((tp_transfer *)sync) == TP_ERROR_HANDLE);
    CHECK(tp_transfer_trim((const tp_transfer *)sync) == TP_ERROR_HANDLE);
    MUST(tp_sync_signal(sync, 1));
    uint64_t zeros[64] = { 0 };
    CHECK(tp_sync_signal((const tp_sync *)zeros, 1) == TP_ERROR_HANDLE);
    CHECK(tp_sync_free((tp_sync *)zeros) == TP_ERROR_HANDLE);
    CHECK(tp_sync_signal((const tp_sync *)((char *)zeros + 1), 1) == TP_ERROR_HANDLE);
    MUST(tp_sync_free(sync));
}

/* Freed twice, used after it: caught as long as nobody else has got the memory. */
static void freed(void)
{
    tp_sync *sync = NULL;
    uint64_t reached = 0;
    MUST(tp_sync_create(0, &sync));
    MUST(tp_sync_free(sync));
    CHECK(tp_sync_free(sync) == TP_ERROR_HANDLE);
    CHECK(tp_sync_signal(sync, 1) == TP_ERROR_HANDLE);
    CHECK(tp_sync_query(sync, &reached) == TP_ERROR_HANDLE);
    const tp_sync *list[1] = { sync };
    uint64_t point = 1;
    CHECK(tp_sync_wait(list, &point, 1, 0, 0, NULL) == TP_ERROR_HANDLE);
}

static void waits(void)
{
    tp_sync *sync = NULL;
    MUST(tp_sync_create(0, &sync));
    const tp_sync *list[2] = { sync, NULL };
    uint64_t points[2] = { 1, 1 };
    size_t first = 99;
    CHECK(tp_sync_wait(list, points, 2, TP_WAIT_FOR_SUBMIT, 0, &first) == TP_ERROR_NULL);
    CHECK(tp_sync_wait(list, NULL, 1, 0, 0, &first) == TP_ERROR_NULL);
    CHECK(tp_sync_wait(list, points, HUGE_SIZE, 0, 0, &first) == TP_ERROR_INVALID);
    CHECK(tp_sync_wait(list, points, 1, 4, 0, &first) == TP_ERROR_INVALID);
    CHECK(tp_sync_wait(list, points, 1, TP_WAIT_FOR_SUBMIT, INT64_MIN, &first) == TP_ERROR_TIMEOUT);
    CHECK(first == 99);
    CHECK(tp_sync_eventfd(sync, 1, -1) == TP_ERROR_INVALID);
    CHECK(tp_sync_eventfd(sync, 1, 1 << 20) == TP_ERROR_INVALID);
    CHECK(tp_deadline_after(UINT64_MAX) > 0);
    /* What is no eventfd is not written to; a full one keeps nobody waiting. */
    int ends[2], full = eventfd(0, EFD_CLOEXEC), file = memfd_create("misuse", MFD_CLOEXEC);
    const uint64_t most = UINT64_MAX - 1;
    CHECK(full >= 0 && file >= 0 && pipe(ends) == 0);
    CHECK(tp_sync_eventfd(sync, 1, ends[1]) == TP_ERROR_INVALID);
    CHECK(tp_sync_eventfd(sync, 1, file) == TP_ERROR_INVALID);
    CHECK(write(full, &most, sizeof most) == sizeof most);
    MUST(tp_sync_eventfd(sync, 1, full));
    MUST(tp_sync_signal(sync, 1));
    MUST(tp_sync_reset(sync));
    CHECK(lseek(file, 0, SEEK_END) == 0 && close(file) == 0 && close(full) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    /* Freed while an eventfd still waits for a point that nobody brings. */
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    MUST(tp_sync_eventfd(sync, 5, fd));
    MUST(tp_sync_free(sync));
    close(fd);
}

static void sizes(void)
{
    uint8_t from[64], to[64];
    memset(from, 1, sizeof from);
    memset(to, 2, sizeof to);
    tp_piece pieces[2] = { { from, 32 }, { from + 32, 32 } };
    CHECK(tp_pieces_gather(pieces, 2, 1, to, 64, 0) == TP_ERROR_INVALID);
    CHECK(tp_pieces_gather(pieces, 2, SIZE_MAX, to, 64, 0) == TP_ERROR_INVALID);
    CHECK(tp_pieces_gather(pieces, HUGE_SIZE, 0, to, 64, 0) == TP_ERROR_INVALID);
    CHECK(tp_pieces_gather(pieces, 2, 0, to, HUGE_SIZE, 0) == TP_ERROR_INVALID);
    CHECK(tp_pieces_gather(NULL, 2, 0, to, 64, 0) == TP_ERROR_NULL);
    CHECK(tp_pieces_gather(pieces, 2, 0, NULL, 64, 0) == TP_ERROR_NULL);
    tp_piece too_long[2] = { { from, SIZE_MAX }, { from, 2 } };
    CHECK(tp_pieces_gather(too_long, 2, 0, to, 1, 0) == TP_ERROR_INVALID);
    tp_piece missing[2] = { { from, 32 }, { NULL, 32 } };
    CHECK(tp_pieces_gather(missing, 2, 0, to, 64, 0) == TP_ERROR_NULL);
    for (size_t i = 0; i < sizeof to; i++)
        CHECK(to[i] == 2);
    MUST(tp_pieces_gather(pieces, 2, 16, to, 48, 1));
    MUST(tp_pieces_gather(NULL, 0, 0, NULL, 0, 0));
}

static void views(void)
{
    int fd = memfd_create("misuse", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    tp_view *view = NULL;
    tp_file_piece piece = { fd, 0, 8192 };
    CHECK(tp_view_create(&piece, 1, NULL) == TP_ERROR_NULL);
    CHECK(tp_view_create(NULL, 1, &view) == TP_ERROR_NULL);
    CHECK(tp_view_create(&piece, 0, &view) == TP_ERROR_INVALID);
    CHECK(tp_view_create(&piece, HUGE_SIZE, &view) == TP_ERROR_INVALID);
    tp_file_piece wrong[4] = { { fd, 4096, 8192 },
                               { -1, 0, 4096 },
                               { 1 << 20, 0, 4096 },
                               { fd, UINT64_MAX - 4095, 4096 } };
    for (int i = 0; i < 4; i++)
        CHECK(tp_view_create(&wrong[i], 1, &view) == TP_ERROR_INVALID);
    /* A border between pieces inside a page. */
    tp_file_piece torn[2] = { { fd, 0, 4095 }, { fd, 4096, 4096 } };
    CHECK(tp_view_create(torn, 2, &view) == TP_ERROR_INVALID);
    CHECK(view == NULL);
    close(fd);
}

/* Outputs come together or not at all, and nothing is done for an output that cannot be stored. */
static void outputs(const char *folder)
{
    char path[4096];
    uint8_t none = 0;
    void *data = &none;
    const void *bytes_read = &none;
    tp_pool *pool = NULL;
    tp_buffer *buffer = NULL, *second = NULL;
    tp_view *view = NULL;
    tp_blob *blob = NULL;
    int fd = memfd_create("misuse", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    tp_file_piece piece = { fd, 0, 4096 };
    MUST(tp_view_create(&piece, 1, &view));
    CHECK(tp_view_data(view, &data, NULL) == TP_ERROR_NULL && data == &none);
    MUST(tp_view_free(view));
    MUST(tp_pool_create(TP_MEMORY_ORDINARY, SIZE_MAX, &pool));
    MUST(tp_pool_take(pool, 100000, &buffer));
    MUST(tp_pool_take(pool, 100000, &second));
    CHECK(tp_buffer_data(buffer, &data, NULL) == TP_ERROR_NULL && data == &none);
    MUST(tp_blob_open(folder, "outputs", &blob));
    CHECK(tp_blob_data(blob, &bytes_read, NULL) == TP_ERROR_NULL && bytes_read == &none);
    MUST(tp_blob_free(blob));
    snprintf(path, sizeof path, "%s/for-nobody", folder);
    tp_cache_identity identity;
    memset(&identity, 0, sizeof identity);
    CHECK(tp_blob_open(path, "a", NULL) == TP_ERROR_NULL && access(path, F_OK) != 0);
    CHECK(tp_cache_open(path, &identity, 0, NULL, NULL) == TP_ERROR_NULL && access(path, F_OK) != 0);
    /* Without its pool a buffer is freed for good, also while another is in use. */
    size_t bytes = 0;
    unsigned char resident[64];
    MUST(tp_buffer_data(buffer, &data, &bytes));
    MUST(tp_pool_free(pool));
    CHECK(mincore(data, 4096, resident) == 0);
    MUST(tp_buffer_free(buffer));
    CHECK(mincore(data, 4096, resident) != 0);
    MUST(tp_buffer_free(second));
    close(fd);
}

static void memory(void)
{
    size_t cold = 7;
    CHECK(tp_memory_prefault(NULL, 4096, 1) == TP_ERROR_NULL);
    CHECK(tp_memory_prefault((void *)(uintptr_t)4096, SIZE_MAX, 1) == TP_ERROR_INVALID);
    CHECK(tp_memory_cold(NULL, 4096, &cold) == TP_ERROR_NULL);
    CHECK(tp_memory_cold(&cold, SIZE_MAX, &cold) == TP_ERROR_INVALID);
    CHECK(cold == 7);
    void *hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(hole != MAP_FAILED);
    CHECK(tp_memory_prefault(hole, 8192, 0) == TP_ERROR_MEMORY);
    CHECK(munmap(hole, 8192) == 0);
    CHECK(tp_memory_prefault(hole, 8192, UINT32_MAX) == TP_ERROR_MEMORY);
}

static int refuses(void *context, size_t *bytes, void *data)
{
    (void)data;
    *bytes = 0;
    return *(int *)context;
}

/* Says that it wrote more than there was room for. */
static int lies(void *context, size_t *bytes, void *data)
{
    (void)context;
    if (data != NULL)
        memset(data, 3, *bytes);
    *bytes = data == NULL ? 128 : 4096;
    return 0;
}

static void blobs(const char *folder)
{
    tp_blob *blob = NULL;
    CHECK(tp_blob_open(NULL, "a", &blob) == TP_ERROR_NULL);
    CHECK(tp_blob_open(folder, NULL, &blob) == TP_ERROR_NULL);
    CHECK(tp_blob_open(folder, "a", NULL) == TP_ERROR_NULL);
    const char *names[] = { "", "../a", "a/b", ".hidden" };
    for (int i = 0; i < 4; i++)
        CHECK(tp_blob_open(folder, names[i], &blob) == TP_ERROR_INVALID);
    CHECK(tp_blob_open("/proc/nowhere/at/all", "a", &blob) == TP_ERROR_IO);
    CHECK(blob == NULL);
    MUST(tp_blob_open(folder, "a", &blob));
    int code = -13;
    tp_save_report report;
    CHECK(tp_blob_save(blob, NULL, &code, 0, &report) == TP_ERROR_NULL);
    CHECK(tp_blob_save(blob, refuses, &code, 0, NULL) == TP_ERROR_IO);
    tp_status status = tp_blob_save(blob, lies, NULL, 0, &report);
    CHECK(status != TP_ERROR_DEFECT && report.bytes <= 128);
    const void *data = &code;
    CHECK(tp_blob_data(blob, &data, NULL) == TP_ERROR_NULL);
    MUST(tp_blob_free(blob));
}

static void measures(void)
{
    double a[4] = { 1.0, 2.0, NAN, 4.0 }, b[4] = { 1.0, 2.0, 3.0, 4.0 };
    tp_question question = { 0, 0.0, 0.05 };
    tp_judgement judgement;
    CHECK(tp_measure_paired(a, b, 4, &question, &judgement) == TP_ERROR_INVALID);
    CHECK(tp_measure_paired(b, b, 4, NULL, &judgement) == TP_ERROR_NULL);
    CHECK(tp_measure_paired(b, b, 4, &question, NULL) == TP_ERROR_NULL);
    CHECK(tp_measure_paired(NULL, b, 4, &question, &judgement) == TP_ERROR_NULL);
    CHECK(tp_measure_paired(b, b, HUGE_SIZE, &question, &judgement) == TP_ERROR_INVALID);
    question.level = 2.0;
    CHECK(tp_measure_unpaired(b, 4, b, 4, &question, &judgement) == TP_ERROR_INVALID);
}

int main(int count, char **words)
{
    CHECK(count == 2 || count == 3);
    handles();
    /* Not where every access is watched: this one looks at memory that is nobody's. */
    if (count == 2)
        freed();
    waits();
    sizes();
    views();
    outputs(words[1]);
    memory();
    blobs(words[1]);
    measures();
    CHECK(strcmp(tp_strerror(-1), tp_strerror(12345)) == 0);
    puts("ok");
    return 0;
}
