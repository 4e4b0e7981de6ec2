//! The catalog: collections with their indexes and auto-increment fields, views, and sequences, in memory and as
//! entries of family `meta`.
//!
//! Operations look at the map in memory; the entries are read once, at open. Every change goes through
//! `change`, `view_change` and `sequence_change`, which write the entry first and change the map after that. A database
//! exists as long as it has a collection or a view.

mod aside;
pub(crate) mod builds;
pub(crate) mod capped;
pub(crate) mod change;
pub(crate) mod clustered;
pub(crate) mod collection;
pub(crate) mod definition_events;
pub(crate) mod entry;
pub(crate) mod fields;
pub(crate) mod gate;
pub(crate) mod given_keys;
pub(crate) mod indexes;
pub(crate) mod load;
mod logging;
pub(crate) mod multikey;
pub(crate) mod names;
pub(crate) mod record_keys;
pub(crate) mod record_removal;
pub(crate) mod sequence_change;
pub(crate) mod sequence_entry;
pub(crate) mod sequence_store;
pub(crate) mod sequences;
pub(crate) mod settings;
pub(crate) mod stage;
pub(crate) mod unpublished;
pub(crate) mod validation;
pub(crate) mod view_change;
pub(crate) mod views;
