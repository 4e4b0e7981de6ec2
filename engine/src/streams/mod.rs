//! Change streams: `watch` on a collection, a database or a client.
//!
//! `open` checks what is asked for, `walk` reads the log round by round, `stream` shows what it reaches, `shape` makes documents of
//! events, `stages` sends them through the caller's pipeline, and `typed` is the public stream. A stream that waits holds no
//! snapshot and no lock.

mod event;
mod open;
mod shape;
mod stages;
mod stream;
mod token;
mod typed;
mod walk;

pub use crate::streams::event::{
    ChangeNamespace, ChangeStreamEvent, FullDocumentBeforeChangeType, FullDocumentType, OperationType,
    TruncatedArray, UpdateDescription,
};
pub use crate::streams::open::Watch;
pub(crate) use crate::streams::open::{Watched, logged_scope, scope_of};
pub(crate) use crate::streams::stream::RawStream;
pub use crate::streams::token::ResumeToken;
pub use crate::streams::typed::{ChangeStream, StreamWaker};
pub(crate) use crate::streams::walk::{
    Followed, LogWalk, Logged, Reached, Waiting as WaitingReader, WalkStep,
};
