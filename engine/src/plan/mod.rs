//! From a filter and a sort to the record keys worth looking at, and the order in which to do it.
//!
//! `_id` is the clustered key, so conditions on it bound the walk; everything else is left to the filter. Secondary
//! indexes are kept and enforced but do not serve reads yet.

pub(crate) mod access;
pub(crate) mod bounds;
pub(crate) mod order;
pub(crate) mod selector;
