//! A disk whose power can be cut after any operation.
