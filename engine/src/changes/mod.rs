//! The log of changes: what writes to logged collections leave in their own batch, for change streams.
//!
//! A writer registers under its latches, gets a position and writes its events under it. Readers go as far as no writer below is
//! still at work, and as far as everything is on stable storage: what they show is never undone.

pub(crate) mod event;
pub(crate) mod kept;
pub(crate) mod log;
pub(crate) mod retention;
pub(crate) mod rounds;
pub(crate) mod scopes;
#[cfg(test)]
mod tests;
