//! What a read costs here, and the waiting.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use towpath_cold::{Rows, pages};

/// How the time is spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// The calling thread sleeps, as it does while a device handles the fault.
    Sleep,
    /// The calling thread burns CPU.
    Busy,
}

/// The settings of the layer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Price {
    /// Time per cold page.
    pub per_page: Duration,
    /// How it is spent.
    pub way: Way,
    log: Option<OsString>,
}

impl Price {
    /// Reads the settings through `lookup`; nonsense is the default.
    pub fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let nanos = lookup("TOWPATH_PENALTY_NS_PER_PAGE")
            .and_then(|text| text.to_str()?.parse().ok())
            .unwrap_or(59_000);
        let busy = lookup("TOWPATH_PENALTY_MODE").is_some_and(|text| text == "busy");
        Self {
            per_page: Duration::from_nanos(nanos),
            way: if busy { Way::Busy } else { Way::Sleep },
            log: lookup("TOWPATH_PENALTY_LOG"),
        }
    }
}

/// Cold pages charged for since the process began.
pub(crate) static CHARGED: AtomicU64 = AtomicU64::new(0);

/// Spends the time that `rows` cost and notes them down.
pub(crate) fn charge(call: &str, rows: &Rows) {
    static PRICE: OnceLock<Price> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "testkit; the product's table is not here"
    )]
    let price = PRICE.get_or_init(|| Price::read(|name| std::env::var_os(name)));
    let Some(found) = pages(rows) else { return };
    CHARGED.fetch_add(found.cold, Ordering::Relaxed);
    spend(price, found.cold);
    if let Some(log) = &price.log
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(log)
    {
        // A log that cannot be written costs the line, nothing else.
        let _lost = writeln!(
            file,
            "{call} {} {} {}",
            rows.bytes(),
            found.total,
            found.cold
        );
    }
}

fn spend(price: &Price, cold: u64) {
    let time = price
        .per_page
        .saturating_mul(u32::try_from(cold).unwrap_or(u32::MAX));
    match price.way {
        Way::Sleep if !time.is_zero() => std::thread::sleep(time),
        Way::Sleep => {}
        Way::Busy => {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_the_default() {
        let price = Price::read(|_| Some("many".into()));
        assert_eq!(price.per_page, Duration::from_micros(59));
        assert_eq!(price.way, Way::Sleep);
        let set = Price::read(|name| match name {
            "TOWPATH_PENALTY_NS_PER_PAGE" => Some("100".into()),
            "TOWPATH_PENALTY_MODE" => Some("busy".into()),
            _ => None,
        });
        assert_eq!(
            (set.per_page, set.way),
            (Duration::from_nanos(100), Way::Busy)
        );
    }
}
