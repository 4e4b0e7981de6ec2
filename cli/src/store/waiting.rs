//! Calls of MongoDB's driver that a token ends. The driver waits for its answers, so each call waits on a thread of its own;
//! what is left of it after the token was cancelled goes on there, and its answer is dropped.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::time::Duration;

use cairndb::CancellationToken;
use cairndb::bson::{RawDocument, RawDocumentBuf};
use query::code::Code;

use crate::failure::{Exit, Failure};
use crate::store::Documents;

/// How often the token is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How many documents of a cursor are read ahead.
const AHEAD: usize = 100;

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

/// A cursor that is read on a thread of its own.
pub(super) struct Ahead {
    documents: Receiver<Result<RawDocumentBuf, Failure>>,
    token: CancellationToken,
    current: RawDocumentBuf,
}

impl Ahead {
    pub(super) fn of(
        mut cursor: impl Documents + Send + 'static,
        token: &CancellationToken,
    ) -> Result<Self, Failure> {
        let (sender, documents) = sync_channel(AHEAD);
        spawn(move || {
            loop {
                let next = match cursor.advance() {
                    Ok(true) => Ok(cursor.current().to_owned()),
                    Ok(false) => return,
                    Err(failure) => Err(failure),
                };
                let is_last = next.is_err();
                // Nothing is received any more: the cursor ends with this thread.
                if sender.send(next).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Self { documents, token: token.clone(), current: RawDocumentBuf::new() })
    }
}

impl Documents for Ahead {
    fn advance(&mut self) -> Result<bool, Failure> {
        match receive(&self.token, &self.documents)? {
            Some(next) => {
                self.current = next?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(work);
    thread.map(drop).map_err(|error| Failure::io("a thread for an answer", &error))
}

/// What comes next. Returns `None` after the last.
fn receive<T>(token: &CancellationToken, from: &Receiver<T>) -> Result<Option<T>, Failure> {
    loop {
        match from.recv_timeout(LOOK) {
            Ok(next) => return Ok(Some(next)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if token.is_cancelled() => return Err(interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn interrupted() -> Failure {
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
    use cairndb::bson::rawdoc;

    use super::*;

    struct Numbers {
        next: i32,
        current: RawDocumentBuf,
    }

    impl Documents for Numbers {
        fn advance(&mut self) -> Result<bool, Failure> {
            self.next += 1;
            self.current = rawdoc! { "n": self.next };
            match self.next {
                ..=250 => Ok(true),
                _ => Err(Failure::new(Exit::Failed, "at the end")),
            }
        }

        fn current(&self) -> &RawDocument {
            &self.current
        }
    }

    #[test]
    fn documents_come_in_their_order_and_then_the_error() {
        let numbers = Numbers { next: 0, current: RawDocumentBuf::new() };
        let mut ahead = Ahead::of(numbers, &CancellationToken::new()).unwrap();
        for expected in 1..=250 {
            assert!(ahead.advance().unwrap());
            assert_eq!(ahead.current().get_i32("n").unwrap(), expected);
        }
        assert_eq!(ahead.advance().unwrap_err().message, "at the end");
        assert!(!ahead.advance().unwrap());
    }

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
