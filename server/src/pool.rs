//! The threads of the engine's blocking calls: in bounded numbers, and never in the way of other connections.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairndb::CancellationToken;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, block_in_place, spawn_blocking};

use crate::failure::Failure;
use crate::places::{Holder, Place, Places, stopping};

/// The highest number of login steps at the same time, in addition to other calls.
const LOGINS_MAX: u32 = 4;
/// The highest number of calls at the same time that look at the server, or end what runs, in addition to other calls.
const LOOKS_MAX: u32 = 4;
/// The part of the places of calls that `root` has in addition, where users log in.
const PART_OF_ROOT: u32 = 8;

/// Bounds on the calls that run at the same time.
#[derive(Clone)]
pub(crate) struct Pool {
    calls: Arc<Places>,
    /// Separate from `calls`: they are short, and what ends a command must not wait for it.
    looks: Arc<Places>,
    /// Separate as well: logins are short, and no user has them yet.
    logins: Arc<Places>,
}

impl Pool {
    /// Places for `calls_max` calls. Users leave some to each other, if clients have to log in.
    pub(crate) fn new(calls_max: u32, requires_user: bool) -> Self {
        let shared = |places: u32, of_root: u32| {
            Arc::new(if requires_user { Places::shared(places, of_root) } else { Places::new(places) })
        };
        Self {
            calls: shared(calls_max, calls_max.div_ceil(PART_OF_ROOT)),
            looks: shared(LOOKS_MAX, 1),
            logins: Arc::new(Places::new(LOGINS_MAX)),
        }
    }

    /// Runs a call where it may block, once there is a place for it. One that `ended` asks to end before does not run. A call
    /// that has begun runs to its end, even if its caller is cancelled.
    ///
    /// If the runtime has other threads, the call runs in the current one and another thread continues with the
    /// other connections: handing over the call and its result would mean to wait until two threads wake up.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        holder: Holder,
        ended: Option<&CancellationToken>,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        run_in(self.calls.take(holder, ended).await?, call).await
    }

    /// Runs a short call that looks at the server, or ends what runs. It waits only for others of its kind.
    pub(crate) async fn look<R: Send + 'static>(
        &self,
        holder: Holder,
        ended: Option<&CancellationToken>,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        run_in(self.looks.take(holder, ended).await?, call).await
    }

    /// Runs a step of a login. It waits only for other logins.
    pub(crate) async fn log_in<R: Send + 'static>(
        &self,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        run_in(self.logins.take(Holder::default(), None).await?, call).await
    }

    /// Waits for the running calls. No call begins afterwards.
    pub(crate) async fn finish(&self) {
        self.calls.finish().await;
        self.looks.finish().await;
        self.logins.finish().await;
    }
}

async fn run_in<R: Send + 'static>(
    place: Place,
    call: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    let call = move || {
        // Moved into the call: the place is given back when the call ends, not when its caller stops
        // waiting.
        let _place = place;
        call()
    };
    if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        // Unwind safety is asserted: the engine protects its state against a panic in any thread.
        return block_in_place(|| catch_unwind(AssertUnwindSafe(call))).map_err(|panic| defect(&*panic));
    }
    // A runtime with one thread, as in tests, would stand still while the call blocks.
    let run = spawn_blocking(call).await;
    run.map_err(|error| JoinError::try_into_panic(error).map_or_else(|_| stopping(), |panic| defect(&*panic)))
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

    /// The time that a call waits for a message before the test fails.
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
            let calling =
                runtime.spawn(async { Pool::new(1, false).run(Holder::default(), None, call).await });
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
            let pool = Pool::new(1, true);
            let failed =
                runtime.block_on(pool.run(Holder::default(), None, || panic!("planted"))).map(|(): ()| ());
            assert_eq!(failed.map_err(|failure| failure.code()), Err(1));
            assert!(matches!(runtime.block_on(pool.run(Holder::default(), None, || 5)), Ok(5)));
        }
    }

    /// Calls that held all places kept logins, and who looks, waiting for as long as they ran.
    #[test]
    fn logins_and_looks_do_not_wait_for_calls() {
        for runtime in runtimes() {
            let pool = Pool::new(1, true);
            let held =
                runtime.block_on(pool.calls.take(Holder::default(), None)).map_err(|failure| failure.code());
            assert!(held.is_ok());
            assert!(matches!(runtime.block_on(pool.log_in(|| 5)), Ok(5)));
            assert!(matches!(runtime.block_on(pool.look(Holder::default(), None, || 6)), Ok(6)));
            drop(held);
        }
    }

    #[test]
    fn nothing_begins_once_the_end_was_waited_for() {
        for runtime in runtimes() {
            let pool = Pool::new(2, true);
            runtime.block_on(pool.finish());
            let refused =
                runtime.block_on(pool.run(Holder::default(), None, || ())).map_err(|failure| failure.code());
            assert_eq!(refused, Err(91));
        }
    }
}
