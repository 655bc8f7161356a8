//! The two arms: what is the same in them, and what differs.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use towpath_measure::Arm;
use towpath_report::result::ArmSetup;
use towpath_settings::Fixes;

use super::Args;

/// What differs between the arms.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Options {
    /// Fixes of arm A: none, auto, a list of readback, upload, cache, waits; or bare, without any of ours.
    #[arg(long, value_name = "LIST", default_value = "none")]
    a_fix: String,
    /// Fixes of arm B.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    b_fix: String,
    /// Fixes of arm C (those of B if not given). Any option of C makes rounds of three: B and C are both compared with A.
    #[arg(long, value_name = "LIST")]
    c_fix: Option<String>,
    /// Sets a variable in arm A.
    #[arg(long, value_name = "K=V")]
    a_env: Vec<String>,
    /// Sets a variable in arm B.
    #[arg(long, value_name = "K=V")]
    b_env: Vec<String>,
    /// Sets a variable in arm C.
    #[arg(long, value_name = "K=V")]
    c_env: Vec<String>,
    /// The command of arm A, instead of the one after --.
    #[arg(long, value_name = "CMD")]
    a_cmd: Option<String>,
    /// The command of arm B.
    #[arg(long, value_name = "CMD")]
    b_cmd: Option<String>,
    /// The command of arm C.
    #[arg(long, value_name = "CMD")]
    c_cmd: Option<String>,
    /// Shell command before each run; it finds TOWPATH_ARM (a, b or c) and TOWPATH_ARM_FOLDER.
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,
    /// Shell command before each run of arm A.
    #[arg(long, value_name = "CMD")]
    a_prepare: Option<String>,
    /// Shell command before each run of arm B.
    #[arg(long, value_name = "CMD")]
    b_prepare: Option<String>,
    /// Shell command before each run of arm C.
    #[arg(long, value_name = "CMD")]
    c_prepare: Option<String>,
    /// Shell command after each run.
    #[arg(long, value_name = "CMD")]
    cleanup: Option<String>,
    /// What tables call arm A.
    #[arg(long, value_name = "NAME")]
    a_name: Option<String>,
    /// What tables call arm B.
    #[arg(long, value_name = "NAME")]
    b_name: Option<String>,
    /// What tables call arm C.
    #[arg(long, value_name = "NAME")]
    c_name: Option<String>,
}

/// The options of one arm.
struct Own<'a> {
    fix: &'a str,
    environment: &'a [String],
    command: Option<&'a str>,
    prepare: Option<&'a str>,
    name: Option<&'a str>,
}

impl Options {
    /// Whether there is a third arm.
    pub(super) fn has_c(&self) -> bool {
        self.c_fix.is_some()
            || !self.c_env.is_empty()
            || self.c_cmd.is_some()
            || self.c_prepare.is_some()
            || self.c_name.is_some()
    }

    /// The arms that there are.
    pub(super) fn arms(&self) -> &'static [Arm] {
        if self.has_c() {
            &[Arm::A, Arm::B, Arm::C]
        } else {
            &[Arm::A, Arm::B]
        }
    }

    fn own(&self, arm: Arm) -> Own<'_> {
        let (fix, environment, command, prepare, name) = match arm {
            Arm::A => (
                &self.a_fix,
                &self.a_env,
                &self.a_cmd,
                &self.a_prepare,
                &self.a_name,
            ),
            Arm::B => (
                &self.b_fix,
                &self.b_env,
                &self.b_cmd,
                &self.b_prepare,
                &self.b_name,
            ),
            Arm::C => (
                self.c_fix.as_ref().unwrap_or(&self.b_fix),
                &self.c_env,
                &self.c_cmd,
                &self.c_prepare,
                &self.c_name,
            ),
        };
        Own {
            fix,
            environment,
            command: command.as_deref(),
            prepare: prepare.as_deref(),
            name: name.as_deref(),
        }
    }
}

/// What towpath puts round the program in an arm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Instruments {
    /// Nothing of ours: no layer, no ledger. Shows our own cost.
    Bare,
    /// Layers and ledger, with these fixes.
    Fixes(Fixes),
}

impl Instruments {
    /// Reads `bare`, or what `TOWPATH_FIX` takes.
    fn parse(option: &str, text: &str) -> Result<Self> {
        if text == "bare" {
            return Ok(Self::Bare);
        }
        let fixes = Fixes::parse(text).with_context(|| format!("{option} {text}"))?;
        Ok(Self::Fixes(fixes))
    }

    fn label(self) -> String {
        match self {
            Self::Bare => "bare".to_owned(),
            Self::Fixes(fixes) if fixes == Fixes::none() => "fixes off".to_owned(),
            Self::Fixes(fixes) if fixes == Fixes::auto() => "fixes on".to_owned(),
            Self::Fixes(fixes) => fixes.to_string(),
        }
    }
}

/// One arm, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Which one.
    pub(super) arm: Arm,
    /// What is round the program.
    pub(super) instruments: Instruments,
    /// Program and arguments.
    pub(super) command: Vec<OsString>,
    /// Variables of this arm only.
    pub(super) environment: Vec<(String, String)>,
    /// Shell commands before each run, the common one first.
    pub(super) prepare: Vec<String>,
    /// Shell command after each run.
    pub(super) cleanup: Option<String>,
    /// Where what the arm keeps between its runs lives.
    pub(super) state: PathBuf,
}

impl Setup {
    /// All arms of `args`; their state lives below `folder`.
    ///
    /// # Errors
    ///
    /// If an option of an arm cannot be read, or an arm has no command.
    pub(super) fn all(args: &Args, folder: &std::path::Path) -> Result<Vec<Self>> {
        let arms = args.arms.arms().iter();
        arms.map(|&arm| Self::one(args, arm, folder)).collect()
    }

    fn one(args: &Args, arm: Arm, folder: &std::path::Path) -> Result<Self> {
        let own = args.arms.own(arm);
        let letter = arm.to_string().to_lowercase();
        let fix = if args.null { &args.arms.a_fix } else { own.fix };
        Ok(Self {
            arm,
            instruments: Instruments::parse(&format!("--{letter}-fix"), fix)?,
            command: command(own.command, &args.command).with_context(|| format!("arm {arm}"))?,
            environment: variables(&format!("--{letter}-env"), own.environment)?,
            prepare: args
                .arms
                .prepare
                .iter()
                .map(String::as_str)
                .chain(own.prepare)
                .map(str::to_owned)
                .collect(),
            cleanup: args.arms.cleanup.clone(),
            state: folder.join(letter),
        })
    }

    /// How the result file describes it.
    pub(super) fn describe(&self, args: &Args) -> ArmSetup {
        let own = args.arms.own(self.arm);
        let words = |words: &[OsString]| -> Vec<String> {
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        ArmSetup {
            label: own.name.map_or_else(|| self.label(args), str::to_owned),
            fix: match self.instruments {
                Instruments::Bare => None,
                Instruments::Fixes(fixes) => Some(fixes.to_string()),
            },
            environment: self.environment.iter().cloned().collect(),
            command: if own.command.is_some() {
                words(&self.command)
            } else {
                Vec::new()
            },
            prepare: own.prepare.map(str::to_owned),
        }
    }

    /// What differs names the arm: its fixes, its command, its environment.
    fn label(&self, args: &Args) -> String {
        let arms = args.arms.arms().iter();
        let mut fixes: Vec<&str> = arms.clone().map(|&arm| args.arms.own(arm).fix).collect();
        fixes.sort_unstable();
        fixes.dedup();
        if args.null {
            return self.instruments.label();
        }
        let mut parts = Vec::new();
        if fixes.len() > 1 {
            parts.push(self.instruments.label());
        }
        parts.extend(args.arms.own(self.arm).command.map(str::to_owned));
        let pairs = self.environment.iter();
        parts.extend(pairs.map(|(name, value)| format!("{name}={value}")));
        if parts.is_empty() {
            self.arm.to_string()
        } else {
            parts.join(" ")
        }
    }
}

/// The arm's own command, through the shell, or the common one.
fn command(own: Option<&str>, common: &[OsString]) -> Result<Vec<OsString>> {
    if let Some(own) = own {
        // `exec` keeps the shell out of the measured process tree.
        return Ok(["sh", "-c", &format!("exec {own}")]
            .map(OsString::from)
            .to_vec());
    }
    if common.is_empty() {
        bail!("no command: put it after --, or give --a-cmd and --b-cmd");
    }
    Ok(common.to_vec())
}

fn variables(option: &str, texts: &[String]) -> Result<Vec<(String, String)>> {
    texts
        .iter()
        .map(|text| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => bail!("{option} {text}: wants NAME=VALUE"),
        })
        .collect()
}
