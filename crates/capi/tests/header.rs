//! The header in the tree is the one that this crate makes.

use std::path::Path;

/// Set to 1, the test writes the header instead of comparing it.
const UPDATE: &str = "TOWPATH_UPDATE_HEADER";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a switch for developers, not a setting"
)]
fn the_header_is_what_this_crate_makes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/lib.rs"))
        .generate()
        .unwrap()
        .write(&mut made);
    let path = root.join("include/towpath.h");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/towpath.h is not up to date: run this test with {UPDATE}=1"
    );
}
