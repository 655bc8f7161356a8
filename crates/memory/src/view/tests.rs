//! Views of scattered pieces, and what is refused.

use super::*;
use crate::memfd::Memfd;

fn piece(file: &Memfd, offset: u64, len: u64) -> FilePiece<'_> {
    FilePiece {
        file: file.as_fd(),
        offset,
        len,
    }
}

#[test]
fn a_stitched_view_shows_the_pieces_in_order_and_shares_writes() {
    let file = Memfd::new("test", 8 * PAGE).unwrap();
    let whole = View::stitch(&[piece(&file, 0, 8 * PAGE)]).unwrap();
    for page in 0..8_u8 {
        let at = usize::from(page) * 4096;
        whole.bytes().get(at, 4096).unwrap().fill(page);
    }
    let pieces = [
        piece(&file, 5 * PAGE, PAGE),
        piece(&file, 2 * PAGE, 2 * PAGE),
        piece(&file, 0, PAGE),
    ];
    let view = View::stitch(&pieces).unwrap();
    let seen = view.bytes().to_vec();
    let firsts: Vec<u8> = seen.chunks(4096).map(|page| page[0]).collect();
    assert_eq!(firsts, [5, 2, 3, 0]);
    view.bytes().get(0, 1).unwrap().fill(99);
    assert_eq!(whole.bytes().to_vec()[5 * 4096], 99, "shared");
}

#[test]
fn a_view_may_begin_and_end_inside_a_page() {
    let file = Memfd::new("test", 4 * PAGE).unwrap();
    let whole = View::stitch(&[piece(&file, 0, 4 * PAGE)]).unwrap();
    let pattern: Vec<u8> = (0..4 * 4096_u32).map(|i| (i % 251) as u8).collect();
    whole.bytes().copy_from(&pattern);
    let pieces = [piece(&file, 4000, 96), piece(&file, 2 * PAGE, 100)];
    let view = View::stitch(&pieces).unwrap();
    assert_eq!(view.skip(), 4000);
    let mut expected = pattern[4000..4096].to_vec();
    expected.extend_from_slice(&pattern[8192..8292]);
    assert_eq!(view.bytes().to_vec(), expected);
}

#[test]
fn an_inner_border_inside_a_page_is_refused() {
    let file = Memfd::new("test", 4 * PAGE).unwrap();
    let pieces = [piece(&file, 0, 100), piece(&file, PAGE, PAGE)];
    let error = View::stitch(&pieces).unwrap_err();
    assert!(
        matches!(error, Error::Unaligned { piece: 0, .. }),
        "{error}"
    );
    let pieces = [piece(&file, 0, PAGE), piece(&file, 5000, 10)];
    let error = View::stitch(&pieces).unwrap_err();
    assert!(
        matches!(error, Error::Unaligned { piece: 1, .. }),
        "{error}"
    );
}

#[test]
fn nonsense_is_an_error_and_not_a_mapping() {
    let file = Memfd::new("test", PAGE).unwrap();
    assert!(matches!(View::stitch(&[]), Err(Error::Empty)));
    assert!(matches!(
        View::stitch(&[piece(&file, 0, 0)]),
        Err(Error::Empty)
    ));
    for (offset, len) in [(u64::MAX - 5, 10), (0, u64::MAX), (PAGE, u64::MAX - PAGE)] {
        let answer = View::stitch(&[piece(&file, offset, len)]);
        assert!(
            matches!(answer, Err(Error::TooLarge { .. })),
            "{offset} {len}"
        );
    }
    let past_the_end = View::stitch(&[piece(&file, 4 * PAGE, PAGE)]);
    assert!(
        matches!(past_the_end, Err(Error::Refused { .. })),
        "populate would be SIGBUS"
    );
}

#[test]
fn an_alias_needs_no_file_and_leaves_private_memory_alone() {
    let file = Memfd::new("test", 8 * PAGE).unwrap();
    let whole = View::stitch(&[piece(&file, 0, 8 * PAGE)]).unwrap();
    let base = whole.bytes().as_ptr().addr();
    let run = |page: usize, bytes| Range {
        address: base + page * 4096,
        len: bytes,
    };
    let alias = View::alias(&[run(6, 4096), run(1, 4000)], PAGE).unwrap();
    alias.bytes().fill(5);
    let seen = whole.bytes().to_vec();
    assert_eq!((seen[6 * 4096], seen[4096], seen[4096 + 3999]), (5, 5, 5));
    assert_eq!((seen[4096 + 4000], seen[0]), (0, 0));
    drop(alias);
    assert_eq!(whole.bytes().to_vec(), seen, "the source stays mapped");
    assert!(View::alias(&[run(6, 100), run(1, 4096)], PAGE).is_err());
}

#[test]
fn a_zero_length_piece_changes_nothing() {
    let file = Memfd::new("test", 4 * PAGE).unwrap();
    let pieces = [
        piece(&file, 17, 0),
        piece(&file, PAGE, PAGE),
        piece(&file, 3, 0),
        piece(&file, 0, PAGE),
    ];
    assert_eq!(View::stitch(&pieces).unwrap().bytes().len(), 8192);
}
