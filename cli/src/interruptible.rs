//! Reading that a signal ends: of standard input, and of files that may have nothing to read for a long time, as named pipes.
//!
//! After the signal nothing more is read. What was read before is with the caller, who decides what becomes of it.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Stdin, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::signals::Signals;
use crate::standard;

/// A reader, and the signals that end it.
pub(crate) struct Interruptible {
    from: Input,
    signals: Signals,
}

enum Input {
    Standard(Stdin),
    File(File),
}

/// The error of a read that was ended.
#[derive(Debug, thiserror::Error)]
#[error("a signal has ended the reading")]
struct Ended;

impl Interruptible {
    /// Standard input. Nothing else in this process may have read of it before: what that had read ahead is missing here.
    pub(crate) fn standard(signals: &Signals) -> Result<Self> {
        if standard::was_input_closed() {
            return Err(Error::other("it is closed"));
        }
        Ok(Self { from: Input::Standard(stdin()), signals: signals.clone() })
    }

    /// A file. A pipe that has no writer yet is waited for with the first read, and not here.
    pub(crate) fn open(path: &Path, signals: &Signals) -> Result<Self> {
        let is_regular = std::fs::metadata(path)?.is_file();
        let flags = if is_regular { 0 } else { libc::O_NONBLOCK };
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Self { from: Input::File(file), signals: signals.clone() })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.from {
            Input::Standard(input) => input.as_fd(),
            Input::File(file) => file.as_fd(),
        }
    }

    /// Waits for bytes, or for the end.
    fn wait(&self) -> Result<()> {
        let (input, alarm) = (self.descriptor(), self.signals.alarm());
        let mut both = [PollFd::new(&input, PollFlags::IN), PollFd::new(&alarm, PollFlags::IN)];
        loop {
            match poll(&mut both, None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The signal first: a pipe that always has more would never end.
        let [_, alarm] = &both;
        if alarm.revents().is_empty() { Ok(()) } else { Err(Error::other(Ended)) }
    }
}

impl Read for Interruptible {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        loop {
            self.wait()?;
            match rustix::io::read(self.descriptor(), &mut *room) {
                Ok(count) => return Ok(count),
                // Another process that has the same pipe may have been quicker.
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether an error of reading is a signal, and none of the input.
pub(crate) fn is_by_signal(error: &Error) -> bool {
    error.kind() == ErrorKind::Other
        && error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Ended>)
}
