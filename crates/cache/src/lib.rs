//! Crash-safe store of driver blobs.
