//! Handing out a sequence's values to many threads, each value once.
//!
//! `sequence` is the public handle, `held` what its lock protects, `ledger` the gaps that are not written yet.
//! `turn` serves the writers of ordered and gapless sequences, `change` alters a sequence as a whole,
//! `trace` looks for one value.

mod change;
mod held;
mod ledger;
mod sequence;
mod trace;
mod turn;

pub use self::change::Changing;
pub use self::held::Taken;
pub use self::sequence::{Sequence, Snapshot};
pub use self::turn::{KeptTurn, Numbering, Turn};
