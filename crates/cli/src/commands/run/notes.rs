//! What a reader of the report must be told: what was not seen, and why.

use std::fs;
use std::path::Path;

use towpath_report::ledger::Observed;
use towpath_settings::Settings;

use super::{Args, libraries::Seen, program};
use crate::session::Session;

/// What is known before the program starts.
pub(super) fn before(args: &Args, session: Option<&Session>, settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(session) = session {
        let missing = &session.layers().missing;
        notes.extend(missing.iter().map(|library| {
            format!(
                "{} is not beside towpath, in ../lib/towpath, or in TOWPATH_LAYER_DIR: \
                 its host paths are not seen",
                library.file_name()
            )
        }));
    }
    let file = args
        .command
        .first()
        .and_then(|name| program::resolve(name, settings.path.as_deref()));
    if let Some(reason) = file.as_deref().and_then(program::secure_reason) {
        notes.push(format!(
            "the program is {reason}: no layer counts in it (loaders ignore the variables, or our layers \
             do), so that nothing is recorded"
        ));
    }
    notes
}

/// What is known after its end.
pub(super) fn after(
    args: &Args,
    session: &Session,
    observed: &Observed,
    seen: &Seen,
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(session.problems().iter().map(ToString::to_string));
    let has_writer = |name: &str| observed.writers.iter().any(|(_, _, by)| by.contains(name));
    if !has_writer("opencl") {
        notes.extend(without_opencl_ledger(seen));
    }
    if !has_writer("vulkan") && !seen.named("libvulkan.so").is_empty() {
        notes.push(lost("Vulkan", seen));
    }
    let used_nothing = seen.libraries.is_empty() && observed.writers.is_empty();
    if used_nothing {
        notes.push("the program used neither OpenCL nor Vulkan as far as was seen".to_owned());
    }
    if observed.is_empty() && !observed.writers.is_empty() {
        notes.push("our layers were loaded; no call of a host path was made".to_owned());
    }
    if (args.virgl || args.drm) && observed.writers.is_empty() {
        notes.push("the preloaded libraries recorded nothing".to_owned());
    }
    notes.extend(layer_log(&session.log_path()));
    notes
}

/// Why there is no ledger though libOpenCL was mapped.
fn without_opencl_ledger(seen: &Seen) -> Vec<String> {
    let loaders = seen.named("libOpenCL.so");
    let blind: Vec<String> = loaders
        .iter()
        .filter(|path| !loads_layers(path))
        .map(|path| {
            format!(
                "the program uses {}, a libOpenCL that loads no layers: its calls are not seen \
                 (a loader that does: ocl-icd from 2.3.0, Khronos' from 2020)",
                path.display()
            )
        })
        .collect();
    if !blind.is_empty() {
        return blind;
    }
    if !loaders.is_empty() {
        return vec![lost("OpenCL", seen)];
    }
    if !seen.named("libnvidia-opencl.so").is_empty() {
        return vec![
            "the program uses NVIDIA's OpenCL driver without a loader: its calls are not seen"
                .to_owned(),
        ];
    }
    Vec::new()
}

fn lost(what: &str, seen: &Seen) -> String {
    if seen.lost_environment {
        return format!(
            "the program has {what} loaded and recorded nothing: it, or what started it, cleared the \
             environment, and with it our layers"
        );
    }
    format!(
        "the program has {what} loaded and recorded nothing: it did not use it, or the layer failed"
    )
}

/// Whether the loader knows the variable; reads the file as doctor does.
fn loads_layers(path: &Path) -> bool {
    const NAME: &[u8] = b"OPENCL_LAYERS";
    // What cannot be read is not accused.
    fs::read(path).map_or(true, |bytes| {
        bytes.windows(NAME.len()).any(|window| window == NAME)
    })
}

/// Lines of the layers' log that are shown.
const LOG_LINES: usize = 10;

fn layer_log(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().take(LOG_LINES);
    lines
        .map(|line| format!("layer: {}", line.replace(char::is_control, "?")))
        .collect()
}
