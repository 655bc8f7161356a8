//! Which mechanism is worth it: chosen by measurement, switched off where it loses.
//!
//! A [`Calibration`] holds, for one device on one machine, what each mechanism took by direction, state
//! and size. [`Policy`] answers from it; inside a program it only checks ([`Guard`]) and never learns,
//! so that both arms of a comparison follow the same rules.

mod calibration;
mod guard;

pub use calibration::{Calibration, Class, Direction, Mechanism, Runs, Timing, Warmth};
pub use guard::Guard;

use towpath_memory::cpus;
use towpath_settings::Mode;

use crate::engine::Shape;
use crate::readback::Rules;

/// The policy of one device in one program.
#[derive(Debug, Default)]
pub struct Policy {
    calibration: Option<Calibration>,
    reads: Guard,
    writes: Guard,
}

impl Policy {
    /// A policy by a calibration, or by the rule table alone.
    #[must_use]
    pub fn new(calibration: Option<Calibration>) -> Self {
        Self {
            calibration,
            reads: Guard::default(),
            writes: Guard::default(),
        }
    }

    /// The numbers of the rule table for this device.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        if let Some(calibration) = &self.calibration {
            rules.prefault_pays = calibration.pays(Direction::Read, Warmth::Cold);
            if let Some(bytes) = calibration.smallest_that_pays(Direction::Read, Warmth::Cold) {
                rules.floor_bytes = bytes;
            }
            rules.skip_huge = calibration.pays(Direction::Read, Warmth::ColdHuge) == Some(false);
        }
        rules
    }

    /// Whether a cold read of `bytes` into memory that gets huge pages by itself is left to the driver:
    /// measured, and bringing pages in was not faster at that size.
    #[must_use]
    pub fn skips_huge(&self, bytes: usize) -> bool {
        let calibration = self.calibration.as_ref();
        let chosen =
            calibration.and_then(|known| known.choose(Direction::Read, Warmth::ColdHuge, bytes));
        chosen == Some(Mechanism::Forward)
    }

    /// What to do with a transfer of `bytes`, if all forms are allowed for it.
    ///
    /// Without a calibration a read is left to the rule table ([`Mechanism::Prefault`] stands for "as it
    /// says") and a write is forwarded, or staged where it is forced.
    ///
    /// # Cost
    ///
    /// A look through some twenty classes; no lock, no allocation.
    #[must_use]
    pub fn choose(
        &self,
        mode: Mode,
        direction: Direction,
        warmth: Warmth,
        bytes: usize,
    ) -> Mechanism {
        let by_rules = match direction {
            Direction::Read => Mechanism::Prefault,
            Direction::Write => Mechanism::Forward,
        };
        let calibration = self.calibration.as_ref();
        match mode {
            Mode::Off => Mechanism::Forward,
            Mode::Auto if self.guard(direction).is_off() => by_rules,
            Mode::Auto => calibration
                .and_then(|known| known.choose(direction, warmth, bytes))
                .unwrap_or(by_rules),
            Mode::Forced => {
                let known = calibration.and_then(|known| known.fastest(direction, warmth, bytes));
                known.unwrap_or(match direction {
                    Direction::Read => Mechanism::Prefault,
                    Direction::Write if bytes >= FORCED_BYTES_MIN => {
                        let shape = Shape::new((cpus::usable() / 2).max(1), Shape::CHUNK_BYTES);
                        Mechanism::staged(shape)
                    }
                    Direction::Write => Mechanism::Forward,
                })
            }
        }
    }

    /// Tells how long a staged copy took from its first chunk's arrival, so that the guard can compare
    /// it with what forwarding took when it was measured.
    pub fn took(&self, direction: Direction, warmth: Warmth, bytes: usize, took_ns: u64) {
        let class = self
            .calibration
            .as_ref()
            .and_then(|calibration| calibration.find(direction, warmth, bytes));
        if let Some(class) = class {
            self.guard(direction)
                .judge(class.forward_ns_for(bytes), took_ns);
        }
    }

    /// The guard of a direction.
    #[must_use]
    pub const fn guard(&self, direction: Direction) -> &Guard {
        match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        }
    }

    /// One line for `towpath run`: what is active and how much it gains, or why not.
    #[must_use]
    pub fn text(&self, direction: Direction, warmth: Warmth, bytes: usize) -> String {
        if self.guard(direction).is_off() {
            return "off: it lost time in this program".to_owned();
        }
        let class = self
            .calibration
            .as_ref()
            .and_then(|calibration| calibration.find(direction, warmth, bytes));
        class.map_or_else(
            || "not calibrated: by the rule table".to_owned(),
            Class::text,
        )
    }
}

/// 1 MiB: forced staging of less is never right.
const FORCED_BYTES_MIN: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn class(direction: Direction, warmth: Warmth, bytes: usize, choice: Mechanism) -> Class {
        let staged = Mechanism::staged(Shape::new(4, 4 << 20));
        Class {
            direction,
            warmth,
            bytes,
            forward_ns: 10_000_000,
            forward_cpu_ns: 10_000_000,
            options: vec![
                Timing {
                    mechanism: Mechanism::Prefault,
                    ns: 5_000_000,
                    cpu_ns: 5_000_000,
                },
                Timing {
                    mechanism: staged,
                    ns: 2_000_000,
                    cpu_ns: 8_000_000,
                },
            ],
            choice,
        }
    }

    #[test]
    fn the_class_at_or_below_decides_and_below_the_smallest_it_is_forward() {
        let staged = Mechanism::staged(Shape::new(4, 4 << 20));
        let calibration = Calibration {
            classes: vec![
                class(Direction::Read, Warmth::Cold, 1 << 20, Mechanism::Forward),
                class(Direction::Read, Warmth::Cold, 16 << 20, Mechanism::Prefault),
                class(Direction::Read, Warmth::Cold, 64 << 20, staged),
                class(Direction::Write, Warmth::Warm, 1 << 20, staged),
            ],
        };
        let policy = Policy::new(Some(calibration));
        let read = |bytes| policy.choose(Mode::Auto, Direction::Read, Warmth::Cold, bytes);
        assert_eq!(read(1 << 19), Mechanism::Forward);
        assert_eq!(read(15 << 20), Mechanism::Forward);
        assert_eq!(read(16 << 20), Mechanism::Prefault);
        assert_eq!(read(1 << 30), staged);
        assert_eq!(policy.rules().floor_bytes, 16 << 20);
        assert_eq!(policy.rules().prefault_pays, Some(true));
        assert!(!policy.skips_huge(64 << 20), "not measured");
        // Off is off, and forced takes the fastest whatever the gain.
        let off = policy.choose(Mode::Off, Direction::Read, Warmth::Cold, 1 << 30);
        assert_eq!(off, Mechanism::Forward);
        let forced = policy.choose(Mode::Forced, Direction::Read, Warmth::Cold, 1 << 20);
        assert_eq!(forced, staged);
    }

    #[test]
    fn memory_that_comes_huge_is_left_to_the_driver_at_the_sizes_where_that_was_as_fast() {
        let huge = |bytes, choice| class(Direction::Read, Warmth::ColdHuge, bytes, choice);
        let calibration = Calibration {
            classes: vec![
                huge(4 << 20, Mechanism::Forward),
                huge(16 << 20, Mechanism::Prefault),
                huge(64 << 20, Mechanism::Forward),
            ],
        };
        let policy = Policy::new(Some(calibration));
        let sizes = [4 << 20, 20 << 20, 64 << 20].map(|bytes| policy.skips_huge(bytes));
        assert_eq!(sizes, [true, false, true]);
    }

    #[test]
    fn without_a_calibration_nothing_is_staged_unless_forced() {
        let policy = Policy::new(None);
        let auto = |direction| policy.choose(Mode::Auto, direction, Warmth::Warm, 64 << 20);
        assert_eq!(auto(Direction::Read), Mechanism::Prefault);
        assert_eq!(auto(Direction::Write), Mechanism::Forward);
        let forced = policy.choose(Mode::Forced, Direction::Write, Warmth::Warm, 64 << 20);
        assert!(matches!(forced, Mechanism::Staged { .. }));
    }

    #[test]
    fn a_fix_that_loses_in_the_program_is_switched_off() {
        let staged = Mechanism::staged(Shape::new(4, 4 << 20));
        let classes = vec![class(Direction::Write, Warmth::Warm, 1 << 20, staged)];
        let policy = Policy::new(Some(Calibration { classes }));
        let choose = || policy.choose(Mode::Auto, Direction::Write, Warmth::Warm, 1 << 20);
        for _ in 0..100 {
            policy.took(Direction::Write, Warmth::Warm, 1 << 20, 2_000_000);
        }
        assert_eq!(choose(), staged);
        for _ in 0..20 {
            policy.took(Direction::Write, Warmth::Warm, 1 << 20, 11_000_000);
        }
        assert_eq!(choose(), Mechanism::Forward);
        assert!(
            policy
                .text(Direction::Write, Warmth::Warm, 1 << 20)
                .starts_with("off")
        );
        assert!(!policy.guard(Direction::Read).is_off());
    }
}
