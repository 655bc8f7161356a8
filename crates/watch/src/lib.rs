//! Starts programs and watches them from outside.
