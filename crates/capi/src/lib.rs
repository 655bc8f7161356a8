//! libtowpath: the same fixes for C and C++ programs.
//!
//! # What this crate does
//!
//! - Exports `tp_*` functions over `memory`, `measure`, and the other libraries; `include/towpath.h` is
//!   generated from this crate and compared by the tests.
//!
//! # What it does not do
//!
//! - It keeps no global state, installs no handler, prints nothing and decides nothing.
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
mod frames;
mod measure;
mod memory;
mod pieces;
mod status;
mod sync;

pub use blob::{
    tp_blob, tp_blob_data, tp_blob_free, tp_blob_open, tp_blob_save, tp_blob_source,
    tp_save_report, tp_saved,
};
pub use frames::{
    TP_METRIC_DEFINITION, TP_METRIC_NAME, TP_METRIC_UNIT, tp_frames_metrics, tp_metric,
};
pub use measure::{tp_judgement, tp_measure_paired, tp_measure_unpaired, tp_question, tp_verdict};
pub use memory::{tp_memory_cold, tp_memory_prefault};
pub use pieces::{
    tp_file_piece, tp_piece, tp_pieces_gather, tp_view, tp_view_create, tp_view_data, tp_view_free,
};
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
