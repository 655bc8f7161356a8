//! Runs the rules over a device file: the kernel's, or one that a preloaded library answers for.
//!
//! `sync-conformance NODE [--sw-sync PATH] [--vgem NODE] [--fd-timeline] [--slow] [--only TEXT]`
#![expect(clippy::print_stdout, reason = "a test program reports on its output")]

use std::process::ExitCode;

use towpath_sync_conformance::target::Node;

fn main() -> ExitCode {
    let mut node = Node {
        path: String::new(),
        sw_sync: None,
        vgem: None,
        has_fd_timeline: false,
    };
    let (mut slow, mut only) = (false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--sw-sync" => node.sw_sync = arguments.next(),
            "--vgem" => node.vgem = arguments.next(),
            "--fd-timeline" => node.has_fd_timeline = true,
            "--slow" => slow = true,
            "--only" => only = arguments.next(),
            _ => node.path = argument,
        }
    }
    let (count, failed) = towpath_sync_conformance::run(&node, slow, only.as_deref());
    for failure in &failed {
        println!("FAILED {failure}");
    }
    println!("sync-conformance: {count} rules, {} failed", failed.len());
    if failed.is_empty() && count > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
