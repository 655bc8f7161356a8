//! Vulkan: the loader's contract with layers and drivers, and an extension that `ash` 0.38 lacks.

pub mod layer;
pub mod pipeline_binary;
