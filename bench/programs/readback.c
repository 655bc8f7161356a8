/* An ordinary OpenCL program that reads a picture back into memory it has just allocated, with an event on
 * every read, as darktable does. It knows nothing of towpath; `towpath ab` runs it.
 *
 *   cc -O2 readback.c -lOpenCL -o readback
 *   ./readback [PLATFORM] [READS] [cold|warm]
 *
 * Prints one line per read: "read 12.345 ms", and "bytes ok" at the end if all arrived. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 3888, HEIGHT = 2592, CHANNELS = 4 };

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void must(cl_int code, const char *what)
{
    if (code != CL_SUCCESS) {
        fprintf(stderr, "%s: OpenCL error %d\n", what, code);
        exit(1);
    }
}

static cl_platform_id platform_named(const char *name)
{
    cl_platform_id all[16];
    cl_uint count = 0;
    must(clGetPlatformIDs(16, all, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char text[256] = "";
        must(clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof text - 1, text, NULL), "clGetPlatformInfo");
        if (strstr(text, name))
            return all[i];
    }
    fprintf(stderr, "no OpenCL platform with \"%s\" in its name\n", name);
    exit(1);
}

static float value_at(size_t i)
{
    return (float)(i % 8191) + 0.25f;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int reads = argc > 2 ? atoi(argv[2]) : 8;
    int is_warm = argc > 3 && strcmp(argv[3], "warm") == 0;
    size_t values = (size_t)WIDTH * HEIGHT * CHANNELS, bytes = values * sizeof(float);
    cl_platform_id platform = platform_named(name);
    cl_device_id device;
    cl_int code;
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    must(code, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    must(code, "clCreateCommandQueue");
    cl_image_format format = { CL_RGBA, CL_FLOAT };
    cl_image_desc shape;
    memset(&shape, 0, sizeof shape);
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = WIDTH;
    shape.image_height = HEIGHT;
    cl_mem picture = clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
    must(code, "clCreateImage");
    float *source = malloc(bytes);
    if (!source)
        return 1;
    for (size_t i = 0; i < values; i++)
        source[i] = value_at(i);
    const size_t origin[3] = { 0, 0, 0 }, region[3] = { WIDTH, HEIGHT, 1 };
    must(clEnqueueWriteImage(queue, picture, CL_TRUE, origin, region, 0, 0, source, 0, NULL, NULL),
         "clEnqueueWriteImage");
    free(source);
    float *kept = NULL;
    size_t wrong = 0;
    for (int i = 0; i < reads; i++) {
        float *target = kept ? kept : malloc(bytes);
        if (!target)
            return 1;
        if (is_warm && !kept)
            memset(target, 1, bytes);
        cl_event done;
        double start = now_ms();
        must(clEnqueueReadImage(queue, picture, CL_TRUE, origin, region, 0, 0, target, 0, NULL, &done),
             "clEnqueueReadImage");
        printf("read %.3f ms\n", now_ms() - start);
        cl_int state = CL_QUEUED;
        must(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
             "clGetEventInfo");
        if (state != CL_COMPLETE) {
            fprintf(stderr, "the event of a finished read is in state %d\n", state);
            return 1;
        }
        must(clReleaseEvent(done), "clReleaseEvent");
        for (size_t k = 0; k < values; k += 997)
            wrong += target[k] != value_at(k);
        wrong += target[values - 1] != value_at(values - 1);
        if (is_warm)
            kept = target;
        else
            free(target);
    }
    free(kept);
    must(clReleaseMemObject(picture), "clReleaseMemObject");
    must(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
    must(clReleaseContext(context), "clReleaseContext");
    if (wrong) {
        fprintf(stderr, "%zu values are wrong\n", wrong);
        return 1;
    }
    puts("bytes ok");
    return 0;
}
