//! What a sync object holds, over any kind of fence: nothing, one fence, or a timeline.
//!
//! A timeline is the highest point added and, for points not done yet, a tail of (point, fence that
//! ends when this point and all before it are done).

use std::collections::VecDeque;

use crate::error::Result;

/// What a payload asks of a fence.
pub(crate) trait FenceLike: Clone {
    /// Whether it has ended.
    fn is_done(&self) -> bool;

    /// A fence that ends when both have. Fails where a table is full.
    fn join(&self, other: &Self) -> Result<Self>;
}

/// Where a point stands.
#[derive(Clone, Debug)]
pub(crate) enum Standing<F> {
    /// No fence there yet.
    Absent,
    /// A fence that is not done.
    Pending(F),
    /// Done.
    Reached,
}

/// What an object holds.
#[derive(Debug, Default)]
pub(crate) enum Payload<F> {
    #[default]
    Empty,
    Signaled,
    Fence(F),
    Timeline(Timeline<F>),
}

/// Points of growing value.
#[derive(Debug)]
pub(crate) struct Timeline<F> {
    /// The highest point added.
    pub(crate) submitted: u64,
    /// Points not done, oldest first, all of the newest run of growing points.
    pub(crate) tail: VecDeque<Tail<F>>,
}

/// A point that is not done.
#[derive(Debug)]
pub(crate) struct Tail<F> {
    pub(crate) point: u64,
    /// The point before this one; zero for the first of a run. All above it up to `point` need `fence`.
    pub(crate) previous: u64,
    pub(crate) fence: F,
}

impl<F> Default for Timeline<F> {
    fn default() -> Self {
        Self {
            submitted: 0,
            tail: VecDeque::new(),
        }
    }
}

impl<F: FenceLike> Timeline<F> {
    /// Forgets what is done.
    fn trim(&mut self) {
        // A fence of the tail ends after those before it, so the done ones are at the front.
        while self.tail.front().is_some_and(|tail| tail.fence.is_done()) {
            self.tail.pop_front();
        }
    }

    /// The highest point that is done, as of the last trim.
    pub(crate) fn reached(&self) -> u64 {
        self.tail
            .front()
            .map_or(self.submitted, |tail| tail.previous)
    }

    fn add(&mut self, point: u64, fence: Option<&F>, before: Option<&F>) -> Result<()> {
        self.trim();
        let last = self
            .tail
            .back()
            .map(|tail| tail.fence.clone())
            .or_else(|| before.cloned());
        let joined = match (last, fence) {
            (Some(last), Some(fence)) => Some(last.join(fence)?),
            (Some(last), None) => Some(last),
            (None, Some(fence)) => Some(fence.clone()),
            (None, None) => None,
        };
        let joined = joined.filter(|fence| !fence.is_done());
        let previous = self.submitted;
        self.submitted = previous.max(point);
        let previous = if point > previous && before.is_none() {
            previous
        } else {
            0
        };
        if previous == 0 || joined.is_none() {
            // A point out of order starts a new run; the fence of its first point covers the old one.
            self.tail.clear();
        }
        if let Some(fence) = joined {
            self.tail.push_back(Tail {
                point: self.submitted,
                previous,
                fence,
            });
        }
        Ok(())
    }
}

impl<F: FenceLike> Payload<F> {
    /// Forgets points that are done.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if let Self::Timeline(timeline) = self {
            timeline.trim();
        }
    }

    /// Finds the fence for a point, as `drm_syncobj_find_fence` does.
    #[inline]
    pub(crate) fn standing(&mut self, point: u64) -> Standing<F> {
        self.trim();
        match self {
            Self::Signaled if point == 0 => Standing::Reached,
            Self::Fence(fence) if point == 0 => standing_of(fence),
            Self::Empty | Self::Signaled | Self::Fence(_) => Standing::Absent,
            Self::Timeline(timeline) => {
                if point > timeline.submitted {
                    return Standing::Absent;
                }
                let tail = if point == 0 {
                    timeline.tail.back()
                } else if point <= timeline.reached() {
                    None
                } else {
                    timeline.tail.iter().find(|tail| tail.point >= point)
                };
                tail.map_or(Standing::Reached, |tail| standing_of(&tail.fence))
            }
        }
    }

    /// Whether a point has no fence: what [`Self::standing`] would find, without a look at fences.
    #[inline]
    pub(crate) fn is_absent(&self, point: u64) -> bool {
        match self {
            Self::Empty => true,
            Self::Signaled | Self::Fence(_) => point != 0,
            Self::Timeline(timeline) => point > timeline.submitted,
        }
    }

    /// Adds a point: done with `fence` and all points before it; `None` is done already. Point zero
    /// keeps the highest point. Failed, nothing is changed.
    pub(crate) fn add(&mut self, point: u64, fence: Option<&F>) -> Result<()> {
        if let Self::Timeline(timeline) = self {
            return timeline.add(point, fence, None);
        }
        let before = match self {
            Self::Fence(before) if !before.is_done() => Some(before.clone()),
            Self::Empty | Self::Signaled | Self::Fence(_) | Self::Timeline(_) => None,
        };
        let mut timeline = Timeline::default();
        timeline.add(point, fence, before.as_ref())?;
        *self = Self::Timeline(timeline);
        Ok(())
    }

    /// Highest point done (zero without a timeline), and whether all there is is done.
    pub(crate) fn done(&self) -> (u64, bool) {
        match self {
            Self::Empty => (0, false),
            Self::Signaled => (0, true),
            Self::Fence(fence) => (0, fence.is_done()),
            Self::Timeline(timeline) => (timeline.reached(), timeline.tail.is_empty()),
        }
    }

    /// Highest point done and highest point added; zero without a timeline.
    pub(crate) fn progress(&mut self) -> (u64, u64) {
        self.trim();
        match self {
            Self::Timeline(timeline) => (timeline.reached(), timeline.submitted),
            Self::Empty | Self::Signaled | Self::Fence(_) => (0, 0),
        }
    }
}

fn standing_of<F: FenceLike>(fence: &F) -> Standing<F> {
    if fence.is_done() {
        Standing::Reached
    } else {
        Standing::Pending(fence.clone())
    }
}
