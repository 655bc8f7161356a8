//! Scripted OpenCL driver for tests.
