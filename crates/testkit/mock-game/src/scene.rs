//! A test's scene: a program, a driver under a script, layers, a folder; and what came of a run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use towpath_needs::artifact;

/// Where and with what programs are run.
#[derive(Clone, Debug)]
pub struct Scene {
    folder: PathBuf,
    script: String,
    layers: Vec<&'static str>,
    /// `None`: the mock driver.
    icd: Option<PathBuf>,
    vars: Vec<(String, String)>,
    /// Where programs, layers and the mock driver are taken from; `None`: where the test was built.
    built: Option<PathBuf>,
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit code; `None` where a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub said: String,
    /// Standard error.
    pub complained: String,
    /// The mock driver's journal of this run.
    pub journal: Journal,
}

/// Lines of the mock driver.
#[derive(Clone, Debug, Default)]
pub struct Journal(Vec<String>);

impl Journal {
    /// How often `name` stands at the start of a line.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.lines(name).count()
    }

    /// The rests of the lines that `name` begins.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter_map(move |line| {
            let (first, rest) = line.split_once(' ')?;
            (first == name).then_some(rest)
        })
    }
}

impl Scene {
    /// The mock driver without layers; files go into `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            script: String::new(),
            layers: Vec::new(),
            icd: None,
            vars: Vec::new(),
            built: None,
        }
    }

    /// Takes programs, layers and the mock driver from another build, for another kind of process.
    #[must_use]
    pub fn built_in(mut self, folder: &Path) -> Self {
        self.built = Some(folder.to_owned());
        self
    }

    /// A program or library of the build that this scene is of.
    #[must_use]
    pub fn built(&self, name: &str) -> PathBuf {
        self.built
            .as_ref()
            .map_or_else(|| artifact(name), |folder| folder.join(name))
    }

    /// The mock driver's script (pairs divided by `;`).
    #[must_use]
    pub fn script(mut self, script: &str) -> Self {
        script.clone_into(&mut self.script);
        self
    }

    /// Another driver's manifest.
    #[must_use]
    pub fn icd(mut self, manifest: &str) -> Self {
        self.icd = Some(PathBuf::from(manifest));
        self
    }

    /// Adds a layer by name; the first stands next to the application.
    #[must_use]
    pub fn layer(mut self, name: &'static str) -> Self {
        self.layers.push(name);
        self
    }

    /// Sets a variable of the program.
    #[must_use]
    pub fn var(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        let value = value.as_ref().to_string_lossy().into_owned();
        self.vars.push((name.to_owned(), value));
        self
    }

    /// A file or folder of this scene.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the manifests and runs `towpath-vulkan-steps` with `steps`.
    ///
    /// # Panics
    ///
    /// If the program was not built or cannot be started.
    #[must_use]
    pub fn steps(&self, steps: &[&str]) -> Ran {
        let mut command = Command::new(self.built("towpath-vulkan-steps"));
        command.args(steps);
        self.run(command)
    }

    /// As [`Self::steps`], for any program.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn run(&self, mut command: Command) -> Ran {
        let journal = self.folder.join("journal");
        let _none_before = std::fs::remove_file(&journal).is_ok();
        self.dress(&mut command, &journal);
        let output = command.output();
        assert!(output.is_ok(), "cannot start {command:?}: {output:?}");
        let output = output.unwrap_or_else(|_| Output {
            status: std::process::ExitStatus::default(),
            stdout: Vec::new(),
            stderr: Vec::new(),
        });
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        Ran {
            code: output.status.code(),
            said: String::from_utf8_lossy(&output.stdout).into_owned(),
            complained: String::from_utf8_lossy(&output.stderr).into_owned(),
            journal: Journal(text.lines().map(str::to_owned).collect()),
        }
    }

    /// Starts `towpath-vulkan-steps` with `steps` and goes on; the child is the caller's to end.
    ///
    /// # Errors
    ///
    /// The kernel's, if it cannot be started.
    pub fn start(&self, steps: &[&str]) -> std::io::Result<std::process::Child> {
        let mut command = Command::new(self.built("towpath-vulkan-steps"));
        command.args(steps);
        self.dress(&mut command, &self.folder.join("journal-started"));
        command.stdout(std::process::Stdio::null()).spawn()
    }

    /// Gives `command` the scene's environment.
    pub fn dress(&self, command: &mut Command, journal: &Path) {
        let icd = self.icd.clone().unwrap_or_else(|| {
            let text = towpath_mock_vulkan::manifest(&self.built("libtowpath_mock_vulkan.so"));
            self.write("mock_icd.json", &text)
        });
        for name in [
            "VK_LOADER_DEBUG",
            "VK_LAYER_PATH",
            "TOWPATH_LEDGER",
            "TOWPATH_FIX",
        ] {
            command.env_remove(name);
        }
        command
            .env("VK_ICD_FILENAMES", &icd)
            .env("VK_DRIVER_FILES", &icd);
        command.env(
            "MOCK_VULKAN",
            format!("journal={};{}", journal.display(), self.script),
        );
        command.env("VK_INSTANCE_LAYERS", self.layers.join(":"));
        let layers = self.folder.join("layers");
        let _exists = std::fs::create_dir_all(&layers).is_ok();
        for (name, library) in [
            ("VK_LAYER_TOWPATH_host", "libtowpath_vulkan_layer.so"),
            ("VK_LAYER_TOWPATH_capture", "libtowpath_capture_layer.so"),
        ] {
            if self.layers.contains(&name) {
                let library = self.built(library);
                let text = layer_manifest(name, &library);
                self.write(&format!("layers/{name}.json"), &text);
            }
        }
        command.env("VK_ADD_LAYER_PATH", &layers);
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            // Another run of this scene may be reading it.
            return path;
        }
        let written = std::fs::write(&path, text);
        assert!(
            written.is_ok(),
            "cannot write {}: {written:?}",
            path.display()
        );
        path
    }
}

fn layer_manifest(name: &str, library: &Path) -> String {
    format!(
        r#"{{"file_format_version": "1.2.0", "layer": {{"name": "{name}", "type": "GLOBAL", "library_path": "{}", "api_version": "1.3.290", "implementation_version": "1", "description": "test"}}}}"#,
        library.display()
    )
}
