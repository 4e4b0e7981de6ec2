//! A part of `cairndb`, without a stable API of its own: documents in the formats of files.
//! Extended JSON, CSV, TSV and BSON are read into raw BSON.
//!
//! Reading has two steps. [`split`] cuts a stream into records without looking at what they say, which is quick and
//! has to be done by one thread; [`parse`] makes the document of a record, which many threads can do at once. A record
//! that is wrong is a [`Refusal`](refusal::Refusal) with the reason, and the next one is read.
//!
//! This crate opens no file, decompresses nothing and knows no store.
//!
//! The invariant: for any bytes, reading ends, uses memory in proportion to one record of limited size, and does not
//! panic. What [`parse`] accepts is a well-formed document within the limits of the store.
//!
//! - [`mod@format`]: the formats, and finding out which one a file has.
//! - [`split`]: records, with their lines and offsets.
//! - [`columns`]: what the columns of a table are called, where their values go, and of which type they are.
//! - [`large`]: integers of JSON that 64 bits do not hold.
//! - [`parse`]: from a record to a document.
//! - [`dates`]: dates as text.
//! - [`dump`]: the files and archives of mongodump.

#![forbid(unsafe_code)]

mod boundary;
mod cell;
pub mod columns;
pub mod dates;
pub mod dump;
mod element;
pub mod format;
mod json;
pub mod large;
mod notation;
pub mod parse;
pub mod refusal;
pub mod split;
mod table;
#[cfg(test)]
mod tests;
mod typed;
