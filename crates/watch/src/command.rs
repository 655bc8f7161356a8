//! What to start, and how.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::{self, Running};
use crate::{Error, Exit};

/// Where the program's standard input comes from.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// From ours.
    #[default]
    Inherit,
    /// Nothing to read.
    Null,
}

/// Where the program's output goes.
#[derive(Clone, Debug, Default)]
pub enum Output {
    /// Where ours goes.
    #[default]
    Inherit,
    /// Nowhere.
    Null,
    /// To a new file; an old one is emptied. Both streams may go to one path.
    File(PathBuf),
}

/// The program that starts the watched one: small, so that its own peak RSS does not show.
#[derive(Clone, Debug)]
pub struct Supervisor {
    pub(crate) program: PathBuf,
}

impl Supervisor {
    /// This very program, which must call [`crate::supervise::enter_if_asked`] first of all.
    #[must_use]
    pub fn this_program() -> Self {
        // Survives the program's file being replaced meanwhile.
        Self::program("/proc/self/exe")
    }

    /// Another program that does.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self {
            program: path.into(),
        }
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) supervisor: Supervisor,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) stdin: Input,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    pub(crate) timeout: Option<Duration>,
    pub(crate) ends_leftovers: bool,
}

impl Command {
    /// A command that starts `program`, looked up in the program's `PATH` unless it has a slash.
    pub fn new(supervisor: Supervisor, program: impl Into<OsString>) -> Self {
        Self {
            supervisor,
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
            folder: None,
            stdin: Input::default(),
            stdout: Output::default(),
            stderr: Output::default(),
            timeout: None,
            ends_leftovers: false,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the program's environment, which is ours otherwise.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Takes a variable out of the program's environment.
    #[must_use]
    pub fn unset(mut self, name: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    /// Applies several changes of the environment; a later one wins.
    #[must_use]
    pub fn environment(
        mut self,
        changes: impl IntoIterator<Item = (OsString, Option<OsString>)>,
    ) -> Self {
        self.environment.extend(changes);
        self
    }

    /// Starts the program in `folder`.
    #[must_use]
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Where its input comes from.
    #[must_use]
    pub fn stdin(mut self, from: Input) -> Self {
        self.stdin = from;
        self
    }

    /// Where its output goes.
    #[must_use]
    pub fn stdout(mut self, to: Output) -> Self {
        self.stdout = to;
        self
    }

    /// Where its errors go.
    #[must_use]
    pub fn stderr(mut self, to: Output) -> Self {
        self.stderr = to;
        self
    }

    /// Ends the program after `limit`: SIGTERM, and SIGKILL two seconds later; then what it left
    /// running.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Ends what the program leaves running when it ends, so that it cannot disturb the next run.
    #[must_use]
    pub fn end_leftovers(mut self) -> Self {
        self.ends_leftovers = true;
        self
    }

    /// What is started.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Starts the program and gives it to be waited for.
    ///
    /// # Cost
    ///
    /// One process more than the program's own while it runs.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NotExecutable`]; [`Error::Output`], [`Error::Supervisor`] or
    /// [`Error::SupervisorLost`] for what is ours.
    pub fn start(&self) -> Result<Running, Error> {
        launch::start(self)
    }

    /// Starts the program and waits for its end.
    ///
    /// # Errors
    ///
    /// As [`Command::start`].
    pub fn run(&self) -> Result<Exit, Error> {
        self.start()?.wait()
    }
}
