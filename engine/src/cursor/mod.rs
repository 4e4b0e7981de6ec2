//! The cursor: an owned walk over the documents of a result.
//!
//! `typed` is the public cursor, an iterator of `T` or over raw bytes. `raw` does its work and does not know `T`.

mod follower;
mod raw;
mod typed;

pub(crate) use self::raw::RawCursor;
pub use self::raw::WaitingCursor;
pub use self::typed::Cursor;
