//! The threads that wait for the store: calls of the engine block, so they are kept off the connections' tasks.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::failure::Failure;

/// A bound on the calls that run at once; the others wait in the order in which they came.
#[derive(Clone)]
pub(crate) struct Pool {
    calls: Arc<Semaphore>,
    calls_max: u32,
}

impl Pool {
    pub(crate) fn new(calls_max: u32) -> Self {
        Self { calls: Arc::new(Semaphore::new(calls_max as usize)), calls_max }
    }

    /// Runs a call where it may block. One that has begun runs to its end, whoever gives up waiting.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let permit = Arc::clone(&self.calls).acquire_owned().await;
        let permit = permit.map_err(|_| Failure::new(91, "ShutdownInProgress", "the server is stopping"))?;
        let running = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call()
        });
        running.await.map_err(|error| {
            tracing::error!(%error, "a command failed in a way that is a defect of the server");
            Failure::internal("the command failed in a way that is a defect of the server")
        })
    }

    /// Waits for the calls that run, and lets none begin after them.
    pub(crate) async fn finish(&self) {
        let all = self.calls.acquire_many(self.calls_max).await;
        self.calls.close();
        drop(all);
    }
}
