//! A thread that works for a quota, and how it ends.

use std::sync::Arc;
use std::thread::JoinHandle;

use base::error::{Error, Result};

use crate::families::Database;
use crate::fork;
use crate::quota::state::Quota;

/// The call that ends a thread.
type End = Box<dyn Fn(&Quota) + Send + Sync>;

/// A thread that works for a quota. Dropping it ends the thread.
pub(super) struct Worker {
    database: Arc<Database>,
    end: Option<End>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread, which ends soon after `end` was called.
    pub(super) fn start(
        name: &str,
        database: &Arc<Database>,
        work: impl FnOnce() + Send + 'static,
        end: End,
    ) -> Result<Self> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let failed = |error| Error::io("start a thread that keeps a quota", None, error);
        Ok(Self { database: Arc::clone(database), end: Some(end), thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Worker {
    /// Waits for the step that is running.
    fn drop(&mut self) {
        if fork::is_child() {
            // The thread does not exist here, and may have held a lock.
            std::mem::forget((Arc::clone(&self.database), self.end.take(), self.thread.take()));
            return;
        }
        if let (Some(end), Some(quota)) = (&self.end, self.database.quota()) {
            end(quota);
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread that keeps a quota ended by a panic");
        }
    }
}
