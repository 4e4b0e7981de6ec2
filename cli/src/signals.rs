//! SIGINT and SIGTERM: the first one ends a command in order, the second one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
}

impl Signals {
    /// Watches from now on, on a thread of its own.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let failed = |error| Failure::io("signals cannot be watched", &error);
        let signals = Self { received: Arc::new(AtomicU8::new(0)), token: CancellationToken::new() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        // Registered here and not on the thread: a signal right after the return must not kill the process.
        let (mut interrupt, mut terminate) = {
            let _entered = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(failed)?,
                signal(SignalKind::terminate()).map_err(failed)?,
            )
        };
        let (received, token) = (Arc::clone(&signals.received), signals.token.clone());
        std::thread::spawn(move || {
            let mut next = || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = interrupt.recv() => Exit::Interrupted,
                        _ = terminate.recv() => Exit::Terminated,
                    }
                })
            };
            received.store(next() as u8, Ordering::Relaxed);
            token.cancel();
            // A person who asks twice does not want to wait for the rest.
            std::process::exit(next() as i32);
        });
        Ok(signals)
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
