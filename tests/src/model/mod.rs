//! Random operations on a database and on a naive model of it, compared after every step.
//!
//! The model is a map in memory with an order and filters of its own, written for being obvious. It knows
//! a part of the values only: numbers are multiples of one half, so that integers hold them exactly.

mod fields;
mod filter;
mod inserts;
mod numbering;
mod operation;
mod order;
mod run;
mod state;
mod values;

pub use self::run::{Outcome, run};
