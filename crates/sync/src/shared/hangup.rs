//! A helper thread that sleeps on the descriptors of processes for which somebody here waits, and ends
//! what they left behind the moment they are gone.
//!
//! It runs while there is a living process to watch. A child after a fork starts one of its own.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use towpath_sys::process::above_standard;

use super::peers::{self, Peers};
use crate::prim::Lock;

/// What the thread works on.
#[derive(Debug)]
pub(crate) struct Hangups {
    /// The process whose thread this is.
    process: u64,
    /// Rung when the list grew or all is over.
    control: OwnedFd,
    list: Lock<Vec<(u64, Arc<OwnedFd>)>>,
    is_over: AtomicBool,
}

impl Hangups {
    fn ring(&self) {
        // A full counter is readable already. Byte order does not matter: not zero.
        let _written = rustix::io::write(&self.control, &[1; 8]);
    }
}

/// Gives the thread a process to watch; starts the thread if there is none.
///
/// # Errors
///
/// If a descriptor or the thread cannot be had.
pub(crate) fn hand_over(
    peers: &Arc<Peers>,
    place: &Lock<Option<Arc<Hangups>>>,
    name: u64,
    fd: Arc<OwnedFd>,
) -> std::io::Result<()> {
    let own = peers::own();
    let mut place = place.lock();
    if let Some(hangups) = place.as_ref().filter(|there| there.process == own) {
        hangups.list.lock().push((name, fd));
        hangups.ring();
        return Ok(());
    }
    let hangups = Arc::new(Hangups {
        process: own,
        control: above_standard(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)?,
        list: Lock::new(vec![(name, fd)]),
        is_over: AtomicBool::new(false),
    });
    let (peers, there) = (Arc::downgrade(peers), Arc::clone(&hangups));
    crate::quiet_thread::spawn("towpath-hangup", move || run(&peers, &there))?;
    *place = Some(hangups);
    Ok(())
}

/// Watches nobody any more.
pub(crate) fn forget_all(place: &Lock<Option<Arc<Hangups>>>) {
    if let Some(hangups) = place.lock().as_ref() {
        hangups.list.lock().clear();
        hangups.ring();
    }
}

/// Ends the thread.
pub(crate) fn end(place: &Lock<Option<Arc<Hangups>>>) {
    if let Some(hangups) = place.lock().take()
        && hangups.process == peers::own()
    {
        hangups.is_over.store(true, Ordering::Release);
        hangups.ring();
    }
}

fn run(peers: &Weak<Peers>, hangups: &Arc<Hangups>) {
    loop {
        let list = hangups.list.lock().clone();
        if list.is_empty() && peers.upgrade().is_none_or(|peers| peers.retire(hangups)) {
            return;
        }
        let gone = sleep(&hangups.control, &list);
        if hangups.is_over.load(Ordering::Acquire) {
            return;
        }
        let Some(peers) = peers.upgrade() else { return };
        for name in gone {
            hangups.list.lock().retain(|(known, _)| *known != name);
            peers.bury(name);
        }
    }
}

/// Sleeps until a process of the list is gone or the list changed; returns who is gone.
fn sleep(control: &OwnedFd, list: &[(u64, Arc<OwnedFd>)]) -> Vec<u64> {
    let mut polls = vec![PollFd::new(control, PollFlags::IN)];
    polls.extend(list.iter().map(|(_, fd)| PollFd::new(&**fd, PollFlags::IN)));
    // Interrupted or refused, nobody is known to be gone; it is tried again.
    if rustix::event::poll(&mut polls, None).is_err() {
        return Vec::new();
    }
    let _emptied = rustix::io::read(control, &mut [0; 8]);
    let gone = polls
        .iter()
        .skip(1)
        .zip(list)
        .filter(|(poll, _)| !poll.revents().is_empty());
    gone.map(|(_, (name, _))| *name).collect()
}

/// Whether the list is empty under the lock by which it grows: then the thread is taken from its
/// place, and the next one to hand something over starts another.
pub(crate) fn retire(place: &Lock<Option<Arc<Hangups>>>, hangups: &Arc<Hangups>) -> bool {
    let mut place = place.lock();
    let is_empty = hangups.list.lock().is_empty();
    if is_empty
        && place
            .as_ref()
            .is_some_and(|there| Arc::ptr_eq(there, hangups))
    {
        *place = None;
    }
    is_empty
}
