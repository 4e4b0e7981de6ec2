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
use std::time::{Duration, Instant};

use base::error::Result;
use base::sync;
use store::Family;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::catalog::builds::Build;
use crate::catalog::collection::Definition;
use crate::catalog::gate::Alone;
use crate::document::decode::stored;
use crate::write::entries::{self, Entry};
use crate::write::index_build::building::Building;
use crate::write::index_build::report::Report;

/// Bytes of entries after which they are committed. It bounds memory, and how long writers are held up at a time.
const COMMIT_BYTES_MAX: usize = 128 << 10;
/// Notes after which entries are committed.
const COMMIT_NOTES_MAX: usize = 500;
/// The time that writers may work between two times that they are held up.
const WRITERS_TURN: Duration = Duration::from_millis(4);
/// The longest time that they are held up. A commit that is under way then is still finished.
const HELD_UP_MAX: Duration = Duration::from_millis(20);
/// The reading beside the notes of writers, while they are held up from time to time: this many times as much. Each
/// round is then shorter than the one before.
const READ_PER_NOTED: u64 = 2;
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
    /// The weight of the notes.
    weight: u64,
}

/// The records of a collection in a snapshot, asked for in the order of their keys.
struct Records {
    scan: Scan,
}

/// The records before and after a round.
struct Versions {
    old: Records,
    new: Records,
}

/// The times at which writers are held up, and those of their turns.
struct Turns<'a> {
    building: &'a Building<'a>,
    pace: Pace,
    /// The gate, which no writer passes meanwhile, and since when.
    held_up: Option<(Alone<'a, Definition>, Instant)>,
    /// The weight that is still to be read before writers have their turn.
    owed: u64,
}

impl<'a> Follower<'a> {
    /// The entries are those of `snapshot`.
    pub(super) fn starting_at(building: &'a Building<'a>, snapshot: Arc<Snapshot>) -> Self {
        Self { building, snapshot, waiting: BTreeMap::new(), waiting_bytes: 0 }
    }

    /// Brings the entries up to `later`, by the notes of a round. Without a report nothing is reported: the caller holds the
    /// collection's gate.
    pub(super) fn follow(
        &mut self,
        round: u32,
        later: Arc<Snapshot>,
        pace: Pace,
        mut report: Option<&mut Report<'_, '_>>,
    ) -> Result<()> {
        let building = self.building;
        let (bounds, operation) = (building.build.notes(round), building.operation);
        let mut notes = Scan::open(&later, Family::Entries, bounds, CacheUse::Bypass, operation);
        let mut versions =
            Versions { old: Records::open(&self.snapshot, building), new: Records::open(&later, building) };
        let mut pending = self.pending();
        let mut turns = Turns::begin(building, pace)?;
        let mut unreported = 0;
        while notes.advance()? {
            self.follow_document(Build::noted_id(notes.key()), &mut versions, &mut pending)?;
            pending.notes += 1;
            if pending.batch.bytes() < COMMIT_BYTES_MAX && pending.notes < COMMIT_NOTES_MAX {
                continue;
            }
            let weight = pending.weight;
            unreported += pending.notes as u64;
            self.commit(std::mem::replace(&mut pending, self.pending()))?;
            turns.give(weight, || {
                if let Some(report) = &mut report {
                    report.advance(std::mem::take(&mut unreported));
                }
            })?;
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
        versions: &mut Versions,
        pending: &mut Pending<'_>,
    ) -> Result<()> {
        let key = [&self.building.collection.id.prefix()[..], encoded_id].concat();
        let old = self.entries_of(versions.old.find(&key)?, &key)?;
        let found = versions.new.find(&key)?;
        pending.weight += Build::weight(found.map_or(0, <[u8]>::len));
        let new = self.entries_of(found, &key)?;
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

    /// The entries of a record, of which there are none if it does not exist.
    fn entries_of(&self, record: Option<&[u8]>, record_key: &[u8]) -> Result<Vec<Entry>> {
        self.building.step(record.map_or(0, <[u8]>::len))?;
        let Some(bytes) = record else { return Ok(Vec::new()) };
        self.building.draw(stored(record_key, bytes)?, crate::write::prepare::encoded_id(record_key))
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

    fn duplicate(&self, key: &[u8], value: &[u8]) -> base::error::Error {
        // The holder of the key, if it is committed already.
        match self.building.storage.database.get(Family::Entries, key) {
            Ok(other) => self.building.duplicate(key, value, other.as_deref()),
            Err(error) => error,
        }
    }

    fn is_unique(&self) -> bool {
        self.building.build.index.spec.is_unique()
    }

    fn pending(&self) -> Pending<'a> {
        let batch = Batch::new(self.building.storage.database);
        Pending { batch, values: HashMap::new(), notes: 0, weight: 0 }
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

impl Records {
    fn open(snapshot: &Arc<Snapshot>, building: &Building<'_>) -> Self {
        let collection = building.collection.id;
        let bounds = (collection.prefix().to_vec(), Some(collection.end()));
        Self { scan: Scan::open(snapshot, Family::Records, bounds, CacheUse::Bypass, building.operation) }
    }

    /// The record with a key, which must not be before the last one that was asked for. Returns `None` if it does not exist.
    fn find(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        Ok(if self.scan.advance_to(key)? { Some(self.scan.value()) } else { None })
    }
}

impl<'a> Turns<'a> {
    fn begin(building: &'a Building<'a>, pace: Pace) -> Result<Self> {
        let mut turns = Self { building, pace, held_up: None, owed: 0 };
        turns.hold_up()?;
        Ok(turns)
    }

    /// Gives writers their turn if enough was read since the last one: notes of `weight` since this was last called.
    /// `report` is called while no writer is held up, because it may be slow.
    fn give(&mut self, weight: u64, report: impl FnOnce()) -> Result<()> {
        self.owed = self.owed.saturating_sub(weight);
        let is_over = self.held_up.as_ref().is_none_or(|(_, since)| since.elapsed() >= HELD_UP_MAX);
        if self.owed > 0 && !is_over {
            return Ok(());
        }
        self.held_up = None;
        let before = self.building.build.noted();
        report();
        if self.pace == Pace::HoldingUp {
            sync::sleep(WRITERS_TURN);
            self.hold_up()?;
            let noted = self.building.build.noted().saturating_sub(before);
            self.owed = noted.saturating_mul(READ_PER_NOTED);
        }
        Ok(())
    }

    fn hold_up(&mut self) -> Result<()> {
        if self.pace == Pace::HoldingUp {
            let alone = self.building.collection.enter_alone(self.building.operation)?;
            self.held_up = Some((alone, Instant::now()));
        }
        Ok(())
    }
}
