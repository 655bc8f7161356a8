//! Vulkan: the loader's contract with layers and drivers, and an extension that `ash` 0.38 lacks.

pub mod layer;
pub mod pipeline_binary;

/// What a size is here, of structures with pointers in them: in a 64-bit process, and in a 32-bit one.
const fn by_width(wide: usize, narrow: usize) -> usize {
    if cfg!(target_pointer_width = "64") {
        wide
    } else {
        narrow
    }
}
