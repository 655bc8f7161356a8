//! Scripted Vulkan driver for tests.
