//! What all floors of CairnDB speak: errors, names of collections, locks, and the numbers that operations leave behind.
//!
//! This crate is a part of `cairndb`, and no API of its own: programs use `cairndb`, which re-exports what they need under its
//! own name. The examples here are written for them, and `cairndb` runs them as its own.

#![deny(unsafe_code)]

pub mod codes;
pub mod error;
pub mod error_meaning;
pub mod generated;
pub mod gridfs_error;
pub mod insert_error;
pub mod metrics;
pub mod names;
pub mod namespace;
pub mod results;
pub mod sync;
