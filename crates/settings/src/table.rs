//! The table: every variable that towpath reads, with type, default and meaning.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use crate::{CacheMode, Fixes, TransferWay, Value};

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The variable's name.
    pub name: &'static str,
    /// What its text looks like.
    pub form: &'static str,
    /// The text that stands for the default; empty where the default is "not set".
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

impl Setting {
    /// Whether the variable is towpath's own; the others belong to the system and are honoured.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.name.starts_with("TOWPATH_")
    }
}

/// A value that was not usable, and what was used instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The variable or file.
    pub name: String,
    /// What it held.
    pub value: String,
    /// Why that is no value.
    pub reason: String,
    /// What is used instead.
    pub used: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            reason,
            used,
        } = self;
        write!(f, "{name}={value:?}: {reason}; using {used}")
    }
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:literal, $name:literal;)+) => {
        /// Every setting, read once.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        /// Every variable that towpath reads.
        pub const TABLE: &[Setting] = &[
            $(Setting {
                name: $name,
                form: <$type as Value>::FORM,
                default: $default,
                doc: concat!($($doc, "\n"),+),
            },)+
        ];

        impl Settings {
            /// Reads every setting through `lookup`.
            ///
            /// A variable that is not set, or empty, gives the default. A value that cannot be read
            /// gives the default and a [`Problem`].
            #[must_use]
            pub fn read(lookup: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<Problem>) {
                let mut problems = Vec::new();
                let settings = Self {
                    $($field: read_one::<$type>(&lookup, $name, $default, &mut problems),)+
                };
                (settings, problems)
            }
        }
    };
}

settings! {
    /// Folder in which each library makes its ledger; without it nothing is recorded.
    ledger: Option<PathBuf> = "", "TOWPATH_LEDGER";
    /// Which fixes are applied.
    fix: Fixes = "none", "TOWPATH_FIX";
    /// File to which layers write what went wrong; without it they stay silent.
    log: Option<PathBuf> = "", "TOWPATH_LOG";
    /// A frozen snapshot of calibrations; without it the stored ones are used.
    calibration: Option<PathBuf> = "", "TOWPATH_CALIBRATION";
    /// Folder of the store of driver blobs.
    cache_dir: Option<PathBuf> = "", "TOWPATH_CACHE_DIR";
    /// What the cache layer does with driver blobs.
    cache_mode: CacheMode = "fill", "TOWPATH_CACHE_MODE";
    /// File to which the Vulkan layer writes one line per presented frame.
    frames_csv: Option<PathBuf> = "", "TOWPATH_FRAMES_CSV";
    /// How bytes move between host and device where the readback or upload fix is on.
    transfer: TransferWay = "auto", "TOWPATH_TRANSFER";
    /// File to which the virgl layer writes every create, attach and transfer, to be played again.
    texture_trace: Option<PathBuf> = "", "TOWPATH_TEXTURE_TRACE";
    /// Folder in which towpath looks for its layers first.
    layer_dir: Option<PathBuf> = "", "TOWPATH_LAYER_DIR";
    /// Which arm of a comparison this run is, A or B; for scripts.
    arm: Option<OsString> = "", "TOWPATH_ARM";
    /// Folder that belongs to this arm, for what a program keeps between its runs.
    arm_folder: Option<PathBuf> = "", "TOWPATH_ARM_FOLDER";
    /// What OPENCL_LAYERS must be for child processes (ocl-icd cuts the variable at its first colon).
    opencl_layers_whole: Option<OsString> = "", "TOWPATH_OPENCL_LAYERS";
    /// Answers for a render node where there is none: local (objects of each process) or shared.
    drm_emulate: Option<OsString> = "", "TOWPATH_DRM_EMULATE";
    /// The render node that is answered for.
    drm_node: Option<PathBuf> = "/dev/dri/renderD128", "TOWPATH_DRM_NODE";
    /// Where state is kept (XDG base directories).
    state_home: Option<PathBuf> = "", "XDG_STATE_HOME";
    /// Where caches are kept (XDG base directories).
    cache_home: Option<PathBuf> = "", "XDG_CACHE_HOME";
    /// Where data is kept (XDG base directories).
    data_home: Option<PathBuf> = "", "XDG_DATA_HOME";
    /// Where settings are kept (XDG base directories).
    config_home: Option<PathBuf> = "", "XDG_CONFIG_HOME";
    /// A folder on tmpfs that belongs to the user (XDG base directories).
    runtime_dir: Option<PathBuf> = "", "XDG_RUNTIME_DIR";
    /// The user's home.
    home: Option<PathBuf> = "", "HOME";
    /// Where programs are looked for.
    path: Option<OsString> = "", "PATH";
    /// OpenCL layers that the user already has.
    opencl_layers: Option<OsString> = "", "OPENCL_LAYERS";
    /// Vulkan layers that the user already has.
    vk_instance_layers: Option<OsString> = "", "VK_INSTANCE_LAYERS";
    /// Folders of Vulkan layers that the user already has.
    vk_add_layer_path: Option<OsString> = "", "VK_ADD_LAYER_PATH";
    /// Libraries that the user already preloads.
    ld_preload: Option<OsString> = "", "LD_PRELOAD";
    /// Folders that the dynamic linker searches first.
    ld_library_path: Option<OsString> = "", "LD_LIBRARY_PATH";
    /// Any text turns colour off (no-color.org).
    no_color: Option<OsString> = "", "NO_COLOR";
    /// Width of the terminal.
    columns: Option<u64> = "", "COLUMNS";
}

impl Settings {
    /// Reads the environment: the one place that does.
    ///
    /// A variable that starts with `TOWPATH_` and stands in no table is a [`Problem`]: it is most
    /// often a slip of the pen. Those of the test tools are left alone.
    ///
    /// In a process with more rights than its caller (setuid, setgid, file capabilities) the environment
    /// is the caller's word, and nothing of it counts: all settings are their defaults.
    ///
    /// # Cost
    ///
    /// Copies the environment once; call it once per process.
    #[must_use]
    pub fn from_environment() -> (Self, Vec<Problem>) {
        if towpath_sys::process::is_secure() {
            return Self::read(|_name| None);
        }
        let (settings, mut problems) = Self::read(|name| {
            #[expect(clippy::disallowed_methods, reason = "this is the settings table")]
            std::env::var_os(name)
        });
        problems.extend(unknown(std::env::vars_os().map(|(name, _)| name)));
        (settings, problems)
    }
}

/// Variables of the project's own tests and tools, and those that `ab` gives to the programs it starts.
const NOT_SETTINGS: [&str; 3] = ["TOWPATH_NEEDS", "TOWPATH_ARM", "TOWPATH_ARM_FOLDER"];
/// Prefixes of variables of the test drivers and layers.
const OF_THE_TESTKIT: [&str; 4] = [
    "TOWPATH_TEST_",
    "TOWPATH_PENALTY_",
    "TOWPATH_FAKE_",
    "TOWPATH_MOCK_",
];

fn unknown(names: impl Iterator<Item = OsString>) -> Vec<Problem> {
    let known: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with("TOWPATH_"))
        .filter(|name| !OF_THE_TESTKIT.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| !NOT_SETTINGS.contains(&name.as_str()))
        .filter(|name| !known.contains(name.as_str()))
        .map(|name| Problem {
            name,
            value: String::new(),
            reason: "no such setting".to_owned(),
            used: "nothing of it".to_owned(),
        })
        .collect()
}

fn read_one<T: Value>(
    lookup: &impl Fn(&str) -> Option<OsString>,
    name: &str,
    default: &str,
    problems: &mut Vec<Problem>,
) -> T {
    let fallback = || match default {
        "" => T::default(),
        // A default that cannot be read is caught by a test.
        text => T::read(OsStr::new(text)).unwrap_or_default(),
    };
    let Some(text) = lookup(name).filter(|text| !text.is_empty()) else {
        return fallback();
    };
    T::read(&text).unwrap_or_else(|reason| {
        problems.push(Problem {
            name: name.to_owned(),
            value: text.to_string_lossy().into_owned(),
            reason,
            used: match default {
                "" => "no value".to_owned(),
                text => text.to_owned(),
            },
        });
        fallback()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> (Settings, Vec<Problem>) {
        Settings::read(|asked| (asked == name).then(|| OsString::from(value)))
    }

    #[test]
    fn no_variable_is_named_twice() {
        let names: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn an_empty_environment_gives_the_defaults_without_a_problem() {
        let (settings, problems) = Settings::read(|_| None);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(settings.fix, Fixes::none());
        assert_eq!(settings.cache_mode, CacheMode::Fill);
        assert_eq!(settings.ledger, None);
    }

    #[test]
    fn every_default_is_readable_as_a_value() {
        let (_, problems) = Settings::read(|asked| {
            let row = TABLE.iter().find(|row| row.name == asked)?;
            Some(OsString::from(row.default))
        });
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn nonsense_gives_the_default_and_says_so() {
        let (settings, problems) = with("TOWPATH_FIX", "readbackk");
        assert_eq!(settings.fix, Fixes::none());
        assert_eq!(problems.len(), 1);
        let text = problems[0].to_string();
        assert!(
            text.contains("TOWPATH_FIX") && text.contains("using none"),
            "{text}"
        );
        let (settings, problems) = with("TOWPATH_CACHE_MODE", "takeovers");
        assert_eq!(settings.cache_mode, CacheMode::Fill);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn an_empty_value_is_as_if_not_set() {
        let (settings, problems) = with("TOWPATH_LEDGER", "");
        assert_eq!(settings.ledger, None);
        assert!(problems.is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_are_a_problem_not_a_panic() {
        use std::os::unix::ffi::OsStringExt as _;
        let (settings, problems) = Settings::read(|name| {
            name.starts_with("TOWPATH_")
                .then(|| OsString::from_vec(vec![0xff]))
        });
        assert_eq!(settings.fix, Fixes::none());
        let names: Vec<&str> = problems
            .iter()
            .map(|problem| problem.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["TOWPATH_FIX", "TOWPATH_CACHE_MODE", "TOWPATH_TRANSFER"]
        );
    }

    #[test]
    fn a_misspelt_variable_is_told_and_those_of_the_tests_are_not() {
        let names = [
            "TOWPATH_FIXES",
            "TOWPATH_FIX",
            "TOWPATH_NEEDS",
            "TOWPATH_TEST_RATE",
            "HOME",
        ];
        let problems = unknown(names.into_iter().map(OsString::from));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].name, "TOWPATH_FIXES");
    }
}

#[cfg(test)]
mod name_tests {
    use super::*;

    #[test]
    fn a_misspelt_setting_is_a_problem_and_names_of_others_are_not() {
        let names = [
            "TOWPATH_FIXX",
            "TOWPATH_ARM",
            "TOWPATH_PENALTY_NS_PER_PAGE",
            "TOWPATH_FIX",
            "PATH",
        ];
        let problems = unknown(names.iter().map(Into::into));
        let found: Vec<&str> = problems
            .iter()
            .map(|problem| problem.name.as_str())
            .collect();
        assert_eq!(found, ["TOWPATH_FIXX"]);
    }
}
