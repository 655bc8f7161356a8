//! What the samples show: cells proven slower, averages, and what a small read costs more.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;
use towpath_measure::Verdict;
use towpath_measure::judge::{Judgement, Question, Scale, holm, paired};
use towpath_measure::sample::{geometric_mean, median};
use towpath_settings::{Fix, Fixes};
use towpath_transfer::policy::{Direction, Mechanism, Policy, Warmth};

use super::super::arm::mib;
use super::super::memory::State;
use super::inside::{Measured, Samples};

/// The claims that can be made.
#[derive(Debug, Serialize)]
pub(super) struct Verdicts {
    /// Cells proven slower with the layer (5 % level, Holm over all cells); below 1 MiB: slower by more
    /// than a microsecond.
    pub(super) slower: Vec<String>,
    /// Cells proven faster.
    pub(super) faster: usize,
    pub(super) cells: usize,
    /// The average of warm cells from 1 MiB on, against 2 %.
    pub(super) warm: Option<Average>,
    /// The average of all cells in which the driver's own way is chosen, against 2 %.
    pub(super) forwarded: Option<Average>,
    /// What the layer adds to a warm read of at most 64 bytes.
    pub(super) small: Option<Added>,
}

/// The geometric mean over cells, of ratios with the layer to without.
#[derive(Debug, Serialize)]
pub(super) struct Average {
    pub(super) cells: usize,
    pub(super) judgement: Judgement,
}

/// Nanoseconds.
#[derive(Debug, Serialize)]
pub(super) struct Added {
    pub(super) judgement: Judgement,
    /// Whether the whole 95 % interval lies below a microsecond.
    pub(super) is_at_most_a_microsecond: bool,
}

/// Judges each cell, all together, and the averages.
///
/// # Errors
///
/// Samples that are not numbers.
pub(super) fn judge(
    cells: &[Samples],
    policy: &Policy,
    fixes: Fixes,
) -> Result<(Vec<Judgement>, Verdicts)> {
    let mut judgements = Vec::new();
    for cell in cells {
        judgements.push(one(cell)?);
    }
    holm(&mut judgements);
    let proven = |wanted: Verdict| {
        cells
            .iter()
            .zip(&judgements)
            .filter(move |(_, judgement)| judgement.verdict == wanted)
            .map(|(cell, _)| name(cell))
    };
    let verdicts = Verdicts {
        slower: proven(Verdict::Slower).collect(),
        faster: proven(Verdict::Faster).count(),
        cells: cells.len(),
        warm: average(cells, |cell| {
            cell.state == State::Warm.name() && cell.bytes >= AVERAGE_BYTES_MIN
        })?,
        forwarded: average(cells, |cell| is_forwarded(cell, policy, fixes))?,
        small: added(cells)?,
    };
    Ok((judgements, verdicts))
}

/// A cell by its ratio; below 1 MiB by whether more than a microsecond is added.
fn one(cell: &Samples) -> Result<Judgement> {
    let question = Question::lower_is_better();
    if cell.bytes >= AVERAGE_BYTES_MIN {
        return Ok(paired(&cell.forward_ns, &cell.layer_ns, &question)?);
    }
    let allowed: Vec<f64> = cell.forward_ns.iter().map(|ns| ns + ALLOWED_NS).collect();
    let question = Question {
        scale: Scale::Difference,
        ..question
    };
    Ok(paired(&allowed, &cell.layer_ns, &question)?)
}

/// The mean log ratio of the cells, round by round, against the margin by two one-sided tests.
fn average(cells: &[Samples], is_in: impl Fn(&Samples) -> bool) -> Result<Option<Average>> {
    let cells: Vec<&Samples> = cells.iter().filter(|cell| is_in(cell)).collect();
    let rounds = cells.iter().map(|cell| cell.forward_ns.len()).min();
    let Some(rounds) = rounds else {
        return Ok(None);
    };
    let ratios: Vec<f64> = (0..rounds)
        .map(|round| {
            let ratios = cells.iter().filter_map(|cell| {
                let (forward, layer) = (cell.forward_ns.get(round)?, cell.layer_ns.get(round)?);
                Some(layer / forward)
            });
            geometric_mean(&ratios.collect::<Vec<f64>>())
        })
        .collect();
    let question = Question::lower_is_better().with_margin(MARGIN);
    Ok(Some(Average {
        cells: cells.len(),
        judgement: paired(&vec![1.0; rounds], &ratios, &question)?,
    }))
}

/// Whether the layer leaves reads of this cell to the driver.
fn is_forwarded(cell: &Samples, policy: &Policy, fixes: Fixes) -> bool {
    let mode = fixes.mode(Fix::Readback);
    let warmth = if cell.state == State::Warm.name() {
        Warmth::Warm
    } else {
        Warmth::Cold
    };
    let rules = policy.rules();
    let chosen = policy.choose(mode, Direction::Read, warmth, cell.bytes);
    let comes_huge = cell.state == State::ColdHuge.name() && policy.skips_huge(cell.bytes);
    match chosen {
        Mechanism::Forward => true,
        Mechanism::Prefault => {
            warmth == Warmth::Warm || cell.bytes < rules.floor_bytes || comes_huge
        }
        _ => false,
    }
}

fn added(cells: &[Samples]) -> Result<Option<Added>> {
    let small = cells
        .iter()
        .find(|cell| cell.state == State::Warm.name() && cell.bytes <= SMALL_BYTES);
    let Some(cell) = small else {
        return Ok(None);
    };
    let question = Question {
        scale: Scale::Difference,
        ..Question::lower_is_better()
    };
    let judgement = paired(&cell.forward_ns, &cell.layer_ns, &question)?;
    Ok(Some(Added {
        is_at_most_a_microsecond: judgement.high.is_some_and(|high| high <= ALLOWED_NS),
        judgement,
    }))
}

fn name(cell: &Samples) -> String {
    format!("{} {}, {}", cell.kind, mib(cell.bytes), cell.state)
}

/// The table and the claims, for a person.
pub(super) fn render(measured: &Measured, judgements: &[Judgement], verdicts: &Verdicts) -> String {
    let mut text = format!(
        "{}: the layer against the driver alone, medians\n\n  {:<26} {:>11} {:>11} {:>9}  {:>8}\n",
        measured.device, "cell", "driver us", "layer us", "ratio", "p (Holm)"
    );
    for (cell, judgement) in measured.cells.iter().zip(judgements) {
        let (forward, layer) = (median(&cell.forward_ns), median(&cell.layer_ns));
        let proof = match judgement.verdict {
            Verdict::Slower => "  slower",
            Verdict::Faster if cell.bytes >= AVERAGE_BYTES_MIN => "  faster",
            _ => "",
        };
        // Writing to a string cannot fail.
        let _ok = writeln!(
            text,
            "  {:<26} {:>11.1} {:>11.1} {:>9.3}  {:>8.4}{proof}",
            name(cell),
            forward / 1e3,
            layer / 1e3,
            layer / forward,
            judgement.p_adjusted,
        );
    }
    let _ok = writeln!(
        text,
        "\nproven slower (5 % level, Holm over {} cells; below 1 MiB by more than 1 us): {}",
        verdicts.cells,
        if verdicts.slower.is_empty() {
            "none".to_owned()
        } else {
            verdicts.slower.join("; ")
        }
    );
    for (what, average) in [
        ("warm, 1 MiB and more", &verdicts.warm),
        ("where the driver's own way is chosen", &verdicts.forwarded),
    ] {
        if let Some(average) = average {
            text += &sentence(what, average);
        }
    }
    if let Some(added) = &verdicts.small {
        let judgement = &added.judgement;
        let ns = |value: Option<f64>| value.map_or("?".to_owned(), |ns| format!("{ns:.0}"));
        let _ok = writeln!(
            text,
            "a 64-byte read takes {} ns more ({} to {} at 95 %): {}",
            ns(judgement.estimate),
            ns(judgement.low),
            ns(judgement.high),
            if added.is_at_most_a_microsecond {
                "at most 1 us"
            } else {
                "not shown to be at most 1 us"
            }
        );
    }
    text
}

fn sentence(what: &str, average: &Average) -> String {
    let judgement = &average.judgement;
    let number = |value: Option<f64>| value.map_or("?".to_owned(), |value| format!("{value:.4}"));
    let claim = match judgement.verdict {
        Verdict::Equivalent => "equivalent within 2 %",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Inconclusive => "inconclusive",
    };
    format!(
        "average of {} cells ({what}): {} x ({} to {} at 95 %), {claim} (TOST p = {:.4})\n",
        average.cells,
        number(judgement.estimate),
        number(judgement.low),
        number(judgement.high),
        judgement.p_equivalent,
    )
}

/// 2 %.
const MARGIN: f64 = 0.02;
/// 1 MiB.
const AVERAGE_BYTES_MIN: usize = 1 << 20;
/// 64 bytes.
const SMALL_BYTES: usize = 64;
/// A microsecond.
const ALLOWED_NS: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(bytes: usize, state: State, forward: f64, layer: f64) -> Samples {
        let around = |middle: f64, turn: u32| {
            (0..20)
                .map(|round: u32| middle * (1.0 + 0.01 * f64::from((round * turn) % 7)))
                .collect()
        };
        Samples {
            kind: "buffer".to_owned(),
            bytes,
            state: state.name().to_owned(),
            calls: 1,
            cut: [0; 2],
            forward_ns: around(forward, 3),
            layer_ns: around(layer, 5),
        }
    }

    #[test]
    fn a_slower_cell_is_named_and_an_equal_average_is_equivalent() {
        let cells = [
            cell(64, State::Warm, 10_000.0, 10_200.0),
            cell(1 << 20, State::Warm, 1e6, 1e6),
            cell(16 << 20, State::Warm, 1.6e7, 1.6e7),
            cell(16 << 20, State::Cold, 5e7, 1.6e7),
            cell(16 << 20, State::ColdHuge, 2e7, 2.2e7),
        ];
        let (judgements, verdicts) = judge(&cells, &Policy::new(None), Fixes::auto()).unwrap();
        assert_eq!(verdicts.slower, ["buffer 16M, cold-thp"]);
        let warm = verdicts.warm.as_ref().unwrap();
        assert_eq!(
            (warm.cells, warm.judgement.verdict),
            (2, Verdict::Equivalent)
        );
        // Warm ones and the small one; without a calibration cold ones are brought in.
        assert_eq!(verdicts.forwarded.as_ref().unwrap().cells, 3);
        assert!(verdicts.small.as_ref().unwrap().is_at_most_a_microsecond);
        let measured = Measured {
            device: "a device".to_owned(),
            layer_calls: 0,
            cells: cells.into(),
        };
        let text = render(&measured, &judgements, &verdicts);
        assert!(
            text.contains("by more than 1 us): buffer 16M, cold-thp\n"),
            "{text}"
        );
        assert!(text.contains("equivalent within 2 %"), "{text}");
    }

    #[test]
    fn an_average_that_is_off_by_more_is_no_equivalence() {
        let cells = [cell(4 << 20, State::Warm, 1e6, 1.05e6)];
        let (_, verdicts) = judge(&cells, &Policy::new(None), Fixes::auto()).unwrap();
        assert_eq!(verdicts.warm.unwrap().judgement.verdict, Verdict::Slower);
        assert_eq!(verdicts.slower.len(), 1);
        let cells = [cell(64, State::Warm, 10_000.0, 12_000.0)];
        let (_, verdicts) = judge(&cells, &Policy::new(None), Fixes::auto()).unwrap();
        assert!(!verdicts.small.unwrap().is_at_most_a_microsecond);
        assert_eq!(verdicts.slower.len(), 1);
    }
}
