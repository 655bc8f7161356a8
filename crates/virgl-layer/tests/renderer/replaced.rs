//! A program that puts other memory behind a texture, or guards it, while the layer has a view of it.

#![expect(unsafe_code, reason = "mappings at fixed addresses")]
#![expect(clippy::indexing_slicing, reason = "tests")]

use std::ffi::c_void;
use std::ptr;

use towpath_needs::{Need, can_run};
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec, commands};

use crate::{in_child, pattern};

#[test]
fn what_is_mapped_over_a_piece_is_what_is_transferred() {
    if can_run(&[Need::Virglrenderer]) {
        for fix in ["none", "upload"] {
            assert!(in_child("replaced::inner_replaced", fix, true));
        }
    }
}

const SPEC: Spec = Spec {
    handle: 1,
    format: Format::Rgba8,
    width: 64,
    height: 64,
};
const PAGE: usize = 4096;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Changes what lies at a page.
type Change = fn(*mut c_void);

fn fixed(page: *mut c_void) {
    // SAFETY: the page belongs to the guest's memory, which is reached through volatile bytes only.
    let now = unsafe { libc::mmap(page, PAGE, WRITABLE, SHARED | libc::MAP_FIXED, -1, 0) };
    assert_eq!(now, page);
}

fn fixed_64(page: *mut c_void) {
    // SAFETY: as in `fixed`.
    let now = unsafe { libc::mmap64(page, PAGE, WRITABLE, SHARED | libc::MAP_FIXED, -1, 0) };
    assert_eq!(now, page);
}

fn removed_first(page: *mut c_void) {
    // SAFETY: as in `fixed`; nobody looks at it before it is mapped again.
    assert_eq!(unsafe { libc::munmap(page, PAGE) }, 0);
    let flags = SHARED | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping where there is none.
    let now = unsafe { libc::mmap(page, PAGE, WRITABLE, flags, -1, 0) };
    assert_eq!(now, page);
}

fn moved_there(page: *mut c_void) {
    // SAFETY: a new mapping.
    let new = unsafe { libc::mmap(ptr::null_mut(), PAGE, WRITABLE, SHARED, -1, 0) };
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: as in `fixed`.
    let now = unsafe { libc::mremap(new, PAGE, PAGE, flags, page) };
    assert_eq!(now, page);
}

/// As a program does that wants to see each first write.
fn guarded(page: *mut c_void) {
    for protection in [libc::PROT_READ, WRITABLE] {
        // SAFETY: as in `fixed`; nobody writes meanwhile.
        assert_eq!(unsafe { libc::mprotect(page, PAGE, protection) }, 0);
    }
}

fn unrelated(_page: *mut c_void) {
    // SAFETY: a new mapping, and its end.
    let new = unsafe { libc::mmap(ptr::null_mut(), PAGE, WRITABLE, SHARED, -1, 0) };
    fixed(new);
    guarded(new);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::munmap(new, PAGE) }, 0);
}

struct Machine {
    api: Api,
    renderer: Renderer,
    guest: Guest,
}

impl Machine {
    /// Uploads `pieces` with new bytes in them, and downloads them again.
    fn round_trip(&self, pieces: &[Piece], seed: u64, by_stream: bool) {
        let bytes = pattern(SPEC.bytes(), seed);
        self.guest.write(pieces, &bytes);
        self.transfer(true, by_stream);
        self.guest.write(pieces, &vec![0; bytes.len()]);
        self.transfer(false, by_stream);
        assert!(self.guest.read(pieces) == bytes, "round {seed}");
    }

    fn transfer(&self, is_upload: bool, by_stream: bool) {
        let (api, whole) = (&self.api, [0, 0, SPEC.width, SPEC.height]);
        let done = if by_stream {
            let size = [SPEC.width, SPEC.height];
            let mut words = commands::transfer(SPEC.handle, size, SPEC.stride(), is_upload);
            self.renderer.submit(api, &mut words)
        } else if is_upload {
            self.renderer
                .write(api, SPEC.handle, whole, SPEC.stride(), 0)
        } else {
            self.renderer
                .read(api, SPEC.handle, whole, SPEC.stride(), 0)
        };
        done.unwrap();
    }

    /// Mappings of the guest's memory outside of its own.
    fn views(&self) -> usize {
        let ram = self.guest.ram().bytes();
        let ram = ram.as_ptr().addr()..ram.as_ptr().addr() + ram.len();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let shown = maps.lines().filter(|line| line.contains("towpath-ram"));
        let start =
            |line: &str| usize::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap();
        shown
            .map(start)
            .filter(|start| !ram.contains(start))
            .count()
    }

    fn play(&mut self, change: Change, views: [usize; 2], by_stream: bool) {
        let pieces = self.guest.take(SPEC.bytes()).unwrap();
        let third = pieces[2];
        let mut list = Attached::new(&self.guest, &pieces);
        self.renderer.create(&self.api, &SPEC).unwrap();
        self.renderer
            .attach(&self.api, SPEC.handle, &mut list)
            .unwrap();
        self.round_trip(&pieces, 1, by_stream);
        assert_eq!(self.views(), views[0], "made at once");
        let page = self.guest.bytes(third).unwrap().as_ptr();
        change(page.cast());
        self.round_trip(&pieces, 2, by_stream);
        assert_eq!(self.views(), views[1], "after the change");
        assert!(self.renderer.detach(&self.api, SPEC.handle, &list));
        self.renderer.unref(&self.api, SPEC.handle);
    }
}

#[test]
#[ignore = "runs in a child"]
fn inner_replaced() {
    let api = Api::linked().unwrap();
    let renderer = Renderer::new(&api).unwrap();
    let guest = Guest::new(8 << 20, PAGE as u64, 6).unwrap();
    let mut machine = Machine {
        api,
        renderer,
        guest,
    };
    #[expect(clippy::disallowed_methods, reason = "told by the parent")]
    let is_fixed = std::env::var("TOWPATH_FIX").unwrap() == "upload";
    // One for each piece, of which no two are neighbours.
    let made = if is_fixed { 4 } else { 0 };
    for by_stream in [false, true] {
        machine.play(unrelated, [made, made], by_stream);
        for change in [fixed, fixed_64, removed_first, moved_there, guarded] {
            machine.play(change, [made, 0], by_stream);
        }
    }
}
