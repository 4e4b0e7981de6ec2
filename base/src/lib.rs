//! A part of `cairndb`, without a stable API of its own: the vocabulary that the store and the
//! engine share. Errors, names of collections, locks and counters of operations.
//!
//! Programs use `cairndb`, which re-exports the public items. The examples here are written for its users, and it runs them.

#![deny(unsafe_code)]

pub mod codes;
pub mod error;
pub mod error_meaning;
pub mod generated;
pub mod gridfs_error;
pub mod insert_error;
pub mod lock_order;
pub mod metrics;
pub mod names;
pub mod namespace;
pub mod once_error;
pub mod results;
pub mod sync;
pub mod write_error;
