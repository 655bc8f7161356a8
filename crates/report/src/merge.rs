//! Joining results that were measured as blocks: on another day, before and after a reboot.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::{Error, Pairing, ResultFile, Run, Stop};

/// Joins blocks of one experiment and judges them together.
///
/// Pairs stay within their block, so that what differs between blocks (a reboot, another kernel) cannot pass for a
/// difference of the arms. What differs is noted.
///
/// # Errors
///
/// [`Error::Merge`] if the blocks are not of one experiment: other command, arms, metrics, pairing or stop rule.
pub fn merge(files: Vec<ResultFile>) -> Result<Option<ResultFile>, Error> {
    let mut files = files.into_iter();
    let Some(mut whole) = files.next() else {
        return Ok(None);
    };
    let mut blocks = renumber(&mut whole.runs, 0);
    let mut joined = false;
    let mut seen = vec![whole.runs.clone()];
    for (index, file) in files.enumerate() {
        check(&whole, &file, index + 2)?;
        if seen.contains(&file.runs) {
            let difference = "it is the same measurement as another".to_owned();
            return Err(Error::Merge {
                block: index + 2,
                difference,
            });
        }
        seen.push(file.runs.clone());
        joined = true;
        let number = index + 2;
        whole.notes.extend(differences(&whole, &file, number));
        whole.notes.extend(
            file.notes
                .iter()
                .map(|note| format!("block {number}: {note}")),
        );
        let mut runs = file.runs;
        blocks += renumber(&mut runs, blocks);
        whole.runs.extend(runs);
    }
    if joined {
        if let Stop::UntilProven { .. } = whole.design.stop {
            whole.notes.push(
                "blocks that each stopped when proven were joined: the e-process stays valid"
                    .to_owned(),
            );
        } else {
            whole.design.stop = Stop::Given;
        }
        whole.notes.insert(
            0,
            format!("{blocks} blocks were joined; pairs lie within blocks"),
        );
    }
    Ok(Some(whole))
}

/// Numbers the blocks of one file from `first`, in their order, and says how many there are: the numbers
/// in a file may be any.
fn renumber(runs: &mut [Run], first: usize) -> usize {
    let known: BTreeSet<usize> = runs.iter().map(|run| run.block).collect();
    let places: BTreeMap<usize, usize> = known.into_iter().zip(first..).collect();
    for run in runs {
        run.block = places.get(&run.block).copied().unwrap_or(first);
    }
    places.len().max(1)
}

fn check(first: &ResultFile, other: &ResultFile, block: usize) -> Result<(), Error> {
    let names = |file: &ResultFile| -> Vec<(String, String)> {
        file.metrics
            .iter()
            .map(|metric| (metric.name.clone(), metric.unit.clone()))
            .collect()
    };
    let is_sequential = |file: &ResultFile| matches!(file.design.stop, Stop::UntilProven { .. });
    let reasons = [
        (first.command != other.command, "the commands differ"),
        (
            first.a != other.a || first.b != other.b || first.c != other.c,
            "the arms differ",
        ),
        (
            first.design.is_described != other.design.is_described,
            "one was only described",
        ),
        (names(first) != names(other), "the metrics differ"),
        (
            first.design.pairing != other.design.pairing,
            "one is paired, the other is not",
        ),
        (
            is_sequential(first) != is_sequential(other),
            "one stopped when proven, the other did not",
        ),
        (
            first.design.pairing == Pairing::Unpaired,
            "runs without pairs cannot be told from a change between blocks",
        ),
    ];
    match reasons.iter().find(|(differs, _)| *differs) {
        None => Ok(()),
        Some((_, difference)) => Err(Error::Merge {
            block,
            difference: (*difference).to_owned(),
        }),
    }
}

/// What changed between blocks, in words.
fn differences(first: &ResultFile, other: &ResultFile, block: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if first.machine.boot_id != other.machine.boot_id && other.machine.boot_id.is_some() {
        notes.push(format!("block {block} was measured after another boot"));
    }
    for (what, then, now) in first.machine.differences(&other.machine) {
        notes.push(format!(
            "block {block}: {what} is `{now}`, in block 1 it was `{then}`"
        ));
    }
    for (name, version) in &other.versions {
        let then = first.versions.get(name);
        if then != Some(version) {
            let then = then.map_or("absent", String::as_str);
            notes.push(format!(
                "block {block}: {name} is `{version}`, in block 1 it was `{then}`"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;

    #[test]
    fn blocks_are_joined_with_their_pairs_apart() {
        let (first, mut second) = (example(), example());
        second.runs[0].read("wall", 2.001);
        second.machine.kernel = Some("6.99".to_owned());
        second.machine.boot_id = Some("other".to_owned());
        let mut whole = merge(vec![first, second]).unwrap().unwrap();
        whole.judge().unwrap();
        assert_eq!(whole.judgements[0].judgement.runs_a, 16);
        assert_eq!(
            whole.judgements[0].judgement.method,
            towpath_measure::judge::Method::PairedT
        );
        assert!(whole.notes[0].starts_with("2 blocks were joined"));
        assert!(
            whole
                .notes
                .iter()
                .any(|note| note.contains("after another boot"))
        );
        assert!(
            whole
                .notes
                .iter()
                .any(|note| note.contains("kernel is `6.99`"))
        );
    }

    #[test]
    fn blocks_may_have_any_numbers() {
        let (mut first, mut second) = (example(), example());
        for run in &mut first.runs {
            run.block = usize::MAX - run.pair % 2;
        }
        for run in &mut second.runs {
            run.block = usize::MAX;
        }
        let mut whole = merge(vec![first, second]).unwrap().unwrap();
        let last = whole.runs.iter().map(|run| run.block).max();
        assert_eq!(last, Some(2));
        whole.judge().unwrap();
        assert_eq!(whole.judgements[0].judgement.runs_a, 16);
        assert!(whole.notes[0].starts_with("3 blocks were joined"));
    }

    #[test]
    fn other_experiments_are_not_joined() {
        let mut other = example();
        other.command = vec!["else".to_owned()];
        let error = merge(vec![example(), other]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "block 2 cannot be joined to the first: the commands differ"
        );
        let error = merge(vec![example(), example()]).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("it is the same measurement as another")
        );
        assert_eq!(merge(Vec::new()).unwrap(), None);
        assert_eq!(merge(vec![example()]).unwrap().unwrap(), example());
    }
}
