//! Which process wrote a ledger, and whether it still lives.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// A process, told apart from others that have had or will have its id.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Process {
    /// Its id, as it sees it itself.
    pub pid: u32,
    /// Its start, in clock ticks since boot.
    pub start: u64,
    /// Inode of its PID namespace; 0 if not known.
    pub pid_namespace: u64,
    /// The boot that it lived in; zeros if not known.
    pub boot_id: [u8; 16],
}

impl Process {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start: start_of("self").unwrap_or(0),
            pid_namespace: pid_namespace(),
            boot_id: boot_id().unwrap_or_default(),
        }
    }

    /// Whether it is alive: its id is in use by a process of the same start and the same boot.
    ///
    /// A process of another PID namespace cannot be looked up and counts as alive, as does one whose
    /// start is not known while its id is in use. A zombie counts as dead.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let other_boot =
            boot_id().is_some_and(|now| self.boot_id != [0; 16] && self.boot_id != now);
        if other_boot {
            return false;
        }
        let here = pid_namespace();
        if self.pid_namespace != 0 && here != 0 && self.pid_namespace != here {
            return true;
        }
        start_of(&self.pid.to_string()).is_some_and(|start| self.start == 0 || start == self.start)
    }
}

/// The 22nd field of `/proc/PID/stat`; `None` for no process or a zombie.
fn start_of(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything, brackets too.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let hex: String = text.trim().chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&hex, 16).ok()?;
    Some(number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_of_another_start_or_boot_does_not() {
        let me = Process::current();
        assert!(me.is_alive());
        let earlier = Process {
            start: me.start.wrapping_sub(1),
            ..me
        };
        assert!(!earlier.is_alive());
        let before = Process {
            boot_id: [7; 16],
            ..me
        };
        assert!(!before.is_alive());
        let elsewhere = Process {
            pid: u32::MAX,
            pid_namespace: 1,
            ..me
        };
        assert!(
            elsewhere.is_alive(),
            "what cannot be seen is not called dead"
        );
    }
}
