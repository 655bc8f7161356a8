//! Boots a Debian kernel in QEMU and runs one static test program in it.
//!
//! The machine the tests run on may lack `/dev/udmabuf` and `/dev/dri`; the guest has both. It has no
//! distribution: its initrd holds [our own init](init_program), kernel modules and the program under
//! test. What the program prints comes back over a second serial line, apart from the kernel's console.
//!
//! ```no_run
//! use towpath_guest::{Kernel, Machine, static_program};
//!
//! let program = static_program("towpath-guest-tests", "guest-udmabuf")?;
//! let report = Machine::new(Kernel::V6_12).program(program).args(["create"]).run()?;
//! assert_eq!(report.exit, Some(0), "{}", report.output);
//! # Ok::<(), towpath_guest::Error>(())
//! ```
//!
//! A kernel comes from Debian's package ([`Kernel::fetch`]) and is kept under
//! `$HOME/.cache/towpath/guest-kernels`; the first use needs `apt-get` and its lists.

mod build;
mod initrd;
mod kernel;
mod machine;

pub use build::{init_program, static_program};
pub use initrd::Initrd;
pub use kernel::{Kernel, KernelFiles};
pub use machine::{Machine, Report};

use std::io;
use std::path::PathBuf;

/// Why a guest did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the host could not be read, written or made.
    #[error("cannot use {}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program of the host did not do its work.
    #[error("{program} failed: {text}")]
    Program {
        /// Which program.
        program: String,
        /// Its last words.
        text: String,
    },
    /// The guest did not power off in time.
    #[error("the guest ran longer than {seconds} s; its console ends: {console}")]
    Timeout {
        /// The limit.
        seconds: u64,
        /// The end of the kernel's console.
        console: String,
    },
}

/// An answer of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Attaches `path` to an [`io::Error`].
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { path, source }
}

/// Runs a host program to its end and returns what it printed.
pub(crate) fn run_host(command: &mut std::process::Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(at(&program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Error::Program {
        program,
        text: tail(&text, 2000),
    })
}

/// The last `bytes` bytes of `text` or a little less, cut at a character.
pub(crate) fn tail(text: &str, bytes: usize) -> String {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default().to_owned()
}
