//! Entries beyond memory, in temporary files: sorted runs, and what merges them.
//!
//! An entry is a key and a value, both bytes. What they mean is for the sort, the group or the join that moves them out.

pub(crate) mod merge;
pub(crate) mod runs;

use crate::operation::{Interruption, SpillFailure};

/// The reason why entries could not be moved to a file, or read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpillError {
    /// The operation is to end.
    Interrupted(Interruption),
    /// The file cannot be made, written or read.
    Failed(SpillFailure),
}

impl From<Interruption> for SpillError {
    fn from(reason: Interruption) -> Self {
        Self::Interrupted(reason)
    }
}

impl From<SpillFailure> for SpillError {
    fn from(failure: SpillFailure) -> Self {
        Self::Failed(failure)
    }
}
