//! A future that is ready when a point is.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Object;
use super::object::Standing;
use super::ring::Ring;
use crate::prim::Arc;

/// Ready when a point of an object is done, submitted before or after. Dropped, it is forgotten.
///
/// Cost: one allocation at the first poll that does not find it done.
#[derive(Debug)]
pub struct PointReached {
    object: Object,
    point: u64,
    ring: Option<Arc<Ring>>,
}

impl Object {
    /// A future for `point` (zero: the current fence).
    #[must_use]
    pub fn reached(&self, point: u64) -> PointReached {
        PointReached {
            object: self.clone(),
            point,
            ring: None,
        }
    }
}

impl Future for PointReached {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Some(ring) = &this.ring {
            if !ring.is_live() {
                return Poll::Ready(());
            }
            ring.replace_task(context.waker());
            // Rung between the look and the replacement: the old task was woken, not this one.
            return if ring.is_live() {
                Poll::Pending
            } else {
                Poll::Ready(())
            };
        }
        if matches!(this.object.0.standing(this.point), Standing::Reached) {
            return Poll::Ready(());
        }
        let ring = Arc::new(Ring::task(context.waker().clone()));
        this.object.0.ring_when_ready(this.point, false, &ring);
        this.ring = Some(ring);
        Poll::Pending
    }
}

impl Drop for PointReached {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.cancel();
        }
    }
}
