//! Cursors of MongoDB's driver that a token ends: documents are read ahead on a thread.

use std::sync::mpsc::{Receiver, sync_channel};

use cairndb::CancellationToken;
use cairndb::bson::{RawDocument, RawDocumentBuf};

use crate::failure::Failure;
use crate::store::Documents;
use crate::store::waiting::{receive, spawn};

/// How many documents of a cursor are read ahead.
const AHEAD: usize = 100;

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
}
