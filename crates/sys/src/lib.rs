//! Layouts and numbers fixed by others.
