/* Seed 003's scene: a picture read back into memory that has just been allocated. Before: the driver meets
 * each page cold. After: the pages are there when it writes.
 *
 *   cc -std=c11 readback.c -ltowpath -lOpenCL -o readback */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include "common.h"

#include <CL/cl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { WIDTH = 3888, CHANNELS = 4, ROUNDS = 5 };
/* 2592 rows are the seed's 154 MiB; fewer as the first argument. */
static size_t HEIGHT = 2592, BYTES;

struct scene {
    cl_context context;
    cl_command_queue queue;
    cl_mem picture;
};

static struct scene set_up(void)
{
    struct scene scene;
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS);
    scene.context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK(code == CL_SUCCESS);
    scene.queue = clCreateCommandQueue(scene.context, device, 0, &code);
    CHECK(code == CL_SUCCESS);
    cl_image_format format = { CL_RGBA, CL_FLOAT };
    cl_image_desc shape;
    memset(&shape, 0, sizeof shape);
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = WIDTH;
    shape.image_height = HEIGHT;
    scene.picture = clCreateImage(scene.context, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
    CHECK(code == CL_SUCCESS);
    const float colour[4] = { 0.25f, 0.5f, 0.75f, 1.0f };
    const size_t origin[3] = { 0, 0, 0 }, region[3] = { WIDTH, HEIGHT, 1 };
    CHECK(clEnqueueFillImage(scene.queue, scene.picture, colour, origin, region, 0, NULL, NULL) == CL_SUCCESS);
    CHECK(clFinish(scene.queue) == CL_SUCCESS);
    return scene;
}

/* One read; returns the milliseconds of what was asked for and of the read. */
static double read_into(const struct scene *scene, float *target, int prefault)
{
    const size_t origin[3] = { 0, 0, 0 }, region[3] = { WIDTH, HEIGHT, 1 };
    double start = now_ms();
    if (prefault)
        MUST(tp_memory_prefault(target, BYTES, 1));
    CHECK(clEnqueueReadImage(scene->queue, scene->picture, CL_TRUE, origin, region, 0, 0, target, 0, NULL, NULL) ==
          CL_SUCCESS);
    double spent = now_ms() - start;
    for (size_t i = 0; i < BYTES / sizeof(float); i += 4)
        CHECK(target[i] == 0.25f && target[i + 3] == 1.0f);
    return spent;
}

static float *fresh(void)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* The best of the rounds: virtual machines fetch memory from their host now and then, at any time. */
static void keep_least(double *least, double spent)
{
    *least = spent < *least ? spent : *least;
}

int main(int count, char **words)
{
    if (count > 1)
        HEIGHT = (size_t)atoi(words[1]);
    BYTES = (size_t)WIDTH * HEIGHT * CHANNELS * sizeof(float);
    struct scene scene = set_up();
    double cold_ms = 1e9, warm_ms = 1e9, touched_ms = 1e9, ours_ms = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        size_t cold_bytes = 0;
        float *cold = fresh(), *ours = fresh(), *touched = fresh();
        MUST(tp_memory_cold(ours, BYTES, &cold_bytes));
        CHECK(cold_bytes >= BYTES);
        keep_least(&cold_ms, read_into(&scene, cold, 0));
        keep_least(&warm_ms, read_into(&scene, cold, 0));
        memset(touched, 0, BYTES);
        keep_least(&touched_ms, read_into(&scene, touched, 0));
        keep_least(&ours_ms, read_into(&scene, ours, 1));
        MUST(tp_memory_cold(ours, BYTES, &cold_bytes));
        CHECK(cold_bytes == 0);
        munmap(cold, BYTES);
        munmap(ours, BYTES);
        munmap(touched, BYTES);
    }
    printf("%.1f MiB: cold %.1f ms, warm %.1f ms, after memset %.1f ms (without it), ours in all %.1f ms\n",
           (double)BYTES / 1048576.0, cold_ms, warm_ms, touched_ms, ours_ms);
    says_ratio("a cold read", cold_ms, ours_ms);
    CHECK(clReleaseMemObject(scene.picture) == CL_SUCCESS);
    CHECK(clReleaseCommandQueue(scene.queue) == CL_SUCCESS);
    CHECK(clReleaseContext(scene.context) == CL_SUCCESS);
    puts("ok");
    return 0;
}
