//! `cargo xtask setup|demo|test|deep|bench|dist`.

fn main() {}
