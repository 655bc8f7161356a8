//! How fast the store may write: a rate cap, and a back-off when the disk's other users wait.

use std::time::Duration;

/// Limits of background writing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// Bytes that may be written per second, or `None` for no cap.
    pub bytes_per_second_max: Option<u64>,
    /// Bytes handed to the kernel that the disk does not have yet.
    pub in_flight_bytes_max: u64,
    /// Whether to slow down when `/proc/pressure/io` shows that others wait.
    pub heeds_pressure: bool,
}

impl Pace {
    /// In play: 48 MB/s, 4 MiB in flight, heeds pressure (research, section 4: append-only writing at
    /// this pace is not felt by other readers).
    pub const IN_PLAY: Self = Self {
        bytes_per_second_max: Some(48_000_000),
        in_flight_bytes_max: 4 << 20,
        heeds_pressure: true,
    };
    /// At exit and in tools: only the window of 4 MiB.
    pub const PROMPT: Self = Self {
        bytes_per_second_max: None,
        in_flight_bytes_max: 4 << 20,
        heeds_pressure: false,
    };
}

/// Share of the last ten seconds in which some task waited for I/O, in per mille.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pressure(pub u16);

impl Pressure {
    /// Reads the `some avg10=` field of `/proc/pressure/io`; unreadable text counts as no pressure.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let field = text
            .lines()
            .find_map(|line| line.strip_prefix("some "))
            .and_then(|line| line.split(' ').find_map(|part| part.strip_prefix("avg10=")));
        let mut parts = field.unwrap_or("0").split('.');
        let whole: u16 = parts.next().and_then(|p| p.parse().ok()).unwrap_or(0);
        let tenth: u16 = parts
            .next()
            .and_then(|p| p.get(..1))
            .and_then(|p| p.parse().ok())
            .unwrap_or(0);
        Self(whole.min(100) * 10 + tenth)
    }

    /// What the kernel says now; zero where it keeps no such record.
    #[must_use]
    pub fn now() -> Self {
        std::fs::read_to_string("/proc/pressure/io").map_or(Self(0), |text| Self::parse(&text))
    }
}

/// A token bucket: says how long to wait before the next bytes. Reads no clock itself.
#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    free_at: Duration,
}

impl Pacer {
    /// A pacer with nothing written yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            free_at: Duration::ZERO,
        }
    }

    /// The limits in force.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// How long to wait at time `now` before writing `bytes`, and accounts for them.
    ///
    /// Above 30 % pressure the cap is halved, above 60 % it is an eighth; never a stop, so that a
    /// save ends in a time that can be foretold.
    pub fn delay(&mut self, now: Duration, bytes: u64, pressure: Pressure) -> Duration {
        let Some(cap) = self.pace.bytes_per_second_max else {
            return Duration::ZERO;
        };
        let share = match pressure.0 {
            _ if !self.pace.heeds_pressure => 1,
            0..=300 => 1,
            301..=600 => 2,
            _ => 8,
        };
        let cap = (cap / share).max(1);
        let wait = self.free_at.saturating_sub(now);
        let cost = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / cap);
        self.free_at = self.free_at.max(now).saturating_add(cost);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_holds_over_any_second() {
        let mut pacer = Pacer::new(Pace {
            bytes_per_second_max: Some(10 << 20),
            ..Pace::IN_PLAY
        });
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            now += pacer.delay(now, 1 << 20, Pressure(0));
        }
        // 100 MiB at 10 MiB/s: the last MiB starts after 9.9 s.
        assert_eq!(now.as_millis(), 9900);
    }

    #[test]
    fn pressure_slows_down_and_never_stops() {
        for (pressure, factor) in [(0, 1), (300, 1), (301, 2), (601, 8), (1000, 8)] {
            let mut pacer = Pacer::new(Pace::IN_PLAY);
            let _first = pacer.delay(Duration::ZERO, 48_000_000, Pressure(pressure));
            let wait = pacer.delay(Duration::ZERO, 1, Pressure(pressure));
            assert_eq!(wait.as_secs(), factor, "pressure {pressure}");
        }
    }

    #[test]
    fn pressure_is_read_and_nonsense_is_none() {
        let text = "some avg10=37.25 avg60=1.00 avg300=0.10 total=1\nfull avg10=0.00 total=0\n";
        assert_eq!(Pressure::parse(text), Pressure(372));
        for nonsense in ["", "some", "some avg10=", "some avg10=x.y", "some avg10=-1"] {
            assert_eq!(Pressure::parse(nonsense), Pressure(0), "{nonsense}");
        }
        assert_eq!(Pressure::parse("some avg10=9999.9"), Pressure(1009));
    }
}
