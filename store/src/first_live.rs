//! The first live key of a range, found for later scans. What is known of it is in `live_starts`.

use std::sync::Arc;

use crate::families::{Database, Family};
use crate::snapshot::Snapshot;
use base::error::Result;

/// Notes the first live key of a range, which a scan of some moment has found: from the first bound in `deleted` up to the second
/// one no key was live then. `first_key` reads the first key of a state between two bounds.
#[cold]
pub(super) fn note(
    database: &Arc<Database>,
    family: Family,
    deleted: (&[u8], &[u8]),
    first_key: impl FnOnce(&Arc<Snapshot>, (Vec<u8>, Vec<u8>)) -> Result<Option<Vec<u8>>>,
) -> Result<()> {
    // Entries and records are written under latches, what describes collections is not.
    if matches!(family, Family::Meta | Family::Outcomes | Family::Changes) {
        return Ok(());
    }
    let (start, found) = deleted;
    let first = || {
        let snapshot = Snapshot::take(database);
        // From where an earlier note says that the range begins, or all deleted keys would be stepped over once more.
        let first = database.live_starts().of(database.number(family), start, || snapshot.sequence());
        let first = first.filter(|first| first.as_slice() <= found);
        let bounds = (first.unwrap_or_else(|| start.to_vec()), found.to_vec());
        let first = first_key(&snapshot, bounds)?;
        Ok((first.unwrap_or_else(|| found.to_vec()), snapshot.sequence()))
    };
    database.live_starts().note(database.number(family), start, found, first)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::open::OpenMode;
    use query::operation::OperationContext;

    use crate::scan::{CacheUse, Scan};
    use crate::store::Store;
    use crate::write::{Batch, CommitLevel};

    fn key(number: u32) -> Vec<u8> {
        [&[0, 0, 0, 7][..], &number.to_be_bytes()].concat()
    }

    fn change(store: &Store, database: &Arc<Database>, put: &[u32], delete: &[u32]) {
        let mut batch = Batch::new(database);
        for number in put {
            batch.put(Family::Records, &key(*number), b"x");
        }
        for number in delete {
            batch.delete(Family::Records, &key(*number));
        }
        store.commit(batch, CommitLevel::Buffered).expect("written");
    }

    fn first(snapshot: &Arc<Snapshot>) -> Vec<u8> {
        let bounds = (vec![0, 0, 0, 7], Some(vec![0, 0, 0, 8]));
        let mut scan =
            Scan::open(snapshot, Family::Records, bounds, CacheUse::Fill, &OperationContext::unlimited());
        scan.advance().expect("read");
        scan.key().to_vec()
    }

    fn noted(database: &Database) -> Option<Vec<u8>> {
        database.live_starts().of(database.number(Family::Records), &[0, 0, 0, 7], || u64::MAX)
    }

    /// Each of these scans stepped over all keys that were deleted before.
    #[test]
    fn a_scan_begins_where_the_last_one_found_something() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&fixture::options(&folder.path().join("db"), OpenMode::CreateIfMissing))
            .expect("made");
        let database = store.enter().expect("open");
        change(&store, &database, &(0..1000).collect::<Vec<_>>(), &[]);
        let before = Snapshot::take(&database);
        change(&store, &database, &[], &(0..500).collect::<Vec<_>>());
        assert_eq!(noted(&database), None);
        assert_eq!(first(&Snapshot::take(&database)), key(500));
        assert_eq!(noted(&database), Some(key(500)));
        // A reader of an older state sees it as it was.
        assert_eq!(first(&before), key(0));
        assert_eq!(first(&Snapshot::take(&database)), key(500));
        // A key that is put below is found, and so is one that comes back.
        change(&store, &database, &[499], &[500]);
        assert_eq!((noted(&database), first(&Snapshot::take(&database))), (Some(key(499)), key(499)));
        change(&store, &database, &[3], &[]);
        assert_eq!(first(&Snapshot::take(&database)), key(3));
        change(&store, &database, &[], &(0..1000).collect::<Vec<_>>());
        assert_eq!(first(&Snapshot::take(&database)), Vec::<u8>::new());
        assert_eq!(noted(&database), Some(vec![0, 0, 0, 8]));
        assert_eq!(first(&Snapshot::take(&database)), Vec::<u8>::new());
        change(&store, &database, &[0], &[]);
        assert_eq!(first(&Snapshot::take(&database)), key(0));
    }

    /// A write that holds its latch may be about to store a key that no snapshot shows yet.
    #[test]
    fn nothing_is_noted_beside_a_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&fixture::options(&folder.path().join("db"), OpenMode::CreateIfMissing))
            .expect("made");
        let database = store.enter().expect("open");
        change(&store, &database, &(0..1000).collect::<Vec<_>>(), &[]);
        change(&store, &database, &[], &(0..500).collect::<Vec<_>>());
        let latched = store.latches.lock_one(b"any", &query::operation::OperationContext::default());
        assert_eq!(first(&Snapshot::take(&database)), key(500));
        assert_eq!(noted(&database), None);
        drop(latched);
        assert_eq!(first(&Snapshot::take(&database)), key(500));
        assert_eq!(noted(&database), Some(key(500)));
    }
}
