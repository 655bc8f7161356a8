//! Results of other programs: any bytes give finite values or an error, and judging them never panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_measure::judge::{Question, unpaired};
use towpath_measure::results::{Columns, read};

fuzz_target!(|bytes: &[u8]| {
    let Ok(found) = read(bytes, &Columns::default()) else { return };
    for series in found.series {
        assert!(series.values.iter().all(|value| value.is_finite()));
        let (a, b) = series.values.split_at(series.values.len() / 2);
        let judged = unpaired(a, b, &Question::lower_is_better().with_margin(0.01)).unwrap();
        assert!((0.0..=1.0).contains(&judged.p) && (0.0..=1.0).contains(&judged.p_equivalent));
    }
});
