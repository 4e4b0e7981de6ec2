//! The work of a walk: the keys and documents that it has read.

/// The reads of a walk so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examined {
    /// Entries of indexes, and the key of the record if the filter fixes the `_id`.
    pub(crate) keys: u64,
    pub(crate) documents: u64,
    /// The documents that matched.
    pub(crate) matched: u64,
}

impl Examined {
    /// Adds what another walk has read.
    pub(super) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.documents += other.documents;
        self.matched += other.matched;
    }

    /// The reads of several walks together.
    pub(super) fn sum(parts: &[Self]) -> Self {
        parts.iter().fold(Self::default(), |mut sum, part| {
            sum.add(*part);
            sum
        })
    }
}
