/* Every function of the header with wrong arguments.
 *
 *   every_wrong nulls|numbers|kinds|freed|foreign LIBRARY ANOTHER FOLDER
 *
 * The two libraries are two copies. */
#define _GNU_SOURCE
#include "every.h"

/* For all functions: `wrong` changes one argument after the other of a right call. */
static void each(void (*wrong)(struct world *, const struct function *, union value *, int))
{
    static struct world world;
    union value values[MOST_PARAMETERS];
    for (size_t i = 0; i < COUNT(FUNCTIONS); i++) {
        begin(&world, &one, folder);
        for (int p = 0; p < FUNCTIONS[i].count; p++)
            wrong(&world, &FUNCTIONS[i], values, p);
        end(&world);
    }
}

/* A call that must fail with `wanted` and store nothing. */
static void fails(struct world *world, const struct function *function, const union value *values, const char *what,
                  tp_status wanted)
{
    static uint8_t before[MOST_PARAMETERS][ROOM];
    memcpy(before, world->places, sizeof before);
    must_be(function, what, function->call(world->api, values), wanted);
    CHECK(memcmp(before, world->places, sizeof before) == 0);
}

static bool may_be_null(const struct function *function, const struct parameter *parameter)
{
    static const char *const ALWAYS[] = { "report", "first", "log", "metrics", "library", NULL };
    static const char *const SAVES[] = { "tp_blob_save", "tp_cache_save", NULL };
    return is_named(parameter->name, ALWAYS) || frees(function) ||
           (strcmp(parameter->name, "context") == 0 && is_named(function->name, SAVES)) ||
           (strcmp(parameter->name, "folder") == 0 && strcmp(function->name, "tp_transfer_calibrate") == 0);
}

static void null(struct world *world, const struct function *function, union value *values, int place)
{
    const struct parameter *parameter = &function->parameters[place];
    if (parameter->is == NUMBER || parameter->is == REAL)
        return;
    right(world, function, values);
    void *given = values[place].pointer;
    values[place] = (union value){ .pointer = NULL };
    if (may_be_null(function, parameter)) {
        long answer = function->call(world->api, values);
        must_be(function, parameter->name, answer, expected(function));
        if (answer == TP_OK)
            take_back(world, function, values);
        give_up(world, function, given);
    } else {
        fails(world, function, values, parameter->name, TP_ERROR_NULL);
    }
}

/* Ends of ranges. What says how much memory the program gave is none or more than there can be; else it would be the
 * program that lies. */
static void number(struct world *world, const struct function *function, union value *values, int place)
{
    static const uint64_t ALL[] = { 0, UINT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 4095, 1, 2, INT32_MAX,
                                    (uint32_t)INT32_MIN, UINT32_MAX, INT64_MAX };
    static const char *const EXTENTS[] = { "bytes", "count", "frames", "pairs", "runs_a", "runs_b", "to_bytes",
                                           "from_bytes", "destination_bytes", NULL };
    const struct parameter *parameter = &function->parameters[place];
    if (parameter->is != NUMBER)
        return;
    size_t count = is_named(parameter->name, EXTENTS) ? 4 : COUNT(ALL);
    for (size_t i = 0; i < count; i++) {
        /* It takes as long as it is told to. */
        if (strcmp(parameter->name, "budget_ns") == 0 && ALL[i] > 2)
            continue;
        right(world, function, values);
        values[place].number = ALL[i];
        long answer = function->call(world->api, values);
        if (answer == TP_ERROR_DEFECT)
            must_be(function, parameter->name, answer, TP_OK);
        if (answer == TP_OK)
            take_back(world, function, values);
    }
}

/* A live handle of every other kind, memory that never was one, an address that cannot be one. */
static void kind(struct world *world, const struct function *function, union value *values, int place)
{
    static uint64_t zeros[64];
    int own = kind_of(&function->parameters[place]);
    if (own < 0)
        return;
    for (size_t other = 0; other < COUNT(KINDS) + 2; other++) {
        if ((int)other == own)
            continue;
        right(world, function, values);
        void *given = values[place].pointer;
        values[place].pointer = other < COUNT(KINDS)    ? world->handles[other]
                                : other == COUNT(KINDS) ? (void *)zeros
                                                        : (void *)((char *)zeros + 1);
        fails(world, function, values, function->parameters[place].name, TP_ERROR_HANDLE);
        give_up(world, function, given);
    }
}

static void freed(struct world *world, const struct function *function, union value *values, int place)
{
    int own = kind_of(&function->parameters[place]);
    if (own < 0)
        return;
    right(world, function, values);
    give_up(world, function, values[place].pointer);
    values[place].pointer = fresh(world, (size_t)own);
    MUST(let_go(world, (size_t)own, values[place].pointer));
    fails(world, function, values, function->parameters[place].name, TP_ERROR_HANDLE);
}

static void foreign(struct world *world, const struct function *function, union value *values, int place)
{
    static struct world other;
    int own = kind_of(&function->parameters[place]);
    if (own < 0)
        return;
    begin(&other, &another, folder);
    right(world, function, values);
    void *given = values[place].pointer;
    values[place].pointer = other.handles[own];
    fails(world, function, values, function->parameters[place].name, TP_ERROR_HANDLE);
    give_up(world, function, given);
    /* Nothing happened to it. */
    end(&other);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*wrong)(struct world *, const struct function *, union value *, int);
    } PARTS[] = { { "nulls", null }, { "numbers", number }, { "kinds", kind }, { "freed", freed }, { "foreign", foreign } };
    const char *part = start(count, words);
    for (size_t i = 0; i < COUNT(PARTS); i++)
        if (strcmp(part, PARTS[i].name) == 0) {
            each(PARTS[i].wrong);
            puts("ok");
            return 0;
        }
    return 2;
}
