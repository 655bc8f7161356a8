/* libtowpath: finds, fixes and proves the host-side cost of GPU work on Linux.
 *
 * Made from crates/capi by its test `header`; do not edit. C99 and C++17.
 *
 * Status numbers and names stay. What a *_create or *_open function stores is freed by its *_free function. NULL
 * where it is not allowed is TP_ERROR_NULL. Nothing is printed, no signal handler is set, nothing is global.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef TOWPATH_H
#define TOWPATH_H

#include <stddef.h>
#include <stdint.h>


/*
 Bytes of a metric's name with its closing 0.
 */
#define TP_METRIC_NAME 32

/*
 Bytes of a metric's unit with its closing 0.
 */
#define TP_METRIC_UNIT 8

/*
 Bytes of a metric's definition with its closing 0.
 */
#define TP_METRIC_DEFINITION 128

/*
 Waits for all objects; without it, for any one.
 */
#define TP_WAIT_ALL 1

/*
 Waits also for points that are submitted later; without it such a point is TP_ERROR_NOT_FOUND.
 */
#define TP_WAIT_FOR_SUBMIT 2

/*
 What a function of this library answers.
 */
typedef enum tp_status {
  /*
   Done.
   */
  TP_OK = 0,
  /*
   A pointer that must not be NULL is NULL.
   */
  TP_ERROR_NULL = 1,
  /*
   An argument is out of its range.
   */
  TP_ERROR_INVALID = 2,
  /*
   The handle was freed, or never was one of this kind.
   */
  TP_ERROR_HANDLE = 3,
  /*
   There is not so much memory.
   */
  TP_ERROR_MEMORY = 4,
  /*
   The system refused a file operation.
   */
  TP_ERROR_IO = 5,
  /*
   The deadline passed first.
   */
  TP_ERROR_TIMEOUT = 6,
  /*
   This kernel or driver cannot do it.
   */
  TP_ERROR_UNSUPPORTED = 7,
  /*
   The room that the caller gave is too small; the needed size was stored.
   */
  TP_ERROR_ROOM = 8,
  /*
   What was read is damaged and was left out.
   */
  TP_ERROR_DAMAGED = 9,
  /*
   There is no such thing.
   */
  TP_ERROR_NOT_FOUND = 10,
  /*
   The signaller is gone: the wait can never end.
   */
  TP_ERROR_GONE = 11,
  /*
   A defect of this library, caught at its border. Nothing of the caller's was changed after it.
   */
  TP_ERROR_DEFECT = 100,
} tp_status;

/*
 What a save came to.
 */
typedef enum tp_saved {
  /*
   The size is the one that the file has; nothing was fetched or written.
   */
  TP_SAVED_UNCHANGED = 0,
  /*
   Written, synced, renamed.
   */
  TP_SAVED_WRITTEN = 1,
  /*
   The driver has nothing to keep.
   */
  TP_SAVED_NOTHING = 2,
  /*
   Not written; the file is as before and the next save tries again.
   */
  TP_SAVED_FAILED = 3,
  /*
   The last size query was dear (over 50 us) and less than a thousand times as long ago as it took: nothing
   was asked. Where it must be known, as at the program's end, call again with `force`.
   */
  TP_SAVED_TOO_SOON = 4,
} tp_saved;

/*
 What the data show about B against A.
 */
typedef enum tp_verdict {
  /*
   B is proven better.
   */
  TP_FASTER = 0,
  /*
   B is proven worse.
   */
  TP_SLOWER = 1,
  /*
   B is proven to lie within the margin of A.
   */
  TP_EQUIVALENT = 2,
  /*
   The data carry no claim.
   */
  TP_INCONCLUSIVE = 3,
} tp_verdict;

/*
 Keeps one blob in one file. Freed by `tp_blob_free`; may be used from any thread, one save at a time.
 */
typedef struct tp_blob tp_blob;

/*
 A source of sync objects. Freed by `tp_provider_free`; may be used from any thread until then. The objects
 that came from it stay valid without it.
 */
typedef struct tp_provider tp_provider;

/*
 A sync object. Freed by `tp_sync_free`; may be used from any thread until then.
 */
typedef struct tp_sync tp_sync;

/*
 One mapping over the pieces of memory files. Freed by `tp_view_free`.
 */
typedef struct tp_view tp_view;

/*
 Asks the driver: with `data` NULL for the size only, else for up to `*bytes` bytes into `data`. Stores the
 size, or how many bytes came, in `*bytes`.

 Returns 0 for all of it, 1 if more than the given room is there (VK_INCOMPLETE), below 0 for a failure.
 `vkGetPipelineCacheData` behind three lines. Called only inside `tp_blob_save`, on its thread.
 */
typedef int32_t (*tp_blob_source)(void *context, size_t *bytes, void *data);

/*
 One save, for a log.
 */
typedef struct tp_save_report {
  /*
   What it came to.
   */
  enum tp_saved outcome;
  /*
   Bytes of the file now.
   */
  uint64_t bytes;
  /*
   Bytes of the file before.
   */
  uint64_t bytes_before;
  /*
   Time that the size query took, in nanoseconds.
   */
  uint64_t asked_ns;
  /*
   Time that fetching and writing took, in nanoseconds.
   */
  uint64_t taken_ns;
} tp_save_report;

/*
 One metric of a run. Owns its texts: nothing to free.
 */
typedef struct tp_metric {
  /*
   Its name, such as `fps`, `low-1%`, `stutter`.
   */
  char name[TP_METRIC_NAME];
  /*
   Its unit; empty for counts.
   */
  char unit[TP_METRIC_UNIT];
  /*
   What exactly it is: names of frame metrics mean different things in different tools.
   */
  char definition[TP_METRIC_DEFINITION];
  /*
   Not 0: more is better.
   */
  int32_t higher_is_better;
  /*
   Not 0: it holds only if every frame is in the data, not a sample of them.
   */
  int32_t needs_all;
  /*
   Its value; NaN where the data give none.
   */
  double value;
} tp_metric;

/*
 What is asked of the data, decided before looking at them.
 */
typedef struct tp_question {
  /*
   Not 0: more is better (frames per second). 0: less is better (times).
   */
  int32_t higher_is_better;
  /*
   Largest relative difference that does not matter (0.01 is 1 %); 0: equivalence is not asked for.
   */
  double margin;
  /*
   Accepted chance of a false alarm, such as 0.05.
   */
  double level;
} tp_question;

/*
 The verdict with its evidence.
 */
typedef struct tp_judgement {
  /*
   The claim.
   */
  enum tp_verdict verdict;
  /*
   Not 0: `estimate`, `low` and `high` are ratios B / A; 0: differences B - A (some value was not positive).
   */
  int32_t is_ratio;
  /*
   Estimate of the ratio or difference; NaN if there is none.
   */
  double estimate;
  /*
   Lower end of the interval at 1 - level; NaN if the data do not bound it.
   */
  double low;
  /*
   Upper end.
   */
  double high;
  /*
   Two-sided p-value of "no difference".
   */
  double p;
} tp_judgement;

/*
 One piece of memory.
 */
typedef struct tp_piece {
  /*
   First byte.
   */
  const void *address;
  /*
   Bytes.
   */
  size_t bytes;
} tp_piece;

/*
 One piece of a memory file.
 */
typedef struct tp_file_piece {
  /*
   The memory file (memfd).
   */
  int32_t fd;
  /*
   First byte in it.
   */
  uint64_t offset;
  /*
   Bytes. Pages must not be torn between pieces: see `tp_view_create`.
   */
  uint64_t bytes;
} tp_file_piece;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens the blob file `name` in `folder`, which is made (mode 0700) if it is missing, and stores the handle in
 `*blob`. Reads the file if it is there.

 The caller owns the handle and frees it with `tp_blob_free`.

 # Safety

 `folder` and `name` are null or C strings; `blob` is null or valid for a write.
 */
enum tp_status tp_blob_open(const char *folder, const char *name, struct tp_blob **blob);

/*
 Stores where the bytes read at opening are, and how many. NULL and 0 if there was no file.

 They live until `tp_blob_free`. For `initialData` of `vkCreatePipelineCache`; the driver checks them.

 # Safety

 `blob` is null or a live handle; `data` and `bytes` are null or valid for a write.
 */
enum tp_status tp_blob_data(const struct tp_blob *blob, const void **data, size_t *bytes);

/*
 Saves what `source` gives: the size is asked first, and nothing more done if it is the file's. Not 0 in
 `force`: always. `report` may be NULL.

 The new size is recorded only once write, sync, close and rename all succeeded. TP_ERROR_IO: a step
 failed; the old file is whole, and the next save tries again.

 # Safety

 `blob` is null or a live handle; `source` is null or keeps its promise above, given `context`; `report` is
 null or valid for a write.
 */
enum tp_status tp_blob_save(const struct tp_blob *blob,
                            tp_blob_source source,
                            void *context,
                            int32_t force,
                            struct tp_save_report *report);

/*
 Frees the handle, and with it the bytes of `tp_blob_data`; NULL is none. Saves nothing.

 # Safety

 `blob` is null or from `tp_blob_open`, and is not used afterwards.
 */
enum tp_status tp_blob_free(struct tp_blob *blob);

/*
 Computes the metrics of `frames` frame times in milliseconds, in the order of the run, against a display of
 `hertz` (0: 60).

 With `metrics` NULL only their number is stored in `*count`. Else `*count` is the room there is, and gets the
 number of metrics; TP_ERROR_ROOM: it was too small, nothing was stored. The order is always the same.
 TP_ERROR_INVALID: no frames, or a frame time that is not a positive number below 1e12.
 Any thread; allocates a copy of the frames and frees it; nothing is kept.

 # Safety

 `frame_ms` is null or valid for reads of `frames` doubles; `metrics` is null or valid for writes of `*count`
 values; `count` is null or valid for a read and a write.
 */
enum tp_status tp_frames_metrics(const double *frame_ms,
                                 size_t frames,
                                 double hertz,
                                 struct tp_metric *metrics,
                                 size_t *count);

/*
 Judges pairs: `a[i]` and `b[i]` were measured next to each other, in random order.

 Stores the judgement in `*judgement`. TP_ERROR_INVALID: a value is not finite, or the question is not one.
 Any thread; allocates and frees; nothing is kept.

 # Safety

 `a` and `b` are null or valid for reads of `pairs` doubles; `question` is null or valid for a read;
 `judgement` is null or valid for a write.
 */
enum tp_status tp_measure_paired(const double *a,
                                 const double *b,
                                 size_t pairs,
                                 const struct tp_question *question,
                                 struct tp_judgement *judgement);

/*
 Judges independent runs of A and of B. As `tp_measure_paired`, with a length for each.

 # Safety

 `a` is null or valid for reads of `runs_a` doubles, `b` likewise; `question` is null or valid for a read;
 `judgement` is null or valid for a write.
 */
enum tp_status tp_measure_unpaired(const double *a,
                                   size_t runs_a,
                                   const double *b,
                                   size_t runs_b,
                                   const struct tp_question *question,
                                   struct tp_judgement *judgement);

/*
 Stores in `*cold_bytes` how many bytes of the `bytes` at `address` lie in pages on which a write would
 fault.

 TP_ERROR_UNSUPPORTED: it is not known, since the process has forked or the kernel does not say.
 Any thread; nothing is kept.

 # Safety

 `cold_bytes` is null or valid for a write. `address` is only looked up, never read.
 */
enum tp_status tp_memory_cold(const void *address, size_t bytes, size_t *cold_bytes);

/*
 Brings in all pages that hold a byte of the `bytes` at `address`, with up to `threads` threads (0: one);
 content is unchanged. Call it right before someone else (a driver) writes there.

 TP_ERROR_MEMORY: a part could not be brought in (read-only, unmapped, no memory); what was, stays.
 Any thread. Cost: one page fault per page, in chunks of 16 MiB, so that other threads' mmap does not stall.
 */
enum tp_status tp_memory_prefault(void *address, size_t bytes, uint32_t threads);

/*
 Copies the `bytes` from `offset` of the pieces, end to end, to `destination`.

 Not 0 in `streaming`: past the caches, for large copies that a device reads next. One read and one write
 per byte; no allocation. TP_ERROR_INVALID: the pieces hold less; nothing was copied.

 # Safety

 `pieces` is null or valid for reads of `count` values, each piece valid for reads of its bytes;
 `destination` is null or valid for writes of `bytes` bytes, apart from the pieces.
 */
enum tp_status tp_pieces_gather(const struct tp_piece *pieces,
                                size_t count,
                                size_t offset,
                                void *destination,
                                size_t bytes,
                                int32_t streaming);

/*
 Maps the pieces of memory files one behind the other and stores the handle in `*view`.

 The caller owns the handle and frees it with `tp_view_free`; the files may be closed meanwhile. Cost: one
 mapping per run of pieces that do not continue each other, a few microseconds each: for pieces that are
 used several times.

 The first piece may begin, and the last may end, inside a page: `tp_view_data` then gives the first byte of the
 piece itself, not of its page. Every border between two pieces must be a page border of both files (of the huge
 page where the file is of huge pages). TP_ERROR_INVALID: it is not so, or a piece is not within its file, or
 there are no bytes; copy with `tp_pieces_gather` then.

 # Safety

 `pieces` is null or valid for reads of `count` values; `view` is null or valid for a write.
 */
enum tp_status tp_view_create(const struct tp_file_piece *pieces,
                              size_t count,
                              struct tp_view **view);

/*
 Stores where the view begins and how many bytes it has. Valid until `tp_view_free`; other processes may
 change the bytes at any time.

 # Safety

 `view` is null or a live handle; `data` and `bytes` are null or valid for a write.
 */
enum tp_status tp_view_data(const struct tp_view *view, void **data, size_t *bytes);

/*
 Unmaps the view; NULL is none.

 # Safety

 `view` is null or from `tp_view_create`; neither it nor its bytes are used afterwards.
 */
enum tp_status tp_view_free(struct tp_view *view);

/*
 The text of a status in English, also for a number that is none. Never NULL; lives as long as the library.

 May be called from any thread.
 */
const char *tp_strerror(int32_t status);

/*
 Makes a sync object of this process and stores it in `*sync`; not 0 in `signaled`: with a fence that is
 done. The cheapest kind; it cannot be exported.

 The caller owns the object and frees it with `tp_sync_free`.

 # Safety

 `sync` is null or valid for a write.
 */
enum tp_status tp_sync_create(int32_t signaled, struct tp_sync **sync);

/*
 Frees a sync object; NULL is none. Waits under way in other threads go on: they keep what they wait for.
 Descriptors that were exported stay valid.

 # Safety

 `sync` is null or from a function that makes sync objects, and is not used afterwards.
 */
enum tp_status tp_sync_free(struct tp_sync *sync);

/*
 Signals a point of a timeline; 0: the binary object. Cost: a lock of a few instructions, one system call
 for each sleeper that this satisfies; for the kernel's objects one system call.

 # Safety

 `sync` is null or a live handle.
 */
enum tp_status tp_sync_signal(const struct tp_sync *sync, uint64_t point);

/*
 Takes the fence or the timeline away. Waits under way keep theirs.

 # Safety

 `sync` is null or a live handle.
 */
enum tp_status tp_sync_reset(const struct tp_sync *sync);

/*
 Stores in `*reached` the highest point that is done together with all before it.

 # Safety

 `sync` is null or a live handle; `reached` is null or valid for a write.
 */
enum tp_status tp_sync_query(const struct tp_sync *sync, uint64_t *reached);

/*
 Writes eight bytes to a duplicate of `fd` (an eventfd) when the point is done; at once if it is.

 The caller keeps `fd`. Meant for poll loops. For shared objects a helper thread of the library watches while
 something is watched; it takes no signals.

 # Safety

 `sync` is null or a live handle.
 */
enum tp_status tp_sync_eventfd(const struct tp_sync *sync, uint64_t point, int32_t fd);

/*
 Stores in `*fd` a descriptor by which another process (or another library) finds the same object: of a shared
 object a descriptor for `tp_sync_import`, of a kernel's the kernel's own, as Vulkan's opaque handles are.

 The caller owns the descriptor and closes it; it outlives the handle. TP_ERROR_UNSUPPORTED: objects of this
 process have none.

 # Safety

 `sync` is null or a live handle; `fd` is null or valid for a write.
 */
enum tp_status tp_sync_export(const struct tp_sync *sync, int32_t *fd);

/*
 Stores in `*fd` a sync file with the fence of the point (0: the binary object's), for interfaces that take
 one (explicit sync of KMS, Android and EGL).

 The caller owns the descriptor and closes it. For the kernel's objects only, others are
 TP_ERROR_UNSUPPORTED. TP_ERROR_NOT_FOUND: nothing was submitted there.

 # Safety

 `sync` is null or a live handle; `fd` is null or valid for a write.
 */
enum tp_status tp_sync_export_file(const struct tp_sync *sync, uint64_t point, int32_t *fd);

/*
 Makes the fence of a sync file the object's (0), or adds it at a point. The caller keeps `fd`.

 For the kernel's objects only, others are TP_ERROR_UNSUPPORTED. TP_ERROR_INVALID: it is no sync file.

 # Safety

 `sync` is null or a live handle.
 */
enum tp_status tp_sync_import_file(const struct tp_sync *sync, uint64_t point, int32_t fd);

/*
 Declares that this process signals a shared object. When all processes that declared it are gone, waits for
 points that nobody submitted end with TP_ERROR_GONE, in all processes, instead of never.

 Nothing to do for other kinds: TP_OK. TP_ERROR_MEMORY: eight living processes have declared it already.

 # Safety

 `sync` is null or a live handle.
 */
enum tp_status tp_sync_promise(const struct tp_sync *sync);

/*
 The moment `span_ns` from now, as `tp_sync_wait` takes it. Any thread.
 */
int64_t tp_deadline_after(uint64_t span_ns);

/*
 Makes a source of objects that several processes use, without a GPU: they live in a sealed memory file that
 the source makes when it is needed. Stores the handle in `*provider`.

 The caller owns the handle and frees it with `tp_provider_free`.

 # Safety

 `provider` is null or valid for a write.
 */
enum tp_status tp_provider_create_shared(struct tp_provider **provider);

/*
 Makes a source of the kernel's objects from an open render node (such as /dev/dri/renderD128), and stores the
 handle in `*provider`.

 The caller keeps `fd` and may close it: the library has a duplicate. The caller owns the handle and frees it
 with `tp_provider_free`. TP_ERROR_UNSUPPORTED: the descriptor is no render node with timeline objects.

 # Safety

 `provider` is null or valid for a write.
 */
enum tp_status tp_provider_create_drm(int32_t fd, struct tp_provider **provider);

/*
 Frees the handle; NULL is none. Objects that came from it stay.

 # Safety

 `provider` is null or from a `tp_provider_create_*`, and is not used afterwards.
 */
enum tp_status tp_provider_free(struct tp_provider *provider);

/*
 As `tp_sync_create`, with an object of `provider`, which can be exported.

 # Safety

 `provider` is null or a live handle; `sync` is null or valid for a write.
 */
enum tp_status tp_sync_create_in(const struct tp_provider *provider, int32_t signaled, struct tp_sync **sync);

/*
 Stores in `*sync` the object behind a descriptor of `tp_sync_export` (shared), or of any program that exports
 the kernel's objects (render node).

 The caller keeps `fd` and may close it, owns the object and frees it with `tp_sync_free`. TP_ERROR_INVALID: the
 descriptor is of no object of this kind. TP_ERROR_DAMAGED: the object is gone, or its memory is not as ours is.

 # Safety

 `provider` is null or a live handle; `sync` is null or valid for a write.
 */
enum tp_status tp_sync_import(const struct tp_provider *provider,
                              int32_t fd,
                              struct tp_sync **sync);

/*
 Waits on `count` objects, each for its point (0: the binary object), until `deadline_ns` of
 CLOCK_MONOTONIC (0 or before now: looks only; INT64_MAX: for ever).

 `flags` of TP_WAIT_ALL and TP_WAIT_FOR_SUBMIT. `first` may be NULL; else it gets the lowest index that was
 ready. TP_ERROR_TIMEOUT: the deadline passed. TP_ERROR_GONE: see `tp_sync_promise`. Never spins. Allocates
 nothing for up to 64 objects of this process; objects of several kinds in one call cost an eventfd and a
 registration each.

 # Safety

 `syncs` and `points` are null or valid for reads of `count` values; each object is a live handle and stays
 so until the call returns; `first` is null or valid for a write.
 */
enum tp_status tp_sync_wait(const struct tp_sync *const *syncs,
                            const uint64_t *points,
                            size_t count,
                            uint32_t flags,
                            int64_t deadline_ns,
                            size_t *first);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TOWPATH_H */
