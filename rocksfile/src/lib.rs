//! RocksDB's files as bytes: its logs, its MANIFEST and the names in its folder, read without RocksDB.
//!
//! RocksDB repairs what it can while it opens, and does not always say what it left out. This crate only looks: it tells
//! which records of a log are whole, what they are numbered, and which files a MANIFEST says must exist. It opens no
//! file and decides nothing; what a finding means for a database is the engine's business.
//!
//! The invariant: whatever the bytes are, reading ends, takes memory in proportion to one record, and does not panic.
//!
//! - [`log`]: blocks and fragments, with their checksums, and the search for what is whole after damage.
//! - [`record`]: fragments joined to records.
//! - [`batch`]: the numbers and notes of a write batch, which is what a record of a write-ahead log holds.
//! - [`edit`] and [`manifest`]: version edits, which are the records of a MANIFEST, and the state they add up to.
//! - [`names`]: what the files of a folder are called.

#![forbid(unsafe_code)]

pub mod batch;
pub mod edit;
pub mod log;
pub mod manifest;
pub mod names;
pub mod record;
mod varint;
