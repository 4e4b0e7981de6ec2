//! What MongoDB's query language means, as pure functions over raw BSON.
//!
//! A [`Filter`](filter::Filter) is parsed once and then tells of any document whether it matches, without decoding it.
//! This crate does no input or output: it knows neither collections nor indexes, and of storage only which
//! values a filter can match.
//!
//! The invariants: order and paths are those of the `index` crate, nothing here defines its own; and no
//! filter and no document, however malformed, makes a function of this crate panic.

#![forbid(unsafe_code)]

mod decimal;
pub mod distinct;
pub mod error;
pub mod expression;
pub mod filter;
mod numeric;
pub mod operation;
pub mod path;
mod pattern;
pub mod pipeline;
pub mod planner;
pub mod projection;
mod random;
mod raw;
pub mod sort;
pub mod update;
mod value;
