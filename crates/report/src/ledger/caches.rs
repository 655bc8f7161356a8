//! The program's own pipeline caches: rewrites that brought nothing.

use towpath_ledger::Counter;

use super::Observed;

/// A line where the program fetched cache data that had not changed, most often to write it to a file.
pub(super) fn lines(observed: &Observed) -> Vec<String> {
    let count = |counter| observed.counters.get(&counter).copied().unwrap_or(0);
    let unchanged = count(Counter::CacheBytesUnchanged);
    if unchanged == 0 {
        return Vec::new();
    }
    let size = match unchanged {
        0..1_000_000 => format!("{} KB", unchanged.div_ceil(1000)),
        _ => format!("{} MB", unchanged.div_ceil(1_000_000)),
    };
    vec![
        format!("cache: the program fetched its own pipeline cache again, {size} for +0 KB;"),
        "  with --fix cache and TOWPATH_CACHE_MODE=takeover it would have 32 bytes to write"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_for_nothing_is_told_with_its_size() {
        let mut observed = Observed::default();
        assert_eq!(lines(&observed), Vec::<String>::new());
        for (bytes, text) in [
            (1_145_836_664, "1146 MB for +0 KB"),
            (2_000, "2 KB for +0 KB"),
        ] {
            observed
                .counters
                .insert(Counter::CacheBytesUnchanged, bytes);
            let lines = lines(&observed);
            assert!(lines[0].contains(text), "{lines:?}");
            assert!(lines.iter().all(|line| line.len() <= 90), "{lines:?}");
        }
    }
}
