//! Wrong calls, and whatever else a program may do to the library.

use std::process::Command;

use towpath_needs::{Need, can_run};

use crate::common::{Installed, says_ok, source, valgrind};

#[test]
fn wrong_calls_get_a_status_and_change_nothing() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("misuse.c"), &["-std=c11", "-lm"]);
    says_ok(Command::new(program).arg(installed.path().join("blobs")));
}

/// Under Valgrind a look beyond a handle of another kind is an error, whatever the answer.
#[test]
fn wrong_calls_read_nothing_that_is_not_theirs() {
    if !can_run(&[Need::Cc, Need::Valgrind]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("misuse.c"), &["-std=c11"]);
    let mut valgrind = valgrind();
    valgrind.arg(program).arg(installed.path().join("blobs"));
    says_ok(valgrind.arg("watched"));
}

#[test]
fn threads_forks_limits_and_closing_do_no_harm() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("hostile.c"), &["-std=c11", "-ldl"]);
    says_ok(
        Command::new(program)
            .arg(installed.copy("another.so"))
            .arg(installed.path().join("blobs")),
    );
}
