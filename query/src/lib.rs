//! A part of `cairndb`, without a stable API of its own: the meaning of MongoDB's query
//! language, as pure functions over raw BSON.
//!
//! | module | what it does with a document |
//! |---|---|
//! | [`filter`] | says whether the document matches |
//! | [`projection`] | chooses the fields that come out |
//! | [`expression`] | computes a value from it |
//! | [`update`] | changes it |
//! | [`sort`], [`distinct`] | gives its place in an order; collects the different values of a field |
//! | [`pipeline`] | sends it through the stages of an aggregation |
//! | [`planner`] | chooses the keys that a filter and a sort have to read |
//! | [`operation`] | bounds all of that: steps, time, memory, cancellation |
//!
//! Everything is parsed once, and checked then as far as it can be; the parsed form is evaluated over any number of
//! documents, from any number of threads, in place and without decoding them:
//!
//! ```
//! use bson::rawdoc;
//! use cairndb_query::filter::Filter;
//!
//! let filter = Filter::parse(&rawdoc! { "age": { "$gte": 18 }, "name.last": "Berg" })?;
//! assert!(filter.matches(&rawdoc! { "age": 42, "name": { "last": "Berg" } }));
//! assert!(!filter.matches(&rawdoc! { "age": 17, "name": { "last": "Berg" } }));
//! # Ok::<(), cairndb_query::error::Error>(())
//! ```
//!
//! An error says what is wrong with an argument: it has MongoDB's number (`code()`), the operator and the path.
//!
//! This crate is not a database. It does no input or output, and knows neither collections nor storage: of indexes it
//! knows their definitions, and from them which keys a plan would read.
//!
//! The invariants: order and paths are those of the `index` crate, nothing here defines its own; and no filter and no
//! document, however malformed, makes a function of this crate panic.

#![forbid(unsafe_code)]

pub mod code;
mod decimal;
mod decimal_functions;
pub mod distinct;
pub mod error;
pub mod expression;
pub mod filter;
pub mod library;
mod numeric;
pub mod operation;
pub mod path;
mod pattern;
mod percentile;
pub mod pipeline;
pub mod planner;
pub mod projection;
mod random;
mod raw;
pub mod registry;
pub mod sort;
mod spill;
pub mod update;
mod value;
