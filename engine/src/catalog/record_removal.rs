//! Removing records of a collection as a range, and not one by one.
//!
//! A range leaves no notes for index builds, as every other write does: a build that has read one of the records would
//! store entries of documents that do not exist. So the range is staged and the builds are ended by one function, and
//! [`Batch::delete_records`] is called nowhere else, which `tests/tidy` holds.

use base::error::Result;
use store::write::Batch;

use crate::catalog::builds::BuildEnd;
use crate::catalog::collection::CollectionState;

/// Records of a collection whose keys are next to each other.
#[derive(Clone, Copy)]
pub(crate) enum RecordRange<'a> {
    /// The collection goes with them.
    Whole,
    /// All of them, and the collection stays.
    All,
    /// Those before a record key.
    Before(&'a [u8]),
}

impl CollectionState {
    /// Removes records together with what is in the batch, by `commit`. Builds that are running must begin again, or end if
    /// the collection goes. The caller holds the gate exclusively until it has published what else has changed: a build
    /// waits there before it ends, and so none ends without knowing.
    pub(crate) fn remove_records<'b>(
        &self,
        range: RecordRange<'_>,
        mut batch: Batch<'b>,
        commit: impl FnOnce(Batch<'b>) -> Result<()>,
    ) -> Result<()> {
        let (end, reason) = match range {
            RecordRange::Whole => (self.id.end(), BuildEnd::CollectionGone),
            RecordRange::All => (self.id.end(), BuildEnd::RecordsRemoved),
            RecordRange::Before(key) => (key.to_vec(), BuildEnd::RecordsRemoved),
        };
        let first = self.id.prefix();
        // Nothing is removed, and builds may go on.
        if end.as_slice() <= first.as_slice() {
            return commit(batch);
        }
        batch.delete_records(&first, &end);
        let committed = commit(batch);
        // After the commit: a build that begins now starts from a snapshot without the records.
        match &committed {
            Ok(()) => drop(self.builds.end(reason, |_| true)),
            // Perhaps they are gone. To begin again costs time, and is right in both cases.
            Err(error) if error.is_commit_unknown() => {
                drop(self.builds.end(BuildEnd::RecordsRemoved, |_| true));
            }
            Err(_) => {}
        }
        committed
    }
}
