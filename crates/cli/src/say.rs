//! What the program prints: a reader that has gone (`| head`) is no error, any other failed write is one at the
//! end, and what files and programs called themselves moves no cursor.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;

use towpath_report::escape;

/// As `println!`, which would panic where the reader has gone.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// As `print!`.
macro_rules! say_part {
    ($($text:tt)*) => { $crate::say::out(format_args!($($text)*)) };
}

/// As `eprintln!`.
macro_rules! tell {
    ($($text:tt)*) => { $crate::say::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// The first write to standard output that failed, but for want of a reader.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes to standard output.
pub(crate) fn out(text: Arguments<'_>) {
    write_out(&escape::lines(&text.to_string()));
}

/// Writes text that is harmless, and may be coloured, to standard output.
pub(crate) fn write_out(text: &str) {
    let failed = put(&mut io::stdout().lock(), text).err();
    if let (Some(error), Ok(mut kept)) = (failed, FAILED.lock()) {
        kept.get_or_insert(error);
    }
}

/// Writes to standard error; nobody can be told of a failure.
pub(crate) fn err(text: Arguments<'_>) {
    let _untold = put(&mut io::stderr().lock(), &escape::lines(&text.to_string()));
}

/// The exit code: a failure if something could not be written.
pub(crate) fn ended(code: ExitCode) -> ExitCode {
    let failed = FAILED.lock().ok().and_then(|mut kept| kept.take());
    let Some(error) = failed else { return code };
    tell!("towpath: cannot write to standard output: {error}");
    ExitCode::FAILURE
}

fn put(to: &mut impl Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
