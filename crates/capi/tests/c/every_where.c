/* Every function of the header from wherever a program may call it.
 *
 *   every_where threads|callbacks|forked|interrupted|closed|ending|many LIBRARY ANOTHER FOLDER */
#define _GNU_SOURCE
#include "every.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static bool is_of_cl(const struct function *function)
{
    for (int i = 0; i < function->count; i++)
        if (strcmp(function->parameters[i].name, "transfer") == 0)
            return true;
    return false;
}

/* In a child OpenCL does not live on; nobody says what is cold once a process has forked. */
enum where { ALONE, FORKED, CHILD };

/* Every function once, as it should be called. */
static void use_all(struct world *world, enum where where)
{
    union value values[MOST_PARAMETERS];
    for (size_t i = 0; i < COUNT(FUNCTIONS); i++) {
        bool is_unsure = strcmp(FUNCTIONS[i].name, "tp_memory_cold") == 0;
        if ((where == CHILD && is_of_cl(&FUNCTIONS[i])) || (where != ALONE && is_unsure))
            continue;
        right(world, &FUNCTIONS[i], values);
        long answer = FUNCTIONS[i].call(world->api, values);
        must_be(&FUNCTIONS[i], "as it should be", answer, expected(&FUNCTIONS[i]));
        if (answer == TP_OK)
            take_back(world, &FUNCTIONS[i], values);
    }
}

/* A world of its own, and everything in it. */
static void *use_all_here(void *unused)
{
    struct world *world = malloc(sizeof *world);
    (void)unused;
    CHECK(world != NULL);
    begin(world, &one, folder);
    use_all(world, ALONE);
    end(world);
    free(world);
    return NULL;
}

static pthread_key_t key;

static void use_at_the_end(void *unused)
{
    use_all_here(unused);
}

static void *ends(void *unused)
{
    (void)unused;
    CHECK(pthread_setspecific(key, &one) == 0);
    return NULL;
}

/* From several threads at once, from one with little stack, and from one whose thread-local variables are gone. */
static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    pthread_attr_t small;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, use_all_here, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 << 10) == 0);
    CHECK(pthread_create(&thread[0], &small, use_all_here, NULL) == 0 && pthread_join(thread[0], NULL) == 0);
    CHECK(pthread_key_create(&key, use_at_the_end) == 0);
    CHECK(pthread_create(&thread[0], NULL, ends, NULL) == 0 && pthread_join(thread[0], NULL) == 0);
}

/* A handle that is calling the program right now. */
struct calling {
    struct world *world;
    size_t kind;
    void *handle;
    bool in_source, inside;
    int calls;
};

static bool saves(const struct function *function)
{
    for (int i = 0; i < function->count; i++)
        if (function->parameters[i].is == FUNCTION)
            return true;
    return false;
}

/* Everything with the handle that is calling: it is not freed under its own feet, nor saved inside a save. */
static void from_inside(struct calling *calling)
{
    union value values[MOST_PARAMETERS];
    calling->calls++;
    if (calling->inside)
        return;
    calling->inside = true;
    for (size_t i = 0; i < COUNT(FUNCTIONS); i++) {
        const struct function *function = &FUNCTIONS[i];
        if (kind_of(&function->parameters[0]) != (int)calling->kind)
            continue;
        right(calling->world, function, values);
        void *given = values[0].pointer;
        values[0].pointer = calling->handle;
        long answer = function->call(&one, values);
        if (frees(function) || (saves(function) && calling->in_source))
            must_be(function, "from inside", answer, TP_ERROR_BUSY);
        else if (!saves(function))
            must_be(function, "from inside", answer, expected(function));
        if (answer == TP_OK)
            take_back(calling->world, function, values);
        give_up(calling->world, function, given);
    }
    use_all_here(NULL);
    calling->inside = false;
}

/* With a blob of no known device. */
static int32_t calls_all(void *context, size_t *bytes, void *data)
{
    struct calling *calling = context;
    bool was = calling->in_source;
    calling->in_source = true;
    from_inside(calling);
    calling->in_source = was;
    return source(NULL, bytes, data);
}

static void (*lose_device)(const char *, uint64_t);

static void says(void *user, tp_log_level level, const char *text)
{
    (void)level;
    CHECK(text[0] != 0);
    lose_device("lost", 0);
    from_inside(user);
}

static void callbacks(void)
{
    static struct world world;
    struct calling calling = { .world = &world, .kind = (size_t)kind_named("tp_blob") };
    const tp_log log = { says, &calling };
    tp_cache_identity other = IDENTITY;
    void *driver = dlopen(getenv("OCL_ICD_VENDORS"), RTLD_NOW);
    *(void **)&lose_device = symbol(driver, "towpath_fake_set");
    begin(&world, &one, folder);
    calling.handle = fresh(&world, calling.kind);
    MUST(one.tp_blob_set_log(calling.handle, &log));
    MUST(one.tp_blob_save(calling.handle, calls_all, &calling, 1, NULL));
    CHECK(calling.calls >= 3);
    /* What was set from inside is no log; and it is free now. */
    MUST(let_go(&world, calling.kind, calling.handle));

    calling = (struct calling){ .world = &world, .kind = (size_t)kind_named("tp_cache") };
    other.vendor = 7;
    char path[600];
    snprintf(path, sizeof path, "%s/other", world.folder);
    MUST(one.tp_cache_open(path, &other, 0, &log, (tp_cache **)&calling.handle));
    CHECK(one.tp_cache_save(calling.handle, calls_all, &calling, 1, NULL) == TP_ERROR_INVALID);
    CHECK(calling.calls >= 2);
    MUST(let_go(&world, calling.kind, calling.handle));

    calling = (struct calling){ .world = &world, .kind = (size_t)kind_named("tp_transfer") };
    MUST(one.tp_transfer_create(world.context, world.device, NULL, &log, (tp_transfer **)&calling.handle));
    lose_device("lost", 1);
    uint8_t to[BYTES];
    CHECK(one.tp_transfer_read_buffer(calling.handle, world.queue, world.buffer, 0, to, BYTES, NULL) ==
          TP_ERROR_DRIVER);
    CHECK(calling.calls >= 1);
    MUST(let_go(&world, calling.kind, calling.handle));
    end(&world);
}

static void forked(void)
{
    static struct world world;
    begin(&world, &one, folder);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        use_all(&world, CHILD);
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    use_all(&world, FORKED);
    end(&world);
}

static volatile sig_atomic_t rings;

/* The two functions that a handler may call. */
static void rung(int number)
{
    (void)number;
    rings += one.tp_strerror(TP_OK) != NULL && one.tp_deadline_after(1) > 0;
}

/* While a signal comes every so often, whose handler lets system calls end early. */
static void interrupted(void)
{
    static struct world world;
    const struct sigaction action = { .sa_handler = rung };
    const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    begin(&world, &one, folder);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < 30; round++)
        use_all(&world, ALONE);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(rings > 0);
    end(&world);
}

/* Where a program has closed its standard streams, no file of the library may take their numbers: what the program
 * prints would be written into it. */
static void closed(void)
{
    static struct world world;
    int kept = fcntl(1, F_DUPFD_CLOEXEC, 100);
    CHECK(kept >= 100);
    begin(&world, &one, folder);
    for (int fd = 0; fd < 3; fd++)
        CHECK(close(fd) == 0);
    for (size_t i = 0; i < COUNT(KINDS); i++) {
        void *handle = fresh(&world, i);
        for (int fd = 0; fd < 3; fd++)
            if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) {
                dprintf(kept, "a %s has descriptor %d\n", KINDS[i], fd);
                exit(1);
            }
        MUST(let_go(&world, i, handle));
    }
    use_all(&world, ALONE);
    CHECK(dup2(kept, 1) == 1);
    end(&world);
}

static bool uses_in_destructor;

__attribute__((destructor)) static void last(void)
{
    if (uses_in_destructor)
        use_all_here(NULL);
}

static void at_exit(void)
{
    use_all_here(NULL);
    puts("ok");
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    CHECK(closedir(folder) == 0);
    return count;
}

static void many(void)
{
    enum { MANY = 10000, FEW = 50 };
    static struct world world;
    static void *handles[MANY];
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    size_t before = open_files();
    for (size_t kind = 0; kind < COUNT(KINDS); kind++) {
        /* A queue with a thread of the driver's each. */
        size_t count = strcmp(KINDS[kind], "tp_transfer") == 0 ? FEW : MANY;
        begin(&world, &one, folder);
        for (size_t i = 0; i < count; i++)
            handles[i] = fresh(&world, kind);
        for (size_t i = 0; i < count; i++)
            MUST(let_go(&world, kind, handles[i]));
        end(&world);
        CHECK(open_files() == before);
    }
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } PARTS[] = { { "threads", threads },         { "callbacks", callbacks }, { "forked", forked },
                  { "interrupted", interrupted }, { "closed", closed },       { "many", many } };
    const char *part = start(count, words);
    for (size_t i = 0; i < COUNT(PARTS); i++)
        if (strcmp(part, PARTS[i].name) == 0) {
            PARTS[i].run();
            puts("ok");
            return 0;
        }
    /* "ok" comes from the handler, and what follows it ends the process if it fails. */
    uses_in_destructor = strcmp(part, "ending") == 0;
    return uses_in_destructor && atexit(at_exit) == 0 ? 0 : 2;
}
