/* A world with a live handle of every kind, and an argument that is right for every parameter of every function. */
#ifndef TOWPATH_TEST_EVERY_H
#define TOWPATH_TEST_EVERY_H

#define CL_TARGET_OPENCL_VERSION 120
#include "common.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PARAMETERS = 10, MOST_KINDS = 16, ROOM = 16384, BYTES = 64 };

union value {
    void *pointer;
    uint64_t number;
    double real;
    tp_blob_source function;
};

enum is { POINTER, NUMBER, REAL, FUNCTION };

struct parameter {
    enum is is;
    const char *type, *name;
};

struct api;

struct function {
    const char *name;
    long (*call)(const struct api *, const union value *);
    int count;
    struct parameter parameters[MOST_PARAMETERS];
};

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(found != NULL);
    return found;
}

/* Made from the header by the test. */
#include "calls.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

struct world {
    const struct api *api;
    /* Of this world alone: what one saves, the next does not find. */
    char folder[512];
    void *handles[MOST_KINDS];
    int bell, exported, memory;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer, image;
    /* One after the other, so that no two parameters of a call share a place. */
    uint8_t places[MOST_PARAMETERS][ROOM];
};

static bool is_named(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* The number of the kind that a handle's type names; -1: it is no handle. */
static int kind_of(const struct parameter *parameter)
{
    for (size_t i = 0; i < COUNT(KINDS); i++) {
        char plain[64], fixed[64];
        snprintf(plain, sizeof plain, "struct %s *", KINDS[i]);
        snprintf(fixed, sizeof fixed, "const struct %s *", KINDS[i]);
        if (strcmp(parameter->type, plain) == 0 || strcmp(parameter->type, fixed) == 0)
            return (int)i;
    }
    return -1;
}

static bool frees(const struct function *function)
{
    size_t length = strlen(function->name);
    return length > 5 && strcmp(function->name + length - 5, "_free") == 0;
}

static int kind_named(const char *name)
{
    for (size_t i = 0; i < COUNT(KINDS); i++)
        if (strcmp(KINDS[i], name) == 0)
            return (int)i;
    fprintf(stderr, "no kind %s\n", name);
    exit(1);
}

static int32_t source(void *context, size_t *bytes, void *data)
{
    static const uint8_t blob[BYTES] = { 32, 0, 0, 0, 1, 0, 0, 0 };
    (void)context;
    if (data != NULL)
        memcpy(data, blob, *bytes < BYTES ? *bytes : BYTES);
    *bytes = BYTES;
    return 0;
}

static const tp_cache_identity IDENTITY;

static void *fresh(struct world *world, size_t kind)
{
    const struct api *api = world->api;
    const char *name = KINDS[kind];
    void *made = NULL;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", world->folder, name);
    if (strcmp(name, "tp_blob") == 0)
        MUST(api->tp_blob_open(folder, "a", (tp_blob **)&made));
    else if (strcmp(name, "tp_cache") == 0)
        MUST(api->tp_cache_open(folder, &IDENTITY, 0, NULL, (tp_cache **)&made));
    else if (strcmp(name, "tp_pool") == 0)
        MUST(api->tp_pool_create(TP_MEMORY_ORDINARY, 1 << 20, (tp_pool **)&made));
    else if (strcmp(name, "tp_buffer") == 0)
        MUST(api->tp_pool_take(world->handles[kind_named("tp_pool")], BYTES, (tp_buffer **)&made));
    else if (strcmp(name, "tp_provider") == 0)
        MUST(api->tp_provider_create_shared((tp_provider **)&made));
    else if (strcmp(name, "tp_sync") == 0)
        MUST(api->tp_sync_create_in(world->handles[kind_named("tp_provider")], 1, (tp_sync **)&made));
    else if (strcmp(name, "tp_transfer") == 0)
        MUST(api->tp_transfer_create(world->context, world->device, NULL, NULL, (tp_transfer **)&made));
    else if (strcmp(name, "tp_view") == 0) {
        tp_file_piece piece = { world->memory, 0, 4096 };
        MUST(api->tp_view_create(&piece, 1, (tp_view **)&made));
    } else {
        fprintf(stderr, "nothing makes a %s here\n", name);
        exit(1);
    }
    return made;
}

static tp_status let_go(const struct world *world, size_t kind, void *handle)
{
    char name[64];
    snprintf(name, sizeof name, "%s_free", KINDS[kind]);
    for (size_t i = 0; i < COUNT(FUNCTIONS); i++)
        if (strcmp(FUNCTIONS[i].name, name) == 0) {
            const union value value = { .pointer = handle };
            return (tp_status)FUNCTIONS[i].call(world->api, &value);
        }
    fprintf(stderr, "nothing frees a %s\n", KINDS[kind]);
    exit(1);
}

static void open_cl(struct world *world)
{
    cl_platform_id platform;
    cl_int code;
    CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &world->device, NULL) == CL_SUCCESS);
    world->context = clCreateContext(NULL, 1, &world->device, NULL, NULL, &code);
    CHECK(code == CL_SUCCESS);
    world->queue = clCreateCommandQueue(world->context, world->device, 0, &code);
    CHECK(code == CL_SUCCESS);
    world->buffer = clCreateBuffer(world->context, CL_MEM_READ_WRITE, 4096, NULL, &code);
    CHECK(code == CL_SUCCESS);
    const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
    cl_image_desc shape;
    memset(&shape, 0, sizeof shape);
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = shape.image_height = 4;
    world->image = clCreateImage(world->context, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
    CHECK(code == CL_SUCCESS);
}

/* Order: those that others are made of come first. */
static const char *const FIRST[] = { "tp_pool", "tp_provider", NULL };

static void begin(struct world *world, const struct api *api, const char *folder)
{
    static int worlds;
    memset(world, 0, sizeof *world);
    world->api = api;
    CHECK(COUNT(KINDS) <= MOST_KINDS);
    snprintf(world->folder, sizeof world->folder, "%s/%d", folder, __atomic_add_fetch(&worlds, 1, __ATOMIC_RELAXED));
    CHECK(mkdir(world->folder, 0700) == 0);
    world->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    world->memory = memfd_create("every", MFD_CLOEXEC);
    CHECK(world->bell >= 0 && world->memory >= 0 && ftruncate(world->memory, 8192) == 0);
    open_cl(world);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < COUNT(KINDS); i++)
            if (is_named(KINDS[i], FIRST) == (round == 0))
                world->handles[i] = fresh(world, i);
    MUST(api->tp_sync_export(world->handles[kind_named("tp_sync")], &world->exported));
}

static void end(struct world *world)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < COUNT(KINDS); i++)
            if (is_named(KINDS[i], FIRST) == (round == 1))
                MUST(let_go(world, i, world->handles[i]));
    CHECK(close(world->bell) == 0 && close(world->exported) == 0 && close(world->memory) == 0);
    clReleaseMemObject(world->image);
    clReleaseMemObject(world->buffer);
    clReleaseCommandQueue(world->queue);
    clReleaseContext(world->context);
}

/* What a number is, where it is not a count of BYTES bytes. */
static uint64_t number_for(const struct world *world, const char *function, const char *name)
{
    static const char *const ONES[] = { "count", "threads", "pipelines", NULL };
    static const char *const EIGHTS[] = { "frames", "pairs", "runs_a", "runs_b", NULL };
    static const char *const EXTENTS[] = { "bytes", "to_bytes", "from_bytes", "destination_bytes", NULL };
    if (strcmp(name, "fd") == 0)
        return (uint64_t)(strcmp(function, "tp_sync_import") == 0 ? world->exported : world->bell);
    return is_named(name, ONES) ? 1 : is_named(name, EIGHTS) ? 8 : is_named(name, EXTENTS) ? BYTES : 0;
}

/* Memory with what a pointer of this type leads to. */
static void *pointer_for(struct world *world, const char *function, uint8_t *place,
                         const struct parameter *parameter)
{
    static const struct { const char *name; size_t offset; } OBJECTS[] = {
        { "context", offsetof(struct world, context) }, { "device", offsetof(struct world, device) },
        { "queue", offsetof(struct world, queue) },     { "buffer", offsetof(struct world, buffer) },
        { "image", offsetof(struct world, image) },
    };
    const char *type = parameter->type;
    if (strcmp(type, "void *") == 0)
        for (size_t i = 0; i < COUNT(OBJECTS); i++)
            if (strcmp(parameter->name, OBJECTS[i].name) == 0)
                return *(void **)((uint8_t *)world + OBJECTS[i].offset);
    memset(place, 0, ROOM);
    if (strcmp(type, "const char *") == 0) {
        if (strcmp(parameter->name, "library") == 0)
            strcpy((char *)place, "libOpenCL.so.1");
        else if (strcmp(parameter->name, "name") == 0)
            strcpy((char *)place, "a");
        else
            snprintf((char *)place, ROOM, "%s/%s", world->folder, function);
    } else if (strcmp(type, "const struct tp_sync *const *") == 0)
        *(void **)place = world->handles[kind_named("tp_sync")];
    else if (strcmp(type, "const struct tp_piece *") == 0)
        *(tp_piece *)place = (tp_piece){ place + 4096, 4096 };
    else if (strcmp(type, "const struct tp_file_piece *") == 0)
        *(tp_file_piece *)place = (tp_file_piece){ world->memory, 0, 4096 };
    else if (strcmp(type, "const struct tp_rows *") == 0)
        *(tp_rows *)place = (tp_rows){ 0, 8, 2, 0, 1, 0 };
    else if (strcmp(type, "const struct tp_image_box *") == 0)
        *(tp_image_box *)place = (tp_image_box){ { 0, 0, 0 }, { 4, 4, 1 }, 0, 0 };
    else if (strcmp(type, "const struct tp_question *") == 0)
        *(tp_question *)place = (tp_question){ 0, 0.01, 0.05 };
    else if (strcmp(type, "const double *") == 0)
        for (int i = 0; i < 8; i++)
            ((double *)place)[i] = 1 + i;
    else if (strcmp(type, "size_t *") == 0)
        *(size_t *)place = BYTES;
    return place;
}

/* Arguments with which a call is right. A function that frees gets a handle of its own. */
static void right(struct world *world, const struct function *function, union value *values)
{
    /* What is waited for is there, whatever the call before did. */
    MUST(world->api->tp_sync_signal(world->handles[kind_named("tp_sync")], 0));
    for (int i = 0; i < function->count; i++) {
        const struct parameter *parameter = &function->parameters[i];
        int kind = kind_of(parameter);
        if (parameter->is == REAL)
            values[i].real = 60;
        else if (parameter->is == FUNCTION)
            values[i].function = source;
        else if (parameter->is == NUMBER)
            values[i].number = number_for(world, function->name, parameter->name);
        else if (kind >= 0)
            values[i].pointer = frees(function) ? fresh(world, (size_t)kind) : world->handles[kind];
        else
            values[i].pointer = pointer_for(world, function->name, world->places[i], parameter);
    }
}

/* What a right call answers, where that is not TP_OK. */
static tp_status expected(const struct function *function)
{
    static const struct { const char *name; tp_status status; } OTHERS[] = {
        { "tp_sync_export_file", TP_ERROR_UNSUPPORTED },    { "tp_sync_import_file", TP_ERROR_UNSUPPORTED },
        { "tp_provider_create_drm", TP_ERROR_UNSUPPORTED }, { "tp_cache_blob", TP_ERROR_NOT_FOUND },
        { "tp_cache_note_refused", TP_ERROR_NOT_FOUND },    { "tp_transfer_load", TP_ERROR_NOT_FOUND },
    };
    for (size_t i = 0; i < COUNT(OTHERS); i++)
        if (strcmp(function->name, OTHERS[i].name) == 0)
            return OTHERS[i].status;
    return TP_OK;
}

/* What a call stored is the caller's: handles and descriptors. */
static void take_back(const struct world *world, const struct function *function, const union value *values)
{
    for (int i = 0; i < function->count; i++) {
        const char *type = function->parameters[i].type;
        for (size_t kind = 0; kind < COUNT(KINDS); kind++) {
            char out[64];
            snprintf(out, sizeof out, "struct %s **", KINDS[kind]);
            if (strcmp(type, out) == 0)
                MUST(let_go(world, kind, *(void **)values[i].pointer));
        }
        if (strcmp(type, "int32_t *") == 0)
            CHECK(close(*(int32_t *)values[i].pointer) == 0);
    }
}

static void must_be(const struct function *function, const char *what, long answer, long wanted)
{
    if (answer == wanted)
        return;
    fprintf(stderr, "%s(%s): %s, not %s\n", function->name, what, tp_strerror((int32_t)answer),
            tp_strerror((int32_t)wanted));
    exit(1);
}

/* A function that frees has a handle of its own from `right`: here it goes, if the call did not get it. */
static void give_up(const struct world *world, const struct function *function, void *handle)
{
    if (frees(function))
        MUST(let_go(world, (size_t)kind_of(&function->parameters[0]), handle));
}

/* Two copies of the library, and the folder of this run. */
static struct api one, another;
static const char *folder;

/* PART LIBRARY ANOTHER FOLDER; gives the part. */
static const char *start(int count, char **words)
{
    CHECK(count == 5);
    folder = words[4];
    CHECK(mkdir(folder, 0700) == 0);
    load(&one, dlopen(words[2], RTLD_NOW | RTLD_LOCAL));
    load(&another, dlopen(words[3], RTLD_NOW | RTLD_LOCAL));
    return words[1];
}

#endif
