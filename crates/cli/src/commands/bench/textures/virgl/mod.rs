//! glbench's rows through the real libvirglrenderer, as it is and behind the layer.
//!
//! Both arms use one renderer in one process and take turns; half way they change textures and memory, so that
//! what belongs to a place (which pages, which storage in GL) and not to an arm cancels. The layer may use its
//! fix when it pays (`auto`). glbench's draw is a blit of the texture to a tile of a target; the end of a sample
//! is a readback of that target. A guest's Mesa keeps the storage when a picture of the same size is given
//! again, so `teximage2d` sends what `texsubimage2d` sends.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_settings::Settings;
use towpath_virgl_client::{Api, Renderer};

use super::guest::Pieces;
use super::output::{self, Cell, Document, Goal};
use super::rows::Row;
use super::timing::{self, Against, Design, geomean};
use super::{Args, Common};
use crate::session::layers::{Library, folders};

mod bank;
mod costs;
mod stage;

use costs::{FirstUse, OwnCost};
use stage::{Apis, BUFFERS, Stage, buffer_name};

/// What is written beside the machine.
#[derive(Debug, Serialize)]
struct Body {
    cells: Vec<Cell>,
    first_use: Vec<FirstUse>,
    own_cost: Vec<OwnCost>,
    geomean_rgba: f64,
    geomean_luminance: f64,
    slower: Vec<String>,
    goals: Vec<Goal>,
}

/// Runs all rows.
pub(super) fn run(args: &Args, common: &Common, settings: &Settings) -> Result<ExitCode> {
    let path = folders(settings)
        .into_iter()
        .map(|folder| folder.join(Library::Virgl.file_name()))
        .find(|path| path.is_file())
        .context("cannot find libtowpath_virgl_layer.so")?;
    let real = Api::real()?;
    let layer = Api::through(&path)?;
    let renderer = Renderer::new(&real)?;
    let mut stage = Stage::new(&renderer, &real)?;
    let mut random = Random::new(common.seed);
    let design = Design {
        sample_nanos: args.sample_ms * 1_000_000,
        // Half of them in each half.
        rounds: common.rounds.div_ceil(2),
        uploads: None,
    };
    let apis = Apis {
        real: &real,
        layer: &layer,
    };
    let mut cells = Vec::new();
    for pieces in args.pieces(&[Pieces::plain(4096)]) {
        for row in Row::all(common.is_quick, &args.row) {
            let cell = stage.row(row, pieces, apis, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
        for bytes in BUFFERS {
            if !buffer_name(bytes).contains(&args.row) {
                continue;
            }
            let cell = stage.buffer(bytes, pieces, apis, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
    }
    let mut first_use = Vec::new();
    for side in [128, 512, 1024, 2048] {
        if common.is_quick && side > 512 {
            continue;
        }
        first_use.extend(stage.first_use(side, apis, common, &mut random)?);
    }
    let own_cost = stage.own_cost(apis, common, &mut random)?;
    let body = summary(cells, first_use, own_cost);
    let driver = "libvirglrenderer on EGL without a surface".to_owned();
    let schema = "towpath.bench-textures-virgl/1";
    Document::new(schema, driver, DESIGN, (args, common), body).write(common.json.as_deref())?;
    renderer.cleanup(&real);
    Ok(ExitCode::SUCCESS)
}

const DESIGN: &str = "both arms once per round in random order, on one renderer in one process; half way they \
                      change textures and memory, and a pair is one sample of each half; nanoseconds per \
                      upload of a sample of at least sample_ms; contents are noise; the target's pixels and \
                      each texture's texels are compared between arms; verdicts after Holm's correction over \
                      all rows";

fn summary(mut cells: Vec<Cell>, mut first_use: Vec<FirstUse>, own_cost: Vec<OwnCost>) -> Body {
    timing::holm(cells.iter_mut().flat_map(|cell| &mut cell.against));
    timing::holm(first_use.iter_mut().map(|first| &mut first.against));
    let gains = |is_luminance: bool| {
        let of_format = cells
            .iter()
            .filter(|cell| cell.row.is_some_and(|row| row.is_luminance == is_luminance));
        geomean(of_format.flat_map(|cell| cell.against.iter().map(|other| other.speedup)))
    };
    let slower: Vec<String> = cells
        .iter()
        .filter(|cell| cell.against.iter().any(|other| other.verdict == "slower"))
        .map(|cell| format!("{} in {}", cell.name, cell.pieces.text()))
        .collect();
    for first in &first_use {
        let what = if first.is_whole_life {
            "life of a texture with"
        } else {
            "first"
        };
        let against = &first.against;
        say!(
            "{what} {} uploads at {}^2: {:.3} of the library's time ({}), {}",
            first.uploads,
            first.side,
            1.0 / against.speedup,
            interval(against),
            against.verdict
        );
    }
    for own in &own_cost {
        say!(
            "{}: {:.1} ns of the layer's own beside {:.1} ns",
            own.call,
            own.added_nanos,
            median(&own.library_nanos)
        );
    }
    let body = Body {
        own_cost,
        geomean_rgba: gains(false),
        geomean_luminance: gains(true),
        goals: goals(&cells, &first_use, gains(false), &slower),
        slower,
        cells,
        first_use,
    };
    say!(
        "\nwith the layer: rgba x{:.2}, luminance x{:.2} (geometric means); proven slower: {:?}",
        body.geomean_rgba,
        body.geomean_luminance,
        body.slower
    );
    output::print_goals(&body.goals);
    body
}

/// The ends of the interval of the time relative to the first arm's.
fn interval(against: &Against) -> String {
    let end =
        |value: Option<f64>| value.map_or("?".to_owned(), |value| format!("{:.3}", 1.0 / value));
    format!("{} to {}", end(against.high), end(against.low))
}

fn goals(cells: &[Cell], first_use: &[FirstUse], rgba: f64, slower: &[String]) -> Vec<Goal> {
    let comparisons = || cells.iter().flat_map(|cell| &cell.against);
    let unadjusted = comparisons().filter(|one| one.p < 0.05 && one.speedup < 1.0);
    let mut found: Vec<f64> = comparisons().filter_map(|one| one.detectable).collect();
    found.sort_unstable_by(f64::total_cmp);
    let middle = found.get(found.len() / 2).copied().unwrap_or(f64::NAN);
    let text = format!(
        "{} proven slower of {}; {} below 5 % without the correction; differences found with 80 %: middle \
         {:.1} %, worst {:.1} %",
        slower.len(),
        comparisons().count(),
        unadjusted.count(),
        100.0 * middle,
        100.0 * found.last().copied().unwrap_or(f64::NAN)
    );
    let mut goals = vec![Goal::new(
        "no row proven slower".to_owned(),
        text,
        slower.is_empty(),
    )];
    if rgba.is_finite() {
        let goal = "geometric mean of the RGBA rows at least 1.4".to_owned();
        goals.push(Goal::new(goal, format!("{rgba:.2}"), rgba >= 1.4));
    }
    for first in first_use.iter().filter(|first| !first.is_whole_life) {
        let cost = 1.0 / first.against.speedup;
        let goal = format!("first uploads of {}^2 at most 2 % dearer", first.side);
        let seen = format!("{cost:.3} ({})", interval(&first.against));
        // Proven dearer than the bound would be: the whole interval above it.
        let is_met = cost <= 1.02 || first.against.high.is_none_or(|high| 1.0 / high <= 1.02);
        goals.push(Goal::new(goal, seen, is_met));
    }
    goals
}
