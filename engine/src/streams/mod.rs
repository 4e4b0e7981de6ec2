//! Change streams: `watch` on a collection, a database or a client.
//!
//! `open` checks what is asked for and switches the log on, `stream` reads it round by round, `shape` makes documents of events,
//! `stages` sends them through the caller's pipeline, and `typed` is the public stream. A stream that waits holds no snapshot and
//! no lock.

mod event;
mod open;
mod shape;
mod stages;
mod stream;
mod token;
mod typed;

pub use crate::streams::event::{
    ChangeNamespace, ChangeStreamEvent, FullDocumentBeforeChangeType, FullDocumentType, OperationType,
    TruncatedArray, UpdateDescription,
};
pub use crate::streams::open::Watch;
pub(crate) use crate::streams::open::Watched;
pub(crate) use crate::streams::stream::{RawStream, Waiting as WaitingReader};
pub use crate::streams::token::ResumeToken;
pub use crate::streams::typed::{ChangeStream, StreamWaker};
