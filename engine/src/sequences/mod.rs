//! The public handle to a sequence, and its verbs: one file for values, one for changes, one for what is only
//! read.

mod change;
mod handle;
mod inspect;
mod trace;
mod values;

pub use self::change::{AlterSequence, RestartSequence, SetCurrentValue};
pub use self::handle::Sequence;
pub use self::inspect::{ListGaps, SafeWatermark, SnapshotSequence};
pub(crate) use self::inspect::{gaps_of, snapshot_of};
pub(crate) use self::trace::trace_of;
pub use self::trace::{TraceValue, ValueTrace, ValueVerdict};
pub use self::values::{CurrentValue, Fetch, NextValue};
