//! Calls of MongoDB's driver that a token ends. The driver waits for its answers, so each call waits on a thread of its own;
//! what is left of it after the token was cancelled goes on there, and its answer is dropped.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use cairndb::CancellationToken;
use query::code::Code;

use crate::failure::{Exit, Failure};

/// How often the token is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The result of a call, unless the token is cancelled first.
pub(super) fn wait<T: Send + 'static>(
    token: &CancellationToken,
    call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, answer) = channel();
    // The receiver is gone if the call was given up.
    spawn(move || drop(sender.send(call())))?;
    receive(token, &answer)?.unwrap_or_else(|| Err(ended()))
}

pub(super) fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(work);
    thread.map(drop).map_err(|error| Failure::io("a thread for an answer", &error))
}

/// What comes next. Returns `None` after the last.
pub(super) fn receive<T>(token: &CancellationToken, from: &Receiver<T>) -> Result<Option<T>, Failure> {
    loop {
        match from.recv_timeout(LOOK) {
            Ok(next) => return Ok(Some(next)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if token.is_cancelled() => return Err(interrupted()),
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
        assert_eq!(wait(&token, || Ok(5)).unwrap(), 5);
        token.cancel();
        let (held, release) = channel::<()>();
        let failure = wait(&token, move || {
            let _ = release.recv();
            Ok(())
        });
        assert_eq!(failure.unwrap_err().code, Some(Code::INTERRUPTED.number()));
        drop(held);
    }
}
