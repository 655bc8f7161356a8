/* libtowpath: finds, fixes and proves the host-side cost of GPU work on Linux.
 *
 * Made from crates/capi by its test `header`; do not edit. C99 and C++17.
 *
 * Numbers and names stay. Anything but TP_OK from a function that only makes things faster means: go on without it.
 *
 * Ownership. What a *_create, *_open, *_take or *_import function stores is the caller's, and is freed by the *_free
 * function of its kind, by nothing else. Pointers that a *_data or *_blob function stores belong to the handle and end
 * with it. Descriptors that are passed in stay the caller's; those that are stored are the caller's to close. Texts and
 * arrays that are passed in are used during the call only.
 *
 * Pointers. NULL where it is not allowed is TP_ERROR_NULL, and nothing else happens. After any error the outputs are as
 * they were, unless a function says otherwise. A handle of another kind, or of another copy of the library in the same
 * process, is TP_ERROR_HANDLE; so is one that was freed before, as long as its memory has not been given to someone
 * else: help with debugging, not a check to rely on.
 *
 * Versions. Within one soname no structure changes its size or its fields; what is new comes with functions of its own.
 *
 * Threads. Every function may be called from any thread, also with one handle from several at once; but a handle is
 * freed only when no call with it is under way and none follows. Functions that the program gives are called on the
 * thread that called the library, inside that call, without a lock of the library but the one that their text names.
 * After a fork without exec, the child may use handles if no other thread of the parent was inside the library then;
 * objects of `tp_sync_create` are copies there, and OpenCL does not live on in a child at all. A signal handler may call `tp_strerror`
 * and `tp_deadline_after`; a signal that comes during a call neither ends nor fails it.
 *
 * Memory. Large allocations that fail are TP_ERROR_MEMORY; a small one that fails ends the process, as in C++.
 *
 * Nothing is printed, no signal handler is set, no setting is global, the environment is not read. A helper thread runs
 * only while a shared object is watched; it takes no signals. The library stays loaded once it is.
 *
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
   The driver refused a call; its code is in the report or the log.
   */
  TP_ERROR_DRIVER = 12,
  /*
   The handle is in use: a function that the program gave is called with it right now.
   */
  TP_ERROR_BUSY = 13,
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
 How much a line matters.
 */
typedef enum tp_log_level {
  /*
   What was decided or done.
   */
  TP_LOG_NOTE = 0,
  /*
   Something of ours did not work; the program goes on without it.
   */
  TP_LOG_WARNING = 1,
} tp_log_level;

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
 How a transfer was done.
 */
typedef enum tp_mechanism {
  /*
   The driver's own call alone.
   */
  TP_FORWARDED = 0,
  /*
   The destination's pages brought in where the rules say so, then the driver's own call.
   */
  TP_PREFAULTED = 1,
  /*
   By pinned chunks and threads of ours.
   */
  TP_STAGED = 2,
  /*
   From pieces by pinned chunks, without a buffer for the whole.
   */
  TP_GATHERED = 3,
} tp_mechanism;

/*
 Which memory a pool has.
 */
typedef enum tp_memory_kind {
  /*
   Ordinary memory whose pages are present when it is handed out.
   */
  TP_MEMORY_ORDINARY = 0,
  /*
   The same, locked: the system does not page it out (limit: RLIMIT_MEMLOCK).
   */
  TP_MEMORY_LOCKED = 1,
} tp_memory_kind;

/*
 Keeps one blob in one file. Freed by `tp_blob_free`; may be used from any thread, one save at a time.
 */
typedef struct tp_blob tp_blob;

/*
 Host memory of a pool. Freed by `tp_buffer_free`, which gives it back to the pool.
 */
typedef struct tp_buffer tp_buffer;

/*
 A store of one device's pipeline caches in a folder that several processes may use at once. Freed by
 `tp_cache_free`; may be used from any thread until then.
 */
typedef struct tp_cache tp_cache;

/*
 A source of buffers that keeps what it gets back. Freed by `tp_pool_free`; may be used from any thread until
 then. Buffers that came from it stay valid without it.
 */
typedef struct tp_pool tp_pool;

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
 Transfers on one OpenCL context and device. Freed by `tp_transfer_free`; may be used from any thread until
 then. It keeps the context alive.
 */
typedef struct tp_transfer tp_transfer;

/*
 One mapping over the pieces of memory files. Freed by `tp_view_free`.
 */
typedef struct tp_view tp_view;

/*
 Asks the driver: with `data` NULL for the size only, else for up to `*bytes` bytes into `data`. Stores the
 size, or how many bytes came, in `*bytes`.

 Returns 0 for all of it, 1 if more than the given room is there (VK_INCOMPLETE), below 0 for a failure.
 `vkGetPipelineCacheData` behind three lines. Called only inside `tp_blob_save` and `tp_cache_save`, on their
 thread. It may call the library, but for the handle that is being saved: that is TP_ERROR_BUSY. It must return:
 no longjmp (undefined). A C++ exception that leaves it ends the process.
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
 Takes one line, without a line break; the text lives until it returns. In English, but for what the system says of
 its errors, which is in the program's language.

 Called on the thread that called the library, inside that call, never while the library holds a lock: it may
 call the library, also with the same handle; to free that handle is TP_ERROR_BUSY. It must return: no longjmp
 (undefined). A C++ exception that leaves it ends the process.
 */
typedef void (*tp_log_write)(void *user, enum tp_log_level level, const char *text);

/*
 Where lines go. Copied by the functions that take one; what `user` points to must live as long as the handle.
 */
typedef struct tp_log {
  /*
   Called for each line; NULL: none.
   */
  tp_log_write write;
  /*
   Passed on to it; the library never looks at it.
   */
  void *user;
} tp_log;

/*
 Whose blobs these are: everything that must be equal before a driver may see one again. Texts are copied; NULL is
 none. The driver's files as they are mapped into the process are added by the library.
 */
typedef struct tp_cache_identity {
  /*
   `vendorID`.
   */
  uint32_t vendor;
  /*
   `deviceID`.
   */
  uint32_t device;
  /*
   `driverVersion`.
   */
  uint32_t driver_version;
  /*
   `driverID`; 0: not known.
   */
  uint32_t driver_id;
  /*
   `pipelineCacheUUID`.
   */
  uint8_t cache_uuid[16];
  /*
   `driverUUID`; zeros: not known.
   */
  uint8_t driver_uuid[16];
  /*
   `deviceName`.
   */
  const char *device_name;
  /*
   `driverName` and `driverInfo`.
   */
  const char *driver_text;
  /*
   Anything else that a blob depends on, such as a hash of enabled features.
   */
  const void *extra;
  /*
   Its bytes.
   */
  size_t extra_bytes;
} tp_cache_identity;

/*
 Counts of a store.
 */
typedef struct tp_cache_stats {
  /*
   Files.
   */
  uint64_t segments;
  /*
   Bytes of all files.
   */
  uint64_t bytes;
  /*
   Bytes of records that can be found.
   */
  uint64_t bytes_live;
  /*
   Bytes that were skipped as damaged at opening.
   */
  uint64_t bytes_skipped;
  /*
   Records found damaged when they were asked for.
   */
  uint64_t records_bad;
  /*
   Entries.
   */
  uint64_t entries;
  /*
   Blobs for `tp_cache_blob`.
   */
  uint64_t blobs;
  /*
   Blobs kept from the driver: damaged, refused before, or not this driver's.
   */
  uint64_t blobs_kept_back;
  /*
   Pipelines noted and not yet saved.
   */
  uint64_t created;
  /*
   Not 0: nothing is written, by wish or because no place can be written.
   */
  uint32_t is_read_only;
} tp_cache_stats;

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
 Rows of a texture in pieces, as transfer commands of virtual GPUs name them.
 */
typedef struct tp_rows {
  /*
   First byte of the first row, counted over all pieces; any value.
   */
  size_t offset;
  /*
   Bytes of a row.
   */
  size_t row_bytes;
  /*
   Rows of a slice; at least 1.
   */
  size_t rows;
  /*
   Bytes from row to row in the pieces; 0: packed.
   */
  size_t stride;
  /*
   Slices, layers or faces; at least 1.
   */
  size_t slices;
  /*
   Bytes from slice to slice in the pieces; 0: packed.
   */
  size_t slice_stride;
} tp_rows;

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

/*
 One transfer, for a log.
 */
typedef struct tp_transfer_report {
  /*
   How it was done.
   */
  enum tp_mechanism mechanism;
  /*
   The driver's code (CL_SUCCESS is 0).
   */
  int32_t driver_code;
  /*
   Bytes moved.
   */
  uint64_t bytes;
  /*
   Bytes of the host memory whose pages were absent; 0 where nobody looked.
   */
  uint64_t cold_bytes;
  /*
   Time of the whole call, in nanoseconds.
   */
  uint64_t taken_ns;
} tp_transfer_report;

/*
 A box of pixels of an image, and how its rows lie in host memory.
 */
typedef struct tp_image_box {
  /*
   First pixel: column, row, slice (or image of an array).
   */
  size_t origin[3];
  /*
   Pixels, rows, slices; each at least 1.
   */
  size_t size[3];
  /*
   Bytes from row to row in host memory; 0: packed.
   */
  size_t row_pitch;
  /*
   Bytes from slice to slice in host memory; 0: packed.
   */
  size_t slice_pitch;
} tp_image_box;

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
 Lets each save of `blob` put one line into a log; `log` NULL: none. Copied.

 # Safety

 `blob` is null or a live handle; `log` is null or valid for a read.
 */
enum tp_status tp_blob_set_log(const struct tp_blob *blob, const struct tp_log *log);

/*
 Frees the handle, and with it the bytes of `tp_blob_data`; NULL is none. Saves nothing. TP_ERROR_BUSY: a save is
 under way, or its log is being called; nothing was freed.

 # Safety

 `blob` is null or from `tp_blob_open`, and is not used afterwards.
 */
enum tp_status tp_blob_free(struct tp_blob *blob);

/*
 Opens the store of `identity` below `folder`, which is made (mode 0700) if it is missing, and stores the handle in
 `*cache`. Not 0 in `read_only`: nothing is ever written.

 A program must start: where the folder cannot be used, the handle is of an empty store that takes nothing, the
 log says why, and the answer is TP_OK. `log` may be NULL. The caller owns the handle and frees it with
 `tp_cache_free`. Cost: a map of each file, and one hash over each blob.

 # Safety

 `folder` is null or a C string; `identity` is null or valid for a read, its texts null or C strings and `extra`
 null or valid for reads of `extra_bytes` bytes; `log` is null or valid for a read; `cache` is null or valid for a
 write.
 */
enum tp_status tp_cache_open(const char *folder,
                             const struct tp_cache_identity *identity,
                             int32_t read_only,
                             const struct tp_log *log,
                             struct tp_cache **cache);

/*
 Stores where blob number `index` is, and its bytes: for `initialData` of a `vkCreatePipelineCache` each, from 0 until
 TP_ERROR_NOT_FOUND, to be merged into one. They are checked, and live until `tp_cache_free`.

 # Safety

 `cache` is null or a live handle; `data` and `bytes` are null or valid for a write.
 */
enum tp_status tp_cache_blob(const struct tp_cache *cache,
                             size_t index,
                             const void **data,
                             size_t *bytes);

/*
 Notes that the driver returned an error for blob number `index`: no later start gets it.

 TP_ERROR_IO: it could not be noted; the next start will find out again.

 # Safety

 `cache` is null or a live handle.
 */
enum tp_status tp_cache_note_refused(const struct tp_cache *cache, size_t index);

/*
 Notes that `pipelines` pipelines were made that no blob had: without such a note a save asks and writes nothing.
 Cost: one atomic addition.

 # Safety

 `cache` is null or a live handle.
 */
enum tp_status tp_cache_note_created(const struct tp_cache *cache,
                                     uint64_t pipelines);

/*
 Saves what `source` gives as one entry, durably, if pipelines were noted since the last save; not 0 in `force`: in
 any case. `report` may be NULL.

 `source` is of the program's cache for new pipelines alone: after TP_SAVED_WRITTEN it merges that cache into its
 main one and goes on with an empty one, or the next save stores the same again. TP_ERROR_IO: not stored; the notes
 stay, and the next save tries again. TP_ERROR_INVALID: the blob is not of this device and driver.

 # Safety

 `cache` is null or a live handle; `source` is null or keeps its promise, given `context`; `report` is null or valid
 for a write.
 */
enum tp_status tp_cache_save(const struct tp_cache *cache,
                             tp_blob_source source,
                             void *context,
                             int32_t force,
                             struct tp_save_report *report);

/*
 Stores the counts in `*stats`. Looks at the folder again first.

 # Safety

 `cache` is null or a live handle; `stats` is null or valid for a write.
 */
enum tp_status tp_cache_stats_get(const struct tp_cache *cache, struct tp_cache_stats *stats);

/*
 Frees the handle and its blobs; NULL is none. Writes the index of what was saved; saves nothing new.
 TP_ERROR_BUSY: a save is under way, or its log is being called; nothing was freed.

 # Safety

 `cache` is null or from `tp_cache_open`, and is not used afterwards.
 */
enum tp_status tp_cache_free(struct tp_cache *cache);

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

 TP_ERROR_MEMORY: a part could not be brought in (read-only, unmapped); what was, stays. Or there is not twice as
 much memory as is absent: nothing was brought in. Any thread. Cost: a look at the page tables, and one page fault
 per page, in chunks of 16 MiB, so that other threads' mmap does not stall.
 */
enum tp_status tp_memory_prefault(void *address,
                                  size_t bytes,
                                  uint32_t threads);

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
 Copies a texture's rows from pieces into memory of `destination_bytes` bytes, row by row as it wants them, such as
 a mapped pixel-unpack buffer. Bytes between the destination's rows stay as they are.

 `row_pitch` and `slice_pitch` are the destination's; 0: packed. `streaming` as in `tp_pieces_gather`. Rows without
 gaps on both sides are copied as one. TP_ERROR_INVALID: a row is outside the pieces or the destination, or pitches
 let rows overlap; nothing was copied. All sums are checked, so the numbers may be a guest's.

 # Safety

 As `tp_pieces_gather`; `rows` is null or valid for a read, and not in memory that a guest changes.
 */
enum tp_status tp_pieces_gather_rows(const struct tp_piece *pieces,
                                     size_t count,
                                     const struct tp_rows *rows,
                                     void *destination,
                                     size_t destination_bytes,
                                     size_t row_pitch,
                                     size_t slice_pitch,
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
 Makes a pool that keeps at most `keep_bytes_max` between uses, and stores the handle in `*pool`. `kind` is one of
 `tp_memory_kind`.

 The caller owns the handle and frees it with `tp_pool_free`.

 # Safety

 `pool` is null or valid for a write.
 */
enum tp_status tp_pool_create(int32_t kind,
                              size_t keep_bytes_max,
                              struct tp_pool **pool);

/*
 The same with pinned memory of the transfer's driver, which its device reaches at full speed. Such memory cannot
 be paged out: keep it small. It keeps the driver's context alive.

 # Safety

 `transfer` is null or a live handle; `pool` is null or valid for a write.
 */
enum tp_status tp_pool_create_pinned(const struct tp_transfer *transfer,
                                     size_t keep_bytes_max,
                                     struct tp_pool **pool);

/*
 Frees the handle and the memory that the pool keeps; NULL is none. Buffers in use stay, and are freed for good
 by `tp_buffer_free`.

 # Safety

 `pool` is null or from a `tp_pool_create*`, and is not used afterwards.
 */
enum tp_status tp_pool_free(struct tp_pool *pool);

/*
 Frees the memory that the pool keeps and nobody uses.

 # Safety

 `pool` is null or a live handle.
 */
enum tp_status tp_pool_trim(const struct tp_pool *pool);

/*
 Takes a buffer of at least `bytes` bytes from the pool, or makes one, and stores the handle in `*buffer`. Its
 content is whatever it was; it begins on a page.

 The caller owns the handle and frees it with `tp_buffer_free`. TP_ERROR_INVALID: 0 bytes. TP_ERROR_MEMORY: there
 is not so much, or the limit of locked or pinned memory is reached. Cost: a lock if one fits, else a mapping and
 its page faults.

 # Safety

 `pool` is null or a live handle; `buffer` is null or valid for a write.
 */
enum tp_status tp_pool_take(const struct tp_pool *pool,
                            size_t bytes,
                            struct tp_buffer **buffer);

/*
 Stores where the buffer begins and how many bytes were asked for. Valid until `tp_buffer_free`.

 # Safety

 `buffer` is null or a live handle; `data` and `bytes` are null or valid for a write.
 */
enum tp_status tp_buffer_data(const struct tp_buffer *buffer, void **data, size_t *bytes);

/*
 Gives the buffer back to its pool; NULL is none. No transfer may be using it.

 # Safety

 `buffer` is null or from `tp_pool_take`; neither it nor its bytes are used afterwards.
 */
enum tp_status tp_buffer_free(struct tp_buffer *buffer);

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

/*
 Makes transfers for a device of an OpenCL context and stores the handle in `*transfer`.

 `context` is the program's cl_context, `device` its cl_device_id, `library` the file of the OpenCL loader that
 they come from (NULL: libOpenCL.so.1); it is opened at run time and stays open. `log` may be NULL. The caller
 owns the handle and frees it with `tp_transfer_free`. Without a calibration cold destinations are prefaulted by
 a rule table, and all else is the driver's own call.

 TP_ERROR_UNSUPPORTED: no such loader, or older than OpenCL 1.2. TP_ERROR_DRIVER: the device is not one of the
 context's, or the driver gives no queue; the log has its code.

 # Safety

 `context` and `device` are null or live and of that loader; `library` is null or a C string; `log` is null or
 valid for a read; `transfer` is null or valid for a write.
 */
enum tp_status tp_transfer_create(void *context,
                                  void *device,
                                  const char *library,
                                  const struct tp_log *log,
                                  struct tp_transfer **transfer);

/*
 Frees the handle and its pinned and device memory; NULL is none. No call may be under way with it.
 TP_ERROR_BUSY: its log is being called; nothing was freed.

 # Safety

 `transfer` is null or from `tp_transfer_create`, and is not used afterwards.
 */
enum tp_status tp_transfer_free(struct tp_transfer *transfer);

/*
 Gives pinned and device memory back that is not in use. Waits for queues of the library's own.

 # Safety

 `transfer` is null or a live handle.
 */
enum tp_status tp_transfer_trim(const struct tp_transfer *transfer);

/*
 Measures the device for about `budget_ns` on buffers of its own, and from now on chooses by what it found.

 The device should be idle. `folder` is NULL or where the result is stored, one file per device, driver and
 machine, by an atomic rename; the files of `towpath bench calibrate` are the same. Blocks; two times 64 MiB of
 host memory at most. TP_ERROR_DRIVER: the device could not be measured; nothing has changed. TP_ERROR_IO: it was
 measured and is in force, but not stored.

 # Safety

 `transfer` is null or a live handle; `folder` is null or a C string.
 */
enum tp_status tp_transfer_calibrate(const struct tp_transfer *transfer,
                                     uint64_t budget_ns,
                                     const char *folder);

/*
 Takes the stored calibration of this device, driver and machine from `folder`.

 TP_ERROR_NOT_FOUND: there is none. TP_ERROR_DAMAGED: there is a file that cannot be used. Both leave everything
 as it was.

 # Safety

 `transfer` is null or a live handle; `folder` is null or a C string.
 */
enum tp_status tp_transfer_load(const struct tp_transfer *transfer,
                                const char *folder);

/*
 Reads `bytes` bytes of a buffer from `offset` into host memory, and returns when they are there: a blocking
 `clEnqueueReadBuffer`, done by the way that was measured to be the fastest.

 `queue` is the program's cl_command_queue of the handle's context; the read has its place among the queue's
 commands. `report` may be NULL. TP_ERROR_INVALID: the bytes are not within the buffer, or the queue is of another
 context; nothing was read. TP_ERROR_DRIVER: the driver refused its own call; its code is in the report.

 # Safety

 `transfer` is null or a live handle; `queue` and `buffer` are null or live; `to` is null or valid for writes of
 `bytes` bytes that nobody else uses meanwhile; `report` is null or valid for a write.
 */
enum tp_status tp_transfer_read_buffer(const struct tp_transfer *transfer,
                                       void *queue,
                                       void *buffer,
                                       size_t offset,
                                       void *to,
                                       size_t bytes,
                                       struct tp_transfer_report *report);

/*
 Writes `bytes` bytes of host memory to a buffer from `offset` on, and returns when the program may change its
 memory: a blocking `clEnqueueWriteBuffer`. As `tp_transfer_read_buffer`.

 # Safety

 As `tp_transfer_read_buffer`, with `from` valid for reads.
 */
enum tp_status tp_transfer_write_buffer(const struct tp_transfer *transfer,
                                        void *queue,
                                        void *buffer,
                                        size_t offset,
                                        const void *from,
                                        size_t bytes,
                                        struct tp_transfer_report *report);

/*
 Reads a box of an image into `to_bytes` bytes of host memory: a blocking `clEnqueueReadImage`. As
 `tp_transfer_read_buffer`; TP_ERROR_INVALID also if the box is not within the image, or its rows do not fit
 `to_bytes`. Bytes between rows stay as they are.

 # Safety

 As `tp_transfer_read_buffer`; `part` is null or valid for a read.
 */
enum tp_status tp_transfer_read_image(const struct tp_transfer *transfer,
                                      void *queue,
                                      void *image,
                                      const struct tp_image_box *part,
                                      void *to,
                                      size_t to_bytes,
                                      struct tp_transfer_report *report);

/*
 Writes rows of host memory to a box of an image: a blocking `clEnqueueWriteImage`. As `tp_transfer_read_image`.

 # Safety

 As `tp_transfer_read_image`, with `from` valid for reads.
 */
enum tp_status tp_transfer_write_image(const struct tp_transfer *transfer,
                                       void *queue,
                                       void *image,
                                       const struct tp_image_box *part,
                                       const void *from,
                                       size_t from_bytes,
                                       struct tp_transfer_report *report);

/*
 Writes the `bytes` bytes from `from` of the pieces, end to end, to a buffer from `offset` on.

 Returns when the program may change the pieces. One read and one write per byte on the host. In several commands
 of the queue: another thread's command may come between them. `report` may be NULL. Errors as
 `tp_transfer_write_buffer` and `tp_pieces_gather`; after TP_ERROR_DRIVER the buffer may hold a part.

 # Safety

 As `tp_transfer_write_buffer` and `tp_pieces_gather`.
 */
enum tp_status tp_transfer_write_buffer_pieces(const struct tp_transfer *transfer,
                                               void *queue,
                                               void *buffer,
                                               size_t offset,
                                               const struct tp_piece *pieces,
                                               size_t count,
                                               size_t from,
                                               size_t bytes,
                                               struct tp_transfer_report *report);

/*
 Writes rows that lie in pieces to a box of an image. The box's pitches are those of the rows in the pieces, whose
 first byte is the one at `from`.

 As `tp_transfer_write_buffer_pieces`, in commands of whole rows.

 # Safety

 As `tp_transfer_write_image` and `tp_pieces_gather`.
 */
enum tp_status tp_transfer_write_image_pieces(const struct tp_transfer *transfer,
                                              void *queue,
                                              void *image,
                                              const struct tp_image_box *part,
                                              const struct tp_piece *pieces,
                                              size_t count,
                                              size_t from,
                                              struct tp_transfer_report *report);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TOWPATH_H */
