//! The second part of a build: the entries follow what was written since, from one snapshot to a later one.
//!
//! Writers noted which records they changed. Each of them is read in both snapshots, and what differs between the entries
//! of both is stored. No latch is needed: no writer touches the entries of an index that is being built, and what is
//! written after the later snapshot is noted for the next round.
//!
//! Writers do not look at a unique index that is being built. So between two rounds several documents may have one key. Its
//! entry is that of one of them, and the others wait: for the end of each round, when another document may have given the
//! key up. Those that still wait at the end are duplicates.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::builds::Build;
use crate::document::decode::stored;
use crate::error::Result;
use crate::storage::Family;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;
use crate::storage::write::{Batch, CommitLevel};
use crate::write::entries::{self, Entry};
use crate::write::index_build::building::Building;
use crate::write::index_build::report::Report;

/// Bytes of entries after which they are committed. It bounds memory, and how long writers are held up at a time.
const COMMIT_BYTES_MAX: usize = 128 << 10;
/// Notes after which entries are committed.
const COMMIT_NOTES_MAX: usize = 500;
/// How long writers may work between two times that they are held up.
const WRITERS_TURN: Duration = Duration::from_millis(2);
/// The most bytes of keys that may wait because other documents have them.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Whether writers go on while the entries follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// They do.
    Free,
    /// They are held up from time to time, because they note more than the build reads.
    HoldingUp,
}

/// The state of the entries: those of all documents of a snapshot.
pub(super) struct Follower<'a> {
    building: &'a Building<'a>,
    snapshot: Arc<Snapshot>,
    /// Unique keys that other documents had: each with the encoded `_id` of its document, and the value of its entry.
    waiting: BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    waiting_bytes: usize,
}

/// Changes of entries that are not committed yet.
struct Pending<'a> {
    batch: Batch<'a>,
    /// Of a unique index: the value that each key will have, or `None` if it will be free.
    values: HashMap<Vec<u8>, Option<Vec<u8>>>,
    notes: usize,
}

impl<'a> Follower<'a> {
    /// The entries are those of `snapshot`.
    pub(super) fn starting_at(building: &'a Building<'a>, snapshot: Arc<Snapshot>) -> Self {
        Self { building, snapshot, waiting: BTreeMap::new(), waiting_bytes: 0 }
    }

    /// Brings the entries up to `later`, by the notes of a round. Without a report nothing is told: the caller holds the
    /// collection's gate.
    pub(super) fn follow(
        &mut self,
        round: u32,
        later: Arc<Snapshot>,
        pace: Pace,
        mut report: Option<&mut Report<'_, '_>>,
    ) -> Result<()> {
        let building = self.building;
        let mut notes = Scan::open(&later, Family::Entries, building.build.notes(round), CacheUse::Bypass);
        let mut pending = self.pending();
        let mut held_up = (pace == Pace::HoldingUp).then(|| building.collection.enter_alone());
        while notes.advance()? {
            self.follow_document(Build::noted_id(notes.key()), &later, &mut pending)?;
            pending.notes += 1;
            if pending.batch.bytes() < COMMIT_BYTES_MAX && pending.notes < COMMIT_NOTES_MAX {
                continue;
            }
            let done = pending.notes as u64;
            self.commit(std::mem::replace(&mut pending, self.pending()))?;
            // Writers get their turn before the caller's function is called, which may take long.
            drop(held_up.take());
            if let Some(report) = &mut report {
                report.advance(done);
            }
            if pace == Pace::HoldingUp {
                std::thread::sleep(WRITERS_TURN);
                held_up = Some(building.collection.enter_alone());
            }
        }
        self.give_waiting(&mut pending)?;
        self.commit(pending)?;
        self.snapshot = later;
        Ok(())
    }

    /// Fails if documents still wait for a key that another one has.
    pub(super) fn refuse_duplicates(&self) -> Result<()> {
        match self.waiting.first_key_value() {
            None => Ok(()),
            Some(((key, _), value)) => Err(self.duplicate(key, value)),
        }
    }

    /// Stages what differs between the entries of a document in both snapshots.
    fn follow_document(
        &mut self,
        encoded_id: &[u8],
        later: &Snapshot,
        pending: &mut Pending<'_>,
    ) -> Result<()> {
        let key = [&self.building.collection.id.prefix()[..], encoded_id].concat();
        let (old, new) = (self.entries_in(&self.snapshot, &key)?, self.entries_in(later, &key)?);
        let kept: HashSet<&[u8]> = new.iter().map(|entry| entry.key.as_slice()).collect();
        for entry in old.iter().filter(|entry| !kept.contains(entry.key.as_slice())) {
            self.remove(entry, encoded_id, pending)?;
        }
        let had: HashSet<(&[u8], &[u8])> =
            old.iter().map(|entry| (entry.key.as_slice(), entry.value.as_slice())).collect();
        for entry in new.iter().filter(|entry| !had.contains(&(entry.key.as_slice(), entry.value.as_slice())))
        {
            self.add(entry, encoded_id, pending)?;
        }
        Ok(())
    }

    fn entries_in(&self, snapshot: &Snapshot, record_key: &[u8]) -> Result<Vec<Entry>> {
        let Some(bytes) = snapshot.get(Family::Records, record_key)? else {
            self.building.step(0)?;
            return Ok(Vec::new());
        };
        self.building.step(bytes.len())?;
        self.building.draw(stored(record_key, &bytes)?, crate::write::prepare::encoded_id(record_key))
    }

    fn remove(&mut self, entry: &Entry, encoded_id: &[u8], pending: &mut Pending<'_>) -> Result<()> {
        if !self.is_unique() {
            pending.batch.delete(Family::Entries, &entry.key);
            return Ok(());
        }
        if self.holder(&entry.key, pending)?.as_deref() == Some(encoded_id) {
            pending.batch.delete(Family::Entries, &entry.key);
            pending.values.insert(entry.key.clone(), None);
        } else {
            // Another document has the key, and this one was waiting for it.
            self.stop_waiting(&(entry.key.clone(), encoded_id.to_vec()));
        }
        Ok(())
    }

    fn add(&mut self, entry: &Entry, encoded_id: &[u8], pending: &mut Pending<'_>) -> Result<()> {
        if !self.is_unique() {
            pending.batch.put(Family::Entries, &entry.key, &entry.value);
            return Ok(());
        }
        match self.holder(&entry.key, pending)? {
            Some(holder) if holder != encoded_id => self.wait(entry, encoded_id),
            Some(_) | None => {
                pending.put(&entry.key, &entry.value);
                Ok(())
            }
        }
    }

    fn wait(&mut self, entry: &Entry, encoded_id: &[u8]) -> Result<()> {
        let wanted = (entry.key.clone(), encoded_id.to_vec());
        // It may wait already, with another type of the same value.
        self.stop_waiting(&wanted);
        self.waiting_bytes += entry.bytes() + encoded_id.len();
        if self.waiting_bytes > WAITING_BYTES_MAX {
            return Err(self.duplicate(&entry.key, &entry.value));
        }
        self.waiting.insert(wanted, entry.value.clone());
        Ok(())
    }

    fn stop_waiting(&mut self, waiting: &(Vec<u8>, Vec<u8>)) {
        if let Some(value) = self.waiting.remove(waiting) {
            let bytes = waiting.0.len() + waiting.1.len() + value.len();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        }
    }

    /// Gives free keys to documents that wait for them.
    fn give_waiting(&mut self, pending: &mut Pending<'_>) -> Result<()> {
        let waiting: Vec<_> = self.waiting.keys().cloned().collect();
        for wanted in waiting {
            self.building.step(wanted.0.len())?;
            if self.holder(&wanted.0, pending)?.is_some() {
                continue;
            }
            if let Some(value) = self.waiting.get(&wanted) {
                pending.put(&wanted.0, value);
            }
            self.stop_waiting(&wanted);
        }
        Ok(())
    }

    /// The encoded `_id` of the document that has a unique key.
    fn holder(&self, key: &[u8], pending: &Pending<'_>) -> Result<Option<Vec<u8>>> {
        let id = |value: &[u8]| {
            let parts = entries::split(&self.building.build.index, key, value);
            parts.map(|parts| parts.id.to_vec()).unwrap_or_default()
        };
        if let Some(value) = pending.values.get(key) {
            return Ok(value.as_deref().map(id));
        }
        Ok(self.building.storage.database.get(Family::Entries, key)?.map(|value| id(&value)))
    }

    fn duplicate(&self, key: &[u8], value: &[u8]) -> crate::error::Error {
        let types = entries::split(&self.building.build.index, key, value).map(|parts| parts.types);
        self.building.duplicate(key, types.unwrap_or_default())
    }

    fn is_unique(&self) -> bool {
        self.building.build.index.spec.is_unique()
    }

    fn pending(&self) -> Pending<'a> {
        let batch = Batch::new(self.building.storage.database);
        Pending { batch, values: HashMap::new(), notes: 0 }
    }

    fn commit(&self, pending: Pending<'_>) -> Result<()> {
        if pending.batch.is_empty() {
            return Ok(());
        }
        self.building.storage.store.commit(pending.batch, CommitLevel::INDEX_BUILD)
    }
}

impl Pending<'_> {
    /// Stages an entry of a unique index.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(Family::Entries, key, value);
        self.values.insert(key.to_vec(), Some(value.to_vec()));
    }
}
