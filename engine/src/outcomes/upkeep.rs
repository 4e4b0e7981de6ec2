//! Rows that no client asks for any more are removed.

use std::time::Duration;

use base::error::Result;
use query::operation::OperationContext;
use store::Family;
use store::handles::Storage;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::outcomes::row::{Row, SessionKey};
use crate::outcomes::turns::Turns;

/// The time for which rows are kept: twice as long as a session lasts that is not used.
const KEPT: Duration = Duration::from_secs(3600);
/// The number of rows that one commit removes.
const ROWS_MAX: usize = 1000;

/// Removes the rows that are older than [`KEPT`].
pub(crate) fn remove_old(turns: &Turns, storage: Storage<'_>) -> Result<()> {
    remove_older_than(turns, storage, KEPT)
}

fn remove_older_than(turns: &Turns, storage: Storage<'_>, kept: Duration) -> Result<()> {
    let database = storage.database;
    let operation = OperationContext::unlimited();
    let is_old = |key: &[u8], value: &[u8]| -> bool {
        // A damaged row stays, for `verify` to name it.
        Row::decode(key, value).is_ok_and(|row| u128::from(row.age_millis()) >= kept.as_millis())
    };
    let mut from = SessionKey::first_row();
    loop {
        // In short walks: a snapshot that lasts keeps what was deleted.
        let mut old: Vec<(SessionKey, Vec<u8>)> = Vec::new();
        let snapshot = Snapshot::take(database);
        let mut scan =
            Scan::open(&snapshot, Family::Outcomes, (from.clone(), None), CacheUse::Bypass, &operation);
        let mut is_end = true;
        while scan.advance()? {
            if let Some(session) = SessionKey::of_row(scan.key())
                && is_old(scan.key(), scan.value())
            {
                old.push((session, scan.key().to_vec()));
            }
            if old.len() == ROWS_MAX {
                from = [scan.key(), &[0]].concat();
                is_end = false;
                break;
            }
        }
        drop((scan, snapshot));
        for rows in old.chunk_by(|(a, _), (b, _)| a == b) {
            let Some((session, _)) = rows.first() else { continue };
            let is_still_old = |key: &[u8]| -> Result<bool> {
                Ok(database.get(Family::Outcomes, key)?.is_some_and(|value| is_old(key, &value)))
            };
            // A command that runs writes its rows again, and they must not be mistaken for the old ones.
            turns.alone_if_free(*session, || remove(storage, rows, &is_still_old))?;
        }
        if is_end {
            return Ok(());
        }
    }
}

/// Removes the rows of a session that are still old.
fn remove(
    storage: Storage<'_>,
    rows: &[(SessionKey, Vec<u8>)],
    is_still_old: &dyn Fn(&[u8]) -> Result<bool>,
) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    for (_, key) in rows {
        if is_still_old(key)? {
            batch.delete(Family::Outcomes, key);
        }
    }
    if batch.is_empty() { Ok(()) } else { storage.store.commit(batch, CommitLevel::Delayed) }
}

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;

    use super::*;
    use crate::client::Client;
    use crate::outcomes::row::{Kind, now_millis};

    #[test]
    fn old_rows_go_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("opened");
        let engine = client.shared().engine();
        let database = engine.store.enter().expect("open");
        let storage = engine.storage(&database);
        let now = now_millis();
        let mut batch = Batch::new(&database);
        for number in 0..2500_u32 {
            let mut id = [0; 16];
            id.iter_mut().zip((number / 2).to_be_bytes()).for_each(|(byte, part)| *byte = part);
            let millis = if number % 5 == 0 { now } else { 0 };
            let results = RawDocumentBuf::new();
            let row = Row { number: 1, millis, statements: (0, 0), kind: Kind::Insert, results };
            let key = SessionKey::new(id, [0; 16]).row(number % 2);
            batch.put(Family::Outcomes, &key, &row.encode());
        }
        batch.put(Family::Outcomes, b"damaged", b"");
        engine.store.commit(batch, CommitLevel::Delayed).expect("stored");
        let count = || {
            let snapshot = Snapshot::take(&database);
            let operation = OperationContext::unlimited();
            let everything = (Vec::new(), None);
            let mut scan = Scan::open(&snapshot, Family::Outcomes, everything, CacheUse::Bypass, &operation);
            let mut count = 0;
            while scan.advance().expect("a step") {
                count += 1;
            }
            count
        };
        assert_eq!(count(), 2501);
        let busy = SessionKey::new([0; 16], [0; 16]);
        let unlimited = OperationContext::unlimited();
        let done = engine.turns.alone(busy, &unlimited, || remove_old(&engine.turns, storage));
        done.expect("removed");
        // A fifth is new, one is damaged, and one belongs to a session whose command runs.
        assert_eq!(count(), 502);
        remove_old(&engine.turns, storage).expect("removed");
        assert_eq!(count(), 501);
    }
}
