//! From a filter to the record keys worth looking at.
//!
//! `_id` is the clustered key, so conditions on it bound the walk; everything else is left to the filter. Secondary
//! indexes are kept and enforced but do not serve reads yet.

pub(crate) mod bounds;
