//! libtowpath: the same fixes for C and C++ programs.
//!
//! # What this crate does
//!
//! - Exports `tp_*` functions over `cache`, `transfer`, `memory`, `sync` and `measure`; `include/towpath.h` is
//!   generated from this crate and compared by the tests.
//!
//! # What it does not do
//!
//! - It keeps no state outside of handles that a caller could notice, installs no handler and prints nothing.
//!
//! # Invariants
//!
//! - Every function stands behind a wall: a panic becomes `TP_ERROR_DEFECT`.
//! - What a `*_create` or `*_open` function gave is freed by its `*_free` function, by nothing else.
//! - A number of `tp_status` is never used for another meaning.

#![expect(unsafe_code, reason = "the border to C")]
#![expect(non_camel_case_types, reason = "the names are those of C")]

mod blob;
mod boundary;
mod cache;
mod frames;
mod gate;
mod gather;
mod log;
mod measure;
mod memory;
mod pieces;
mod pool;
mod source;
mod status;
mod sync;
mod transfer;

pub use blob::{
    tp_blob, tp_blob_data, tp_blob_free, tp_blob_open, tp_blob_save, tp_blob_set_log,
    tp_save_report, tp_saved,
};
pub use cache::{
    tp_cache, tp_cache_blob, tp_cache_free, tp_cache_identity, tp_cache_note_created,
    tp_cache_note_refused, tp_cache_open, tp_cache_save, tp_cache_stats, tp_cache_stats_get,
};
pub use frames::{
    TP_METRIC_DEFINITION, TP_METRIC_NAME, TP_METRIC_UNIT, tp_frames_metrics, tp_metric,
};
pub use log::{tp_log, tp_log_level, tp_log_write};
pub use measure::{tp_judgement, tp_measure_paired, tp_measure_unpaired, tp_question, tp_verdict};
pub use memory::{tp_memory_cold, tp_memory_prefault};
pub use pieces::{
    tp_file_piece, tp_piece, tp_pieces_gather, tp_pieces_gather_rows, tp_rows, tp_view,
    tp_view_create, tp_view_data, tp_view_free,
};
pub use pool::{
    tp_buffer, tp_buffer_data, tp_buffer_free, tp_memory_kind, tp_pool, tp_pool_create,
    tp_pool_create_pinned, tp_pool_free, tp_pool_take, tp_pool_trim,
};
pub use source::tp_blob_source;
pub use status::{tp_status, tp_strerror};
pub use sync::provider::{
    tp_provider, tp_provider_create_drm, tp_provider_create_shared, tp_provider_free,
    tp_sync_create_in, tp_sync_import,
};
pub use sync::wait::{TP_WAIT_ALL, TP_WAIT_FOR_SUBMIT, tp_sync_wait};
pub use sync::{
    tp_deadline_after, tp_sync, tp_sync_create, tp_sync_eventfd, tp_sync_export,
    tp_sync_export_file, tp_sync_free, tp_sync_import_file, tp_sync_promise, tp_sync_query,
    tp_sync_reset, tp_sync_signal,
};
pub use transfer::calls::{
    tp_image_box, tp_mechanism, tp_transfer_read_buffer, tp_transfer_read_image,
    tp_transfer_report, tp_transfer_write_buffer, tp_transfer_write_image,
};
pub use transfer::gathered::{tp_transfer_write_buffer_pieces, tp_transfer_write_image_pieces};
pub use transfer::{
    tp_transfer, tp_transfer_calibrate, tp_transfer_create, tp_transfer_free, tp_transfer_load,
    tp_transfer_trim,
};
