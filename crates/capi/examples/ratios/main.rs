//! Do the C examples gain what the Rust libraries gain? Runs each beside the same scene in Rust, in turn and in
//! random order, and compares the ratios that both print.
//!
//! ```text
//! cargo build --release -p towpath-capi -p towpath-mock-vulkan
//! cargo run --release -p towpath-capi --example ratios -- [--pairs N] [--json FILE]
//! ```
//!
//! Needs cc, c++, PoCL, and the headers of Vulkan and OpenCL.
#![expect(clippy::print_stdout, reason = "a program reports on its output")]

mod textures;
mod twins;
mod vulkan;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde_json::{Value, json};
use towpath_measure::judge::{Question, Verdict, paired};
use towpath_measure::random::Random;
use towpath_needs::artifact;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A scene: its source, its compiler and its libraries, and the same in Rust.
struct Scene {
    name: &'static str,
    source: &'static str,
    compiler: &'static [&'static str],
    libraries: &'static [&'static str],
    /// Shares of the time before that are too small to count: less than it is as good as this.
    floor: f64,
    twin: fn() -> Outcome,
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "cache",
        source: "pipeline_cache.cpp",
        compiler: &["c++", "-std=c++17"],
        libraries: &["-lvulkan"],
        // A thousandth: of the 25 ms that a save took, 25 us. What is left of an unchanged save is a microsecond,
        // and whether it is one or two nobody can feel; one that fetched or wrote would take a hundred times it.
        floor: 1e-3,
        twin: vulkan::cache,
    },
    Scene {
        name: "readback",
        source: "readback.c",
        compiler: &["cc", "-std=c11"],
        libraries: &["-lOpenCL"],
        floor: 0.0,
        twin: twins::readback,
    },
    Scene {
        name: "upload",
        source: "texture_upload.c",
        compiler: &["cc", "-std=c11"],
        libraries: &[],
        floor: 0.0,
        twin: textures::upload,
    },
    Scene {
        name: "waits",
        source: "syncobj.c",
        compiler: &["cc", "-std=c11"],
        libraries: &["-lpthread"],
        floor: 0.0,
        twin: twins::waits,
    },
];

/// Two ratios are the same where the whole interval of their quotient is proven to lie within this: the readback's own
/// spread from run to run is as large.
const MARGIN: f64 = 0.15;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["twin", name] => SCENES
            .iter()
            .find(|scene| scene.name == *name)
            .map_or_else(|| Err("no such twin".into()), |scene| (scene.twin)()),
        options => compare(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("ratios: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The two times that a scene measures.
#[derive(Clone, Copy, serde::Serialize)]
struct Times {
    before_ms: f64,
    ours_ms: f64,
}

impl Times {
    fn ratio(self, scene: &Scene) -> f64 {
        self.before_ms / self.ours_ms.max(self.before_ms * scene.floor)
    }

    /// From the line that [`says_ratio`] prints, and the C examples as well.
    fn from_output(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.contains(", ratio "))?;
        let number = |after: &str| -> Option<f64> {
            let (_, rest) = line.split_once(after)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            before_ms: number(": before ")?,
            ours_ms: number(", ours ")?,
        })
    }
}

/// Prints both ways' times as the C examples do.
pub(crate) fn says_ratio(what: &str, before_ms: f64, ours_ms: f64) {
    println!(
        "{what}: before {before_ms:.6} ms, ours {ours_ms:.6} ms, ratio {:.3}",
        before_ms / ours_ms
    );
}

fn compare(options: &[&str]) -> Outcome {
    let value = |name: &str| {
        let mut pairs = options.windows(2);
        pairs.find_map(|pair| match pair {
            [option, value] if *option == name => Some(*value),
            _ => None,
        })
    };
    let pairs: usize = value("--pairs").unwrap_or("12").parse()?;
    let folder = tempfile::tempdir()?;
    let mut random = Random::new(1);
    let mut scenes = Vec::new();
    for scene in &SCENES {
        let program = build(scene, folder.path())?;
        let (mut c, mut rust) = (Vec::new(), Vec::new());
        // The first pair makes kernels and warms clocks; it does not count.
        for pair in 0..=pairs {
            let mut order = [true, false];
            random.shuffle(&mut order);
            for is_c in order {
                let times = run(scene, &program, folder.path(), is_c)?;
                if pair > 0 {
                    let samples = if is_c { &mut c } else { &mut rust };
                    samples.push(times);
                }
            }
        }
        scenes.push(judge(scene, &rust, &c)?);
    }
    let document = json!({
        "schema": "towpath.c-ratios/2",
        "towpath": env!("CARGO_PKG_VERSION"),
        "commit": said_by("git", &["rev-parse", "HEAD"]),
        "machine": {
            "kernel": said_by("uname", &["-r"]),
            "cpu": said_by("sh", &["-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"]),
            "cpus": said_by("nproc", &[]),
        },
        "design": "pairs of the C example and the same scene in Rust, order at random, the first pair thrown away; \
                   each run gives the ratio of its own before to its own ours, or to the floor's share of before if that is more",
        "margin": MARGIN,
        "scenes": scenes,
    });
    if let Some(path) = value("--json") {
        std::fs::write(path, serde_json::to_string_pretty(&document)?)?;
    }
    Ok(())
}

fn said_by(program: &str, words: &[&str]) -> Option<String> {
    let shown = Command::new(program).args(words).output().ok()?;
    Some(String::from_utf8_lossy(&shown.stdout).trim().to_owned())
}

fn judge(scene: &Scene, rust: &[Times], c: &[Times]) -> Outcome<Value> {
    let question = Question {
        margin: MARGIN,
        ..Question::lower_is_better()
    };
    let ratios =
        |times: &[Times]| -> Vec<f64> { times.iter().map(|times| times.ratio(scene)).collect() };
    let (rust_ratios, c_ratios) = (ratios(rust), ratios(c));
    let judged = paired(&rust_ratios, &c_ratios, &question)?;
    // A small difference may be proven as well: it is within the margin all the same.
    let is_same = judged.verdict == Verdict::Equivalent
        || (judged.low.is_some_and(|low| low >= 1.0 / (1.0 + MARGIN))
            && judged.high.is_some_and(|high| high <= 1.0 + MARGIN));
    let [estimate, low, high] =
        [judged.estimate, judged.low, judged.high].map(|end| end.unwrap_or(f64::NAN));
    println!(
        "{:9} C's ratio over Rust's: {estimate:.3} [{low:.3}, {high:.3}]: {}",
        scene.name,
        if is_same {
            "within the margin"
        } else {
            "not shown to be within the margin"
        }
    );
    Ok(json!({
        "scene": scene.name,
        "floor": scene.floor,
        "rust_ratios": rust_ratios,
        "c_ratios": c_ratios,
        "rust": rust,
        "c": c,
        "c_over_rust": estimate,
        "low": low,
        "high": high,
        "is_within_margin": is_same,
    }))
}

fn build(scene: &Scene, folder: &Path) -> Outcome<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = artifact("libtowpath.so");
    for name in ["libtowpath.so", "libtowpath.so.0"] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(&library, link)?;
        }
    }
    let program = folder.join(scene.name);
    let [compiler, standard] = scene.compiler else {
        return Err("a scene has a compiler and a standard".into());
    };
    let done = Command::new(compiler)
        .args([standard, "-O2"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("../../examples/c").join(scene.source))
        .arg("-L")
        .arg(folder)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-ltowpath")
        .args(scene.libraries)
        .arg("-o")
        .arg(&program)
        .output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into());
    }
    Ok(program)
}

/// One run; the times that it says.
fn run(scene: &Scene, program: &Path, folder: &Path, is_c: bool) -> Outcome<Times> {
    let manifest = folder.join("mock_vulkan.json");
    let text = format!(
        r#"{{"file_format_version": "1.0.1", "ICD": {{"library_path": "{}", "api_version": "1.3.0"}}}}"#,
        artifact("libtowpath_mock_vulkan.so").display()
    );
    std::fs::write(&manifest, text)?;
    let mut command = if is_c {
        Command::new(program)
    } else {
        let mut own = Command::new(std::env::current_exe()?);
        own.args(["twin", scene.name]);
        own
    };
    let done = command
        .env("POCL_CACHE_DIR", folder)
        .env("VK_ICD_FILENAMES", &manifest)
        .env("VK_DRIVER_FILES", &manifest)
        // 24 pipelines of about a mebibyte.
        .env("MOCK_VULKAN", "entry_bytes=1048576")
        .output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    match Times::from_output(&said) {
        Some(times) if done.status.success() => Ok(times),
        _ => Err(format!(
            "{}: {said}{}",
            scene.name,
            String::from_utf8_lossy(&done.stderr)
        )
        .into()),
    }
}
