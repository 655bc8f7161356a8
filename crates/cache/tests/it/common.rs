//! What the tests of the store share.

use std::sync::Arc;

use towpath_cache::{Disk, Kind, Options, Store};

/// The identity of the tests' stores.
pub(crate) const IDENTITY: [u8; 16] = [7; 16];

/// Options with a fixed day, so that no test depends on the clock.
pub(crate) fn options() -> Options {
    Options {
        day: 20_000,
        ..Options::new(IDENTITY)
    }
}

/// A store on `disk`.
pub(crate) fn open(disk: impl Disk + 'static) -> Store {
    Store::open(Arc::new(disk), options()).unwrap()
}

/// The `n`th test payload: different for each `n`, of a few hundred bytes.
pub(crate) fn payload(n: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(n));
    let len = random.usize(1..400);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// The `n`th test key.
pub(crate) fn key(n: u32) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

/// Whether the store gives entry `n` as it was appended; panics if it gives other bytes.
pub(crate) fn has(store: &Store, n: u32) -> bool {
    match store.lookup(Kind::OVERLAY, &key(n)) {
        Some(blob) => {
            assert_eq!(&blob[..], payload(n), "damaged bytes handed out for {n}");
            true
        }
        None => false,
    }
}

/// Appends entry `n`.
pub(crate) fn append(store: &Store, n: u32) -> towpath_cache::Result<towpath_cache::Ticket> {
    store.append(Kind::OVERLAY, &key(n), &payload(n))
}
