//! The durable storage that a sequence needs: it writes a reserve before its first value leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::attributes::Attributes;
use crate::error::SequenceError;
use crate::run::Run;
use crate::state::Mark;

/// The number of gaps that the ledger of a sequence keeps. Older gaps are only counted.
pub const GAPS_KEPT: usize = 1_000;

/// Durable storage of one sequence.
///
/// The allocator calls [`reserve`](Self::reserve) before it hands out a value of the new reserve, and changes
/// its own state only after the call succeeded. A reserve of more than one value is on stable storage before
/// its first value leaves: the allocator calls [`make_durable`](Self::make_durable), unless it
/// [`is_durable`](Self::is_durable) by then.
///
/// ```
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::error::SequenceError;
/// use cairndb_sequence::store::{Change, Store};
///
/// struct Printer;
///
/// impl Store for Printer {
///     type Error = SequenceError;
///     fn reserve(&self, change: &Change<'_>) -> Result<u64, SequenceError> {
///         println!("reserved up to {}", change.mark.current_value);
///         Ok(1)
///     }
///     fn is_durable(&self, _receipt: u64) -> bool { true }
///     fn make_durable(&self, _receipt: u64) -> Result<(), SequenceError> { Ok(()) }
/// }
///
/// let sequence = Sequence::new(Attributes::create(&Options::default())?);
/// assert_eq!(sequence.take_one(sequence.shared(), &Printer)?, 1); // prints 1000
/// # Ok::<(), SequenceError>(())
/// ```
pub trait Store {
    /// The storage's errors. It must also hold the sequence's own rejections.
    type Error: From<SequenceError>;

    /// Writes a change as a whole, so that no later write of a document survives without it. The receipt
    /// rises from call to call; [`is_durable`](Self::is_durable) says what has reached stable storage.
    fn reserve(&self, change: &Change<'_>) -> Result<u64, Self::Error>;

    /// Whether the write with this receipt is on stable storage by now.
    fn is_durable(&self, receipt: u64) -> bool;

    /// Returns once the write with this receipt is on stable storage.
    fn make_durable(&self, receipt: u64) -> Result<(), Self::Error>;

    /// The provider that makes the next reserve ahead of need. The default is none: then the taker that needs
    /// the next reserve makes it.
    fn provider(&self) -> Option<Arc<dyn Provider>> {
        None
    }
}

/// Makes the next reserve of a sequence before it is needed, so that no taker waits for it.
pub trait Provider: Send + Sync {
    /// Called when half of the last block of a reserve is used. Must arrange that another thread soon calls
    /// [`Sequence::reserve_ahead`](crate::allocator::Sequence::reserve_ahead). The caller is drawing a value,
    /// so this must not block.
    fn provide(&self);
}

/// A store that writes nothing: values are unique only while the process runs. For examples and measurements.
#[derive(Debug, Default)]
pub struct Volatile {
    receipts: AtomicU64,
}

impl Store for Volatile {
    type Error = SequenceError;

    fn reserve(&self, _: &Change<'_>) -> Result<u64, SequenceError> {
        // Relaxed: receipts only have to rise, and no memory is published with them.
        Ok(self.receipts.fetch_add(1, Ordering::Relaxed))
    }

    fn is_durable(&self, _: u64) -> bool {
        true
    }

    fn make_durable(&self, _: u64) -> Result<(), SequenceError> {
        Ok(())
    }
}

/// A stored sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The attributes that the sequence was declared with.
    pub attributes: Attributes,
    /// The number of times that attributes, name or content were reset.
    pub version: i64,
    /// The last mark that was written.
    pub mark: Mark,
}

/// The changes of one write.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The new mark.
    pub mark: &'a Mark,
    /// Attributes and version, if they changed.
    pub definition: Option<(&'a Attributes, i64)>,
    /// The gaps to add to the ledger; the last one has the number before `mark.next_gap`. If there are more
    /// than [`GAPS_KEPT`], the oldest may be left out: the mark counts them, and their numbers are skipped.
    pub gaps: &'a [Gap],
}

/// Values that are lost, and why: an entry of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The lost values. After a crash, all values that may be lost: some of them may have been drawn.
    pub run: Run,
    /// The reason why they are lost.
    pub cause: Cause,
}

/// The reason why values are lost.
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
    /// The transaction that drew them was aborted.
    Aborted,
}

impl Cause {
    /// Every cause with its number on disk, which never changes.
    pub const ALL: [(u8, Self); 7] = [
        (1, Self::Crash),
        (2, Self::Alter),
        (3, Self::ExplicitValue),
        (4, Self::Restart),
        (5, Self::Conflict),
        (6, Self::AcquirerClosed),
        (7, Self::Aborted),
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
            Self::Aborted => "aborted",
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
            Self::Aborted => 7,
        }
    }

    /// The cause with a number on disk. Returns `None` for an unknown number.
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
            (7, "aborted"),
        ];
        assert_eq!(names, expected);
        for (number, cause) in Cause::ALL {
            assert_eq!((cause.number(), Cause::of_number(number)), (number, Some(cause)));
        }
        assert_eq!((Cause::of_number(0), Cause::of_number(8)), (None, None));
    }
}
