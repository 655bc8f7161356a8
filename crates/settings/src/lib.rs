//! The one table of settings; calibration files.
