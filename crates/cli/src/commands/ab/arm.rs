//! The two arms: what is the same in them, and what differs.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use towpath_measure::Arm;
use towpath_report::result::ArmSetup;
use towpath_settings::Fixes;

use super::Args;

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
    /// Both arms of `args`; their state lives below `folder`.
    ///
    /// # Errors
    ///
    /// If an option of an arm cannot be read, or an arm has no command.
    pub(super) fn both(args: &Args, folder: &std::path::Path) -> Result<[Self; 2]> {
        let a_fix = Instruments::parse("--a-fix", &args.a_fix)?;
        let b_fix = if args.null {
            a_fix
        } else {
            Instruments::parse("--b-fix", &args.b_fix)?
        };
        let a = Self {
            arm: Arm::A,
            instruments: a_fix,
            command: command(args.a_cmd.as_deref(), &args.command).context("arm A")?,
            environment: variables("--a-env", &args.a_env)?,
            prepare: args
                .prepare
                .iter()
                .chain(&args.a_prepare)
                .cloned()
                .collect(),
            cleanup: args.cleanup.clone(),
            state: folder.join("a"),
        };
        let b = Self {
            arm: Arm::B,
            instruments: b_fix,
            command: command(args.b_cmd.as_deref(), &args.command).context("arm B")?,
            environment: variables("--b-env", &args.b_env)?,
            prepare: args
                .prepare
                .iter()
                .chain(&args.b_prepare)
                .cloned()
                .collect(),
            cleanup: args.cleanup.clone(),
            state: folder.join("b"),
        };
        Ok([a, b])
    }

    /// How the result file describes it.
    pub(super) fn describe(&self, args: &Args) -> ArmSetup {
        let (own, prepare) = match self.arm {
            Arm::A => (args.a_cmd.is_some(), &args.a_prepare),
            Arm::B => (args.b_cmd.is_some(), &args.b_prepare),
        };
        let words = |words: &[OsString]| -> Vec<String> {
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        ArmSetup {
            label: self.label(args),
            fix: match self.instruments {
                Instruments::Bare => None,
                Instruments::Fixes(fixes) => Some(fixes.to_string()),
            },
            environment: self.environment.iter().cloned().collect(),
            command: if own {
                words(&self.command)
            } else {
                Vec::new()
            },
            prepare: prepare.clone(),
        }
    }

    /// What differs names the arm: its fixes, else its command or environment.
    fn label(&self, args: &Args) -> String {
        if args.null || args.a_fix != args.b_fix {
            return self.instruments.label();
        }
        let own = if self.arm == Arm::A {
            &args.a_cmd
        } else {
            &args.b_cmd
        };
        if let Some(own) = own {
            return own.clone();
        }
        let pairs: Vec<String> = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if pairs.is_empty() {
            self.arm.to_string()
        } else {
            pairs.join(" ")
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
