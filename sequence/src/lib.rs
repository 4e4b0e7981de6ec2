//! A part of `cairndb`, without a stable API of its own: the values that a document store
//! generates.
//!
//! Two kinds: [`ObjectId`](object_id::ObjectId)s, made by a [`Generator`](generator::Generator), and
//! [`Sequence`](allocator::Sequence)s with the rules of auto-increment fields. This crate knows neither BSON
//! documents nor files: an id is twelve bytes, a sequence asks a [`Store`](store::Store) to make its reserve
//! durable, and the caller writes the documents.
//!
//! The invariant: no value is handed out twice. That holds for any number of threads, when the clock stands
//! still or steps back, after a fork, after a crash, and when a write fails. (A sequence that starts over, or
//! that its owner sets back, repeats values on request.)

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
pub mod position;
pub mod run;
pub mod slot;
pub mod state;
pub mod store;
mod sync;
pub mod trace;
mod turn_lock;
