//! SIGINT, SIGTERM and SIGHUP: the first one ends a command in order, the second one at once.

#![allow(
    unsafe_code,
    reason = "the C library is asked what a signal does, and told to end the process at once"
)]

use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cairndb::CancellationToken;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// The signals that were received so far.
#[derive(Clone)]
pub(crate) struct Signals {
    /// The exit status of the first signal, 0 before it.
    received: Arc<AtomicU8>,
    /// Ends reads of a folder that are under way.
    pub(crate) token: CancellationToken,
    /// At its end once a signal was received: what waits for a descriptor waits for this one too.
    alarm: Arc<PipeReader>,
    /// The work that the next signal ends.
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

    /// Signals of which one was received already.
    #[cfg(test)]
    pub(crate) fn already(exit: Exit) -> Self {
        let token = CancellationToken::new();
        let (alarm, _) = pipe().expect("there are pipes");
        let current = Arc::new(Mutex::new(Current { token: token.clone(), quiet: None }));
        Self { received: Arc::new(AtomicU8::new(exit as u8)), token, alarm: Arc::new(alarm), current }
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
        let mut ends = {
            let _entered = runtime.enter();
            Ends::watch().map_err(|error| unwatched(&error))?
        };
        let (received, current) = (Arc::clone(&signals.received), Arc::clone(&signals.current));
        std::thread::spawn(move || {
            loop {
                let signal = runtime.block_on(ends.next());
                let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
                if received.swap(signal as u8, Ordering::Relaxed) != 0 {
                    // A person who asks twice does not want to wait for the rest.
                    exit_at_once(signal);
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
        // Without another pipe reads end at once, and calls all the same when they are asked to.
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
        [Exit::HungUp, Exit::Interrupted, Exit::Terminated].into_iter().find(|&exit| exit as u8 == received)
    }
}

/// The signals that end the process in order.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where the process was started so that it outlives its terminal, as by `nohup`.
    hang_up: Option<Signal>,
}

impl Ends {
    /// Watches from now on. Needs a runtime.
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next one. Returns the status to exit with.
    async fn next(&mut self) -> Exit {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = hang_up => Exit::HungUp,
        }
    }
}

/// Whether this process ignores a signal.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without an action to set the call only writes the present one, to memory of its type.
    let is_known = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: the call has written it.
    is_known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Ends the process as a kill does, with a status. RocksDB is in C++, whose objects must not be destroyed while other threads use
/// them, which an ordinary exit would do.
pub(crate) fn exit_at_once(status: Exit) -> ! {
    // SAFETY: the call gets a number, and does not return.
    unsafe { libc::_exit(status as libc::c_int) }
}

fn unwatched(error: &std::io::Error) -> Failure {
    Failure::io("signals cannot be watched", error)
}
