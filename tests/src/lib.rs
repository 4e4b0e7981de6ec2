//! The common parts of the suites: random decisions that can be replayed, folders to work in, threads that race, a
//! naive model of the database, and the protocol between a process that is killed and the one that judges what it
//! left.
//!
//! Everything here reports a disagreement by panicking with what was expected and what was found. Nothing
//! here looks into the engine: it uses the public API and the public API alone.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "panicking is how a suite reports, as said above")]

pub mod capping;
pub mod choices;
pub mod expiring;
pub mod files;
pub mod following;
pub mod indexes;
pub mod journal;
pub mod model;
pub mod numbered;
pub mod power;
pub mod race;
pub mod replacing;
pub mod rows;
pub mod scratch;
pub mod spending;
pub mod transacting;
pub mod uploading;
pub mod workload;
