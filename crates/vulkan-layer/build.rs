//! Keeps the layer mapped once it was loaded.
//!
//! The loader unloads layers with their last instance. A program that destroys its instance and not its
//! device leaves a thread of ours behind, which must not lose its code.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
