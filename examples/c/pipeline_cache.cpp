// Seed 000's scene: a game saves its pipeline cache. Before: the whole file at every start. After: nothing is
// fetched or written while the size is the same, and a save counts only once all of it is on disk.
//
//   c++ -std=c++17 pipeline_cache.cpp -ltowpath -lvulkan -o pipeline_cache
#include "common.h"
#include "game.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>

namespace fs = std::filesystem;

static std::string on_disk(const fs::path &file)
{
    std::ifstream in(file, std::ios::binary);
    return { std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>() };
}

// The game's function as it was: everything, always, in place, and nobody asks what the close says.
static void save_before(const Game &game, const fs::path &file)
{
    std::string data = game.data();
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
}

// The same with libtowpath. A game asks again later where the size query turns out dear; this one must know.
static tp_status save(const tp_blob *blob, Game &game, tp_save_report *report)
{
    tp_status status;
    while ((status = tp_blob_save(blob, Game::source, &game, 0, report)) == TP_OK &&
           report->outcome == TP_SAVED_TOO_SOON)
        usleep(1000);
    return status;
}

// From now on these system calls of this process fail with an I/O error.
static void refuse(std::vector<int> calls)
{
    std::vector<sock_filter> program = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)) };
    for (int call : calls) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
        program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    sock_fprog filter = { static_cast<unsigned short>(program.size()), program.data() };
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

// A save in a process of its own whose system calls fail. Returns its status.
static int save_where_fail(std::vector<int> calls, const tp_blob *blob, Game &game)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        tp_save_report report = {};
        refuse(calls);
        int status = save(blob, game, &report);
        bool is_said = (status == TP_OK) == (report.outcome == TP_SAVED_WRITTEN);
        _exit(is_said ? status : 99);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Whatever fails, the old file is whole, the save does not count, and the next one tries again.
static void failures(const tp_blob *blob, Game &game, const fs::path &file)
{
    tp_save_report report = {};
    std::string old = on_disk(file);
    game.compile(1000);
    // A write that fails: no room for files of this size.
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit unlimited, small;
    CHECK(getrlimit(RLIMIT_FSIZE, &unlimited) == 0);
    small = unlimited;
    small.rlim_cur = 1000;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(save(blob, game, &report) == TP_ERROR_IO && report.outcome == TP_SAVED_FAILED);
    CHECK(setrlimit(RLIMIT_FSIZE, &unlimited) == 0 && on_disk(file) == old);
    // What the game's fclose would have said: the disk does not take what was written. Here the sync says it.
    CHECK(save_where_fail({ SYS_fsync, SYS_fdatasync }, blob, game) == TP_ERROR_IO && on_disk(file) == old);
    // A rename that fails.
    std::vector<int> renames = { SYS_rename, SYS_renameat, SYS_renameat2 };
    CHECK(save_where_fail(renames, blob, game) == TP_ERROR_IO && on_disk(file) == old);
    // A close that fails after the sync has nothing left to lose: the file is the new one, whole.
    CHECK(save_where_fail({ SYS_close }, blob, game) == TP_OK && on_disk(file) == game.data());
    // This process does not know of it; it has still failed, and so tries again.
    MUST(save(blob, game, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && on_disk(file) == game.data());
    for (const auto &entry : fs::directory_iterator(file.parent_path()))
        CHECK(entry.path() == file); // no clutter
}

static void compare(const tp_blob *blob, Game &game, const fs::path &file)
{
    enum { STARTS = 10, SAVES = 200 };
    tp_save_report report = {};
    std::vector<double> before, ours;
    for (int i = 0; i < STARTS; i++) {
        double start = now_ms();
        save_before(game, file);
        before.push_back(now_ms() - start);
    }
    MUST(save(blob, game, &report));
    for (int i = 0; i < SAVES; i++) {
        double start = now_ms();
        MUST(tp_blob_save(blob, Game::source, &game, 0, &report));
        // On a busy machine an answer may seem dear; the library then does not ask for a while.
        if (report.outcome == TP_SAVED_UNCHANGED)
            ours.push_back(now_ms() - start);
        else
            usleep(1000);
    }
    if (ours.empty()) {
        std::puts("too busy a machine to compare saves");
        return;
    }
    std::sort(before.begin(), before.end());
    std::sort(ours.begin(), ours.end());
    says_ratio("saves with nothing new", before[before.size() / 2], ours[ours.size() / 2]);
}

int main()
{
    std::string pattern = (fs::temp_directory_path() / "towpath-example-XXXXXX").string();
    CHECK(mkdtemp(pattern.data()) != nullptr);
    fs::path folder = pattern, file = folder / "pipelines.bin";
    tp_save_report report = {};
    tp_blob *blob = nullptr;
    Game game;
    MUST(tp_blob_open(folder.c_str(), "pipelines.bin", &blob));
    // First start: written once.
    for (uint32_t size = 1; size <= 24; size++)
        game.compile(size);
    MUST(save(blob, game, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && on_disk(file) == game.data());
    // Nothing new: the size is asked, nothing is fetched, nothing written.
    auto written = fs::last_write_time(file);
    int fetched = game.blobs_fetched;
    MUST(save(blob, game, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED && game.blobs_fetched == fetched);
    CHECK(fs::last_write_time(file) == written);
    failures(blob, game, file);
    compare(blob, game, file);
    // Smaller is a change as well.
    game.restart(nullptr, 0);
    game.compile(1);
    MUST(save(blob, game, &report));
    CHECK(report.outcome == TP_SAVED_WRITTEN && report.bytes < report.bytes_before && on_disk(file) == game.data());
    MUST(tp_blob_free(blob));
    // Second start: the bytes are there for the driver, and nothing is written.
    MUST(tp_blob_open(folder.c_str(), "pipelines.bin", &blob));
    const void *data = nullptr;
    size_t bytes = 0;
    MUST(tp_blob_data(blob, &data, &bytes));
    game.restart(data, bytes);
    game.compile(1);
    MUST(save(blob, game, &report));
    CHECK(report.outcome == TP_SAVED_UNCHANGED && bytes == fs::file_size(file));
    MUST(tp_blob_free(blob));
    fs::remove_all(folder);
    std::printf("sizes asked %d, blobs fetched %d\nok\n", game.sizes_asked, game.blobs_fetched);
}
