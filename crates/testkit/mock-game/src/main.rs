//! A game's pipeline and frame load on the mock driver.

fn main() {}
