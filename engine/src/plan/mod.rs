//! From a filter, a sort and a hint to the keys that are read, and their order.
//!
//! `query::planner` chooses between records and indexes, without storage. Here is its input, and the translation of its
//! bounds into keys.

pub(crate) mod access;
pub(crate) mod bounds;
pub(crate) mod order;
pub(crate) mod selector;
