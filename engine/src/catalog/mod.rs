//! What exists: databases, collections, their indexes and fields, and sequences, in memory and as entries of family `meta`.
//!
//! The map in memory is what operations look at; the entries are read once, at open. Every change goes through
//! `change`, which writes the entry first and the map after. Databases exist as long as they have a collection.

pub(crate) mod change;
pub(crate) mod collection;
pub(crate) mod entry;
pub(crate) mod fields;
pub(crate) mod indexes;
pub(crate) mod load;
pub(crate) mod multikey;
pub(crate) mod names;
pub(crate) mod sequence_change;
pub(crate) mod sequence_entry;
pub(crate) mod sequence_store;
pub(crate) mod sequences;
pub(crate) mod stage;
