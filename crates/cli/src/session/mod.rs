//! What `run` and `ab` share: the run's folder, the layers, the program's environment, the ledgers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use towpath_ledger::{LedgerFile, Problem as LedgerProblem, read_folder};
use towpath_settings::calibration::{Entry, Key, Snapshot, Store, default_folder};
use towpath_settings::{Fixes, Problem, Settings};
use towpath_transfer::policy::Calibration;

pub(crate) mod beside;
pub(crate) mod folder;
pub(crate) mod layers;

use folder::RunFolder;
use layers::{Layers, Library, VULKAN_LAYER, appended, is_library, without_colon};

/// Changes of a program's environment: a value to set, or none to take the variable out.
pub(crate) type Changes = Vec<(OsString, Option<OsString>)>;

/// Where ledgers lie in the run's folder.
pub(crate) const LEDGERS: &str = "ledgers";

/// What lasts from the first start of a program to the report.
#[derive(Debug)]
pub(crate) struct Session {
    settings: Settings,
    problems: Vec<Problem>,
    layers: Layers,
    folder: RunFolder,
    snapshot: Option<PathBuf>,
    frozen: Snapshot,
}

impl Session {
    /// A session by this process's environment, with the OpenCL and Vulkan layers.
    ///
    /// # Errors
    ///
    /// If no place takes the run's folder.
    pub(crate) fn new() -> Result<Self> {
        Self::with(Settings::from_environment(), &[])
    }

    /// A session by `settings`, with these libraries preloaded.
    ///
    /// # Errors
    ///
    /// If no place takes the run's folder.
    pub(crate) fn with(
        (settings, problems): (Settings, Vec<Problem>),
        preload: &[Library],
    ) -> Result<Self> {
        let folder = RunFolder::create(&settings)?;
        let path = folder.path().join(LEDGERS);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self {
            layers: Layers::find(&settings, preload),
            settings,
            problems,
            folder,
            snapshot: None,
            frozen: Snapshot::default(),
        })
    }

    /// The settings of this process.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The layers that were found.
    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// What was wrong with settings and calibrations.
    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Where ledgers are made.
    pub(crate) fn ledger_folder(&self) -> PathBuf {
        self.folder.path().join(LEDGERS)
    }

    /// The run's own folder, gone at its end.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Freezes the stored calibrations into one file, which every program started from now on reads:
    /// nothing is learnt between the runs of a comparison.
    ///
    /// A user's own `TOWPATH_CALIBRATION` is left in force.
    ///
    /// # Errors
    ///
    /// If the user's own cannot be read, or the file cannot be written.
    pub(crate) fn freeze_calibration(&mut self) -> Result<Snapshot> {
        if let Some(path) = &self.settings.calibration {
            let text = || format!("cannot use the calibration {}", path.display());
            self.frozen = Snapshot::read(path).with_context(text)?;
            return Ok(self.frozen.clone());
        }
        // Without a folder, or without what is in it, programs go by the rule table.
        let mut entries = Vec::new();
        if let Ok(folder) = default_folder(&self.settings) {
            let (stored, problems) = Store::new(folder).all();
            self.problems.extend(problems);
            entries = stored;
        }
        self.freeze(entries)?;
        Ok(self.frozen.clone())
    }

    /// Freezes these calibrations, in place of any frozen before.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn freeze(&mut self, entries: Vec<Entry>) -> Result<()> {
        let snapshot = Snapshot::new(entries);
        let path = self.folder.path().join("calibration.json");
        snapshot
            .write(&path)
            .context("cannot freeze the calibrations")?;
        self.snapshot = Some(path);
        self.frozen = snapshot;
        Ok(())
    }

    /// The frozen calibrations of transfers that hold for this machine as it is, by the device's name.
    pub(crate) fn transfer_calibrations(&self) -> BTreeMap<String, Calibration> {
        let entries = self.frozen.entries().iter();
        entries
            .filter(|entry| entry.key.subject == Calibration::SUBJECT)
            .filter(|entry| {
                let Key { device, driver, .. } = &entry.key;
                Key::of_this_machine(Calibration::SUBJECT, device, driver) == entry.key
            })
            .filter_map(|entry| Some((entry.key.device.clone(), entry.values().ok()?)))
            .collect()
    }

    /// What a program's environment needs so that our layers are loaded, record, and apply `fixes`.
    ///
    /// Layers that the user has are kept. Our OpenCL layer comes last in the list, so that it is
    /// called first and can mend the list, which ocl-icd cuts at its colons for child processes.
    pub(crate) fn environment(&self, fixes: Fixes) -> Changes {
        let mut changes = Changes::new();
        let mut set = |name: &str, value: OsString| changes.push((name.into(), Some(value)));
        set("TOWPATH_LEDGER", self.ledger_folder().into());
        set("TOWPATH_FIX", fixes.to_string().into());
        if self.settings.log.is_none() {
            set("TOWPATH_LOG", self.log_path().into());
        }
        if let Some(snapshot) = &self.snapshot {
            set("TOWPATH_CALIBRATION", snapshot.into());
        }
        if let Some(list) = self.opencl_list() {
            set("TOWPATH_OPENCL_LAYERS", list.clone());
            set("OPENCL_LAYERS", list);
        }
        if let Some((names, folders)) = self.vulkan_lists() {
            set("VK_INSTANCE_LAYERS", names);
            set("VK_ADD_LAYER_PATH", folders);
        }
        if let Some(list) = self.preload_list() {
            set("LD_PRELOAD", list);
        }
        changes
    }

    fn opencl_list(&self) -> Option<OsString> {
        let library = without_colon(self.layers.opencl.as_deref()?, self.folder.path())?;
        let name = Library::OpenCl.file_name();
        let there = self.settings.opencl_layers.as_deref();
        Some(appended(there, library.as_os_str(), |part| {
            is_library(part, name)
        }))
    }

    /// The Vulkan loader takes folders of manifests: ours are written to the run's folder, one for
    /// 32-bit processes where there is such a layer.
    fn vulkan_lists(&self) -> Option<(OsString, OsString)> {
        let library = self.layers.vulkan.as_deref()?;
        let folder = self.folder.path().join("vulkan");
        fs::create_dir_all(&folder).ok()?;
        let narrow = self.layers.vulkan32.as_deref();
        let both = [("64", Some(library)), ("32", narrow)];
        for (bits, library) in both.iter().filter_map(|(bits, lib)| Some((bits, (*lib)?))) {
            let manifest = layers::vulkan_manifest_for(library, bits);
            let manifest = serde_json::to_vec_pretty(&manifest).ok()?;
            fs::write(
                folder.join(format!("towpath_vulkan_layer_{bits}.json")),
                manifest,
            )
            .ok()?;
        }
        let same = |part: &OsStr| part == OsStr::new(VULKAN_LAYER);
        let there = self.settings.vk_instance_layers.as_deref();
        let names = appended(there, OsStr::new(VULKAN_LAYER), same);
        let there = self.settings.vk_add_layer_path.as_deref();
        let folders = appended(there, folder.as_os_str(), |_| false);
        Some((names, folders))
    }

    fn preload_list(&self) -> Option<OsString> {
        let mut list = self.settings.ld_preload.clone();
        for path in &self.layers.preload {
            let path = without_colon(path, self.folder.path())?;
            list = Some(appended(list.as_deref(), path.as_os_str(), |part| {
                part == path.as_os_str()
            }));
        }
        list.filter(|_| !self.layers.preload.is_empty())
    }

    /// Where layers write what went wrong, unless the user has a place of their own.
    pub(crate) fn log_path(&self) -> PathBuf {
        let own = || self.folder.path().join("log");
        self.settings.log.clone().unwrap_or_else(own)
    }

    /// The ledgers made since the last [`Session::clear`], without those that cannot be read.
    pub(crate) fn ledgers(&self) -> Vec<LedgerFile> {
        self.read().0
    }

    /// The ledgers, and what could not be read.
    pub(crate) fn read(&self) -> (Vec<LedgerFile>, Vec<LedgerProblem>) {
        read_folder(&self.ledger_folder())
    }

    /// Removes the ledgers of the last run.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
    pub(crate) fn clear(&self) -> Result<()> {
        let folder = self.ledger_folder();
        let text = || format!("cannot clear {}", folder.display());
        for file in fs::read_dir(&folder).with_context(text)?.flatten() {
            fs::remove_file(file.path()).with_context(text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn session(pairs: &[(&str, &str)]) -> (Session, tempfile::TempDir) {
        let build = tempfile::tempdir().unwrap();
        for library in [Library::OpenCl, Library::Vulkan, Library::Drm] {
            fs::write(build.path().join(library.file_name()), "").unwrap();
        }
        let layer_dir = build.path().to_str().unwrap().to_owned();
        let read = Settings::read(|name| {
            let given = pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value);
            given
                .or((name == "TOWPATH_LAYER_DIR").then_some(layer_dir.as_str()))
                .map(Into::into)
        });
        (Session::with(read, &[Library::Drm]).unwrap(), build)
    }

    fn value(changes: &Changes, name: &str) -> Option<String> {
        let found = changes.iter().find(|(known, _)| known == name)?;
        Some(found.1.as_ref()?.to_str()?.to_owned())
    }

    #[test]
    fn what_the_user_has_is_kept_and_ours_is_added() {
        let (session, _build) = session(&[
            ("OPENCL_LAYERS", "/user.so"),
            ("VK_INSTANCE_LAYERS", "VK_LAYER_user"),
            ("LD_PRELOAD", "/lib/user.so"),
        ]);
        let changes = session.environment(Fixes::auto());
        let layers = value(&changes, "OPENCL_LAYERS").unwrap();
        assert!(
            layers.starts_with("/user.so:/") && layers.ends_with("opencl_layer.so"),
            "{layers}"
        );
        assert_eq!(value(&changes, "TOWPATH_OPENCL_LAYERS"), Some(layers));
        let names = value(&changes, "VK_INSTANCE_LAYERS").unwrap();
        assert_eq!(names, format!("VK_LAYER_user:{VULKAN_LAYER}"));
        let preload = value(&changes, "LD_PRELOAD").unwrap();
        assert!(preload.starts_with("/lib/user.so:/") && preload.ends_with("drm_shim.so"));
        assert_eq!(value(&changes, "TOWPATH_FIX").unwrap(), "auto");
        let folder = value(&changes, "VK_ADD_LAYER_PATH").unwrap();
        let manifest = fs::read(Path::new(&folder).join("towpath_vulkan_layer_64.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["layer"]["name"], VULKAN_LAYER);
        assert_eq!(manifest["layer"]["library_arch"], "64");
    }

    #[test]
    fn nothing_is_left_behind() {
        let (session, _build) = session(&[]);
        let path = session.path().to_owned();
        let _changes = session.environment(Fixes::none());
        assert!(path.join("vulkan").is_dir());
        drop(session);
        assert!(!path.exists());
    }
}
