// Seed 000's scene: a game saves its pipeline cache. Before: the whole file at every start. After: nothing is
// fetched or written while the size is the same, and a save counts only once all of it is on disk.
//
//   c++ -std=c++17 pipeline_cache.cpp -ltowpath -o pipeline_cache
#include "common.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace fs = std::filesystem;

// A driver's cache. In a game this is three lines around vkGetPipelineCacheData.
struct Driver {
    std::vector<char> blob;
    int sizes_asked = 0;
    int blobs_fetched = 0;

    static int get(void *context, size_t *bytes, void *data)
    {
        auto *driver = static_cast<Driver *>(context);
        if (data == nullptr) {
            driver->sizes_asked++;
            *bytes = driver->blob.size();
            return 0;
        }
        driver->blobs_fetched++;
        size_t room = *bytes < driver->blob.size() ? *bytes : driver->blob.size();
        std::memcpy(data, driver->blob.data(), room);
        bool is_whole = room == driver->blob.size();
        *bytes = room;
        return is_whole ? 0 : 1;
    }
};

// A blob that begins as VkPipelineCache data does: 32, version one, vendor, device, UUID.
static std::vector<char> blob_of(size_t bytes, char fill)
{
    std::vector<char> blob(bytes, fill);
    const uint32_t header[4] = { 32, 1, 0x10de, 0x2204 };
    std::memcpy(blob.data(), header, sizeof header);
    return blob;
}

static std::string on_disk(const fs::path &file)
{
    std::ifstream in(file, std::ios::binary);
    return { std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>() };
}

static bool is_saved(const fs::path &file, const Driver &driver)
{
    return on_disk(file) == std::string(driver.blob.begin(), driver.blob.end());
}

int main()
{
    std::string pattern = (fs::temp_directory_path() / "towpath-example-XXXXXX").string();
    CHECK(mkdtemp(pattern.data()) != nullptr);
    fs::path folder = pattern, file = folder / "pipelines.bin";
    Driver driver{ blob_of(1 << 20, 'a') };
    tp_save_report report;
    tp_blob *cache = nullptr;
    MUST(tp_blob_open(folder.c_str(), "pipelines.bin", &cache));

    // First start: written once.
    MUST(tp_blob_save(cache, Driver::get, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && report.bytes == driver.blob.size() && is_saved(file, driver));

    // Nothing new: the size is asked, nothing is fetched.
    int fetched = driver.blobs_fetched;
    MUST(tp_blob_save(cache, Driver::get, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED && driver.blobs_fetched == fetched);

    // Smaller is a change as well.
    driver.blob = blob_of(1 << 19, 'b');
    MUST(tp_blob_save(cache, Driver::get, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && report.bytes_before == 1 << 20 && is_saved(file, driver));

    // A write that fails: the old file is whole, and the save does not count.
    std::string old = on_disk(file);
    driver.blob = blob_of(1 << 21, 'c');
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit unlimited, small;
    CHECK(getrlimit(RLIMIT_FSIZE, &unlimited) == 0);
    small = unlimited;
    small.rlim_cur = 1 << 16;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(tp_blob_save(cache, Driver::get, &driver, 0, &report) == TP_ERROR_IO);
    CHECK(report.outcome == TP_SAVED_FAILED && on_disk(file) == old);
    CHECK(setrlimit(RLIMIT_FSIZE, &unlimited) == 0);

    // A rename that fails: a folder stands in the way.
    fs::remove(file);
    fs::create_directories(file / "in the way");
    CHECK(tp_blob_save(cache, Driver::get, &driver, 0, &report) == TP_ERROR_IO);
    fs::remove_all(file);

    // The next save tries again, and again only once.
    MUST(tp_blob_save(cache, Driver::get, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && is_saved(file, driver));
    MUST(tp_blob_save(cache, Driver::get, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED);
    MUST(tp_blob_free(cache));

    // Second start: the bytes are there for vkCreatePipelineCache, and nothing is written.
    MUST(tp_blob_open(folder.c_str(), "pipelines.bin", &cache));
    const void *data = nullptr;
    size_t bytes = 0;
    MUST(tp_blob_data(cache, &data, &bytes));
    CHECK(bytes == driver.blob.size() && std::memcmp(data, driver.blob.data(), bytes) == 0);
    MUST(tp_blob_save(cache, Driver::get, &driver, 0, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED);
    MUST(tp_blob_free(cache));
    fs::remove_all(folder);
    std::printf("sizes asked %d, blobs fetched %d\nok\n", driver.sizes_asked, driver.blobs_fetched);
}
