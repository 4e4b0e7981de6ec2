//! Sources of cursors that go on after the last document that there is now: a capped collection, or the log of changes.

use std::task::Waker;
use std::time::Duration;

use base::error::Result;
use bson::RawDocumentBuf;
use query::operation::OperationContext;

use crate::execute::rest::Rest;
use crate::streams::{RawStream, WaitingReader};
use crate::tail::{Tail, Waiting};

/// The waiting time of a reader of a change stream that does not wait without end.
const AWAIT_TIME: Duration = Duration::from_secs(1);

/// A source that is followed.
#[expect(clippy::large_enum_variant, reason = "a cursor has it in a box")]
pub(super) enum Follower {
    Tail(Tail),
    /// A change stream, with its current event.
    Changes(RawStream, Vec<u8>),
}

/// Keeps the waker of a reader until it is dropped.
pub(super) enum WaitingFollower {
    Tail { _waiting: Option<Waiting> },
    Changes { _waiting: WaitingReader },
}

impl Follower {
    /// Steps to the next document. Returns `false` if there is none now.
    pub(super) fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Tail(tail) => tail.advance(),
            Self::Changes(stream, current) => {
                stream.reuse(std::mem::take(current));
                let Some(event) = stream.advance()? else { return Ok(false) };
                *current = event.into_bytes();
                Ok(true)
            }
        }
    }

    /// Begins a run of steps without a pause between them.
    pub(super) fn begin_run(&mut self) {
        match self {
            Self::Tail(_) => {}
            Self::Changes(stream, _) => stream.begin_run(),
        }
    }

    pub(super) fn end_run(&mut self) {
        match self {
            Self::Tail(_) => {}
            Self::Changes(stream, _) => stream.end_run(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Tail(tail) => tail.bytes(),
            Self::Changes(_, current) => current,
        }
    }

    /// Whether nothing comes any more.
    pub(super) fn is_exhausted(&self) -> bool {
        match self {
            Self::Tail(tail) => tail.is_exhausted(),
            Self::Changes(stream, _) => !stream.is_alive(),
        }
    }

    /// Whether the last step has looked at a part only of what is there.
    pub(super) fn is_behind(&self) -> bool {
        match self {
            Self::Tail(_) => false,
            Self::Changes(stream, _) => stream.is_behind(),
        }
    }

    /// Wakes by `waker` when there may be another document, until what is returned is dropped.
    pub(super) fn wait(&self, waker: &Waker) -> WaitingFollower {
        match self {
            Self::Tail(tail) => WaitingFollower::Tail { _waiting: tail.wait(waker) },
            Self::Changes(stream, _) => WaitingFollower::Changes { _waiting: stream.wait(waker) },
        }
    }

    pub(super) fn await_time(&self) -> Duration {
        match self {
            Self::Tail(tail) => tail.await_time,
            Self::Changes(..) => AWAIT_TIME,
        }
    }

    /// Gives back what is held until the next step.
    pub(super) fn rest(&mut self, current: Rest) {
        match self {
            Self::Tail(tail) => tail.rest(current),
            Self::Changes(stream, event) => {
                *event = Vec::new();
                stream.rest(current);
            }
        }
    }

    pub(super) fn operation(&self) -> &OperationContext {
        match self {
            Self::Tail(tail) => tail.operation(),
            Self::Changes(stream, _) => stream.operation(),
        }
    }

    /// The token of a change stream, after which a later one goes on.
    pub(super) fn resume_token(&self) -> Option<RawDocumentBuf> {
        match self {
            Self::Tail(_) => None,
            Self::Changes(stream, _) => Some(stream.token().to_document()),
        }
    }
}
