//! A part of `cairndb`, without a stable API of its own: the order of BSON values. How two
//! values compare, what a dotted path means, and which key bytes a document has in an index. And the bytes themselves: how fields
//! of raw documents are read, checked and written.
//!
//! Everything here is a pure function over raw BSON. The crate stores nothing, and knows neither a
//! database nor a query language: it is the one definition of comparison and of paths that the
//! layers above share.
//!
//! The invariant that carries the rest: [`order::compare`] of two values equals the byte order of
//! their [`key::encode`]d forms, in both directions and in compound keys.

#![forbid(unsafe_code)]

pub mod collation;
pub mod element;
pub mod entry_document;
pub mod error;
pub mod extract;
pub mod field_order;
pub mod interval;
pub mod key;
pub mod key_bounds;
pub mod multikey;
pub mod number;
pub mod order;
pub mod path;
pub mod range;
pub mod spec;
pub mod validate;
pub mod wildcard;
mod words;
pub mod writer;

#[cfg(test)]
mod proptest_support;
