//! What a device must be able to do. One conformance suite (`tests/textures/conformance.rs`) holds every
//! backend to it.

use towpath_memory::view::View;
use towpath_memory::volatile::VolatileBytes;

use super::backing::Backing;
use super::error::Result;
use super::gather::{self, Stores};
use super::plan::{Direction, Lines, Plan};
use super::shape::Texture;

/// Where a transfer finds or puts the guest's bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Source<'a> {
    /// In pieces; the plan's guest rows count from the backing's start.
    Pieces(&'a Backing),
    /// In one mapping; `offset` is the backing's offset of the view's first byte.
    View {
        /// The mapping.
        view: &'a View,
        /// Where in the backing it begins.
        offset: u64,
        /// Names the view as long as it lives: a backend may keep an import of it under this number.
        id: u64,
    },
    /// In memory of this process that is neither; `lines` are its rows. Copied plainly: the baseline of the
    /// benches hands its temporary copy over like this.
    Linear {
        /// The memory.
        bytes: VolatileBytes<'a>,
        /// Its rows.
        lines: Lines,
    },
}

impl Source<'_> {
    /// Copies the plan's rows to or from `memory`, whose rows are `rows`.
    ///
    /// # Errors
    ///
    /// As [`gather::copy`].
    pub fn copy(
        &self,
        plan: &Plan,
        memory: &VolatileBytes<'_>,
        rows: &Lines,
        stores: Stores,
    ) -> Result<()> {
        let (bytes, lines) = match self {
            Self::Pieces(backing) => {
                let way = plan.direction;
                return gather::copy(backing, &plan.guest, memory, rows, way, stores);
            }
            Self::View { view, offset, .. } => (view.bytes(), plan.guest.from_offset(*offset)),
            Self::Linear { bytes, lines } => {
                return match plan.direction {
                    Direction::Upload => gather::copy_plainly(bytes, lines, memory, rows),
                    Direction::Download => gather::copy_plainly(memory, rows, bytes, lines),
                };
            }
        };
        match plan.direction {
            Direction::Upload => gather::copy_linear(&bytes, &lines, memory, rows, stores),
            // A guest's pages may be in a view twice: in order then.
            Direction::Download => gather::copy_plainly(memory, rows, &bytes, &lines),
        }
    }
}

/// What a backend did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Copied {
    /// Bytes written by this process's processors. 0 where the device fetched them itself.
    pub by_cpu: u64,
    /// Whether the device read or wrote the view itself.
    pub imported: bool,
}

/// A device that holds textures.
///
/// Images are addressed by plan: the engine has checked everything before a call.
pub trait Backend {
    /// A texture of the device.
    type Image;

    /// Makes a texture. Contents are zero.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::Error::Device), or that the device has no such format.
    fn create(&mut self, texture: &Texture) -> Result<Self::Image>;

    /// Ends a texture, after everything that uses it.
    fn destroy(&mut self, image: Self::Image);

    /// Moves the plan's rows in the plan's direction.
    ///
    /// After an upload the guest's bytes are no longer needed unless [`Copied::imported`] says so: then
    /// they are needed until [`finish`](Self::finish). A download has happened when this returns.
    ///
    /// # Cost
    ///
    /// No allocation once the largest transfer was seen.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::Error::Device).
    fn transfer(
        &mut self,
        image: &mut Self::Image,
        plan: &Plan,
        source: Source<'_>,
        stores: Stores,
    ) -> Result<Copied>;

    /// Waits until everything asked for has happened.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::Error::Device).
    fn finish(&mut self) -> Result<()>;

    /// Forgets what was kept of view `id`, after waiting for its use.
    fn forget(&mut self, id: u64);

    /// Whether the processor reads the destination next, so that it should stay in the caches.
    fn reads_by_cpu(&self) -> bool;

    /// Whether the device would fetch the plan's bytes from a view by itself.
    fn can_import(&self, plan: &Plan) -> bool;
}
