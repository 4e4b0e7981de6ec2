//! Trying a transaction again that met another writer.

use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result, TRANSIENT_TRANSACTION_ERROR};
use base::sync;

/// The time for which a transaction is tried again, as in MongoDB's drivers.
const RETRY_TIME: Duration = Duration::from_secs(120);
/// The pause before that: none at first, then half as long again each time, up to a maximum.
const RETRY_PAUSE: Duration = Duration::from_micros(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(50);

/// The time for which a transaction has been tried.
pub(crate) struct Patience {
    began: Instant,
    pause: Duration,
}

impl Patience {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), pause: Duration::ZERO }
    }

    /// Waits before the transaction is tried again. Fails if that is not to be done after this error.
    pub(crate) fn wait(&mut self, error: Error) -> Result<()> {
        if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
            return Err(error);
        }
        if self.began.elapsed() >= RETRY_TIME {
            let message = format!("convenient transaction exceeded maximum time (120 seconds): {error}");
            return Err(Error::new(ErrorKind::Transaction { message }));
        }
        sync::sleep(self.pause);
        self.pause = (self.pause * 3 / 2).clamp(RETRY_PAUSE, RETRY_PAUSE_MAX);
        Ok(())
    }
}
