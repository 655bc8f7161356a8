//! Vulkan layer that saves a frame for comparison.
