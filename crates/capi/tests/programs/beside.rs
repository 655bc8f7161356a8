//! Other copies of the library, and layers of ours, in one process with it.
#![expect(unsafe_code, reason = "functions of a library that is opened here")]

use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

use libloading::{Library, Symbol};
use std::os::fd::{AsFd as _, AsRawFd as _};
use towpath::{tp_file_piece, tp_piece, tp_view};
use towpath_needs::{Need, artifact, can_run};
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec};

use crate::common::{Installed, example, says_ok, source};

#[test]
fn two_copies_of_the_library_live_in_one_process() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("copies.c"), &["-std=c11", "-ldl"]);
    says_ok(
        Command::new(program)
            .arg(installed.copy("one.so"))
            .arg(installed.copy("two.so")),
    );
}

/// Once as usual, once with the program's names shown to all, which then come before the library's.
#[test]
fn a_linked_copy_and_an_opened_one_live_in_one_process() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    for more in [&[][..], &["-rdynamic"]] {
        let program = installed.build_with_archive(&source("linked.c"), more);
        says_ok(Command::new(program).arg(installed.path().join("libtowpath.so")));
    }
}

#[test]
fn the_drm_shim_lives_beside_two_copies() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("copies.c"), &["-std=c11", "-ldl"]);
    let ledger = installed.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    says_ok(
        Command::new(program)
            .env("LD_PRELOAD", artifact("libtowpath_drm_shim.so"))
            .env("TOWPATH_DRM_EMULATE", "local")
            .env("TOWPATH_LEDGER", &ledger)
            .arg("--node")
            .arg(installed.copy("one.so"))
            .arg(installed.copy("two.so")),
    );
    assert_eq!(ledgers(&ledger), 1, "the shim's, and none of the library's");
}

#[test]
fn the_drm_shim_lives_beside_an_example() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &example("syncobj.c"), &["-std=c99"]);
    says_ok(
        Command::new(program)
            .env("LD_PRELOAD", artifact("libtowpath_drm_shim.so"))
            .env("TOWPATH_DRM_EMULATE", "shared")
            .env("TOWPATH_LEDGER", installed.path()),
    );
}

/// Both bring the destination in: the layer finds it warm where the library was first.
#[test]
fn the_opencl_layer_lives_beside_the_readback_example() {
    if !can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &example("readback.c"), &["-std=c11", "-lOpenCL"]);
    let ledger = installed.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    says_ok(
        Command::new(program)
            .env("POCL_CACHE_DIR", installed.path())
            .env("OPENCL_LAYERS", artifact("libtowpath_opencl_layer.so"))
            .env("TOWPATH_FIX", "readback")
            .env("TOWPATH_LEDGER", &ledger),
    );
    assert_eq!(ledgers(&ledger), 1);
}

/// One guest's memory, seen by the layer's view under virglrenderer and by the library's: as one, and gathered.
#[test]
fn the_virgl_layer_lives_beside_the_library() {
    if !can_run(&[Need::Virglrenderer]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inner = ["--exact", "beside::inner_virgl", "--ignored", "--nocapture"];
    let done = Command::new(std::env::current_exe().unwrap())
        .args(inner)
        .env("TOWPATH_FIX", "upload")
        .env("TOWPATH_LEDGER", folder.path())
        .env("LD_PRELOAD", artifact("libtowpath_virgl_layer.so"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && text.contains("1 passed"),
        "{text}{errors}"
    );
    assert_eq!(
        ledgers(folder.path()),
        1,
        "the layer's, and none of the library's"
    );
}

#[test]
#[ignore = "runs in a child"]
fn inner_virgl() {
    let api = Api::linked().unwrap();
    let renderer = Renderer::new(&api).unwrap();
    let mut guest = Guest::new(8 << 20, 4096, 3).unwrap();
    let spec = Spec {
        handle: 1,
        format: Format::Rgba8,
        width: 64,
        height: 64,
    };
    let pieces = guest.take(spec.bytes()).unwrap();
    let mut list = Attached::new(&guest, &pieces);
    renderer.create(&api, &spec).unwrap();
    renderer.attach(&api, 1, &mut list).unwrap();
    let library = Opened::new();
    let view = library.view(&guest, &pieces);
    for round in 0..20_u8 {
        let bytes: Vec<u8> = (0..spec.bytes())
            .map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1] ^ round)
            .collect();
        guest.write(&pieces, &bytes);
        let whole = [0, 0, spec.width, spec.height];
        renderer.write(&api, 1, whole, spec.stride(), 0).unwrap();
        assert!(library.gathered(&guest, &pieces) == bytes);
        assert!(library.seen(view) == bytes);
        guest.write(&pieces, &vec![0; bytes.len()]);
        renderer.read(&api, 1, whole, spec.stride(), 0).unwrap();
        assert!(library.seen(view) == bytes, "what GL gave back");
    }
    library.free(view);
    assert!(renderer.detach(&api, 1, &list), "the program's own list");
    renderer.unref(&api, 1);
    renderer.cleanup(&api);
}

/// `libtowpath.so`, opened as a program's plug-in would.
struct Opened(Library);

impl Opened {
    fn new() -> Self {
        // SAFETY: opening the library runs none of its code.
        Self(unsafe { Library::new(artifact("libtowpath.so")) }.unwrap())
    }

    fn function<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: the type is that of the header, which the callers below name.
        unsafe { self.0.get(name) }.unwrap()
    }

    fn gathered(&self, guest: &Guest, pieces: &[Piece]) -> Vec<u8> {
        type Gather =
            unsafe extern "C" fn(*const tp_piece, usize, usize, *mut c_void, usize, i32) -> i32;
        let runs: Vec<tp_piece> = pieces
            .iter()
            .map(|piece| guest.bytes(*piece).unwrap())
            .map(|run| tp_piece {
                address: run.as_ptr().cast_const().cast(),
                bytes: run.len(),
            })
            .collect();
        let mut to = vec![0; runs.iter().map(|run| run.bytes).sum()];
        let gather: Symbol<'_, Gather> = self.function("tp_pieces_gather");
        // SAFETY: live pieces of the guest's memory, and as many bytes as they have.
        let status = unsafe {
            gather(
                runs.as_ptr(),
                runs.len(),
                0,
                to.as_mut_ptr().cast(),
                to.len(),
                1,
            )
        };
        assert_eq!(status, 0);
        to
    }

    fn view(&self, guest: &Guest, pieces: &[Piece]) -> *mut tp_view {
        type Create = unsafe extern "C" fn(*const tp_file_piece, usize, *mut *mut tp_view) -> i32;
        let fd = guest.ram().file().as_fd().as_raw_fd();
        let runs: Vec<tp_file_piece> = pieces
            .iter()
            .map(|piece| tp_file_piece {
                fd,
                offset: piece.address,
                bytes: piece.len,
            })
            .collect();
        let create: Symbol<'_, Create> = self.function("tp_view_create");
        let mut view = std::ptr::null_mut();
        // SAFETY: pieces of the guest's file, and a place for the handle.
        let status = unsafe { create(runs.as_ptr(), runs.len(), &raw mut view) };
        assert_eq!(status, 0);
        view
    }

    fn seen(&self, view: *mut tp_view) -> Vec<u8> {
        type Data = unsafe extern "C" fn(*const tp_view, *mut *mut c_void, *mut usize) -> i32;
        let data: Symbol<'_, Data> = self.function("tp_view_data");
        let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: a live view, and places for the answers.
        let status = unsafe { data(view, &raw mut start, &raw mut bytes) };
        assert_eq!(status, 0);
        // SAFETY: the view's own bytes; nobody writes to the guest's memory meanwhile.
        unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) }.to_vec()
    }

    fn free(&self, view: *mut tp_view) {
        let free: Symbol<'_, unsafe extern "C" fn(*mut tp_view) -> i32> =
            self.function("tp_view_free");
        // SAFETY: a live view that nobody uses afterwards.
        assert_eq!(unsafe { free(view) }, 0);
    }
}

pub(crate) fn ledgers(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap();
    names
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "ledger"))
        .count()
}
