//! Measurements and ledgers as text and data.
