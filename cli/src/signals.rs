//! SIGINT and SIGTERM: the first one ends a command in order, the second one at once.

use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cairndb::CancellationToken;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};

/// What has been received so far.
#[derive(Clone)]
pub(crate) struct Signals {
    /// The exit status of the first signal, 0 before it.
    received: Arc<AtomicU8>,
    /// Ends reads of a folder that are under way.
    pub(crate) token: CancellationToken,
    /// At its end once a signal was received: what waits for a descriptor waits for this one too.
    alarm: Arc<PipeReader>,
    /// What the next signal ends.
    current: Arc<Mutex<Current>>,
}

struct Current {
    token: CancellationToken,
    /// The other end of the alarm, which is closed by a signal.
    quiet: Option<PipeWriter>,
}

impl Signals {
    /// Signals that are never received: what watches them is another.
    #[cfg(all(feature = "remote", feature = "shell"))]
    pub(crate) fn idle() -> Result<Self, Failure> {
        let token = CancellationToken::new();
        let (alarm, quiet) = pipe().map_err(|error| unwatched(&error))?;
        let current = Current { token: token.clone(), quiet: Some(quiet) };
        let (received, current) = (Arc::default(), Arc::new(Mutex::new(current)));
        Ok(Self { received, token, alarm: Arc::new(alarm), current })
    }

    /// Watches from now on, on a thread of its own.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let token = CancellationToken::new();
        let (alarm, quiet) = pipe().map_err(|error| unwatched(&error))?;
        let current = Arc::new(Mutex::new(Current { token: token.clone(), quiet: Some(quiet) }));
        let signals = Self { received: Arc::new(AtomicU8::new(0)), token, alarm: Arc::new(alarm), current };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unwatched(&error))?;
        // Registered here and not on the thread: a signal right after the return must not kill the process.
        let (mut interrupt, mut terminate) = {
            let _entered = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(|error| unwatched(&error))?,
                signal(SignalKind::terminate()).map_err(|error| unwatched(&error))?,
            )
        };
        let (received, current) = (Arc::clone(&signals.received), Arc::clone(&signals.current));
        std::thread::spawn(move || {
            loop {
                let signal = runtime.block_on(async {
                    tokio::select! {
                        _ = interrupt.recv() => Exit::Interrupted,
                        _ = terminate.recv() => Exit::Terminated,
                    }
                });
                let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
                if received.swap(signal as u8, Ordering::Relaxed) != 0 {
                    // A person who asks twice does not want to wait for the rest.
                    std::process::exit(signal as i32);
                }
                current.token.cancel();
                current.quiet = None;
            }
        });
        Ok(signals)
    }

    /// After the first signal has ended what was running: what follows has a token of its own, and the next signal counts as
    /// the first one.
    #[cfg(feature = "shell")]
    pub(crate) fn renew(&mut self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.token = CancellationToken::new();
        current.token = self.token.clone();
        // Without another pipe reads end at once, and calls all the same when they are told to.
        if let Ok((alarm, quiet)) = pipe() {
            self.alarm = Arc::new(alarm);
            current.quiet = Some(quiet);
        }
        self.received.store(0, Ordering::Relaxed);
    }

    /// A descriptor that can be read once a signal was received.
    pub(crate) fn alarm(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// Says that a signal has ended the work, if one was received: what it ended has an error of its own, which would hide
    /// the reason.
    pub(crate) fn judge<T>(
        &self,
        done: Result<T, Failure>,
        interrupted: impl Into<String>,
    ) -> Result<T, Failure> {
        match self.received() {
            Some(exit) => Err(Failure::new(exit, interrupted)),
            None => done,
        }
    }

    /// The status to exit with, if a signal was received.
    pub(crate) fn received(&self) -> Option<Exit> {
        let received = self.received.load(Ordering::Relaxed);
        [Exit::Interrupted, Exit::Terminated].into_iter().find(|&exit| exit as u8 == received)
    }
}

fn unwatched(error: &std::io::Error) -> Failure {
    Failure::io("signals cannot be watched", error)
}
