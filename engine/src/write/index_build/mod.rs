//! The build of an index over documents that exist already, while reads and writes go on.
//!
//! `build` is the line of a build: begin, load, follow, finish. `load` reads a snapshot, sorts the entries (`sorter`)
//! and stores them as tables. `follow` brings the entries up to a later snapshot, round by round, by the notes of writers
//! (`catalog::builds`). `report` says how far the build is.
//!
//! The entries carry an id that no catalog entry names until all of them are written. So a build that was cut short is
//! invisible, and the next open removes what it wrote.

mod build;
mod building;
mod follow;
mod load;
mod report;
mod sorter;

pub(crate) use self::build::{BuildRequest, Outcome, create};
pub(crate) use self::report::Callback;
