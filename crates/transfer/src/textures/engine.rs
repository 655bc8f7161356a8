//! One transfer from request to report: plan, choose, copy, count.

use std::os::fd::OwnedFd;

use towpath_memory::view::Accessing;
use towpath_sys::dma_buf::Access;

use super::backend::{Backend, Copied, Source};
use super::backing::Backing;
use super::cost::{Job, Kind, Model};
use super::error::{Error, Result};
use super::gather::Stores;
use super::plan::{Direction, Plan, Request};
use super::shape::Texture;
use super::views::{Budget, Usable, Views, Why};

/// Which way the bytes took.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Path {
    /// There were none.
    Nothing,
    /// Straight from or to the pieces.
    Gather,
    /// Through a view, copied by the processor.
    View(Kind),
    /// Through a view, fetched by the device.
    Import(Kind),
    /// Straight from or to the pieces by the device, one region each.
    Regions,
}

/// A transfer that happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Done {
    /// Which way.
    pub path: Path,
    /// Why it was copied from the pieces; `None` if it was not, or if no view was considered.
    pub why: Option<Why>,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Bytes that processors of this process wrote.
    pub by_cpu: u64,
}

/// Sums over all transfers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Transfers that happened.
    pub transfers: u64,
    /// Transfers refused.
    pub refused: u64,
    /// Transfers straight from the pieces.
    pub gathered: u64,
    /// Transfers through a view.
    pub viewed: u64,
    /// Transfers that the device fetched.
    pub imported: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Bytes that processors of this process wrote.
    pub by_cpu: u64,
}

/// What to do about views.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a switch")]
pub enum Policy {
    /// Never.
    Never,
    /// When they have paid.
    Chosen,
    /// At once; for measuring, and for backends that need one pointer.
    Always,
}

/// Transfers between backings and the images of one backend.
#[derive(Debug)]
pub struct Transfers<B> {
    backend: B,
    views: Views,
    model: Model,
    policy: Policy,
    totals: Totals,
}

impl<B: Backend> Transfers<B> {
    /// An engine that chooses by `model`; `device` is `/dev/udmabuf`, if it may be used.
    #[must_use]
    pub fn new(backend: B, model: Model, budget: Budget, device: Option<OwnedFd>) -> Self {
        Self {
            backend,
            views: Views::new(budget, device),
            model,
            policy: Policy::Chosen,
            totals: Totals::default(),
        }
    }

    /// The same engine with another rule about views.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The backend.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The view cache.
    #[must_use]
    pub const fn views(&self) -> &Views {
        &self.views
    }

    /// Sums so far.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Moves what `request` asks for between `backing` and `image`, which was made of `texture`.
    ///
    /// # Cost
    ///
    /// No allocation after the first transfers, unless a view is made.
    ///
    /// # Errors
    ///
    /// Before a byte moves: [`Error::Request`], [`Error::Backing`], [`Error::Revoked`]. From the device:
    /// [`Error::Device`].
    pub fn transfer(
        &mut self,
        texture: &Texture,
        image: &mut B::Image,
        backing: &Backing,
        request: &Request,
    ) -> Result<Done> {
        let answer = self.attempt(texture, image, backing, request);
        match &answer {
            Ok(done) => self.count(done),
            Err(_refused) => self.totals.refused += 1,
        }
        answer
    }

    /// Ends what is kept for a backing that is detached or whose memory goes away. Waits for the device
    /// if it may still read from a view.
    ///
    /// # Errors
    ///
    /// [`Error::Device`]; the view is dropped all the same.
    pub fn detach(&mut self, backing: &Backing) -> Result<()> {
        let finished = if self.totals.imported > 0 {
            self.backend.finish()
        } else {
            Ok(())
        };
        self.views.detach(backing);
        self.forget_dropped();
        finished
    }

    /// Why a transfer of `backing` is copied or not, in words.
    #[must_use]
    pub fn explain(&self, backing: &Backing) -> String {
        let rent = self.views.rent(backing).unwrap_or_default();
        let span = backing.span(0, backing.len());
        let mapped = super::cost::Mapped {
            runs: span.runs as u64,
            pages: backing.len().div_ceil(4096),
            by_device: rent.by_device,
        };
        let price = self.model.price(mapped, Kind::Stitched);
        let is_view = self.views.has_view(backing);
        super::cost::explain(mapped.runs, backing.len(), &rent, price, is_view)
    }

    fn attempt(
        &mut self,
        texture: &Texture,
        image: &mut B::Image,
        backing: &Backing,
        request: &Request,
    ) -> Result<Done> {
        let plan = Plan::new(texture, request, backing.len())?;
        if plan.payload() == 0 {
            return Ok(Done {
                path: Path::Nothing,
                why: None,
                bytes: 0,
                by_cpu: 0,
            });
        }
        backing.generation().ok_or(Error::Revoked)?;
        let stores = self.stores(&plan);
        let why = match self.through_view(image, backing, &plan, stores)? {
            Ok(done) => return Ok(done),
            Err(why) => why,
        };
        let source = Source::Pieces(backing);
        let copied = self.backend.transfer(image, &plan, source, stores)?;
        Ok(Done {
            path: if copied.imported {
                Path::Regions
            } else {
                Path::Gather
            },
            why,
            bytes: plan.payload(),
            by_cpu: copied.by_cpu,
        })
    }

    /// The transfer through a view; the inner error is why not.
    fn through_view(
        &mut self,
        image: &mut B::Image,
        backing: &Backing,
        plan: &Plan,
        stores: Stores,
    ) -> Result<Result<Done, Option<Why>>> {
        if self.policy == Policy::Never {
            return Ok(Err(None));
        }
        let range = (plan.guest.offset, plan.guest.end());
        let job = Job {
            bytes: plan.payload(),
            runs: backing.runs_in(range.0, range.1 - range.0) as u64,
            by_device: self.backend.can_import(plan),
        };
        let force = self.policy == Policy::Always;
        let found = self.views.find(backing, range, job, &self.model, force);
        let used = match found {
            Ok(usable) => use_view(&mut self.backend, image, plan, usable, stores),
            Err(why) => {
                self.forget_dropped();
                return Ok(Err(Some(why)));
            }
        };
        self.forget_dropped();
        match used {
            Some(done) => done.map(Ok),
            None => Ok(Err(Some(self.views.copied(Why::Sync)))),
        }
    }

    fn stores(&self, plan: &Plan) -> Stores {
        let is_large = plan.payload() >= self.model.streaming_min;
        if is_large && !self.backend.reads_by_cpu() && plan.direction == Direction::Upload {
            Stores::Streaming
        } else {
            Stores::Cached
        }
    }

    fn forget_dropped(&mut self) {
        let backend = &mut self.backend;
        self.views.take_dropped(|id| backend.forget(id));
    }

    const fn count(&mut self, done: &Done) {
        let totals = &mut self.totals;
        totals.transfers += 1;
        totals.bytes += done.bytes;
        totals.by_cpu += done.by_cpu;
        match done.path {
            Path::Nothing => {}
            Path::Gather => totals.gathered += 1,
            Path::View(_) => totals.viewed += 1,
            Path::Import(_) | Path::Regions => totals.imported += 1,
        }
    }
}

/// `None` if the access could not begin; nothing was touched then.
fn use_view<B: Backend>(
    backend: &mut B,
    image: &mut B::Image,
    plan: &Plan,
    usable: Usable<'_>,
    stores: Stores,
) -> Option<Result<Done>> {
    let access = match plan.direction {
        Direction::Upload => Access::Read,
        Direction::Download => Access::Write,
    };
    let accessing: Accessing<'_> = usable.view.begin(access).ok()?;
    let source = Source::View {
        view: usable.view,
        offset: usable.offset,
        id: usable.id,
    };
    let answer = backend.transfer(image, plan, source, stores);
    drop(accessing);
    Some(answer.map(|copied: Copied| Done {
        path: if copied.imported {
            Path::Import(usable.kind)
        } else {
            Path::View(usable.kind)
        },
        why: None,
        bytes: plan.payload(),
        by_cpu: copied.by_cpu,
    }))
}
