//! Vulkan layer: pipeline cache, waits, frame log for unmodified programs.
