//! What a sequence asks of durable storage: to write before anything leaves.

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::error::SequenceError;
use crate::run::Run;
use crate::state::Mark;

/// How many gaps the ledger of a sequence keeps; older ones are only counted.
pub const GAPS_KEPT: usize = 1_000;

/// Durable storage of one sequence.
///
/// The allocator calls [`reserve`](Self::reserve) before it hands out a value of the new reserve, and changes its own
/// state only after the call succeeded. A reserve of more than one value is on stable storage before its first value
/// leaves: the allocator calls [`make_durable`](Self::make_durable), unless it [`is_durable`](Self::is_durable) by then.
pub trait Store {
    /// What the storage fails with; it also carries what the sequence itself refuses.
    type Error: From<SequenceError>;

    /// Writes a change as a whole, so that no later write of a document survives without it. The receipt rises
    /// from call to call; [`is_durable`](Self::is_durable) tells what has reached stable storage.
    fn reserve(&self, change: &Change<'_>) -> Result<u64, Self::Error>;

    /// Whether the write with this receipt is on stable storage by now.
    fn is_durable(&self, receipt: u64) -> bool;

    /// Returns once the write with this receipt is on stable storage.
    fn make_durable(&self, receipt: u64) -> Result<(), Self::Error>;

    /// Who makes the next reserve ahead of need; nobody unless a store says so.
    fn provider(&self) -> Option<Arc<dyn Provider>> {
        None
    }
}

/// Makes the next reserve of a sequence before anyone needs it, so that nobody waits for it.
pub trait Provider: Send + Sync {
    /// Half of the last block of a reserve is used: [`Sequence::reserve_ahead`](crate::allocator::Sequence::reserve_ahead)
    /// is to be called soon, by another thread. Whoever took the value is here, so this must not wait.
    fn provide(&self);
}

/// A stored sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it was declared to be.
    pub attributes: Attributes,
    /// How often attributes, name or content were reset.
    pub version: i64,
    /// Where it stands.
    pub mark: Mark,
}

/// What one write changes.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Where the sequence stands from now on.
    pub mark: &'a Mark,
    /// Attributes and version, if they changed.
    pub definition: Option<(&'a Attributes, i64)>,
    /// What is to be added to the ledger, numbered upwards to `mark.next_gap`. Of more than [`GAPS_KEPT`] the oldest may
    /// be left out: the mark counts them, and their numbers are skipped.
    pub gaps: &'a [Gap],
}

/// Values that nobody will get, and why: an entry of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The values. After a crash they are all that may have been lost: some may have been taken.
    pub run: Run,
    /// Why they are lost.
    pub cause: Cause,
}

/// Why values are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The process ended without closing the database.
    Crash,
    /// The attributes were changed.
    Alter,
    /// An explicit value, or a new current value, lay beyond them.
    ExplicitValue,
    /// The sequence was restarted, or its collection truncated.
    Restart,
    /// A generated value was in use already, so the rest of its block was given up.
    Conflict,
    /// An acquirer with blocks of its own was closed.
    AcquirerClosed,
}

impl Cause {
    /// Every cause with its number on disk, which never changes.
    pub const ALL: [(u8, Self); 6] = [
        (1, Self::Crash),
        (2, Self::Alter),
        (3, Self::ExplicitValue),
        (4, Self::Restart),
        (5, Self::Conflict),
        (6, Self::AcquirerClosed),
    ];

    /// The name, as a ledger shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Alter => "alter",
            Self::ExplicitValue => "explicitValue",
            Self::Restart => "restart",
            Self::Conflict => "conflict",
            Self::AcquirerClosed => "acquirerClosed",
        }
    }

    /// The number on disk.
    pub fn number(self) -> u8 {
        match self {
            Self::Crash => 1,
            Self::Alter => 2,
            Self::ExplicitValue => 3,
            Self::Restart => 4,
            Self::Conflict => 5,
            Self::AcquirerClosed => 6,
        }
    }

    /// The cause with a number, if there is one.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == number).map(|&(_, cause)| cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_keep_their_numbers() {
        let names = Cause::ALL.map(|(number, cause)| (number, cause.name()));
        let expected = [
            (1, "crash"),
            (2, "alter"),
            (3, "explicitValue"),
            (4, "restart"),
            (5, "conflict"),
            (6, "acquirerClosed"),
        ];
        assert_eq!(names, expected);
        for (number, cause) in Cause::ALL {
            assert_eq!((cause.number(), Cause::of_number(number)), (number, Some(cause)));
        }
        assert_eq!((Cause::of_number(0), Cause::of_number(7)), (None, None));
    }
}
