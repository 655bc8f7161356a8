//! Plays a recorded stream of a guest: temporary copy, gather, views at once, and the choice.
//!
//! Textures lie in memory (the backend without a device), so that what differs is the copying alone.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_measure::{Clock as _, MonotonicClock};
use towpath_settings::Settings;
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::null::{Null, NullImage};
use towpath_transfer::textures::trace::{self, Event, Layout};
use towpath_transfer::textures::views::{Budget, Views};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Memory, Model, Ram, Texture, Transfers, baseline,
};

use super::output::Document;
use super::timing::{self, Against, Arm};
use super::{Args, Common};

#[derive(Debug, Serialize)]
struct Body {
    textures: usize,
    transfers: usize,
    reuse_max: usize,
    arms: Vec<Arm>,
    against: Vec<Against>,
    verdict: String,
}

/// Plays the trace at `path`.
pub(super) fn run(path: &Path, args: &Args, common: &Common) -> Result<ExitCode> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let events = trace::parse(&text).with_context(|| format!("in {}", path.display()))?;
    let summary = trace::summary(&events);
    ensure!(
        summary.transfers > 0,
        "{} holds no transfer",
        path.display()
    );
    let layout = Layout::of(&events);
    let ram = Arc::new(Ram::new(layout.bytes().max(4096))?);
    let (settings, _problems) = Settings::from_environment();
    let model = Model::stored(&settings);

    let arms = rounds(&events, &layout, &ram, &model, common)?;
    let against = timing::against_first(&arms)?;
    let verdict = verdict(&against);
    say!(
        "{} textures, {} transfers, at most {} through one list",
        summary.textures,
        summary.transfers,
        summary.reuse_max
    );
    for arm in &arms {
        let path = arm.path.as_deref().unwrap_or("");
        say!(
            "{:<10} {:>9.2} us per transfer  {path}",
            arm.name,
            arm.median() / 1000.0
        );
    }
    say!("{verdict}");
    let body = Body {
        textures: summary.textures,
        transfers: summary.transfers,
        reuse_max: summary.reuse_max,
        arms,
        against,
        verdict,
    };
    let schema = "towpath.bench-textures-replay/1";
    let driver = "textures in memory".to_owned();
    Document::new(schema, driver, DESIGN, (args, common), body).write(common.json.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Plays the stream by every arm, round by round.
fn rounds(
    events: &[Event],
    layout: &Layout,
    ram: &Arc<Ram>,
    model: &Model,
    common: &Common,
) -> Result<Vec<Arm>> {
    let transfers = trace::summary(events).transfers;
    let mut random = Random::new(common.seed);
    let mut arms: Vec<Arm> = ARMS
        .iter()
        .map(|(name, _)| Arm {
            name,
            nanos: Vec::new(),
            uploads: transfers as u64,
            path: None,
        })
        .collect();
    let mut order: Vec<usize> = (0..ARMS.len()).collect();
    for round in 0..=common.rounds {
        random.shuffle(&mut order);
        for &index in &order {
            let (Some((_, policy)), Some(arm)) = (ARMS.get(index), arms.get_mut(index)) else {
                continue;
            };
            let (nanos, path) = play(events, layout, ram, model, *policy)?;
            // The first round warms up.
            if round > 0 {
                arm.nanos.push(nanos as f64 / transfers as f64);
            }
            arm.path = Some(path);
        }
    }
    Ok(arms)
}

/// The choice against the temporary copy, in words.
fn verdict(against: &[Against]) -> String {
    let chosen = against.iter().find(|other| other.arm == "chosen");
    match chosen.map(|other| (other.verdict, other.speedup)) {
        Some(("faster", gain)) => format!("the choice is x{gain:.2} faster than a temporary copy"),
        Some(("slower", gain)) => format!("the choice is slower: x{gain:.2}"),
        _ => "no effect on this stream".to_owned(),
    }
}

const DESIGN: &str = "every arm plays the whole stream once per round in random order, one round before \
                      thrown away; nanoseconds per transfer, lists and views made and ended included";

/// `None` is the temporary copy.
const ARMS: [(&str, Option<Policy>); 4] = [
    ("temporary", None),
    ("gather", Some(Policy::Never)),
    ("view", Some(Policy::Always)),
    ("chosen", Some(Policy::Chosen)),
];

/// Plays the stream once; returns its time and what was done.
fn play(
    events: &[Event],
    layout: &Layout,
    ram: &Arc<Ram>,
    model: &Model,
    policy: Option<Policy>,
) -> Result<(u64, String)> {
    let memory: Arc<dyn Memory> = Arc::clone(ram) as Arc<dyn Memory>;
    let budget = Budget::of_this_machine();
    let mut transfers = Transfers::new(Null, *model, budget, Views::open_device())
        .policy(policy.unwrap_or(Policy::Never));
    let mut images: HashMap<u32, (Texture, NullImage)> = HashMap::new();
    let mut backings: HashMap<u32, Backing> = HashMap::new();
    // Textures are made before the clock starts: they cost every arm the same.
    for event in events {
        if let Event::Create(id, texture) = event {
            images.insert(*id, (*texture, transfers.backend().create(texture)?));
        }
    }
    let clock = MonotonicClock;
    let start = clock.now();
    for event in events {
        match event {
            Event::Create(..) | Event::Unref(_) => {}
            Event::Attach(id, entries) => {
                backings.insert(*id, Backing::attach(&memory, &layout.map(entries))?);
            }
            Event::Detach(id) => {
                if let Some(backing) = backings.remove(id) {
                    transfers.detach(&backing)?;
                }
            }
            Event::Transfer(id, request) => {
                let (Some((texture, image)), Some(backing)) =
                    (images.get_mut(id), backings.get(id))
                else {
                    continue;
                };
                // What the recorded program got wrong is refused here too.
                let _refused = if policy.is_none() && request.direction == Direction::Upload {
                    let backend = transfers.backend();
                    baseline::upload(backend, texture, image, backing, request).map(|_copied| ())
                } else {
                    let done = transfers.transfer(texture, image, backing, request);
                    done.map(|_done| ())
                };
            }
        }
    }
    let nanos = clock.now().saturating_sub(start).0;
    let totals = transfers.totals();
    let made = transfers.views().counts().made;
    let text = format!(
        "{} gathered, {} viewed, {made} views",
        totals.gathered, totals.viewed
    );
    Ok((nanos, text))
}
