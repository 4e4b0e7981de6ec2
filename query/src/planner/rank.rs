//! The rank of plans by what is known without counting: the filter, the sort and the indexes.

use std::cmp::Reverse;

/// The rank of a plan. The order of the fields is the order of the rules in the module's documentation, and greater
/// is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) documents: AtMost,
    /// The number of leading fields with values.
    pub(super) equalities: usize,
    pub(super) is_sorted: bool,
    /// Whether the field after these is bounded.
    pub(super) has_range: bool,
    pub(super) reads: Reads,
    /// Whether records are read directly. Entries cost another read for each document.
    pub(super) is_records: bool,
    /// An index with fewer fields has shorter keys.
    pub(super) fields: Reverse<usize>,
    /// Decides between equal plans: the index that was made first.
    pub(super) position: Reverse<usize>,
}

/// An upper limit for the documents that a scan can reach, by its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AtMost {
    All,
    /// Every field of a unique index has one value.
    One,
    None,
}

/// The reads of a scan of entries besides its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reads {
    /// The documents.
    Documents,
    /// Only entries, as far as these can determine.
    Entries,
    /// Only the first of the entries with equal values.
    DistinctEntries,
}

impl Rank {
    /// The rank of a scan of all records.
    pub(super) fn scan(fields: usize) -> Self {
        Self {
            documents: AtMost::All,
            equalities: 0,
            is_sorted: false,
            has_range: false,
            reads: Reads::Documents,
            is_records: true,
            fields: Reverse(fields),
            position: Reverse(0),
        }
    }

    /// Whether the scan reads only a part of the keys.
    pub(super) fn is_bounded(&self) -> bool {
        self.documents == AtMost::None || self.equalities > 0 || self.has_range
    }

    /// Whether this plan may read less than the best one. Then their keys decide, which the planner does not know.
    pub(super) fn is_rival_of(&self, best: &Self, reads_all: bool) -> bool {
        let is_open = |rank: &Self| rank.documents == AtMost::All && rank.reads != Reads::DistinctEntries;
        // A reader that stops early reads a few keys of a plan in order, and all keys of any other.
        let is_comparable = reads_all || self.is_sorted == best.is_sorted;
        is_open(self) && is_open(best) && self.is_bounded() && is_comparable
    }

    /// Whether the scan may be better than a scan of all records.
    pub(super) fn is_useful(&self) -> bool {
        self.is_bounded() || self.is_sorted || self.reads == Reads::DistinctEntries
    }
}
