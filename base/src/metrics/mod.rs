//! The numbers of operations: what a thread notes while it works, counters and histograms, and the report for users.
//!
//! The engine decides which operations are counted.

pub mod notes;
pub mod report;
pub mod timing;
