//! A virtual X server for programs that want a window.

use std::io::{self, Read as _};
use std::process::{Child, Command, Stdio};

/// An Xvfb, ended when dropped.
#[derive(Debug)]
pub struct Screen {
    server: Child,
    /// What `DISPLAY` must be.
    pub display: String,
}

impl Screen {
    /// Starts a server on a free display and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If there is no Xvfb.
    #[must_use]
    pub fn open() -> Self {
        let opened = Self::try_open();
        assert!(opened.is_ok(), "cannot start Xvfb: {opened:?}");
        opened.unwrap_or_else(|_| std::process::abort())
    }

    fn try_open() -> io::Result<Self> {
        let (mut reader, writer) = io::pipe()?;
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "1024x768x24"]);
        let server = command.stdout(writer).stderr(Stdio::null()).spawn()?;
        // Its copy of the pipe's end keeps the reader waiting.
        drop(command);
        let mut display = String::from(":");
        let mut byte = [0_u8];
        while reader.read(&mut byte)? == 1 && byte != *b"\n" {
            display.push(char::from(byte[0]));
        }
        Ok(Self { server, display })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Gone already where a test ended it.
        let _killed = self.server.kill().is_ok();
        let _waited = self.server.wait().is_ok();
    }
}
