//! Running a plan: reading the records that match, in the requested order, and passing them through the stages of a
//! pipeline.

pub(crate) mod choose;
mod entry_shape;
mod entry_walk;
mod examined;
pub(crate) mod explain;
mod field_lookup;
pub(crate) mod foreign;
pub(crate) mod found_key;
mod key_walk;
pub(crate) mod leading;
mod leaf_walk;
pub(crate) mod listed;
pub(crate) mod matches;
mod merge_walk;
pub(crate) mod natural_walk;
mod open_scan;
pub(crate) mod piped;
pub(crate) mod read_view;
mod record_fetch;
pub(crate) mod rest;
mod row_stream;
pub(crate) mod rows;
pub(crate) mod stages;

#[cfg(test)]
mod tests;
