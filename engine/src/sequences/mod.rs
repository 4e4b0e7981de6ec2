//! `Sequence`: the handle to a sequence that a user made, and its verbs.

mod change;
mod handle;
mod inspect;
mod values;

pub use self::change::{AlterSequence, RestartSequence, SetCurrentValue};
pub use self::handle::Sequence;
pub use self::inspect::{ListGaps, SafeWatermark, SnapshotSequence};
pub(crate) use self::inspect::{gaps_of, snapshot_of};
pub use self::values::{CurrentValue, Fetch, NextValue};
