//! Memory kept warm between uses, for programs that opt in.
//!
//! Allocators give large blocks back to the system when they are freed (glibc: always from 32 MiB on),
//! so a program that allocates a frame each time pays for all its pages each time. This pool keeps them,
//! up to a limit, and gives them back on [`KeepWarm::trim`].
//!
//! The locked form also keeps them from being paged out, within `RLIMIT_MEMLOCK`; what cannot be locked
//! is kept unlocked. `mlockall`, as the seed's discussion suggests, would lock the whole program.

use std::sync::Mutex;

use crate::{Mapping, Prefault, Result, prefault};

/// A bounded pool of warm memory.
#[derive(Debug)]
pub struct KeepWarm {
    free: Mutex<Vec<Mapping>>,
    limit_bytes: usize,
    locks: bool,
}

/// Memory from the pool; goes back when dropped.
#[derive(Debug)]
pub struct Warm<'a> {
    pool: &'a KeepWarm,
    mapping: Option<Mapping>,
    len: usize,
}

impl KeepWarm {
    /// An empty pool that keeps at most `limit_bytes`; with `locks`, in locked memory as far as the
    /// process may.
    #[must_use]
    pub const fn new(limit_bytes: usize, locks: bool) -> Self {
        Self {
            free: Mutex::new(Vec::new()),
            limit_bytes,
            locks,
        }
    }

    /// `len` bytes with every page present. Content is whatever the last user left.
    ///
    /// # Cost
    ///
    /// None to speak of where a kept block of up to twice the size fits; else a prefault of all of it.
    ///
    /// # Errors
    ///
    /// - [`crate::Error`]: no memory.
    pub fn take(&self, len: usize) -> Result<Warm<'_>> {
        let kept = self.free.lock().ok().and_then(|mut free| {
            let fits = |one: &Mapping| (len..=len.saturating_mul(2)).contains(&one.range().len);
            let index = free.iter().position(fits)?;
            Some(free.swap_remove(index))
        });
        let mapping = match kept {
            Some(mapping) => mapping,
            None => self.make(len)?,
        };
        Ok(Warm {
            pool: self,
            mapping: Some(mapping),
            len,
        })
    }

    fn make(&self, len: usize) -> Result<Mapping> {
        let mut mapping = Mapping::anonymous(len)?;
        let _brought = prefault(mapping.range(), &Prefault::default())?;
        if self.locks {
            mapping.lock();
        }
        Ok(mapping)
    }

    /// Frees everything that is not in use.
    pub fn trim(&self) {
        if let Ok(mut free) = self.free.lock() {
            free.clear();
        }
    }

    /// Bytes kept and not in use.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.free
            .lock()
            .map_or(0, |free| free.iter().map(|one| one.range().len).sum())
    }

    fn give(&self, mapping: Mapping) {
        let Ok(mut free) = self.free.lock() else {
            return;
        };
        free.push(mapping);
        let mut sum: usize = free.iter().map(|one| one.range().len).sum();
        // The oldest go first: what was used last is likeliest to be asked for again.
        while sum > self.limit_bytes && !free.is_empty() {
            sum -= free.remove(0).range().len;
        }
    }
}

impl Warm<'_> {
    /// Its bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        let all = self.mapping.as_ref().map_or(&[][..], Mapping::as_slice);
        all.get(..self.len).unwrap_or_default()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let all = self
            .mapping
            .as_mut()
            .map_or(&mut [][..], Mapping::as_mut_slice);
        all.get_mut(..self.len).unwrap_or_default()
    }
}

impl Drop for Warm<'_> {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            self.pool.give(mapping);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::{Residency, cold_bytes};

    const LEN: usize = 1 << 20;

    #[test]
    fn memory_comes_warm_and_is_used_again() {
        let pool = KeepWarm::new(4 * LEN, true);
        let first = {
            let mut warm = pool.take(LEN).unwrap();
            if let Residency::Known { cold, .. } = cold_bytes(crate::Range::of(warm.as_slice())) {
                assert_eq!(cold, 0);
            }
            warm.as_mut_slice().fill(9);
            warm.as_slice().as_ptr().addr()
        };
        let again = pool.take(LEN - 5).unwrap();
        assert_eq!(again.as_slice().as_ptr().addr(), first);
        assert_eq!(again.as_slice().len(), LEN - 5);
        // Much smaller requests do not get a large block.
        drop(again);
        let small = pool.take(LEN / 4).unwrap();
        assert_ne!(small.as_slice().as_ptr().addr(), first);
    }

    #[test]
    fn the_limit_holds_and_trim_frees_all() {
        let pool = KeepWarm::new(2 * LEN, false);
        let taken: Vec<Warm<'_>> = (0..5).map(|_| pool.take(LEN).unwrap()).collect();
        assert_eq!(pool.idle_bytes(), 0);
        drop(taken);
        assert_eq!(pool.idle_bytes(), 2 * LEN);
        pool.trim();
        assert_eq!(pool.idle_bytes(), 0);
        // Larger than the limit: not kept at all.
        drop(pool.take(3 * LEN).unwrap());
        assert_eq!(pool.idle_bytes(), 0);
    }
}
