//! The report of a change of documents to its caller: their number, and the state of one of them before or after.

use std::ops::AddAssign;

use base::error::Result;
use bson::RawDocumentBuf;

/// Which state of the document the caller wants to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    None,
    Before,
    After,
}

/// The document that the caller gets. It is made before the commit: if that fails, nothing is written.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) image: Image,
    /// Makes what is shown from the bytes of the wanted state.
    pub(crate) show: &'a dyn Fn(&[u8]) -> Result<RawDocumentBuf>,
}

impl Shown<'_> {
    /// Nothing is shown.
    pub(crate) const NOTHING: Shown<'static> =
        Shown { image: Image::None, show: &|bytes| Ok(RawDocumentBuf::from_bytes(bytes.to_vec())?) };

    pub(super) fn of(&self, before: &[u8], after: &[u8]) -> Result<Option<RawDocumentBuf>> {
        match self.image {
            Image::None => Ok(None),
            Image::Before => (self.show)(before).map(Some),
            Image::After => (self.show)(after).map(Some),
        }
    }
}

/// A document that matched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matched {
    /// Whether the update changed it.
    pub(crate) is_modified: bool,
    /// The document in the wanted state; `None` if no state is wanted.
    pub(crate) shown: Option<RawDocumentBuf>,
}

impl Matched {
    /// The document as counts.
    pub(crate) fn counts(&self) -> Counts {
        Counts { matched: 1, modified: u64::from(self.is_modified) }
    }
}

/// The number of documents that matched, and of those that were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.matched += other.matched;
        self.modified += other.modified;
    }
}
