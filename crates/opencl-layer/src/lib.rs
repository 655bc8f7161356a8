//! OpenCL layer: readback and upload for unmodified programs.
