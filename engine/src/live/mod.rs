//! Live queries: the result of a search, kept up to date.
//!
//! `raw` reads the log of changes round by round and looks at the documents that it names, `rows` are those that were shown, `change`
//! is a change as callers get it, and `typed` the public iterator.

mod change;
mod raw;
mod rows;
#[cfg(test)]
mod tests;
mod typed;

pub use crate::live::change::LiveChange;
pub(crate) use crate::live::raw::{Asked, RawLive, Row};
pub use crate::live::typed::LiveQuery;
