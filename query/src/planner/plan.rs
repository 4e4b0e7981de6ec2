//! The result of planning: the source of the documents, and their order.

use index::interval::Intervals;
use index::key::Direction;

use crate::planner::cover::EntryAnswer;
use crate::planner::merge::MergeOrder;

/// The source of a plan.
#[derive(Clone, Debug)]
pub enum Access {
    /// Nothing: no document can match.
    Nothing,
    /// The records whose `_id`s are within bounds.
    Records(RecordScan),
    /// The entries of an index within bounds, and the documents that they name.
    Entries(EntryScan),
    /// Several scans, one after the other.
    Union(Union),
    /// Several scans side by side, merged in the order of the sort.
    Merge(Merge),
}

/// Scans that follow each other. For its use see [`plans`](crate::planner::plans).
#[derive(Clone, Debug)]
pub struct Union {
    /// Scans of records or entries, in the order in which they are read.
    pub scans: Vec<Access>,
    /// Whether more than one scan may reach the same document.
    pub has_duplicates: bool,
}

/// Scans that each come in the order of the sort. For its use see [`MergeOrder`].
#[derive(Clone, Debug)]
pub struct Merge {
    /// Scans of records or entries.
    pub scans: Vec<Access>,
    /// The comparison of their next documents.
    pub order: MergeOrder,
    /// Whether more than one scan may reach the same document.
    pub has_duplicates: bool,
}

impl Access {
    /// Whether entries alone answer, as far as they can determine. Such a plan reads only documents that they cannot determine.
    pub fn is_covered(&self) -> bool {
        match self {
            Self::Nothing | Self::Records(_) => false,
            Self::Entries(scan) => scan.answer.as_ref().is_some_and(|answer| answer.covers),
            Self::Union(union) => union.scans.iter().all(Self::is_covered),
            Self::Merge(merge) => merge.scans.iter().all(Self::is_covered),
        }
    }
}

/// A scan of records.
#[derive(Clone, Debug)]
pub struct RecordScan {
    /// The `_id`s of documents that can match.
    pub ids: Intervals,
    /// The direction of the scan.
    pub direction: Direction,
    /// Whether the bounds are a range that the caller gave. No filter implies it, so where a key does not say whether its
    /// document is within them, the document does.
    pub is_given: bool,
}

/// A scan of the entries of an index. For its use see [`plans`](crate::planner::plans).
#[derive(Clone, Debug)]
pub struct EntryScan {
    /// The position of the index in [`Request::indexes`](crate::planner::Request::indexes).
    pub index: usize,
    /// For each field of the index, the values to read.
    pub bounds: Vec<Intervals>,
    /// The direction of the scan.
    pub direction: Direction,
    /// Whether the bounds are those of a range that the caller gave, as in [`RecordScan::is_given`].
    pub is_given: bool,
    /// Whether several entries within the bounds may name the same document.
    pub has_duplicates: bool,
    /// The part that is answered from the entries. Absent if each of their documents is read.
    pub answer: Option<EntryAnswer>,
    /// Whether every entry whose key says that it is within the bounds is that of a match, so that the filter need not be applied to its document.
    pub decides: bool,
    /// The number of leading fields that distinguish the matches of which each is wanted. Of those that are equal in
    /// these fields the first one is enough. A missing field counts as null there, so where they differ null
    /// distinguishes nothing.
    pub distinct: Option<usize>,
}

/// The source for a request, and whether it is in order. For its use see [`plans`](crate::planner::plans).
#[derive(Clone, Debug)]
pub struct Plan {
    /// The source of the plan.
    pub access: Access,
    /// Whether the documents come in the order of the sort, so that no sort is needed.
    pub is_sorted: bool,
    /// Whether the rules do not decide between this plan and others that have this set: the one with the fewest keys is the
    /// best. Set for the first plan only if there are others.
    pub is_rival: bool,
}
