//! Clocks, samples, statistics and verdicts.
