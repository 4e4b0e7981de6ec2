//! Where calls of the engine run, which block: so many at once, and never in the way of other connections.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, block_in_place, spawn_blocking};

use crate::failure::Failure;

/// How many steps of logins run at once, beside the calls.
const LOGINS_MAX: u32 = 4;

/// A bound on the calls that run at once; the others wait in the order in which they came.
#[derive(Clone)]
pub(crate) struct Pool {
    calls: Arc<Semaphore>,
    /// Logins are short, and must not wait for commands that are not.
    logins: Arc<Semaphore>,
    calls_max: u32,
}

impl Pool {
    pub(crate) fn new(calls_max: u32) -> Self {
        let logins = Arc::new(Semaphore::new(LOGINS_MAX as usize));
        Self { calls: Arc::new(Semaphore::new(calls_max as usize)), logins, calls_max }
    }

    /// Runs a call where it may block. One that has begun runs to its end, whoever gives up waiting.
    ///
    /// It runs in the thread that its message came in by, if another can go on with the other connections meanwhile: to
    /// hand the call over, and its outcome back, is to wait for two threads to wake up.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        Self::run_with(Arc::clone(&self.calls), call).await
    }

    /// Runs a step of a login, which waits for other logins alone.
    pub(crate) async fn log_in<R: Send + 'static>(
        &self,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        Self::run_with(Arc::clone(&self.logins), call).await
    }

    async fn run_with<R: Send + 'static>(
        permits: Arc<Semaphore>,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let permit = permits.acquire_owned().await;
        let permit = permit.map_err(|_| stopping())?;
        let call = move || {
            let _permit = permit;
            call()
        };
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            // Whatever a call that fails leaves half done is the engine's to guard, as it is from other threads.
            return block_in_place(|| catch_unwind(AssertUnwindSafe(call))).map_err(|panic| defect(&*panic));
        }
        let run = spawn_blocking(call).await;
        run.map_err(|error| {
            JoinError::try_into_panic(error).map_or_else(|_| stopping(), |panic| defect(&*panic))
        })
    }

    /// Waits for the calls that run, and lets none begin after them.
    pub(crate) async fn finish(&self) {
        let all = self.calls.acquire_many(self.calls_max).await;
        self.calls.close();
        drop(all);
        let logins = self.logins.acquire_many(LOGINS_MAX).await;
        self.logins.close();
        drop(logins);
    }
}

fn stopping() -> Failure {
    Failure::new(91, "ShutdownInProgress", "the server is stopping")
}

/// What a call that panicked is answered.
fn defect(panic: &(dyn Any + Send)) -> Failure {
    let texts = (panic.downcast_ref::<&str>().copied(), panic.downcast_ref::<String>());
    let text = texts.0.or(texts.1.map(String::as_str)).unwrap_or_default();
    tracing::error!(panic = text, "a command failed in a way that is a defect of the server");
    Failure::internal("the command failed in a way that is a defect of the server")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    /// How long a call waits that nobody tells anything.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// One worker: whatever blocks it blocks all.
    fn runtimes() -> [Runtime; 2] {
        [Builder::new_multi_thread().worker_threads(1).build(), Builder::new_current_thread().build()]
            .map(|runtime| runtime.expect("a runtime"))
    }

    /// The call waits for what only another task tells it, once the call has begun.
    #[test]
    fn other_tasks_go_on_beside_a_call() {
        for runtime in runtimes() {
            let (started, running) = oneshot::channel();
            let (tell, heard) = mpsc::channel();
            let call = move || {
                started.send(()).expect("somebody waits for it");
                heard.recv_timeout(PATIENCE)
            };
            let calling = runtime.spawn(async { Pool::new(1).run(call).await });
            runtime.spawn(async move {
                running.await.expect("it begins");
                tell.send(7)
            });
            let outcome = runtime.block_on(calling).expect("it ended");
            assert!(matches!(outcome, Ok(Ok(7))));
        }
    }

    #[test]
    fn a_call_that_panics_is_answered_and_leaves_its_place() {
        for runtime in runtimes() {
            let pool = Pool::new(1);
            let failed = runtime.block_on(pool.run(|| panic!("planted"))).map(|(): ()| ());
            assert_eq!(failed.map_err(|failure| failure.code()), Err(1));
            assert!(matches!(runtime.block_on(pool.run(|| 5)), Ok(5)));
        }
    }

    /// Calls that held all permits kept logins waiting for as long as they ran.
    #[test]
    fn logins_do_not_wait_for_calls() {
        for runtime in runtimes() {
            let pool = Pool::new(1);
            let held = Arc::clone(&pool.calls).try_acquire_owned().expect("it is free");
            assert!(matches!(runtime.block_on(pool.log_in(|| 5)), Ok(5)));
            drop(held);
        }
    }

    #[test]
    fn nothing_begins_once_the_end_was_waited_for() {
        for runtime in runtimes() {
            let pool = Pool::new(2);
            runtime.block_on(pool.finish());
            let refused = runtime.block_on(pool.run(|| ())).map_err(|failure| failure.code());
            assert_eq!(refused, Err(91));
        }
    }
}
