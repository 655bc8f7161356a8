//! Boots a kernel in QEMU and runs a static test program in it.
