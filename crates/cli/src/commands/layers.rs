//! `towpath layers`: puts the layers where loaders look, takes them away, and says where they are.
//!
//! `towpath run` and `towpath ab` need none of this: they set the loaders up for one program. Installing is
//! for programs that something else starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use towpath_settings::Settings;

use crate::session::layers::{Layers, Library, VULKAN_LAYER, vulkan_manifest};

/// Installs, removes and shows the OpenCL and Vulkan layers.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath layers status\n  towpath layers install\n  \
    towpath layers install --implicit\n  towpath layers remove"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Makes the Vulkan layer known by name, for programs that ask for it
    #[command(after_help = "Example:\n  towpath layers install --implicit")]
    Install {
        /// Also load both layers into every program that uses OpenCL or Vulkan
        #[arg(long)]
        implicit: bool,
        #[command(flatten)]
        places: Places,
    },
    /// Takes away whatever install has put anywhere
    #[command(after_help = "Example:\n  towpath layers remove")]
    Remove {
        #[command(flatten)]
        places: Places,
    },
    /// Says where the layers are and what is installed
    #[command(after_help = "Example:\n  towpath layers status")]
    Status {
        #[command(flatten)]
        places: Places,
    },
}

#[derive(Debug, clap::Args)]
struct Places {
    /// Folder of OpenCL layer files that the loader reads
    #[arg(long, value_name = "FOLDER", default_value = "/etc/OpenCL/layers")]
    opencl_folder: PathBuf,
}

/// Does it, and prints each file that was written or removed.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (settings, _problems) = Settings::from_environment();
    let layers = Layers::find(&settings, &[]);
    let lines = match &args.action {
        Action::Install { implicit, places } => {
            install(&layers, &Targets::new(&settings, places)?, *implicit)?
        }
        Action::Remove { places } => remove(&Targets::new(&settings, places)?)?,
        Action::Status { places } => status(&layers, &Targets::new(&settings, places)?),
    };
    for line in lines {
        say!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The files that install may write.
struct Targets {
    explicit: PathBuf,
    implicit: PathBuf,
    opencl: PathBuf,
}

impl Targets {
    fn new(settings: &Settings, places: &Places) -> Result<Self> {
        let data = settings.data_home.clone().filter(|path| path.is_absolute());
        let home = || settings.home.as_ref().map(|home| home.join(".local/share"));
        let data = data
            .or_else(home)
            .filter(|path| path.is_absolute())
            .context(
                "no folder for manifests: neither XDG_DATA_HOME nor HOME is an absolute path",
            )?;
        let manifest = "towpath_vulkan_layer.json";
        Ok(Self {
            explicit: data.join("vulkan/explicit_layer.d").join(manifest),
            implicit: data.join("vulkan/implicit_layer.d").join(manifest),
            opencl: places.opencl_folder.join("towpath.lay"),
        })
    }

    fn all(&self) -> [(&'static str, &Path); 3] {
        [
            ("Vulkan, on request", &self.explicit),
            ("Vulkan, in every program", &self.implicit),
            ("OpenCL, in every program", &self.opencl),
        ]
    }
}

fn install(layers: &Layers, targets: &Targets, implicit: bool) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    match (&layers.vulkan, implicit) {
        (Some(library), true) => {
            let mut manifest = vulkan_manifest(library);
            if let Some(layer) = manifest
                .get_mut("layer")
                .and_then(|layer| layer.as_object_mut())
            {
                let switch = serde_json::json!({"DISABLE_TOWPATH_LAYER": "1"});
                layer.insert("disable_environment".to_owned(), switch);
            }
            write(
                &targets.implicit,
                &serde_json::to_vec_pretty(&manifest)?,
                &mut lines,
            )?;
        }
        (Some(library), false) => {
            let manifest = serde_json::to_vec_pretty(&vulkan_manifest(library))?;
            write(&targets.explicit, &manifest, &mut lines)?;
            lines.push(format!("ask for it by VK_INSTANCE_LAYERS={VULKAN_LAYER}"));
        }
        (None, _) => lines.push(missing(Library::Vulkan)),
    }
    match (&layers.opencl, implicit) {
        (Some(library), true) => {
            let path = format!("{}\n", library.display());
            write(&targets.opencl, path.as_bytes(), &mut lines)?;
        }
        (Some(library), false) => lines.push(format!(
            "OpenCL has no layers by name: ask for ours by OPENCL_LAYERS={}",
            library.display()
        )),
        (None, _) => lines.push(missing(Library::OpenCl)),
    }
    if layers.vulkan.is_none() && layers.opencl.is_none() {
        bail!("{}", lines.join("; "));
    }
    if implicit {
        lines.extend(WARNING.iter().map(|line| (*line).to_owned()));
    }
    Ok(lines)
}

const WARNING: [&str; 3] = [
    "warning: the layers are now loaded into EVERY program that uses OpenCL or Vulkan;",
    "  they do nothing there unless TOWPATH_LEDGER or TOWPATH_FIX is set.",
    "  DISABLE_TOWPATH_LAYER=1 keeps the Vulkan one out; towpath layers remove undoes this.",
];

fn missing(library: Library) -> String {
    format!(
        "{} was not found: build or install it first",
        library.file_name()
    )
}

fn write(path: &Path, bytes: &[u8], lines: &mut Vec<String>) -> Result<()> {
    let text = || format!("cannot install {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(text)?;
    }
    fs::write(path, bytes).with_context(text)?;
    lines.push(format!("wrote {}", path.display()));
    Ok(())
}

/// Removes every file that install may have written; one that is not there is no error.
fn remove(targets: &Targets) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut failed = None;
    for (_, path) in targets.all() {
        match fs::remove_file(path) {
            Ok(()) => lines.push(format!("removed {}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = Some((path, error)),
        }
    }
    if let Some((path, error)) = failed {
        return Err(error).with_context(|| format!("cannot remove {}", path.display()));
    }
    if lines.is_empty() {
        lines.push("nothing was installed".to_owned());
    }
    Ok(lines)
}

fn status(layers: &Layers, targets: &Targets) -> Vec<String> {
    let found = [
        (Library::OpenCl, &layers.opencl),
        (Library::Vulkan, &layers.vulkan),
    ];
    let libraries = found.into_iter().map(|(library, path)| match path {
        Some(path) => format!("{}: {}", library.file_name(), path.display()),
        None => missing(library),
    });
    let installed = targets.all().into_iter().map(|(what, path)| {
        let state = if path.exists() {
            "installed"
        } else {
            "not installed"
        };
        format!("{what}: {state} ({})", path.display())
    });
    libraries.chain(installed).collect()
}
