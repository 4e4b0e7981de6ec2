//! The values that a document store makes up by itself.
//!
//! Two kinds: [`ObjectId`](object_id::ObjectId)s and the [`Generator`](generator::Generator) that hands them out, and
//! [`Sequence`](allocator::Sequence)s with the rules of auto-increment fields. This crate knows neither BSON documents
//! nor where anything is stored: an id is twelve bytes, a sequence asks a [`Store`](store::Store) to make its
//! reserve durable, and whoever writes documents does the rest.
//!
//! The invariant: a value that was handed out once is not handed out again, however many threads ask, when the
//! clock stands still or steps back, after a fork, after a crash, and when a write fails. (A sequence that starts
//! over, or is set back by its owner, repeats values because it was told to.)

// Denied, not forbidden: `fork` must register with the C library, which has no safe interface.
#![deny(unsafe_code)]

pub mod acquirer;
pub mod allocator;
pub mod attributes;
pub mod auto_increment;
mod block;
pub mod clock;
pub mod error;
pub mod fork;
pub mod generator;
mod host;
pub mod in_flight;
pub mod object_id;
pub mod run;
pub mod slot;
pub mod state;
pub mod store;
mod sync;
