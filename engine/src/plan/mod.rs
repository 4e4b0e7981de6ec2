//! From a filter, a sort and a hint to the keys worth looking at, and the order in which to do it.
//!
//! What is chosen among the records and the indexes is decided by `query::planner`, without storage; here is what the
//! planner is told, and how its bounds become keys.

pub(crate) mod access;
pub(crate) mod bounds;
pub(crate) mod order;
pub(crate) mod selector;
