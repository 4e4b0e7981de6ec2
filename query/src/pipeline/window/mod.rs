//! `$setWindowFields`: fields computed from the documents around each one, in the order of a sort.
//!
//! The files, from the lowest: `bounds` (which documents are around one), `moving` (accumulators that values leave again),
//! `formula` (arithmetic with MongoDB's types), `function` (what is computed, as it is parsed), `output` (the stage as it
//! is parsed), `frame` (the documents of a partition that are held), `running` (one field while documents pass), and
//! `stream`. Sorting is a stage of its own before this one, so that an index can replace it.

mod bounds;
mod formula;
mod frame;
mod function;
mod moving;
mod output;
mod passing;
mod running;
mod state;
mod stream;

pub(super) use self::output::WindowFields;
pub(super) use self::stream::Windowing;
