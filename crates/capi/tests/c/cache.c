/* The store from start to start: what is written when, what comes back, what is kept from the driver, and calls from
 * inside the program's own functions.
 *
 *   cache FOLDER */
#define _GNU_SOURCE
#include "common.h"

#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct driver {
    uint8_t blob[5000];
    size_t bytes;
    int asked;
    const tp_cache *saving;
    const tp_blob *saving_blob;
    int answer;
};

static void fill(struct driver *driver, size_t bytes, uint8_t fill)
{
    const uint32_t header[4] = { 32, 1, 0x10de, 0x2204 };
    memset(driver->blob, fill, sizeof driver->blob);
    memcpy(driver->blob, header, sizeof header);
    memset(driver->blob + 16, 9, 16);
    driver->bytes = bytes;
}

static int32_t source(void *context, size_t *bytes, void *data)
{
    struct driver *driver = context;
    driver->asked++;
    /* Into the library from inside it, with the handle that is being saved. */
    if (driver->saving != NULL) {
        CHECK(tp_cache_save(driver->saving, source, driver, 1, NULL) == TP_ERROR_BUSY);
        CHECK(tp_cache_free((tp_cache *)driver->saving) == TP_ERROR_BUSY);
        MUST(tp_cache_note_created(driver->saving, 0));
    }
    if (driver->saving_blob != NULL) {
        CHECK(tp_blob_save(driver->saving_blob, source, driver, 1, NULL) == TP_ERROR_BUSY);
        CHECK(tp_blob_free((tp_blob *)driver->saving_blob) == TP_ERROR_BUSY);
    }
    if (driver->answer < 0)
        return driver->answer;
    if (data != NULL)
        memcpy(data, driver->blob, *bytes < driver->bytes ? *bytes : driver->bytes);
    *bytes = driver->bytes;
    return 0;
}

static int lines;

static void says(void *user, tp_log_level level, const char *text)
{
    (void)level;
    CHECK(user == &lines && text[0] != 0);
    lines++;
    /* No lock is held: a second save from here is refused or done, and ends. */
    CHECK(tp_strerror(0) != NULL);
}

static tp_cache *open_cache(const char *folder, const tp_cache_identity *identity)
{
    tp_cache *cache = NULL;
    tp_log log = { says, &lines };
    MUST(tp_cache_open(folder, identity, 0, &log, &cache));
    return cache;
}

static size_t blobs_of(const tp_cache *cache)
{
    size_t count = 0, bytes;
    const void *data;
    while (tp_cache_blob(cache, count, &data, &bytes) == TP_OK) {
        CHECK(bytes > 32);
        count++;
    }
    return count;
}

static void wrong(const char *folder, const tp_cache_identity *identity, const tp_cache *cache)
{
    tp_cache *made = NULL;
    const void *data = NULL;
    size_t bytes = 7;
    CHECK(tp_cache_open(NULL, identity, 0, NULL, &made) == TP_ERROR_NULL);
    CHECK(tp_cache_open(folder, NULL, 0, NULL, &made) == TP_ERROR_NULL);
    CHECK(tp_cache_open(folder, identity, 0, NULL, NULL) == TP_ERROR_NULL);
    tp_cache_identity bad = *identity;
    bad.extra_bytes = 9;
    CHECK(tp_cache_open(folder, &bad, 0, NULL, &made) == TP_ERROR_NULL);
    CHECK(tp_cache_blob(cache, SIZE_MAX, &data, &bytes) == TP_ERROR_NOT_FOUND && bytes == 7);
    CHECK(tp_cache_note_refused(cache, 99) == TP_ERROR_NOT_FOUND);
    CHECK(tp_cache_save(cache, NULL, NULL, 1, NULL) == TP_ERROR_NULL);
    CHECK(tp_cache_stats_get(cache, NULL) == TP_ERROR_NULL);
    CHECK(tp_cache_stats_get((const tp_cache *)&bad, NULL) != TP_OK);
    MUST(tp_cache_free(NULL));
    /* A folder that cannot be: open all the same, and takes nothing. */
    struct driver driver = { .answer = 0 };
    tp_cache_stats stats;
    fill(&driver, 100, 1);
    int before = lines;
    tp_cache *nowhere = open_cache("/proc/nowhere", identity);
    CHECK(lines > before);
    MUST(tp_cache_stats_get(nowhere, &stats));
    CHECK(stats.is_read_only && stats.entries == 0);
    MUST(tp_cache_note_created(nowhere, 1));
    CHECK(tp_cache_save(nowhere, source, &driver, 0, NULL) == TP_ERROR_UNSUPPORTED);
    MUST(tp_cache_free(nowhere));
}

int main(int count, char **words)
{
    CHECK(count == 2);
    tp_cache_identity identity;
    memset(&identity, 0, sizeof identity);
    identity.vendor = 0x10de;
    identity.device = 0x2204;
    memset(identity.cache_uuid, 9, sizeof identity.cache_uuid);
    identity.device_name = "a card";
    struct driver driver = { .answer = 0 };
    tp_save_report report;
    tp_cache_stats stats;
    tp_cache *cache = open_cache(words[1], &identity);
    CHECK(blobs_of(cache) == 0);
    wrong(words[1], &identity, cache);
    /* Nothing noted, nothing asked. */
    fill(&driver, 3000, 1);
    MUST(tp_cache_save(cache, source, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED && driver.asked == 0);
    MUST(tp_cache_note_created(cache, 12));
    driver.saving = cache;
    MUST(tp_cache_save(cache, source, &driver, 0, &report));
    driver.saving = NULL;
    CHECK(report.outcome == TP_SAVED_WRITTEN && report.bytes == 3000);
    MUST(tp_cache_save(cache, source, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED);
    /* A header alone is nothing; another device's blob and a failing driver are refused; the notes stay. */
    fill(&driver, 32, 1);
    MUST(tp_cache_note_created(cache, 1));
    MUST(tp_cache_save(cache, source, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_NOTHING);
    fill(&driver, 200, 1);
    driver.blob[8]++;
    MUST(tp_cache_note_created(cache, 1));
    CHECK(tp_cache_save(cache, source, &driver, 0, &report) == TP_ERROR_INVALID);
    CHECK(report.outcome == TP_SAVED_FAILED);
    driver.answer = -3;
    CHECK(tp_cache_save(cache, source, &driver, 0, &report) == TP_ERROR_IO);
    driver.answer = 0;
    fill(&driver, 4000, 2);
    MUST(tp_cache_save(cache, source, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN);
    MUST(tp_cache_stats_get(cache, &stats));
    CHECK(stats.entries == 2 && stats.created == 0 && stats.blobs == 0 && stats.bytes > 7000 && !stats.is_read_only);
    MUST(tp_cache_free(cache));
    CHECK(tp_cache_free(cache) == TP_ERROR_HANDLE);

    /* The second start, in this process and in another at once. */
    cache = open_cache(words[1], &identity);
    CHECK(blobs_of(cache) == 2);
    pid_t child = fork();
    if (child == 0) {
        tp_cache *other = open_cache(words[1], &identity);
        fill(&driver, 4500, 3);
        MUST(tp_cache_note_created(other, 1));
        MUST(tp_cache_save(other, source, &driver, 0, NULL));
        MUST(tp_cache_free(other));
        _exit(blobs_of(cache) == 2 ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    MUST(tp_cache_stats_get(cache, &stats));
    CHECK(stats.entries == 3);
    MUST(tp_cache_note_refused(cache, 0));
    MUST(tp_cache_free(cache));
    cache = open_cache(words[1], &identity);
    CHECK(blobs_of(cache) == 2);
    MUST(tp_cache_stats_get(cache, &stats));
    CHECK(stats.blobs_kept_back == 1);
    MUST(tp_cache_free(cache));
    /* Another driver's start sees none of it. */
    identity.driver_version++;
    cache = open_cache(words[1], &identity);
    CHECK(blobs_of(cache) == 0);
    MUST(tp_cache_free(cache));

    /* One file's saves: lines in a log, and no way back into the same handle. */
    tp_blob *blob = NULL;
    tp_log log = { says, &lines };
    MUST(tp_blob_open(words[1], "one.bin", &blob));
    MUST(tp_blob_set_log(blob, &log));
    int before = lines;
    driver.saving_blob = blob;
    MUST(tp_blob_save(blob, source, &driver, 1, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && lines == before + 1);
    driver.saving_blob = NULL;
    MUST(tp_blob_set_log(blob, NULL));
    MUST(tp_blob_save(blob, source, &driver, 1, &report));
    CHECK(lines == before + 1);
    MUST(tp_blob_free(blob));
    puts("ok");
    return 0;
}
