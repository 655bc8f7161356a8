//! `syncobj_basic`: objects and descriptors.

use std::os::fd::{AsFd, AsRawFd};

use libc::EINVAL;
use towpath_sys::drm::{
    CREATE_SIGNALED, FD_SYNC_FILE, SyncobjDestroy, SyncobjFdToHandle, SyncobjHandleToFd,
};

use super::{empty, ops_rule, ready, same};
use crate::Rule;
use crate::ops::{Ops, POLL};

fn name(leaf: &str) -> String {
    format!("syncobj_basic/{leaf}")
}

pub(super) fn add(rules: &mut Vec<Rule>) {
    ops_rule(rules, name("bad-destroy"), |ops| {
        same(ops.destroy(0xdead), Err(EINVAL), "destroy")
    });
    ops_rule(rules, name("bad-create-flags"), |ops| {
        same(ops.create(0xdead_0000), Err(EINVAL), "create")
    });
    ops_rule(rules, name("bad-handle-to-fd"), |ops| {
        same(ops.export(0xdead, 0, 0).map(drop), Err(EINVAL), "export")
    });
    ops_rule(rules, name("bad-fd-to-handle"), |ops| {
        same(import(ops, -1, 0, 0), Err(EINVAL), "import")
    });
    ops_rule(rules, name("illegal-fd-to-handle"), |ops| {
        let file = std::fs::File::open("/dev/null").map_err(|error| error.to_string())?;
        same(ops.import(file.as_fd()).map(drop), Err(EINVAL), "import")
    });
    ops_rule(rules, name("bad-flags-handle-to-fd"), |ops| {
        let [handle] = empty(ops)?;
        same(
            ops.export(handle, 0xffff_fffc, 0).map(drop),
            Err(EINVAL),
            "export",
        )
    });
    ops_rule(rules, name("bad-flags-fd-to-handle"), |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        same(
            import(ops, fd.as_raw_fd(), 0xffff_fffc, 0),
            Err(EINVAL),
            "import",
        )
    });
    ops_rule(rules, name("bad-pad-handle-to-fd"), |ops| {
        let [handle] = empty(ops)?;
        let argument = SyncobjHandleToFd {
            handle,
            pad: 1,
            fd: -1,
            ..SyncobjHandleToFd::default()
        };
        same(
            ops.raw_handle_to_fd(argument).map(drop),
            Err(EINVAL),
            "export",
        )
    });
    ops_rule(rules, name("bad-pad-fd-to-handle"), |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        same(import(ops, fd.as_raw_fd(), 0, 1), Err(EINVAL), "import")
    });
    ops_rule(rules, name("bad-destroy-pad"), |ops| {
        let [handle] = empty(ops)?;
        let answer = ops
            .raw_destroy(SyncobjDestroy {
                handle,
                pad: 0xdead,
            })
            .map(drop);
        same(answer, Err(EINVAL), "destroy")?;
        same(ops.signal(&[handle], 0), Ok(()), "the object after it")
    });
    ops_rule(rules, name("create-signaled"), |ops| {
        let handle = ready(ops.create(CREATE_SIGNALED), "create")?;
        same(ops.wait(&[handle], POLL, 0).0, Ok(()), "wait")
    });
    ops_rule(rules, name("test-valid-cycle"), |ops| {
        let [first] = empty(ops)?;
        let fd = ready(ops.export(first, 0, 0), "export")?;
        let second = ready(ops.import(fd.as_fd()), "import")?;
        same(first == second, false, "one handle for both")?;
        ready(ops.destroy(first), "destroy")?;
        ready(ops.signal(&[second], 0), "signal of the second")?;
        ready(ops.destroy(second), "destroy")
    });
    ops_rule(rules, name("towpath-sync-file-errors"), |ops| {
        let [handle] = empty(ops)?;
        same(
            ops.export(handle, FD_SYNC_FILE, 0).map(drop),
            Err(EINVAL),
            "export of nothing",
        )?;
        let unknown = ops.export(0xdead, FD_SYNC_FILE, 0).map(drop);
        same(unknown, Err(libc::ENOENT), "export of an unknown handle")?;
        same(
            import(ops, -1, FD_SYNC_FILE, 0),
            Err(EINVAL),
            "no descriptor comes before no handle",
        )?;
        let plain = ready(ops.export(handle, 0, 0), "export")?;
        let answer = ops.import_sync_file(handle, plain.as_fd());
        same(
            answer,
            Err(EINVAL),
            "an object's descriptor is no sync file",
        )
    });
    ops_rule(
        rules,
        name("towpath-import-sync-file-needs-a-handle"),
        |ops| {
            // drm-rs issue 224 passed handle zero and always failed.
            let handle = ready(ops.create(CREATE_SIGNALED), "create")?;
            let file = ready(ops.export(handle, FD_SYNC_FILE, 0), "export")?;
            same(
                ops.import_sync_file(0, file.as_fd()),
                Err(libc::ENOENT),
                "handle zero",
            )?;
            let [target] = empty(ops)?;
            same(
                ops.import_sync_file(target, file.as_fd()),
                Ok(()),
                "an existing handle",
            )?;
            same(ops.wait(&[target], POLL, 0).0, Ok(()), "wait")
        },
    );
}

fn import(ops: Ops<'_>, fd: i32, flags: u32, pad: u32) -> Result<(), i32> {
    let argument = SyncobjFdToHandle {
        handle: 0,
        flags,
        fd,
        pad,
        point: 0,
    };
    ops.raw_fd_to_handle(argument).map(drop)
}
