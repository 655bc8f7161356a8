// A C++ exception that leaves the program's own function, called by the library: the header says that it ends the
// process. With "log" it leaves the log's, else the source of a blob. With "caught" it is caught inside, as it must be.
#include "common.h"

#include <stdexcept>
#include <string>

static int32_t throws(void *, size_t *, void *)
{
    throw std::runtime_error("no way out");
}

static int32_t catches(void *, size_t *, void *)
{
    try {
        throw std::runtime_error("caught");
    } catch (const std::exception &) {
        return -1;
    }
}

static void log_throws(void *, tp_log_level, const char *)
{
    throw std::runtime_error("no way out");
}

int main(int count, char **words)
{
    CHECK(count == 3);
    std::string what = words[2];
    tp_blob *blob = nullptr;
    tp_log log = { log_throws, nullptr };
    MUST(tp_blob_open(words[1], "a", &blob));
    if (what == "log")
        MUST(tp_blob_set_log(blob, &log));
    try {
        tp_status status = tp_blob_save(blob, what == "source" ? throws : catches, nullptr, 0, nullptr);
        CHECK(what == "caught" && status == TP_ERROR_IO);
    } catch (...) {
        std::puts("it came through");
        return 1;
    }
    MUST(tp_blob_free(blob));
    std::puts("ok");
    return 0;
}
