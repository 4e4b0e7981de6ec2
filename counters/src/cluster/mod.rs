//! The traits for a MongoDB cluster: counters that `cairn migrate` made, drawn by `findAndModify`.
//!
//! The types here stand around those of `mongodb::sync` and give all of their calls by `Deref`. The driver's own types cannot
//! have the traits: a collection of theirs does not give its client, and blocks of numbers must be held by something that
//! lives as long as a client.

mod blocks;
mod client;
mod collection;
mod counter;
mod document;
mod held;
mod take;
mod transaction;

pub use crate::cluster::client::{Client, Database};
pub use crate::cluster::collection::Collection;
