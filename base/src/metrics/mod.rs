//! The numbers of operations: what a thread notes while it works, counters and histograms, and the report for users.
//!
//! Who counts which operation is decided above, in the engine.

pub mod notes;
pub mod report;
pub mod timing;
