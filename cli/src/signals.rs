//! SIGINT and SIGTERM: the first one ends a command in order, the second one at once.

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
    /// The token that the next signal cancels.
    current: Arc<Mutex<CancellationToken>>,
}

impl Signals {
    /// Signals that are never received: what watches them is another.
    #[cfg(all(feature = "remote", feature = "shell"))]
    pub(crate) fn idle() -> Self {
        let token = CancellationToken::new();
        Self { received: Arc::default(), current: Arc::new(Mutex::new(token.clone())), token }
    }

    /// Watches from now on, on a thread of its own.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let failed = |error| Failure::io("signals cannot be watched", &error);
        let token = CancellationToken::new();
        let current = Arc::new(Mutex::new(token.clone()));
        let signals = Self { received: Arc::new(AtomicU8::new(0)), token, current };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        // Registered here and not on the thread: a signal right after the return must not kill the process.
        let (mut interrupt, mut terminate) = {
            let _entered = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(failed)?,
                signal(SignalKind::terminate()).map_err(failed)?,
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
                if received.swap(signal as u8, Ordering::Relaxed) != 0 {
                    // A person who asks twice does not want to wait for the rest.
                    std::process::exit(signal as i32);
                }
                current.lock().unwrap_or_else(PoisonError::into_inner).cancel();
            }
        });
        Ok(signals)
    }

    /// After the first signal has ended what was running: what follows has a token of its own, and the next signal counts as
    /// the first one.
    #[cfg(feature = "shell")]
    pub(crate) fn renew(&mut self) {
        self.token = CancellationToken::new();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = self.token.clone();
        self.received.store(0, Ordering::Relaxed);
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
