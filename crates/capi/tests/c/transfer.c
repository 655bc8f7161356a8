/* Transfers of an OpenCL device by each way, pools of host memory, and wrong calls.
 *
 *   transfer FOLDER [READ WRITE]
 *
 * Calibrations go to the folder. With READ and WRITE one is there and names these mechanisms. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include "common.h"

#include <CL/cl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDE = 1024, PIXEL = 16 };
static const size_t BYTES = (size_t)SIDE * SIDE * PIXEL;

struct scene {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer, image;
};

struct lines {
    pthread_t thread;
    int notes, warnings;
    const tp_transfer *transfer;
};

static void says(void *user, tp_log_level level, const char *text)
{
    struct lines *lines = user;
    CHECK(pthread_equal(lines->thread, pthread_self()) && strlen(text) > 0 && strchr(text, '\n') == NULL);
    *(level == TP_LOG_NOTE ? &lines->notes : &lines->warnings) += 1;
    /* The library may be called from here: no lock is held. */
    if (lines->transfer != NULL)
        MUST(tp_transfer_trim(lines->transfer));
}

static struct scene set_up(void)
{
    struct scene scene;
    cl_platform_id platform;
    cl_int code;
    CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &scene.device, NULL) == CL_SUCCESS);
    scene.context = clCreateContext(NULL, 1, &scene.device, NULL, NULL, &code);
    CHECK(code == CL_SUCCESS);
    scene.queue = clCreateCommandQueue(scene.context, scene.device, 0, &code);
    CHECK(code == CL_SUCCESS);
    scene.buffer = clCreateBuffer(scene.context, CL_MEM_READ_WRITE, BYTES, NULL, &code);
    CHECK(code == CL_SUCCESS);
    cl_image_format format = { CL_RGBA, CL_FLOAT };
    cl_image_desc shape;
    memset(&shape, 0, sizeof shape);
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = shape.image_height = SIDE;
    scene.image = clCreateImage(scene.context, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
    CHECK(code == CL_SUCCESS);
    return scene;
}

static uint8_t *fresh(void)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static uint8_t value_at(size_t i)
{
    return (uint8_t)(i ^ (i >> 7) ^ (i >> 15));
}

/* Everything there and back; the ways must differ in time only. */
static void round_trip(const struct scene *scene, const tp_transfer *transfer)
{
    tp_transfer_report report;
    uint8_t *from = fresh(), *to = fresh();
    for (size_t i = 0; i < BYTES; i++)
        from[i] = value_at(i);
    MUST(tp_transfer_write_buffer(transfer, scene->queue, scene->buffer, 0, from, BYTES, &report));
    CHECK(report.bytes == BYTES && report.driver_code == 0 && report.taken_ns > 0);
    MUST(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, 0, to, BYTES, &report));
    CHECK(memcmp(from, to, BYTES) == 0);
    MUST(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, 7, to, 1000, NULL));
    CHECK(memcmp(from + 7, to, 1000) == 0);
    munmap(to, BYTES);
    to = fresh();
    tp_image_box whole = { { 0, 0, 0 }, { SIDE, SIDE, 1 }, 0, 0 };
    MUST(tp_transfer_write_image(transfer, scene->queue, scene->image, &whole, from, BYTES, &report));
    MUST(tp_transfer_read_image(transfer, scene->queue, scene->image, &whole, to, BYTES, &report));
    CHECK(report.cold_bytes > BYTES / 2 && memcmp(from, to, BYTES) == 0);
    /* A part, with gaps between its rows that stay. */
    tp_image_box part = { { 8, 100, 0 }, { 10, 20, 1 }, 256, 0 };
    memset(to, 0xee, 20 * 256);
    MUST(tp_transfer_read_image(transfer, scene->queue, scene->image, &part, to, 19 * 256 + 160, NULL));
    for (size_t row = 0; row < 20; row++) {
        CHECK(memcmp(to + row * 256, from + ((100 + row) * SIDE + 8) * PIXEL, 160) == 0);
        CHECK(to[row * 256 + 160] == 0xee);
    }
    munmap(from, BYTES);
    munmap(to, BYTES);
}

/* Buffers and images out of pieces in wild order, from an offset that divides nothing. */
static void pieces(const struct scene *scene, const tp_transfer *transfer)
{
    enum { PIECE = 24000, COUNT = 800, OFF = 333 };
    uint8_t *guest = fresh(), *to = fresh();
    static tp_piece list[COUNT];
    size_t at = 0;
    for (size_t i = 0; i < COUNT; i++) {
        /* Some lengths differ; one is 0. */
        size_t bytes = i == 5 ? 0 : PIECE - i % 3;
        list[i] = (tp_piece){ guest + (i * 7 % COUNT) * 20000, bytes > 20000 ? 20000 : bytes };
        for (size_t k = 0; k < list[i].bytes; k++)
            guest[(i * 7 % COUNT) * 20000 + k] = value_at(at + k);
        at += list[i].bytes;
    }
    tp_transfer_report report;
    size_t bytes = 9000001;
    MUST(tp_transfer_write_buffer_pieces(transfer, scene->queue, scene->buffer, 11, list, COUNT, OFF, bytes, &report));
    CHECK(report.mechanism == TP_GATHERED && report.bytes == bytes);
    MUST(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, 11, to, bytes, NULL));
    for (size_t i = 0; i < bytes; i++)
        CHECK(to[i] == value_at(OFF + i));
    tp_image_box box = { { 4, 3, 0 }, { 900, 700, 1 }, 900 * PIXEL + 48, 0 };
    MUST(tp_transfer_write_image_pieces(transfer, scene->queue, scene->image, &box, list, COUNT, OFF, &report));
    tp_image_box packed = box;
    packed.row_pitch = 0;
    MUST(tp_transfer_read_image(transfer, scene->queue, scene->image, &packed, to, BYTES, NULL));
    for (size_t row = 0; row < 700; row++)
        for (size_t k = 0; k < 900 * PIXEL; k++)
            CHECK(to[row * 900 * PIXEL + k] == value_at(OFF + row * (900 * PIXEL + 48) + k));
    /* One row more than the pieces hold. */
    box.size[1] = SIDE - 3;
    box.row_pitch = 40000;
    CHECK(tp_transfer_write_image_pieces(transfer, scene->queue, scene->image, &box, list, COUNT, OFF, &report) ==
          TP_ERROR_INVALID);
    box.row_pitch = SIZE_MAX / 2;
    CHECK(tp_transfer_write_image_pieces(transfer, scene->queue, scene->image, &box, list, COUNT, OFF, &report) ==
          TP_ERROR_INVALID);
    CHECK(tp_transfer_write_buffer_pieces(transfer, scene->queue, scene->buffer, 0, list, COUNT, at - 9, 10, NULL) ==
          TP_ERROR_INVALID);
    CHECK(tp_transfer_write_buffer_pieces(transfer, scene->queue, scene->buffer, 0, NULL, 1, 0, 10, NULL) ==
          TP_ERROR_NULL);
    munmap(guest, BYTES);
    munmap(to, BYTES);
}

static void pools(const struct scene *scene, const tp_transfer *transfer)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        tp_pool *pool = NULL;
        tp_buffer *one = NULL, *two = NULL;
        void *first = NULL, *data = NULL;
        size_t bytes = 0, cold = 1;
        if (pinned)
            MUST(tp_pool_create_pinned(transfer, 64 << 20, &pool));
        else
            MUST(tp_pool_create(TP_MEMORY_ORDINARY, 64 << 20, &pool));
        MUST(tp_pool_take(pool, BYTES, &one));
        MUST(tp_buffer_data(one, &first, &bytes));
        CHECK(bytes == BYTES && first != NULL);
        if (!pinned) {
            MUST(tp_memory_cold(first, BYTES, &cold));
            CHECK(cold == 0);
        }
        MUST(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, 0, first, bytes, NULL));
        MUST(tp_pool_take(pool, BYTES, &two));
        MUST(tp_buffer_data(two, &data, &bytes));
        CHECK(data != first);
        memset(data, 1, bytes);
        /* What goes back is what comes next, also for a little less. */
        MUST(tp_buffer_free(one));
        CHECK(tp_buffer_free(one) == TP_ERROR_HANDLE);
        MUST(tp_pool_take(pool, BYTES - 100, &one));
        MUST(tp_buffer_data(one, &data, &bytes));
        CHECK(data == first && bytes == BYTES - 100);
        MUST(tp_buffer_free(one));
        MUST(tp_pool_trim(pool));
        CHECK(tp_pool_take(pool, 0, &one) == TP_ERROR_INVALID);
        CHECK(tp_pool_take(pool, SIZE_MAX, &one) == TP_ERROR_INVALID);
        CHECK(tp_pool_take(pool, SIZE_MAX / 4, &one) == TP_ERROR_MEMORY);
        CHECK(tp_pool_take(pool, 10, NULL) == TP_ERROR_NULL);
        CHECK(tp_pool_take((tp_pool *)two, 10, &one) == TP_ERROR_HANDLE);
        /* A buffer outlives its pool. */
        MUST(tp_pool_free(pool));
        MUST(tp_buffer_data(two, &data, &bytes));
        memset(data, 2, bytes);
        MUST(tp_buffer_free(two));
        MUST(tp_buffer_free(NULL));
        MUST(tp_pool_free(NULL));
    }
    tp_pool *pool = NULL;
    tp_buffer *buffer = NULL;
    CHECK(tp_pool_create(7, 0, &pool) == TP_ERROR_INVALID);
    MUST(tp_pool_create(TP_MEMORY_LOCKED, 0, &pool));
    tp_status status = tp_pool_take(pool, 4096, &buffer);
    CHECK(status == TP_OK || status == TP_ERROR_MEMORY); /* a limit may forbid it */
    MUST(tp_buffer_free(buffer));
    MUST(tp_pool_free(pool));
}

static void refused(const struct scene *scene, const tp_transfer *transfer)
{
    uint8_t host[64] = { 0 };
    tp_transfer *made = NULL;
    tp_transfer_report report = { .bytes = 77 };
    cl_int code;
    CHECK(tp_transfer_create(NULL, scene->device, NULL, NULL, &made) == TP_ERROR_NULL);
    CHECK(tp_transfer_create(scene->context, NULL, NULL, NULL, &made) == TP_ERROR_NULL);
    CHECK(tp_transfer_create(scene->context, scene->device, NULL, NULL, NULL) == TP_ERROR_NULL);
    CHECK(tp_transfer_create(scene->context, scene->device, "/no/such/lib.so", NULL, &made) == TP_ERROR_UNSUPPORTED);
    CHECK(tp_transfer_create(scene->context, scene->device, "libm.so.6", NULL, &made) == TP_ERROR_UNSUPPORTED);
    CHECK(tp_transfer_read_buffer(NULL, scene->queue, scene->buffer, 0, host, 64, NULL) == TP_ERROR_NULL);
    CHECK(tp_transfer_read_buffer(transfer, NULL, scene->buffer, 0, host, 64, NULL) == TP_ERROR_NULL);
    CHECK(tp_transfer_read_buffer(transfer, scene->queue, NULL, 0, host, 64, NULL) == TP_ERROR_NULL);
    CHECK(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, 0, NULL, 64, NULL) == TP_ERROR_NULL);
    CHECK(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, 0, host, 0, &report) == TP_ERROR_INVALID);
    CHECK(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, BYTES - 63, host, 64, &report) ==
          TP_ERROR_INVALID);
    CHECK(tp_transfer_read_buffer(transfer, scene->queue, scene->buffer, SIZE_MAX, host, 64, &report) ==
          TP_ERROR_INVALID);
    CHECK(tp_transfer_write_buffer(transfer, scene->queue, scene->image, 0, host, 64, &report) == TP_ERROR_INVALID);
    tp_image_box boxes[] = { { { 0, 0, 0 }, { 2, 3, 1 }, 0, 0 },       /* 96 bytes into 64 */
                             { { 0, 0, 0 }, { 2, 0, 1 }, 0, 0 },       /* no rows */
                             { { SIDE - 1, 0, 0 }, { 2, 1, 1 }, 0, 0 }, /* over the edge */
                             { { 0, 0, 1 }, { 1, 1, 1 }, 0, 0 },       /* no such slice */
                             { { SIZE_MAX, 0, 0 }, { 2, 1, 1 }, 0, 0 },
                             { { 0, 0, 0 }, { 2, 2, 1 }, 16, 0 } };    /* rows over one another */
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        CHECK(tp_transfer_read_image(transfer, scene->queue, scene->image, &boxes[i], host, 64, &report) ==
              TP_ERROR_INVALID);
    CHECK(tp_transfer_read_image(transfer, scene->queue, scene->buffer, &boxes[0], host, 96, NULL) == TP_ERROR_INVALID);
    CHECK(tp_transfer_read_image(transfer, scene->queue, scene->image, NULL, host, 64, NULL) == TP_ERROR_NULL);
    cl_context other = clCreateContext(NULL, 1, &scene->device, NULL, NULL, &code);
    cl_command_queue queue = clCreateCommandQueue(other, scene->device, 0, &code);
    CHECK(code == CL_SUCCESS);
    CHECK(tp_transfer_read_buffer(transfer, queue, scene->buffer, 0, host, 64, &report) == TP_ERROR_INVALID);
    clReleaseCommandQueue(queue);
    clReleaseContext(other);
    CHECK(report.bytes == 77 && made == NULL);
}

/* With a stored calibration the way is the one that it names. */
static void expect(const struct scene *scene, const char *folder, int cold_read, int write)
{
    tp_transfer *transfer = NULL;
    tp_transfer_report report;
    MUST(tp_transfer_create(scene->context, scene->device, NULL, NULL, &transfer));
    MUST(tp_transfer_load(transfer, folder));
    uint8_t *from = fresh(), *to = fresh();
    for (size_t i = 0; i < BYTES; i++)
        from[i] = value_at(i);
    tp_image_box whole = { { 0, 0, 0 }, { SIDE, SIDE, 1 }, 0, 0 };
    MUST(tp_transfer_write_image(transfer, scene->queue, scene->image, &whole, from, BYTES, &report));
    CHECK((int)report.mechanism == write);
    MUST(tp_transfer_read_image(transfer, scene->queue, scene->image, &whole, to, BYTES, &report));
    CHECK((int)report.mechanism == cold_read && memcmp(from, to, BYTES) == 0);
    munmap(from, BYTES);
    munmap(to, BYTES);
    MUST(tp_transfer_free(transfer));
}

int main(int count, char **words)
{
    CHECK(count == 2 || count == 4);
    struct scene scene = set_up();
    if (count == 4) {
        expect(&scene, words[1], atoi(words[2]), atoi(words[3]));
        puts("ok");
        return 0;
    }
    struct lines lines = { pthread_self(), 0, 0, NULL };
    tp_log log = { says, &lines };
    tp_transfer *transfer = NULL;
    CHECK(tp_transfer_create(scene.context, scene.device, "/no/such/lib.so", &log, &transfer) == TP_ERROR_UNSUPPORTED);
    CHECK(lines.warnings == 1 && transfer == NULL);
    MUST(tp_transfer_create(scene.context, scene.device, NULL, &log, &transfer));
    lines.transfer = transfer;
    refused(&scene, transfer);
    round_trip(&scene, transfer);
    CHECK(tp_transfer_load(transfer, words[1]) == TP_ERROR_NOT_FOUND);
    MUST(tp_transfer_calibrate(transfer, 300000000, words[1]));
    CHECK(lines.notes > 0);
    round_trip(&scene, transfer);
    pieces(&scene, transfer);
    pools(&scene, transfer);
    MUST(tp_transfer_free(transfer));
    CHECK(tp_transfer_free(transfer) == TP_ERROR_HANDLE);
    lines.transfer = NULL;
    MUST(tp_transfer_create(scene.context, scene.device, "libOpenCL.so.1", NULL, &transfer));
    MUST(tp_transfer_load(transfer, words[1]));
    round_trip(&scene, transfer);
    MUST(tp_transfer_free(transfer));
    clReleaseMemObject(scene.image);
    clReleaseMemObject(scene.buffer);
    clReleaseCommandQueue(scene.queue);
    clReleaseContext(scene.context);
    puts("ok");
    return 0;
}
