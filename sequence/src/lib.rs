//! The values that a document store makes up by itself.
//!
//! Here are [`ObjectId`](object_id::ObjectId)s and the [`Generator`](generator::Generator) that hands them
//! out. This crate knows neither BSON documents nor where anything is stored: an id is twelve bytes, and
//! whoever writes documents converts it.
//!
//! The invariant: a value that was handed out once is not handed out again, however many threads ask, when the
//! clock stands still or steps back, and after a fork.

// Denied, not forbidden: `fork` must register with the C library, which has no safe interface.
#![deny(unsafe_code)]

pub mod clock;
pub mod error;
mod fork;
pub mod generator;
mod host;
pub mod object_id;
