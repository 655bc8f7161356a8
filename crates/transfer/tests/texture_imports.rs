//! 5.20: imports of memory that is not whole blocks of the device's alignment, and of ranges that cannot
//! be. libplacebo and others handed such memory to the driver, which took it wrongly or failed later.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "tests; imports of memory that outlives them"
)]

use std::os::fd::AsFd as _;
use std::sync::Arc;

use towpath_memory::memfd::Memfd;
use towpath_memory::view::{FilePiece, View};
use towpath_needs::{Need, can_run};
use towpath_transfer::textures::views::Budget;
use towpath_transfer::textures::vulkan::{Device, Handle, Import, Vulkan, Ways};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Error, Format, Memory, Model, Path, Ram, Request,
    Texture, Transfers,
};

fn view(file: &Memfd, pieces: &[(u64, u64)]) -> View {
    let pieces: Vec<_> = pieces
        .iter()
        .map(|&(offset, len)| FilePiece {
            file: file.as_fd(),
            offset,
            len,
        })
        .collect();
    View::stitch(&pieces).unwrap()
}

#[test]
fn only_whole_blocks_are_imported_and_the_device_sees_them() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let mut vulkan = Vulkan::new(Device::open(Some("llvmpipe")).unwrap(), Ways::default()).unwrap();
    let device = Arc::clone(vulkan.device());
    let file = Memfd::new("import", 16 * 4096).unwrap();
    let scattered = view(&file, &[(8 * 4096, 4096), (0, 8192), (5 * 4096, 4096)]);
    let whole = scattered.pages();
    for (offset, len) in [(1, 4096), (0, 4097), (4095, 4096), (0, 0), (2048, 2048)] {
        let part = whole.get(offset, len).unwrap();
        // SAFETY: nothing is imported, or the view outlives it.
        let answer = unsafe { Import::new(&device, Handle::Host(part)) };
        assert!(
            matches!(answer, Err(Error::Device { code: 0, .. })),
            "{offset} {len}"
        );
    }
    let bytes: Vec<u8> = (0..whole.len())
        .map(|at| (at * 7).to_le_bytes()[0])
        .collect();
    whole.copy_from(&bytes);
    // SAFETY: `scattered` is dropped after the import.
    let import = unsafe { Import::new(&device, Handle::Host(whole)) }.unwrap();
    let mut seen = vec![0; bytes.len()];
    vulkan.read_import(&import, &mut seen).unwrap();
    assert!(seen == bytes);
    drop(import);
    drop(scattered);
}

/// A view that begins inside a page is imported by its pages; the inner offset is kept.
#[test]
fn a_view_inside_pages_is_rounded_out() {
    let file = Memfd::new("import", 16 * 4096).unwrap();
    let ragged = view(&file, &[(4000, 96), (3 * 4096, 4096), (7 * 4096, 100)]);
    assert_eq!(ragged.skip(), 4000);
    assert_eq!(ragged.pages().len(), 3 * 4096);
    assert_eq!(ragged.bytes().len(), 96 + 4096 + 100);
    assert_eq!(
        ragged.bytes().as_ptr().addr() - ragged.pages().as_ptr().addr(),
        4000
    );
    assert!(ragged.pages().as_ptr().addr().is_multiple_of(4096));
}

/// Debian's lavapipe (22.3) imports no dma-bufs: refused before the driver sees the descriptor. A driver that does
/// must refuse a file that is none.
#[test]
fn a_file_that_is_no_dma_buf_is_refused() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let device = Arc::new(Device::open(Some("llvmpipe")).unwrap());
    let file = Memfd::new("import", 4096).unwrap();
    let handle = Handle::DmaBuf(file.as_fd(), 4096);
    // SAFETY: nothing is imported.
    let answer = unsafe { Import::new(&device, handle) };
    assert!(matches!(answer, Err(Error::Device { .. })), "{answer:?}");
    println!("dma-bufs: {}", device.offer().dma_buf_import);
}

/// A device that fetches from a view saves the whole copy: an import pays after a few uses, in large pieces too.
/// Rows that the device cannot name are copied for ever where the pieces are large.
#[test]
fn an_import_is_chosen_when_the_copies_missed_have_paid_for_it() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let ram = Arc::new(Ram::new(4 << 20).unwrap());
    let memory: Arc<dyn Memory> = ram;
    let entries: Vec<Entry> = (0..32_u64)
        .map(|index| Entry {
            address: index * 2 * (64 << 10),
            len: 64 << 10,
        })
        .collect();
    let device = Arc::new(Device::open(Some("llvmpipe")).unwrap());
    for (offset, is_imported) in [(0, true), (2, false)] {
        let backend = Vulkan::on(Arc::clone(&device), Ways::default()).unwrap();
        let budget = Budget::of_this_machine();
        let mut transfers = Transfers::new(backend, Model::default(), budget, None);
        let texture = Texture::picture(Format::RGBA8, 512, 512);
        let mut image = transfers.backend().create(&texture).unwrap();
        let backing = Backing::attach(&memory, &entries).unwrap();
        let mut request = Request::picture(512, 512, Direction::Upload);
        request.offset = offset;
        let paths: Vec<Path> = (0..15)
            .map(|_| {
                let done = transfers.transfer(&texture, &mut image, &backing, &request);
                done.unwrap().path
            })
            .collect();
        assert_eq!(paths[..2], [Path::Gather; 2], "a first use never pays");
        let last = matches!(paths[14], Path::Import(_));
        assert_eq!(last, is_imported, "{offset}: {paths:?}");
        transfers.detach(&backing).unwrap();
        transfers.backend().destroy(image);
    }
}
