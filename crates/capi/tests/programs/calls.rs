//! What the functions do that no example shows.

use std::process::Command;

use towpath_needs::{Need, can_run};

use crate::common::{Installed, says_ok, source};

fn runs(name: &str) {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source(name), &["-std=c11", "-lm"]);
    says_ok(&mut Command::new(program));
}

#[test]
fn objects_pass_between_processes() {
    runs("share.c");
}

#[test]
fn frame_metrics_come_with_their_meaning() {
    runs("frames.c");
}

#[test]
fn the_header_is_strict_c99_and_cpp17() {
    if !can_run(&[Need::Cc, Need::Cxx]) {
        return;
    }
    let installed = Installed::new();
    let strict = ["-pedantic", "-Wconversion", "-Wshadow"];
    let header = source("header.c");
    let c99 = [&["-std=c99", "-Wstrict-prototypes"][..], &strict].concat();
    let program = installed.build("cc", &header, &c99);
    assert!(Command::new(program).status().unwrap().success());
    let cpp17 = [&["-std=c++17", "-xc++"][..], &strict].concat();
    let program = installed.build("c++", &header, &cpp17);
    assert!(Command::new(program).status().unwrap().success());
}
