//! Running a plan: walking records and keeping those that match, in the order that was asked for, and putting the
//! stages of a pipeline behind them.

mod entry_walk;
pub(crate) mod explain;
mod key_walk;
pub(crate) mod matches;
pub(crate) mod piped;
pub(crate) mod read_view;
pub(crate) mod rows;
pub(crate) mod stages;

#[cfg(test)]
mod tests;
