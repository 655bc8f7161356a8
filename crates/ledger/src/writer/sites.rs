//! The table of sites: found or entered without locks, named after the claim.

use std::sync::atomic::{AtomicU8, Ordering};

use super::write_bytes;
use crate::calls::mix;
use crate::layout::{Ledger, MODULES, SITE_OTHER, STACK_FRAMES, Site};
use crate::stack::{ModuleAt, module_at};
use crate::table::{Place, place};
use crate::{Counter, SiteId, SiteKey};

impl SiteId {
    /// The site that takes what finds no room.
    pub(crate) const OTHER: Self = Self(255);
}

const _: () = assert!(SITE_OTHER == 255, "`SiteId::OTHER` is the last site");

/// The site of `key`, entered if it is new; `is_wait` is kept with a new one.
pub(super) fn find(ledger: &Ledger, key: &SiteKey<'_>, is_wait: bool) -> SiteId {
    let hash = key.hash();
    match place(
        |at| ledger.sites.get(at).map(|site| &site.hash),
        SITE_OTHER,
        hash,
    ) {
        Place::Found(index) => id(index),
        Place::Claimed(index) => {
            if let Some(site) = ledger.sites.get(index) {
                site.is_wait.store(u8::from(is_wait), Ordering::Relaxed);
                name(ledger, site, key);
            }
            id(index)
        }
        Place::Full => {
            if let Some(total) = ledger
                .counters
                .get(usize::from(Counter::SitesOverflowed.number()))
            {
                total.fetch_add(1, Ordering::Relaxed);
            }
            SiteId::OTHER
        }
    }
}

fn id(index: usize) -> SiteId {
    u16::try_from(index).map_or(SiteId::OTHER, SiteId)
}

/// Fills in what a reader shows. Only the claimer of the place comes here.
fn name(ledger: &Ledger, site: &Site, key: &SiteKey<'_>) {
    site.path.store(key.path.number(), Ordering::Relaxed);
    site.stack_hash.store(key.stack.hash(), Ordering::Relaxed);
    write_text(&site.call, key.call);
    write_text(&site.device, key.device);
    let frames = key.stack.addresses();
    for (to, address) in site.stack.iter().zip(frames) {
        to.store(frame(ledger, *address), Ordering::Relaxed);
    }
    let frames = u8::try_from(frames.len().min(STACK_FRAMES)).unwrap_or(0);
    site.stack_len.store(frames, Ordering::Relaxed);
    // Release: whoever sees the mark through the mapping sees the names.
    site.is_named.store(1, Ordering::Release);
}

/// Leaves at least one zero at the end and never cuts a character in two.
fn write_text(to: &[AtomicU8], text: &str) {
    let room = to.len().saturating_sub(1).min(text.len());
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end));
    let kept = end.and_then(|end| text.as_bytes().get(..end));
    write_bytes(to, kept.unwrap_or_default());
}

/// Names the site "other".
pub(super) fn head(ledger: &Ledger) {
    if let Some(other) = ledger.sites.get(SITE_OTHER) {
        other.hash.store(u64::MAX, Ordering::Relaxed);
        write_text(&other.call, "other");
        other.is_named.store(1, Ordering::Relaxed);
    }
}

/// The address as module and offset; modules beyond the table's room are unnamed.
fn frame(ledger: &Ledger, address: usize) -> u64 {
    let Some(module) = module_at(address) else {
        return 0;
    };
    let number = module_number(ledger, &module).unwrap_or(0);
    (number << OFFSET_BITS) | (module.offset & ((1 << OFFSET_BITS) - 1))
}

/// Bits of a frame that hold the offset; those above hold the module's number plus 1.
const OFFSET_BITS: u32 = 48;

fn module_number(ledger: &Ledger, module: &ModuleAt) -> Option<u64> {
    let name = module.name.get(..module.len)?;
    let hash = mix(1, name).max(1);
    let index = match place(|at| ledger.modules.get(at).map(|m| &m.hash), MODULES, hash) {
        Place::Found(index) => index,
        Place::Claimed(index) => {
            write_bytes(&ledger.modules.get(index)?.name, name);
            index
        }
        Place::Full => return None,
    };
    u64::try_from(index).ok().map(|index| index + 1)
}

/// Copies the names of sites and modules, not their counts: a child's site ids stay valid.
pub(super) fn copy_names(from: &Ledger, to: &Ledger) {
    for (from, to) in from.sites.iter().zip(&to.sites) {
        copy_bytes(&from.call, &to.call);
        copy_bytes(&from.device, &to.device);
        for (from, to) in from.stack.iter().zip(&to.stack) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        to.path
            .store(from.path.load(Ordering::Relaxed), Ordering::Relaxed);
        to.stack_len
            .store(from.stack_len.load(Ordering::Relaxed), Ordering::Relaxed);
        to.is_wait
            .store(from.is_wait.load(Ordering::Relaxed), Ordering::Relaxed);
        to.stack_hash
            .store(from.stack_hash.load(Ordering::Relaxed), Ordering::Relaxed);
        to.hash
            .store(from.hash.load(Ordering::Relaxed), Ordering::Relaxed);
        to.is_named
            .store(from.is_named.load(Ordering::Relaxed), Ordering::Release);
    }
    for (from, to) in from.modules.iter().zip(&to.modules) {
        copy_bytes(&from.name, &to.name);
        to.hash
            .store(from.hash.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn copy_bytes(from: &[AtomicU8], to: &[AtomicU8]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
