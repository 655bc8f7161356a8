//! The layer in front of the real library on a software GL: the same pixels, the program's own lists back,
//! nothing left behind.

#![expect(
    clippy::unwrap_used,
    clippy::decimal_bitwise_operands,
    reason = "tests"
)]

mod hostile;
mod replaced;

use std::process::Command;

use towpath_ledger::Outcome;
use towpath_needs::{Need, artifact, can_run};
use towpath_transfer::textures::trace;
use towpath_virgl_client::{Api, Attached, Format, Guest, Renderer, Spec};

/// Runs the test named `name` of this file again in a process of its own: the library has one state, and
/// settings are read once.
fn in_child(name: &str, fix: &str, preload: bool) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("TOWPATH_FIX", fix);
    if preload {
        command.env("LD_PRELOAD", artifact("libtowpath_virgl_layer.so"));
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.contains("1 passed")
}

macro_rules! in_children {
    ($($name:ident, $inner:literal, $fix:literal;)+) => {$(
        #[test]
        fn $name() {
            if can_run(&[Need::Virglrenderer]) {
                assert!(in_child($inner, $fix, true));
            }
        }
    )+};
}

in_children! {
    pixels_are_equal_without_the_fix, "inner_pixels", "none";
    pixels_are_equal_with_views_at_once, "inner_pixels", "upload";
    pixels_are_equal_with_views_when_they_pay, "inner_pixels", "auto";
    many_attachments_leave_nothing_behind, "inner_leaks", "upload";
    foreign_memory_and_misuse_are_left_to_the_library, "inner_misuse", "upload";
}

/// What the layer did stands in the ledger: bytes, calls, and whether views were used.
#[test]
fn transfers_are_recorded_with_what_was_done() {
    if !can_run(&[Need::Virglrenderer]) {
        return;
    }
    for (fix, outcome) in [("none", Outcome::Observed), ("upload", Outcome::ViewUsed)] {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "inner_leaks", "--ignored", "--nocapture"])
            .env("TOWPATH_FIX", fix)
            .env("TOWPATH_LEDGER", folder.path())
            .env("TOWPATH_TEST_VIEWS", if fix == "none" { "0" } else { "4" })
            .env("LD_PRELOAD", artifact("libtowpath_virgl_layer.so"))
            .output()
            .unwrap();
        assert!(
            status.status.success(),
            "{}",
            String::from_utf8_lossy(&status.stdout)
        );
        let (ledgers, problems) = towpath_ledger::read_folder(folder.path());
        assert!(problems.is_empty(), "{problems:?}");
        let ledger = ledgers
            .iter()
            .find(|ledger| ledger.library() == "virgl-layer")
            .unwrap();
        let sites = ledger.sites();
        let site = sites
            .iter()
            .find(|site| site.call == "virgl_renderer_transfer_write_iov")
            .unwrap();
        assert_eq!(site.calls, 3000);
        assert_eq!(site.bytes, 3000 * 64 * 64 * 4);
        let done = site
            .outcomes
            .iter()
            .find(|done| done.number == outcome.number());
        assert_eq!(
            done.map(|done| done.calls),
            Some(3000),
            "{:?}",
            site.outcomes
        );
    }
}

/// With a log file, the choice for each texture stands there in words when its list goes.
#[test]
fn the_choice_is_explained_in_the_log() {
    if !can_run(&[Need::Virglrenderer]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inner_pixels", "--ignored", "--nocapture"])
        .env("TOWPATH_FIX", "auto")
        .env("TOWPATH_LOG", &path)
        .env("LD_PRELOAD", artifact("libtowpath_virgl_layer.so"))
        .output()
        .unwrap();
    assert!(status.status.success());
    let log = std::fs::read_to_string(&path).unwrap();
    assert_eq!(log.lines().count(), 4, "{log}");
    for (line, pieces) in log.lines().zip([2, 64, 22, 576]) {
        assert!(line.contains(&format!(": {pieces} pieces of ")), "{line}");
        assert!(line.contains(" KiB, used "), "{line}");
        assert!(line.contains(": view") || line.contains(": copy"), "{line}");
    }
    assert!(log.contains(": view"), "{log}");
}

/// A recorded stream holds what the program did, and plays.
#[test]
fn a_recorded_stream_can_be_played() {
    if !can_run(&[Need::Virglrenderer]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inner_pixels", "--ignored", "--nocapture"])
        .env("TOWPATH_TEXTURE_TRACE", &path)
        .env("LD_PRELOAD", artifact("libtowpath_virgl_layer.so"))
        .output()
        .unwrap();
    assert!(status.status.success());
    let events = trace::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let seen = trace::summary(&events);
    assert_eq!(
        (seen.textures, seen.transfers, seen.reuse_max),
        (5, 576, 182)
    );
    let layout = trace::Layout::of(&events);
    assert!(layout.bytes() > 3 << 20, "{}", layout.bytes());
}

/// Bytes in which a wrong stride, a wrong piece or a shifted row shows.
fn pattern(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes)
        .map(|at| {
            let mixed = (at ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed.to_le_bytes()[7]
        })
        .collect()
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("towpath-ram"))
        .count()
}

#[test]
#[ignore = "runs in a child"]
fn inner_pixels() {
    let api = Api::linked().unwrap();
    let renderer = Renderer::new(&api).unwrap();
    let mut guest = Guest::new(64 << 20, 4096, 3).unwrap();
    for (handle, (format, side, rounds)) in (1..).zip([
        (Format::Rgba8, 32, 3),
        (Format::Rgba8, 33, 60),
        (Format::Rgba8, 256, 90),
        (Format::R8, 300, 90),
        (Format::Rgba8, 768, 40),
    ]) {
        let spec = Spec {
            handle,
            format,
            width: side,
            height: side - 1,
        };
        let pieces = guest.take(spec.bytes()).unwrap();
        let mut list = Attached::new(&guest, &pieces);
        renderer.create(&api, &spec).unwrap();
        renderer.attach(&api, spec.handle, &mut list).unwrap();
        for round in 0..rounds {
            let bytes = pattern(spec.bytes(), round);
            guest.write(&pieces, &bytes);
            let whole = [0, 0, spec.width, spec.height];
            renderer
                .write(&api, spec.handle, whole, spec.stride(), 0)
                .unwrap();
            guest.write(&pieces, &vec![0; bytes.len()]);
            renderer
                .read(&api, spec.handle, whole, spec.stride(), 0)
                .unwrap();
            assert!(guest.read(&pieces) == bytes, "{spec:?} round {round}");
        }
        // A box inside, with the whole picture's stride.
        let bytes = pattern(spec.bytes(), 99);
        guest.write(&pieces, &bytes);
        let inner = [3, 5, 17, 9];
        let offset = u64::from(5 * spec.stride() + 3 * format.bytes());
        renderer
            .write(&api, spec.handle, inner, spec.stride(), offset)
            .unwrap();
        guest.write(&pieces, &vec![0; bytes.len()]);
        renderer
            .read(&api, spec.handle, inner, spec.stride(), offset)
            .unwrap();
        let seen = guest.read(&pieces);
        for (at, (&seen, &right)) in seen.iter().zip(&bytes).enumerate() {
            let row = at / spec.stride() as usize;
            let column = at % spec.stride() as usize / format.bytes() as usize;
            let is_inside = (5..14).contains(&row) && (3..20).contains(&column);
            let right = if is_inside { right } else { 0 };
            assert_eq!(seen, right, "{spec:?} row {row} column {column}");
        }
        assert!(
            renderer.detach(&api, spec.handle, &list),
            "the program's own list"
        );
        renderer.unref(&api, spec.handle);
    }
    assert_eq!(mappings(), 1, "views end with their lists");
    renderer.cleanup(&api);
}

#[test]
#[ignore = "runs in a child"]
fn inner_leaks() {
    let api = Api::linked().unwrap();
    let renderer = Renderer::new(&api).unwrap();
    let mut guest = Guest::new(8 << 20, 4096, 4).unwrap();
    let spec = Spec {
        handle: 1,
        format: Format::Rgba8,
        width: 64,
        height: 64,
    };
    #[expect(clippy::disallowed_methods, reason = "told by the parent")]
    let views = std::env::var("TOWPATH_TEST_VIEWS").map_or(4, |text| text.parse().unwrap());
    let mut counts = Vec::new();
    for round in 0..3000 {
        let pieces = guest.take(spec.bytes()).unwrap();
        let mut list = Attached::new(&guest, &pieces);
        renderer.create(&api, &spec).unwrap();
        renderer.attach(&api, 1, &mut list).unwrap();
        renderer
            .write(&api, 1, [0, 0, 64, 64], spec.stride(), 0)
            .unwrap();
        assert_eq!(mappings(), 1 + views, "one view of four pieces");
        // Every third resource ends while its list is attached.
        if round % 3 != 0 {
            assert!(renderer.detach(&api, 1, &list));
        }
        renderer.unref(&api, 1);
        guest.give_back(&pieces);
        if round % 1000 == 500 {
            let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
            counts.push((fds, mappings()));
        }
    }
    assert_eq!(counts, [counts[0]; 3], "descriptors and mappings");
    assert_eq!(mappings(), 1);
}

#[test]
#[ignore = "runs in a child"]
fn inner_misuse() {
    let api = Api::linked().unwrap();
    let renderer = Renderer::new(&api).unwrap();
    let mut guest = Guest::new(8 << 20, 4096, 5).unwrap();
    let spec = Spec {
        handle: 7,
        format: Format::Rgba8,
        width: 64,
        height: 64,
    };
    let pieces = guest.take(spec.bytes()).unwrap();
    let mut list = Attached::new(&guest, &pieces);
    assert!(
        renderer.attach(&api, 7, &mut list).is_err(),
        "no such resource"
    );
    assert!(renderer.write(&api, 7, [0, 0, 1, 1], 256, 0).is_err());
    renderer.create(&api, &spec).unwrap();
    renderer.attach(&api, 7, &mut list).unwrap();
    let mut second = Attached::new(&guest, &pieces);
    let _library_decides = renderer.attach(&api, 7, &mut second);
    let bytes = pattern(spec.bytes(), 1);
    guest.write(&pieces, &bytes);
    renderer
        .write(&api, 7, [0, 0, 64, 64], spec.stride(), 0)
        .unwrap();
    for (region, stride, offset) in [
        ([0, 0, 65, 64], 256, 0),
        ([0, 0, 64, 64], 256, 1 << 40),
        ([u32::MAX, 0, 64, 64], 256, 0),
    ] {
        let answer = renderer.write(&api, 7, region, stride, offset);
        assert!(answer.is_err(), "{region:?} {stride} {offset}");
    }
    // The library adds up rows in 32 bits and lets these pass (its bounds check, 0.10.4): with many pieces
    // it copies short, with one piece GL would read far outside. Seen to end the process when the layer
    // left one piece in place.
    for stride in [u32::MAX, 0x8000_0000, 255, 1] {
        let _library_decides = renderer.write(&api, 7, [0, 0, 64, 64], stride, 0);
        let _library_decides = renderer.read(&api, 7, [0, 0, 64, 64], stride, 0);
        let mut words = [43 | 13 << 16, 7, 0, 0, stride, 0, 0, 0, 0, 64, 64, 1, 0, 1];
        let _library_decides = renderer.submit(&api, &mut words);
    }
    guest.write(&pieces, &bytes);
    renderer
        .write(&api, 7, [0, 0, 64, 64], spec.stride(), 0)
        .unwrap();
    guest.write(&pieces, &vec![0; bytes.len()]);
    renderer
        .read(&api, 7, [0, 0, 64, 64], spec.stride(), 0)
        .unwrap();
    assert!(guest.read(&pieces) == bytes);
    assert!(renderer.detach(&api, 7, &list));
    let _again = renderer.detach(&api, 7, &list);
    renderer.unref(&api, 7);
    renderer.unref(&api, 7);
    assert_eq!(mappings(), 1);
    let mut words = [43 | 13 << 16, 7, 0, 0, 0, 0, 0, 0, 0, 64, 64, 1, 0, 1];
    let _refused = renderer.submit(&api, &mut words);
}
