//! The first live keys of ranges whose first keys were deleted.
//!
//! A queue removes its first document again and again. RocksDB keeps a mark of each deleted key until a compaction, and a scan steps
//! over all of them before it comes to what is left. So a scan that stepped over many notes the first live key, and later
//! scans of the same range begin there.
//!
//! A note says: in no state from `since` on has the range a live key below `key`. Writers keep that true. Who stages a key lowers
//! what is above it, under its latch and so before its commit. A note is made in three steps: first it is there to be
//! lowered, and no scan goes by it; then each latch is seen free once, so that all writes from before are visible; then a
//! snapshot gives the first live key, and its moment is `since`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use base::error::Result;
use base::sync::{self, AtomicBool, Mutex, RwLock};

use crate::latch::Latches;
use crate::options::PlantedFault;

/// After how many deleted keys at the front of a range its first live key is noted. To make a note costs about as much as stepping over
/// a few hundred.
pub(crate) const SKIPPED_MIN: u64 = if cfg!(feature = "shuttle") { 1 } else { 128 };
/// The limit of notes: each write compares its keys with all of them.
const NOTES_MAX: usize = 16;
/// The limit of the keys of a note, in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// The number of times that busy latches are checked. A write that waits for a sync holds its latch for longer, and
/// the note is not made then.
const LOOKS_MAX: u32 = 100;

/// The notes of a database.
#[derive(Default)]
pub(crate) struct LiveStarts {
    /// Whether there are notes, or one is being made.
    are_there: AtomicBool,
    notes: RwLock<Notes>,
    /// Held by who makes a note.
    making: Mutex<()>,
    latches: OnceLock<Arc<Latches>>,
}

#[derive(Default)]
struct Notes {
    /// The oldest first.
    made: Vec<Note>,
    /// The note that is being made. It is lowered as the others are, and no scan goes by it.
    pending: Option<Note>,
}

struct Note {
    /// The family, as RocksDB numbers it.
    family: u32,
    /// The beginning of the range.
    start: Vec<u8>,
    key: Vec<u8>,
    since: u64,
}

impl Note {
    fn is_above(&self, family: u32, key: &[u8]) -> bool {
        self.family == family && self.start.as_slice() <= key && key < self.key.as_slice()
    }
}

impl Notes {
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.made.iter_mut().chain(&mut self.pending)
    }
}

impl LiveStarts {
    /// From now on notes can be made: these are the latches that writers hold.
    pub(crate) fn begin(&self, latches: &Arc<Latches>) {
        let _ = self.latches.set(Arc::clone(latches));
    }

    /// The latches that writers hold. Absent until the store is open.
    pub(crate) fn latches(&self) -> Option<&Latches> {
        self.latches.get().map(|latches| &**latches)
    }

    /// The key at which a scan that begins at `start` may begin, if it reads a state with this sequence number.
    #[inline]
    pub(crate) fn of(&self, family: u32, start: &[u8], sequence: impl FnOnce() -> u64) -> Option<Vec<u8>> {
        if !self.are_there.load(Ordering::Acquire) {
            return None;
        }
        let notes = self.notes.read();
        let note = notes.made.iter().find(|note| note.family == family && note.start == start)?;
        (note.since <= sequence()).then(|| note.key.clone())
    }

    /// Lowers what is above a key that is about to be stored. The caller holds a latch until that is done.
    #[inline]
    pub(crate) fn lower(&self, family: u32, key: &[u8], fault: PlantedFault) {
        if self.are_there.load(Ordering::Acquire) && fault != PlantedFault::LiveStartsNotLowered {
            self.lower_notes(family, key);
        }
    }

    fn lower_notes(&self, family: u32, key: &[u8]) {
        {
            // Nearly every key is above all of them.
            let notes = self.notes.read();
            if !notes.made.iter().chain(&notes.pending).any(|note| note.is_above(family, key)) {
                return;
            }
        }
        for note in self.notes.write().all_mut().filter(|note| note.is_above(family, key)) {
            note.key.clear();
            note.key.extend_from_slice(key);
        }
    }

    /// Notes that a range has no live key below `found`, as a scan of some moment saw it. `first_live` gives the first live key of the
    /// range now, and the sequence number of the state that has it. Nothing is noted while another note is made, or while a write
    /// lasts long.
    #[cold]
    pub(crate) fn note(
        &self,
        family: u32,
        start: &[u8],
        found: &[u8],
        first_live: impl FnOnce() -> Result<(Vec<u8>, u64)>,
    ) -> Result<()> {
        let Some(latches) = self.latches.get() else { return Ok(()) };
        if start.len().max(found.len()) > KEY_BYTES_MAX {
            return Ok(());
        }
        let Some(_making) = self.making.try_lock() else { return Ok(()) };
        let note = Note { family, start: start.to_vec(), key: found.to_vec(), since: u64::MAX };
        self.notes.write().pending = Some(note);
        self.are_there.store(true, Ordering::Release);
        let first = all_were_free(latches).then(first_live).transpose();
        let mut notes = self.notes.write();
        let pending = notes.pending.take();
        if let (Ok(Some((first, since))), Some(mut note)) = (&first, pending) {
            // It was lowered by what was written since.
            if first.as_slice() < note.key.as_slice() {
                note.key.clone_from(first);
            }
            note.since = *since;
            notes.made.retain(|other| (other.family, &other.start) != (family, &note.start));
            if notes.made.len() >= NOTES_MAX {
                notes.made.remove(0);
            }
            notes.made.push(note);
        }
        self.are_there.store(!notes.made.is_empty(), Ordering::Release);
        first.map(|_| ())
    }
}

/// Whether each latch was free at some moment of the call, so that all writes from before are visible.
fn all_were_free(latches: &Latches) -> bool {
    let mut from = 0;
    for _ in 0..LOOKS_MAX {
        match latches.first_busy(from) {
            None => return true,
            Some(busy) => from = busy,
        }
        sync::yield_now();
    }
    false
}
