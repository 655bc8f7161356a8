//! libtowpath for C and C++ programs.
