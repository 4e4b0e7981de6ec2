//! Calls of MongoDB's driver that a signal ends. The driver waits for its answers, so each call waits on a thread of its own;
//! what is left of it after the signal goes on there, and its answer is dropped.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cairndb::CancellationToken;
use query::code::Code;

use crate::failure::{Exit, Failure};

/// The interval of checks of the token.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The time for which an answer is waited for.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// Until this is cancelled,
    pub(super) token: CancellationToken,
    /// and as much longer.
    pub(super) after: Duration,
}

/// The result of a call, unless patience ends first.
pub(super) fn wait<T: Send + 'static>(
    patience: &Patience,
    call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, answer) = channel();
    // The receiver is gone if the call was given up.
    spawn(move || drop(sender.send(call())))?;
    receive(patience, &answer)?.unwrap_or_else(|| Err(ended()))
}

pub(super) fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(work);
    thread.map(drop).map_err(|error| Failure::io("a thread for an answer", &error))
}

/// The next value. Returns `None` after the last.
pub(super) fn receive<T>(patience: &Patience, from: &Receiver<T>) -> Result<Option<T>, Failure> {
    let mut cancelled: Option<Instant> = None;
    loop {
        match from.recv_timeout(LOOK) {
            Ok(next) => return Ok(Some(next)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if patience.token.is_cancelled() => {
                // A call that began after the signal has its time too: a batch is followed by a sync.
                if cancelled.get_or_insert_with(Instant::now).elapsed() >= patience.after {
                    return Err(interrupted());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

pub(super) fn interrupted() -> Failure {
    Failure {
        code: Some(Code::INTERRUPTED.number()),
        ..Failure::new(Exit::Failed, "operation was interrupted")
    }
}

fn ended() -> Failure {
    Failure::new(Exit::Failed, "the thread that waited for an answer ended without one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_token_ends_the_waiting() {
        let token = CancellationToken::new();
        let patience = Patience { token: token.clone(), after: Duration::ZERO };
        assert_eq!(wait(&patience, || Ok(5)).unwrap(), 5);
        token.cancel();
        let (held, release) = channel::<()>();
        let failure = wait(&patience, move || {
            let _ = release.recv();
            Ok(())
        });
        assert_eq!(failure.unwrap_err().code, Some(Code::INTERRUPTED.number()));
        drop(held);
    }

    #[test]
    fn patience_waits_for_an_answer_that_comes_after_the_signal() {
        let patience = Patience { token: CancellationToken::new(), after: Duration::from_secs(60) };
        patience.token.cancel();
        // Several looks go by before this call has its answer.
        let (held, release) = channel::<()>();
        let answer = wait(&patience, move || {
            let _ = release.recv_timeout(4 * LOOK);
            Ok(5)
        });
        assert_eq!(answer.unwrap(), 5);
        drop(held);
    }
}
