//! The common parts of CairnDB's benchmarks: the documents, the two databases side by side, and the measurement of a
//! ratio.
//!
//! Every figure compares CairnDB with raw RocksDB that has the same options and is given the same bytes, in one run
//! and in turns: these are ratios, and absolute times of a shared machine are not printed.

#![forbid(unsafe_code)]

pub mod documents;
pub mod measure;
pub mod ours;
pub mod raw;
