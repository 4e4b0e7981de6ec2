//! Sequences as the engine uses them, over a store in memory.
//!
//! `golden` and the files named after operations test the contract case by case; `history` runs random histories
//! through the allocator and through the naive `reference`, and compares all results.

mod ahead;
mod announce;
mod change;
mod golden;
mod history;
mod ledger;
mod memory;
mod reference;
mod stored;
mod turns;
mod watermark;
