//! Cursors of MongoDB's driver that a token ends: documents are read ahead on a thread.

use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::vec;

use cairndb::CancellationToken;
use cairndb::bson::{RawDocument, RawDocumentBuf};

use crate::failure::Failure;
use crate::store::Documents;
use crate::store::waiting::{LOOK, interrupted, spawn};

/// The number of documents of a cursor that are read ahead.
const AHEAD: usize = 100;
/// And how many bytes of them, but for the last document.
const AHEAD_BYTES: usize = 1 << 20;

type Read = Result<RawDocumentBuf, Failure>;

/// A cursor that is read on a thread of its own.
pub(super) struct Ahead {
    queue: Arc<Queue>,
    /// The documents that were removed from the queue and not given out yet.
    taken: vec::IntoIter<Read>,
    token: CancellationToken,
    current: RawDocumentBuf,
}

/// The documents that were read and are in the queue. The reader of documents gets all of it at once: to wake a
/// thread for each document would cost more than reading it.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// There is something to read, or nothing more comes.
    filled: Condvar,
    /// There is room again, or nothing is read any more.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    read: Vec<Read>,
    bytes: usize,
    has_ended: bool,
    is_abandoned: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic is done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was read once there is room. Returns `false` if nothing is read any more.
    fn add(&self, read: Read) -> bool {
        let is_full = |state: &mut State| state.read.len() >= AHEAD || state.bytes >= AHEAD_BYTES;
        let waited = self.emptied.wait_while(self.lock(), |state| is_full(state) && !state.is_abandoned);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes += read.as_ref().map_or(0, |document| document.as_bytes().len());
        state.read.push(read);
        // The other side waits only while there is nothing.
        if state.read.len() == 1 {
            self.filled.notify_one();
        }
        !state.is_abandoned
    }

    /// Removes and returns all that was read, once there is something. It is empty at the end.
    fn take(&self, token: &CancellationToken) -> Result<Vec<Read>, Failure> {
        let mut state = self.lock();
        while state.read.is_empty() && !state.has_ended {
            if token.is_cancelled() {
                return Err(interrupted());
            }
            let waited = self.filled.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.bytes = 0;
        self.emptied.notify_one();
        Ok(take(&mut state.read))
    }

    fn end(&self) {
        self.lock().has_ended = true;
        self.filled.notify_one();
    }
}

impl Ahead {
    pub(super) fn of(
        mut cursor: impl Documents + Send + 'static,
        token: &CancellationToken,
    ) -> Result<Self, Failure> {
        let queue = Arc::new(Queue::default());
        let filled = Arc::clone(&queue);
        spawn(move || {
            loop {
                let next = match cursor.advance() {
                    Ok(true) => Ok(cursor.current().to_owned()),
                    Ok(false) => break,
                    Err(failure) => Err(failure),
                };
                let is_last = next.is_err();
                // Nothing is read any more: the cursor ends with this thread.
                if !filled.add(next) || is_last {
                    break;
                }
            }
            filled.end();
        })?;
        let nothing = Vec::new().into_iter();
        Ok(Self { queue, taken: nothing, token: token.clone(), current: RawDocumentBuf::new() })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.queue.lock().is_abandoned = true;
        self.queue.emptied.notify_one();
    }
}

impl Documents for Ahead {
    fn advance(&mut self) -> Result<bool, Failure> {
        // An empty queue at the end leaves it empty, and that is handled below.
        if self.taken.as_slice().is_empty() {
            self.taken = self.queue.take(&self.token)?.into_iter();
        }
        match self.taken.next() {
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

#[cfg(test)]
mod tests {
    use cairndb::bson::rawdoc;

    use super::*;
    use crate::failure::Exit;

    struct Numbers {
        next: i32,
        current: RawDocumentBuf,
    }

    impl Documents for Numbers {
        fn advance(&mut self) -> Result<bool, Failure> {
            self.next += 1;
            self.current = rawdoc! { "n": self.next };
            match self.next {
                ..=1250 => Ok(true),
                _ => Err(Failure::new(Exit::Failed, "at the end")),
            }
        }

        fn current(&self) -> &RawDocument {
            &self.current
        }
    }

    /// A cursor whose second document comes when it is asked for.
    struct Slow {
        asked: std::sync::mpsc::Receiver<()>,
        given: bool,
        current: RawDocumentBuf,
    }

    impl Documents for Slow {
        fn advance(&mut self) -> Result<bool, Failure> {
            Ok(!std::mem::replace(&mut self.given, true) || self.asked.recv().is_ok())
        }

        fn current(&self) -> &RawDocument {
            &self.current
        }
    }

    /// A cursor without an end, which reports by its sender that it was dropped.
    struct Endless {
        _alive: std::sync::mpsc::Sender<()>,
        current: RawDocumentBuf,
    }

    impl Documents for Endless {
        fn advance(&mut self) -> Result<bool, Failure> {
            Ok(true)
        }

        fn current(&self) -> &RawDocument {
            &self.current
        }
    }

    #[test]
    fn a_document_does_not_wait_for_the_next_one() {
        let (ask, asked) = std::sync::mpsc::channel();
        let slow = Slow { asked, given: false, current: rawdoc! {} };
        let mut ahead = Ahead::of(slow, &CancellationToken::new()).unwrap();
        for _ in 0..50 {
            assert!(ahead.advance().unwrap());
            ask.send(()).unwrap();
        }
        drop(ask);
        assert!(ahead.advance().unwrap());
        assert!(!ahead.advance().unwrap());
    }

    #[test]
    fn a_cursor_that_is_dropped_ends_its_thread() {
        let (ended, is_ended) = std::sync::mpsc::channel::<()>();
        let mut ahead =
            Ahead::of(Endless { _alive: ended, current: rawdoc! {} }, &CancellationToken::new()).unwrap();
        assert!(ahead.advance().unwrap());
        drop(ahead);
        assert!(is_ended.recv().is_err());
    }

    #[test]
    fn a_cancelled_token_ends_the_waiting() {
        let (_ask, asked) = std::sync::mpsc::channel();
        let token = CancellationToken::new();
        let mut ahead = Ahead::of(Slow { asked, given: true, current: rawdoc! {} }, &token).unwrap();
        token.cancel();
        assert_eq!(ahead.advance().unwrap_err().message, "operation was interrupted");
    }

    #[test]
    fn documents_come_in_their_order_and_then_the_error() {
        let numbers = Numbers { next: 0, current: RawDocumentBuf::new() };
        let mut ahead = Ahead::of(numbers, &CancellationToken::new()).unwrap();
        for expected in 1..=1250 {
            assert!(ahead.advance().unwrap());
            assert_eq!(ahead.current().get_i32("n").unwrap(), expected);
        }
        assert_eq!(ahead.advance().unwrap_err().message, "at the end");
        assert!(!ahead.advance().unwrap());
    }
}
