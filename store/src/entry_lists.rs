//! Lists of the entries of an index with equal leading fields, found by one hash.
//!
//! A search by an equality walks over the entries that begin with its values. RocksDB needs an iterator for that, which costs more than all else in a
//! search for one document. Here are the lists of those entries that were asked for more than once lately: what `InnoDB` calls an adaptive hash index.
//! They are in the memory of the records that are looked up often, under the same rules: a write takes out the lists that it changes, and a
//! reader of a snapshot uses only lists that are true of it.
//!
//! Writers take out lists only of indexes that are looked up in this way. So each index has a number from which on all writes do, and
//! a list counts only if it is not older than that.

use std::sync::atomic::{AtomicI64, Ordering};

use base::sync::{AtomicBool, AtomicU64, Mutex};

use crate::batch::Batch;
use crate::families::{Database, Family};
use crate::options::PlantedFault;
use crate::record_cache::{LookedUp, Place, ReadRecord};
use crate::snapshot::Snapshot;

/// The most bytes of a list. Longer ones are walked over.
const BYTES_MAX: usize = 4 << 10;
/// The front of a list that has all entries.
const COMPLETE: u8 = 0;
/// All of a list that would be too long.
const TOO_LONG: &[u8] = &[1];
const LENGTHS_BYTES: usize = 4;
/// No sequence number: no list is kept.
const NEVER: u64 = u64::MAX;
/// The number of changes that are noted while no list is used.
const PATIENCE: i64 = 1 << 14;
/// The number of searches that want a list and get none after lists were given up, doubled each time.
const REFUSED: u32 = 32;
const GIVEN_UP_MAX: u32 = 16;

/// Entries in ascending order, each without the bytes that all of them begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryList {
    /// A byte in front, and then the lengths of the rest of each key and of its value, before their bytes.
    bytes: Vec<u8>,
}

/// The result of looking for a list.
pub enum ListFound {
    /// All entries.
    Complete(EntryList),
    /// The entries must be walked over. Their list may be kept, if there is a place for it.
    Absent(Option<ListPlace>),
    /// The entries must be walked over: they are too many for a list.
    TooLong,
}

/// The place of a list that is to be kept.
pub struct ListPlace(Place);

/// Whether lists are kept of the entries of an index that begin with a number of equal fields.
#[derive(Debug)]
pub struct ListSwitch {
    /// Whether writers take out the lists that they change.
    are_noted: AtomicBool,
    /// The sequence number from which on all writers do. [`NEVER`] until that is known.
    since: AtomicU64,
    /// The number of changes that are still noted while no list is used.
    patience: AtomicI64,
    /// Held by who switches.
    turn: Mutex<Turn>,
}

/// The progress of switching lists on.
#[derive(Debug, Default)]
struct Turn {
    /// The first latch that has not been seen free since writers were told.
    busy: usize,
    /// The number of times that lists were given up.
    given_up: u32,
    /// The number of searches that want a list and still get none.
    refused: u32,
}

impl EntryList {
    /// A list without entries.
    pub fn new() -> Self {
        Self { bytes: vec![COMPLETE] }
    }

    /// Adds an entry by the rest of its key and its value. Returns `false` if the list would be too long.
    #[must_use]
    pub fn push(&mut self, rest: &[u8], value: &[u8]) -> bool {
        let (Ok(rest_length), Ok(value_length)) = (u16::try_from(rest.len()), u16::try_from(value.len()))
        else {
            return false;
        };
        if self.bytes.len() + LENGTHS_BYTES + rest.len() + value.len() > BYTES_MAX {
            return false;
        }
        self.bytes.extend_from_slice(&rest_length.to_le_bytes());
        self.bytes.extend_from_slice(&value_length.to_le_bytes());
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(value);
        true
    }

    /// The entry at a position in bytes, 0 for the first, as the rest of its key and its value; and the position of the next one. Returns
    /// `None` at the end.
    #[inline]
    pub fn at(&self, position: usize) -> Option<(&[u8], &[u8], usize)> {
        let bytes = self.bytes.get(1 + position..)?;
        let (&[a, b, c, d], bytes) = bytes.split_first_chunk::<LENGTHS_BYTES>()?;
        let (rest_length, value_length) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let (rest, bytes) = bytes.split_at_checked(rest_length.into())?;
        let value = bytes.get(..value_length.into())?;
        Some((rest, value, position + LENGTHS_BYTES + rest.len() + value.len()))
    }

    /// The number of entries.
    #[expect(clippy::len_without_is_empty, reason = "the first entry says whether there is any")]
    pub fn len(&self) -> usize {
        let (mut entries, mut position) = (0, 0);
        while let Some((_, _, next)) = self.at(position) {
            entries += 1;
            position = next;
        }
        entries
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        (bytes.first() == Some(&COMPLETE)).then_some(Self { bytes })
    }
}

impl Default for EntryList {
    fn default() -> Self {
        Self::new()
    }
}

impl ListSwitch {
    /// No lists are kept yet.
    pub fn off() -> Self {
        Self {
            are_noted: AtomicBool::new(false),
            since: AtomicU64::new(NEVER),
            patience: AtomicI64::new(PATIENCE),
            turn: Mutex::default(),
        }
    }

    /// Whether writers must note the lists that they change. They ask under their latches.
    #[inline]
    pub fn are_noted(&self) -> bool {
        self.are_noted.load(Ordering::Acquire)
    }

    /// Notes that a write, whose latches are held, changes the list under a prefix.
    pub fn note(&self, batch: &mut Batch<'_>, prefix: &[u8]) {
        if !self.are_noted() || batch.database().fault() == PlantedFault::ListsNotNoted {
            return;
        }
        batch.note_list(prefix);
        // For nothing, again and again: the index is written and seldom asked.
        if self.patience.fetch_sub(1, Ordering::Relaxed) < 0
            && let Some(mut turn) = self.turn.try_lock()
            && self.are_noted()
        {
            turn.given_up = (turn.given_up + 1).min(GIVEN_UP_MAX);
            turn.refused = REFUSED << turn.given_up;
            // In this order: a reader who sees a write that was not noted finds no list.
            self.since.store(NEVER, Ordering::Release);
            self.are_noted.store(false, Ordering::Release);
        }
    }

    /// Begins to keep lists. Called again until writes from before have ended: none of them is waited for.
    fn begin(&self, database: &Database) {
        let Some(mut turn) = self.turn.try_lock() else { return };
        if self.since() != NEVER {
            return;
        }
        if !self.are_noted() {
            if turn.refused > 0 {
                turn.refused -= 1;
                return;
            }
            turn.busy = 0;
            self.patience.store(PATIENCE, Ordering::Relaxed);
            self.are_noted.store(true, Ordering::Release);
        }
        let is_early = database.fault() == PlantedFault::ListsUsedEarly;
        match database.live_starts().latches().filter(|_| !is_early) {
            // Each was free once since writers were told, so what is written from now on is noted.
            Some(latches) => match latches.first_busy(turn.busy) {
                Some(at) => turn.busy = at,
                None => self.since.store(database.latest_sequence(), Ordering::Release),
            },
            None => self.since.store(database.latest_sequence(), Ordering::Release),
        }
    }

    #[inline]
    fn since(&self) -> u64 {
        self.since.load(Ordering::Acquire)
    }

    /// A list was used.
    #[inline]
    fn used(&self) {
        if self.patience.load(Ordering::Relaxed) < PATIENCE / 2 {
            self.patience.store(PATIENCE, Ordering::Relaxed);
        }
    }
}

impl Snapshot {
    /// Looks for the list of the entries whose keys begin with `prefix`.
    pub fn entries_listed(&self, prefix: &[u8], switch: &ListSwitch) -> ListFound {
        // After the snapshot was taken: see `ListSwitch::note`.
        let (since, database) = (switch.since(), self.database());
        if self.staged(Family::Entries).is_some() {
            return ListFound::Absent(None);
        }
        let mut bytes = Vec::new();
        match database.record_cache().look_up_list(prefix, since..=self.sequence(), &mut bytes) {
            LookedUp::Record => {
                switch.used();
                EntryList::of(bytes).map_or(ListFound::TooLong, ListFound::Complete)
            }
            LookedUp::Nothing(Some(place)) if since <= self.sequence() => {
                ListFound::Absent(Some(ListPlace(place)))
            }
            LookedUp::Nothing(Some(_)) => {
                switch.begin(database);
                ListFound::Absent(None)
            }
            LookedUp::Nothing(None) => ListFound::Absent(None),
        }
    }

    /// Keeps the list of all entries of the snapshot whose keys begin with `prefix`, or that they are too many, unless a write may have changed
    /// them since its place was given.
    pub fn keep_list(&self, place: &ListPlace, prefix: &[u8], list: Option<&EntryList>) {
        let database = self.database();
        let read = ReadRecord { key: prefix, bytes: list.map_or(TOO_LONG, |list| &list.bytes) };
        let latest = || database.latest_sequence();
        database.record_cache().keep_of(&place.0, read, self.sequence(), latest);
    }
}

impl Database {
    /// The list of the newest entries whose keys begin with `prefix`, if it is kept. That it is asked for does not count.
    pub fn entries_listed(&self, prefix: &[u8], switch: &ListSwitch) -> Option<EntryList> {
        let (since, mut bytes) = (switch.since(), Vec::new());
        if since == NEVER || !self.record_cache().find_list(prefix, since..=u64::MAX, &mut bytes) {
            return None;
        }
        switch.used();
        EntryList::of(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_back_its_entries() {
        let mut list = EntryList::new();
        assert_eq!(list.at(0), None);
        let entries: [(&[u8], &[u8]); 3] = [(b"", b""), (b"rest", b""), (b"r", b"value")];
        for (at, (rest, value)) in entries.into_iter().enumerate() {
            assert_eq!(list.len(), at);
            assert!(list.push(rest, value));
        }
        let mut position = 0;
        for entry in entries {
            let (rest, value, next) = list.at(position).expect("an entry");
            assert_eq!((rest, value), entry);
            position = next;
        }
        assert_eq!(list.at(position), None);
        assert_eq!(EntryList::of(list.bytes.clone()), Some(list));
        assert_eq!(EntryList::of(TOO_LONG.to_vec()), None);
        assert_eq!(EntryList::of(Vec::new()), None);
    }

    #[test]
    fn a_list_has_a_longest_length() {
        let mut list = EntryList::new();
        assert!(
            !list.push(&[7; BYTES_MAX], &[])
                && !list.push(&vec![7; 1 << 16], &[])
                && !list.push(&[], &vec![7; 1 << 16])
        );
        while list.push(&[1; 50], &[2; 50]) {}
        assert!(list.bytes.len() <= BYTES_MAX && list.bytes.len() > BYTES_MAX - 110);
        assert_eq!(list.at(0), Some((&[1; 50][..], &[2; 50][..], 104)));
    }
}
