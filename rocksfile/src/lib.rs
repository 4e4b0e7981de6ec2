//! A part of `cairndb`, without a stable API of its own: RocksDB's files as bytes. Its logs,
//! its MANIFEST, its tables and the names in its folder are read without RocksDB.
//!
//! RocksDB repairs what it can while it opens, and does not always report what it left out. This crate only
//! reads: which records of a log are whole, how they are numbered, which files must exist by the MANIFEST, and which
//! blocks of a table are whole. It opens no file. The engine decides what a finding means for a database.
//!
//! The invariant: for any bytes, reading ends, uses memory in proportion to one record, and does not panic. Of a table that is its
//! index and one block.
//!
//! - [`log`]: blocks and fragments with their checksums, and the search for whole fragments after damage.
//! - [`record`]: fragments joined to records.
//! - [`batch`]: the numbers and notes of a write batch, the content of a record in a write-ahead log.
//! - [`edit`] and [`manifest`]: version edits, the records of a MANIFEST, and the state that they add up to.
//! - [`table`]: the blocks of a table with their checksums, and the keys in them.
//! - [`names`]: the names of the files in a folder.

#![forbid(unsafe_code)]

pub mod batch;
pub mod edit;
pub mod log;
pub mod manifest;
pub mod names;
pub mod record;
pub mod table;
mod varint;
