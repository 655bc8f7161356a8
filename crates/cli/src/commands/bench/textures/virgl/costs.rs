//! What the layer costs before it can gain anything: calls passed on, first uploads, a texture's whole life.

use anyhow::{Result, ensure};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_measure::{Clock as _, MonotonicClock};

use super::super::Common;
use super::super::guest::Pieces;
use super::super::rows::{Flavour, Row, TEXTURES, Test};
use super::super::timing::{self, Against, Workload as _};
use super::bank::{Bank, Textures};
use super::stage::{Apis, Stage};

/// New textures, before a view can have paid: their first uploads, and their whole life (made, attached, that
/// many uploads, detached, ended).
#[derive(Debug, Serialize)]
pub(super) struct FirstUse {
    pub(super) side: u32,
    pub(super) uploads: u64,
    pub(super) is_whole_life: bool,
    pub(super) library_nanos: Vec<f64>,
    pub(super) layer_nanos: Vec<f64>,
    pub(super) against: Against,
}

/// What the layer adds to a call from which nothing can be gained.
#[derive(Debug, Serialize)]
pub(super) struct OwnCost {
    /// Which call.
    pub(super) call: &'static str,
    /// Nanoseconds of a call, one value per round.
    pub(super) library_nanos: Vec<f64>,
    pub(super) layer_nanos: Vec<f64>,
    /// Median of the differences.
    pub(super) added_nanos: f64,
}

impl Stage<'_> {
    /// Calls that the library refuses at once, and uploads of one texel to a texture that is counted but not
    /// used enough for anything else.
    pub(super) fn own_cost(
        &mut self,
        apis: Apis<'_>,
        common: &Common,
        random: &mut Random,
    ) -> Result<Vec<OwnCost>> {
        let row = Row {
            test: Test::TextureUpdate,
            is_luminance: false,
            flavour: Flavour::Texsubimage2d,
            side: 512,
        };
        let mut guest = Pieces::plain(4096).guest(2 * row.bytes(), 5)?;
        let mut results = Vec::new();
        for (call, is_known) in [("a call for no resource", false), ("a texel counted", true)] {
            let (mut library_nanos, mut layer_nanos) = (Vec::new(), Vec::new());
            for _round in 0..common.rounds.max(OWN_ROUNDS) {
                let mut order = [0_usize, 1];
                random.shuffle(&mut order);
                for arm in order {
                    let api = if arm == 0 { apis.real } else { apis.layer };
                    let next = &mut self.next;
                    let mut bank = Bank::made(self.renderer, apis.layer, row, &mut guest, next)?;
                    let textures = Textures::attach(self.renderer, api, &mut bank)?;
                    let known = textures.bank.specs.first().map_or(0, |spec| spec.handle);
                    let handle = if is_known { known } else { u32::MAX - 1 };
                    let clock = MonotonicClock;
                    let start = clock.now();
                    for _call in 0..OWN_CALLS {
                        let answer = self.renderer.write(api, handle, [0, 0, 1, 1], 4, 0);
                        ensure!(answer.is_ok() == is_known, "{call}: {answer:?}");
                    }
                    let nanos = clock.now().saturating_sub(start).0 as f64 / OWN_CALLS as f64;
                    drop(textures);
                    bank.end(self.renderer, apis.layer);
                    bank.give_back(&mut guest);
                    if arm == 0 {
                        library_nanos.push(nanos);
                    } else {
                        layer_nanos.push(nanos);
                    }
                }
            }
            let pairs = library_nanos.iter().zip(&layer_nanos);
            let added: Vec<f64> = pairs.map(|(library, layer)| layer - library).collect();
            results.push(OwnCost {
                call,
                added_nanos: median(&added),
                library_nanos,
                layer_nanos,
            });
        }
        Ok(results)
    }

    /// The first uploads of new textures by both arms, and with all that a texture's life costs.
    pub(super) fn first_use(
        &mut self,
        side: u32,
        apis: Apis<'_>,
        common: &Common,
        random: &mut Random,
    ) -> Result<[FirstUse; 2]> {
        let row = Row {
            test: Test::TextureUpload,
            is_luminance: false,
            flavour: Flavour::Texsubimage2d,
            side,
        };
        let clock = MonotonicClock;
        let mut guest = Pieces::plain(4096).guest(row.bytes() * (3 * TEXTURES) as u64, 5)?;
        let mut first: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let mut life: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        // One round more than is kept: the first warms up.
        let rounds = FIRST_ROUNDS * usize::try_from(2048 / side.clamp(1, 2048))?;
        for round in 0..=rounds.min(8 * FIRST_ROUNDS).max(common.rounds) {
            let mut order = [0_usize, 1];
            random.shuffle(&mut order);
            for arm in order {
                let api = if arm == 0 { apis.real } else { apis.layer };
                let mut next = self.next;
                let born = clock.now();
                let mut bank = Bank::made(self.renderer, api, row, &mut guest, &mut next)?;
                let mut textures = Textures::attach(self.renderer, api, &mut bank)?;
                let start = clock.now();
                textures.run(FIRST_UPLOADS)?;
                let end = clock.now();
                drop(textures);
                bank.end(self.renderer, api);
                let ended = clock.now();
                // In reverse, so that the next arm takes the same pieces for the same textures.
                bank.give_back(&mut guest);
                if let (Some(first), Some(life), true) =
                    (first.get_mut(arm), life.get_mut(arm), round > 0)
                {
                    let each = |nanos: u64| nanos as f64 / FIRST_UPLOADS as f64;
                    first.push(each(end.saturating_sub(start).0));
                    life.push(each(ended.saturating_sub(born).0));
                }
            }
        }
        let kind = |[library, layer]: [Vec<f64>; 2], is_whole_life| {
            Ok::<_, anyhow::Error>(FirstUse {
                side,
                uploads: FIRST_UPLOADS,
                is_whole_life,
                against: timing::judge("layer", &library, &layer)?,
                library_nanos: library,
                layer_nanos: layer,
            })
        };
        Ok([kind(first, false)?, kind(life, true)?])
    }
}

const OWN_CALLS: u64 = 2000;
const OWN_ROUNDS: usize = 60;
const FIRST_UPLOADS: u64 = 16;
const FIRST_ROUNDS: usize = 40;
