//! Where the blocking calls of the engine run: a bounded number at once, and never in the way of other
//! connections.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use query::code::Code;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, block_in_place, spawn_blocking};

use crate::failure::Failure;

/// The highest number of login steps at the same time, in addition to other calls.
const LOGINS_MAX: u32 = 4;

/// A bound on the calls that run at the same time. The others wait in the order of their arrival.
#[derive(Clone)]
pub(crate) struct Pool {
    calls: Arc<Semaphore>,
    /// Separate from `calls`: logins are short and must not wait for long commands.
    logins: Arc<Semaphore>,
    calls_max: u32,
}

impl Pool {
    pub(crate) fn new(calls_max: u32) -> Self {
        let logins = Arc::new(Semaphore::new(LOGINS_MAX as usize));
        Self { calls: Arc::new(Semaphore::new(calls_max as usize)), logins, calls_max }
    }

    /// Runs a call where it may block. A call that has begun runs to its end, even if its caller is
    /// cancelled.
    ///
    /// If the runtime has other threads, the call runs in the current one and another thread takes over the
    /// other connections: handing over the call and its result would mean to wait until two threads wake up.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        Self::run_with(Arc::clone(&self.calls), call).await
    }

    /// Runs a step of a login. It waits only for other logins.
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
        // The semaphore is closed by `finish` alone.
        let permit = permit.map_err(|_| stopping())?;
        let call = move || {
            // Moved into the call: the permit is given back when the call ends, not when its caller stops
            // waiting.
            let _permit = permit;
            call()
        };
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            // Unwind safety is asserted: the engine protects its state against a panic in any thread.
            return block_in_place(|| catch_unwind(AssertUnwindSafe(call))).map_err(|panic| defect(&*panic));
        }
        // A runtime with one thread, as in tests, would stand still while the call blocks.
        let run = spawn_blocking(call).await;
        run.map_err(|error| {
            JoinError::try_into_panic(error).map_or_else(|_| stopping(), |panic| defect(&*panic))
        })
    }

    /// Waits for the running calls. No call begins afterwards.
    pub(crate) async fn finish(&self) {
        // All permits at once: they are granted in order, so every call that waited before has run by then.
        let all = self.calls.acquire_many(self.calls_max).await;
        self.calls.close();
        drop(all);
        let logins = self.logins.acquire_many(LOGINS_MAX).await;
        self.logins.close();
        drop(logins);
    }
}

fn stopping() -> Failure {
    Failure::new(Code::SHUTDOWN_IN_PROGRESS, "the server is stopping")
}

/// The answer to a call that panicked.
fn defect(panic: &(dyn Any + Send)) -> Failure {
    // The two types of `panic!` with and without arguments.
    let texts = (panic.downcast_ref::<&str>().copied(), panic.downcast_ref::<String>());
    let text = texts.0.or(texts.1.map(String::as_str)).unwrap_or_default();
    tracing::error!(panic = text, "a command panicked, which is a defect of the server");
    Failure::internal("the command panicked, which is a defect of the server")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    /// How long a call waits for a message before the test fails.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// With one worker each: a call that blocks it blocks all tasks.
    fn runtimes() -> [Runtime; 2] {
        [Builder::new_multi_thread().worker_threads(1).build(), Builder::new_current_thread().build()]
            .map(|runtime| runtime.expect("a runtime"))
    }

    /// The call waits for a message that another task sends after the call has begun.
    #[test]
    fn other_tasks_go_on_beside_a_call() {
        for runtime in runtimes() {
            let (started, running) = oneshot::channel();
            let (tell, heard) = mpsc::channel();
            let call = move || {
                started.send(()).expect("the test waits for it");
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
