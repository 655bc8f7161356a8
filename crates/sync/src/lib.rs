//! Timelines and binary sync objects.
