//! When one range is mapped, tried, kept and given back.

use super::super::ram::Ram;
use super::*;

fn budget() -> Budget {
    Budget {
        entries: 8,
        mappings: 100,
        bytes: 1 << 30,
    }
}

fn scattered(ram: &Ram, pages: usize) -> Attached {
    let base = ram.bytes().as_ptr().addr();
    let pieces = (0..pages).map(|page| Range {
        address: base + page * 2 * 4096,
        len: 4096,
    });
    Attached::new(pieces, &Model::default())
}

#[test]
fn a_list_is_mapped_once_it_has_paid_and_shows_the_same_bytes() {
    let ram = Ram::new(64 * 4096).unwrap();
    let mut attached = scattered(&ram, 16);
    let mut taken = Taken::default();
    let mut uses = 0;
    while attached.step(65_536, &Renderer::default(), false) != Step::Map {
        uses += 1;
        assert_eq!(attached.done(65_536, Nanos(1000)), Judged::NotYet);
    }
    assert!((40..200).contains(&uses), "{uses} transfers before it pays");
    attached.map(&budget(), &mut taken, false).unwrap();
    assert_eq!(taken.mappings, 16);
    ram.bytes().get(2 * 4096, 1).unwrap().fill(9);
    let view = attached.view().unwrap();
    assert_eq!(view.len, 16 * 4096);
    let One::Mapped(map, _) = &attached.one else {
        panic!("mapped");
    };
    assert_eq!(map.bytes().get(4096, 1).unwrap().to_vec(), [9]);
    assert_eq!(attached.step(1, &Renderer::default(), false), Step::Mapped);
    assert_eq!(
        attached.explain().split(", missed").next().unwrap(),
        format!("16 pieces of 4 KiB, used {uses} times")
    );
    attached.unmap(&mut taken, None);
    assert_eq!(taken, Taken::default());
}

/// What passes without a look and what is looked at make the price together.
#[test]
fn free_transfers_end_before_a_mapping_can_pay() {
    let (model, renderer) = (Model::default(), Renderer::default());
    for (pages, least) in [(16, 16), (256, 16), (4096, 16), (1, 16)] {
        let survey = Survey {
            pieces: pages,
            runs: pages,
            bytes: pages * 4096,
        };
        let free = survey.free_bytes(&model, &renderer);
        let missed = renderer.saving(free);
        assert!(free >= least * survey.bytes, "{pages}");
        if pages > 1 {
            let rest = renderer.saving(2 * survey.bytes);
            assert!(missed < survey.price(&model), "{pages}");
            assert!(
                missed.saturating_add(rest) > survey.price(&model),
                "{pages}"
            );
        }
    }
}

/// Into a list a renderer writes in order, so that the last of two equal places decides.
#[test]
fn pieces_that_overlap_stay_a_list() {
    let ram = Ram::new(8 * 4096).unwrap();
    let base = ram.bytes().as_ptr().addr();
    for (starts, len, is_good) in [
        ([0, 2, 4], 4096, true),
        ([4, 2, 4], 4096, false),
        ([5, 1, 4], 2 * 4096, false),
        ([5, 1, 3], 2 * 4096, true),
    ] {
        let pieces = starts.iter().map(|start| Range {
            address: base + start * 4096,
            len,
        });
        let mut attached = Attached::new(pieces, &Model::default());
        let mut taken = Taken::default();
        let made = attached.map(&budget(), &mut taken, false);
        assert_eq!(made.is_ok(), is_good, "{starts:?}");
        assert!(is_good || attached.refused() == Some(Why::Overlap));
        attached.unmap(&mut taken, None);
    }
}

#[test]
fn neighbours_need_no_mapping() {
    let ram = Ram::new(4 * 4096).unwrap();
    let base = ram.bytes().as_ptr().addr();
    let pieces = (0..4).map(|page| Range {
        address: base + page * 4096,
        len: 4096,
    });
    let mut attached = Attached::new(pieces, &Model::default());
    assert_eq!(attached.runs().len(), 1);
    let mut taken = Taken::default();
    assert_eq!(attached.step(1, &Renderer::default(), true), Step::Map);
    attached.map(&budget(), &mut taken, false).unwrap();
    assert_eq!(taken, Taken::default(), "nothing was mapped");
    let whole = Range {
        address: base,
        len: 4 * 4096,
    };
    assert_eq!(attached.view(), Some(whole));
    attached.unmap(&mut taken, Some(Why::Refused));
    assert_eq!(attached.view(), None);
}

#[test]
fn private_memory_and_a_full_budget_are_left_alone() {
    let heap = vec![0_u8; 64 * 4096];
    let base = heap.as_ptr().addr().next_multiple_of(4096);
    let pieces = [0, 2, 4].map(|page| Range {
        address: base + page * 4096,
        len: 4096,
    });
    let mut attached = Attached::new(pieces.into_iter(), &Model::default());
    let answer = attached.map(&budget(), &mut Taken::default(), true);
    assert_eq!(answer, Err(Why::NoFile));
    let step = attached.step(1 << 30, &Renderer::default(), true);
    assert_eq!(step, Step::Leave(Why::NoFile), "not tried again");

    let ram = Ram::new(64 * 4096).unwrap();
    let mut attached = scattered(&ram, 16);
    let mut taken = Taken {
        mappings: 90,
        bytes: 0,
    };
    let full = attached.map(&budget(), &mut taken, true);
    assert_eq!(full, Err(Why::Budget));
    assert_eq!(taken.mappings, 90);
}

#[test]
fn a_mapping_is_judged_by_times_of_both_sides_in_turn() {
    for (one, right) in [
        (1100, Judged::Loses),
        (1000, Judged::Loses),
        (900, Judged::Pays),
    ] {
        let ram = Ram::new(64 * 4096).unwrap();
        let mut attached = scattered(&ram, 4);
        assert_eq!(attached.side(), Side::List);
        attached
            .map(&budget(), &mut Taken::default(), true)
            .unwrap();
        let mut judged = Vec::new();
        for turn in 0..2 * PAIRS as u64 {
            assert!(attached.is_on_trial());
            let wall = match attached.side() {
                Side::List => 1000,
                Side::One => one,
            };
            // The machine becomes slower half way, and one transfer in ten is interrupted.
            let wall = wall * if turn < 16 { 1 } else { 3 };
            let wall = if turn % 10 == 3 { 1_000_000 } else { wall };
            judged.push(attached.done(1000, Nanos(wall)));
        }
        let last = judged.pop();
        assert_eq!(last, Some(right));
        assert!(judged.iter().all(|judged| *judged == Judged::NotYet));
        assert!(!attached.is_on_trial());
        assert_eq!(attached.side(), Side::One, "until it is given back");
    }
}

#[test]
fn a_mapping_made_at_once_is_never_judged() {
    let ram = Ram::new(64 * 4096).unwrap();
    let mut attached = scattered(&ram, 4);
    attached
        .map(&budget(), &mut Taken::default(), false)
        .unwrap();
    assert_eq!(attached.side(), Side::One);
    assert!((0..200).all(|_| attached.done(1, Nanos(1 << 30)) == Judged::NotYet));
    attached
        .map(&budget(), &mut Taken::default(), true)
        .unwrap();
    attached.end_trial();
    assert_eq!(attached.side(), Side::One);
}
