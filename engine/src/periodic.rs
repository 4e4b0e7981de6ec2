//! A thread that does the same work again and again, until it is dropped.

use std::thread::JoinHandle;
use std::time::Duration;

use base::error::{Error, Result};
use base::sync::HAS_BACKGROUND;
use crossbeam::channel::{RecvTimeoutError, Sender, bounded};
use query::operation::CancellationToken;
use store::fork;

/// The handle of such a thread. Dropping it ends the work that is running, and waits for the thread.
pub(crate) struct PeriodicThread {
    /// Ends the operations of the work.
    token: CancellationToken,
    /// Emptied by the drop: closing this channel stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicThread {
    /// Starts a thread that does `work` once in `interval`, first after one interval. The work runs its operations with
    /// the token, so that the end of the thread need not wait for them.
    pub(crate) fn start(
        name: &str,
        interval: Duration,
        mut work: impl FnMut(&CancellationToken) + Send + 'static,
    ) -> Result<Self> {
        // Nothing is ever sent on `stop`; the thread sees that it was closed.
        let (stop, stopped) = bounded::<()>(0);
        let token = CancellationToken::new();
        if !HAS_BACKGROUND {
            return Ok(Self { token, stop: None, thread: None });
        }
        let own = token.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // The interval begins after the work: a pass that lasts long is not followed by the next one at once.
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    work(&own);
                }
            })
            .map_err(|error| Error::io("start a background thread", None, error))?;
        Ok(Self { token, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for PeriodicThread {
    fn drop(&mut self) {
        if fork::is_child() {
            // A forked child has a copy of the channel but not the thread, which may have held a lock of it.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        self.token.cancel();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a background thread ended by a panic");
        }
    }
}
