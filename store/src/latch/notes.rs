//! The memory of a stripe for its keys while transactions are in use: when each was last written, and which open
//! transaction has claimed it.
//!
//! A key is known by its hash. Two keys with one hash are one to a transaction, which costs a false conflict and never
//! misses a true one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::num::NonZeroU64;

use crate::options::PlantedFault;

/// The limit of written keys that a stripe remembers. One more would make its table grow to twice the size: all
/// tables together use 13 MB as it is. Under the checker of interleavings few writes fill a table.
const KEYS_MAX: usize = if cfg!(feature = "shuttle") { 2 } else { 448 };
/// The number of them that is left when some are forgotten. All are looked through for that, so they should not be
/// forgotten one by one.
const KEPT_MAX: usize = KEYS_MAX / 2;

/// The number of an open transaction. No two of one store have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(NonZeroU64);

impl Owner {
    pub(super) fn new(number: NonZeroU64) -> Self {
        Self(number)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Note {
    /// A sequence number not below that of the key's last write. Zero if it was not written since notes are kept.
    stamp: u64,
    owner: Option<Owner>,
}

/// The notes of a stripe.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The position of the stripe.
    pub(super) stripe: usize,
    keys: HashMap<u64, Note, BuildHasherDefault<OfHash>>,
    /// Any key of the stripe may have been written at this sequence number.
    floor: u64,
    /// The number of claimed keys. These are never forgotten.
    claimed: usize,
    /// A planted fault.
    ignores_floor: bool,
}

impl Notes {
    /// Nothing is noted.
    pub(super) fn of(stripe: usize, fault: PlantedFault) -> Self {
        Self { stripe, ignores_floor: fault == PlantedFault::FloorsIgnored, ..Self::default() }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self { stripe: self.stripe, ignores_floor: self.ignores_floor, ..Self::default() };
    }

    /// Whether the key may have been written after `sequence`.
    pub(super) fn is_written_since(&self, hash: u64, sequence: u64) -> bool {
        self.floor > sequence && !self.ignores_floor
            || self.keys.get(&hash).is_some_and(|note| note.stamp > sequence)
    }

    /// Claims a key for a transaction that reads the state of `sequence`. Returns `false` if the key was written since, or is
    /// another's.
    pub(super) fn claim(&mut self, hash: u64, owner: Owner, sequence: u64) -> bool {
        if self.is_written_since(hash, sequence) {
            return false;
        }
        let note = self.keys.entry(hash).or_default();
        self.claimed += usize::from(note.owner.is_none());
        *note.owner.get_or_insert(owner) == owner
    }

    /// Withdraws a claim. `oldest` gives the sequence number that the oldest open transaction reads.
    pub(super) fn release(&mut self, hash: u64, owner: Owner, oldest: impl FnOnce() -> u64) {
        let Some(note) = self.keys.get_mut(&hash).filter(|note| note.owner == Some(owner)) else { return };
        note.owner = None;
        self.claimed -= 1;
        if note.stamp == 0 {
            self.keys.remove(&hash);
            self.give_back();
        }
        self.bound(oldest);
    }

    /// Notes a write of the key. `oldest` gives the sequence number that the oldest open transaction reads; without one it
    /// is that of the newest write.
    pub(super) fn written(&mut self, hash: u64, stamp: u64, oldest: impl FnOnce() -> u64) {
        let note = self.keys.entry(hash).or_default();
        note.stamp = note.stamp.max(stamp);
        self.bound(oldest);
    }

    /// Forgets keys if they are many, besides those that are claimed.
    fn bound(&mut self, oldest: impl FnOnce() -> u64) {
        if self.keys.len() - self.claimed >= KEYS_MAX {
            self.shrink(oldest());
        }
    }

    /// Gives memory back that many claims have used.
    fn give_back(&mut self) {
        let size = KEYS_MAX.max(2 * self.keys.len());
        if self.keys.capacity() > 2 * size {
            self.keys.shrink_to(size);
        }
    }

    /// Notes that any key of the stripe may have been written.
    pub(super) fn any_written(&mut self, stamp: u64) {
        self.floor = self.floor.max(stamp);
    }

    /// Forgets the writes that all open transactions see. Of the others it forgets the older ones if they are many: then any key may have
    /// been written until the last of these.
    fn shrink(&mut self, oldest: u64) {
        let unclaimed = self.keys.values().filter(|note| note.owner.is_none() && note.stamp > oldest);
        let mut stamps: Vec<u64> = unclaimed.map(|note| note.stamp).collect();
        let mut through = oldest;
        if let Some(last) = stamps.len().checked_sub(KEPT_MAX + 1) {
            let (_, last, _) = stamps.select_nth_unstable(last);
            through = *last;
            self.floor = self.floor.max(through);
        }
        let is_kept = |note: &Note| note.owner.is_some() || note.stamp > through;
        // Into a new table: one from which keys were removed may grow although it is not full.
        let size = self.claimed + KEYS_MAX;
        let new = HashMap::with_capacity_and_hasher(size, BuildHasherDefault::default());
        let before = mem::replace(&mut self.keys, new);
        self.keys.extend(before.into_iter().filter(|(_, note)| is_kept(note)));
    }
}

/// A hasher of what is the hash of a key already.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfHash(u64);

impl Hasher for OfHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only numbers are hashed, so nothing comes here; what does is still hashed.
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: u64) -> Owner {
        Owner::new(NonZeroU64::new(number).expect("not zero"))
    }

    #[test]
    fn the_first_to_claim_a_key_has_it_until_it_lets_go() {
        let mut notes = Notes::default();
        assert!(notes.claim(7, owner(1), 100));
        assert!(notes.claim(7, owner(1), 100));
        assert!(!notes.claim(7, owner(2), 100));
        notes.release(7, owner(2), || 0);
        assert!(!notes.claim(7, owner(2), 100));
        notes.release(7, owner(1), || 0);
        assert!(notes.keys.is_empty());
        assert!(notes.claim(7, owner(2), 100));
    }

    #[test]
    fn a_key_that_was_written_since_is_not_to_be_claimed() {
        let mut notes = Notes::default();
        notes.written(7, 101, || 0);
        // A stamp never goes back.
        notes.written(7, 90, || 0);
        assert!(!notes.claim(7, owner(1), 100) && notes.claim(7, owner(1), 101));
        assert!(notes.is_written_since(7, 100) && !notes.is_written_since(8, 100));
        notes.any_written(102);
        assert!(notes.is_written_since(8, 101) && !notes.claim(8, owner(1), 101));
    }

    #[test]
    fn a_full_table_forgets_what_every_transaction_sees() {
        let mut notes = Notes::default();
        assert!(notes.claim(0, owner(1), 1000));
        for key in 1..=KEYS_MAX as u64 {
            notes.written(key, 1000 + key, || 1300);
        }
        // Those up to 1300 are gone, and nothing else.
        assert!(!notes.is_written_since(5, 1000) && notes.is_written_since(301, 1300));
        assert_eq!((notes.keys.len(), notes.floor), (KEYS_MAX + 1 - 300, 0));
        assert!(!notes.claim(0, owner(2), 1000));
    }

    /// Each oldest transaction is there for longer than the one before, so each time that a table is full it has notes that are in no use,
    /// and more that are.
    #[test]
    fn notes_have_a_bound_whatever_transactions_see() {
        let mut notes = Notes::default();
        let size = notes_of_a_full_table();
        for key in 1..=100_000_u64 {
            let oldest = key - key / 4;
            notes.written(key, key, || oldest);
            assert!(
                notes.keys.len() <= KEYS_MAX && notes.keys.capacity() <= size,
                "{key}: {}",
                notes.keys.len()
            );
            // Nothing is missed that an open transaction has not seen.
            let written = [oldest + 1, oldest.midpoint(key), key].into_iter().filter(|key| *key > oldest);
            for key in written.filter(|written| *written <= key) {
                assert!(notes.is_written_since(key, key - 1), "{key}");
            }
        }
    }

    /// The number of keys of a table that has never grown beyond [`KEYS_MAX`].
    fn notes_of_a_full_table() -> usize {
        HashMap::<u64, Note>::with_capacity(KEYS_MAX).capacity()
    }

    #[test]
    fn the_older_half_of_a_table_full_of_new_writes_becomes_a_floor_and_claims_are_kept() {
        let mut notes = Notes::default();
        assert!(notes.claim(0, owner(1), 1000));
        for key in 1..=KEYS_MAX as u64 {
            notes.written(key, 1000 + key, || 1000);
        }
        let (kept, last) = (KEPT_MAX as u64, 1000 + KEYS_MAX as u64);
        assert_eq!((notes.keys.len(), notes.floor), (1 + KEPT_MAX, last - kept));
        assert!(notes.is_written_since(9999, 1000) && !notes.is_written_since(9999, notes.floor));
        assert!(!notes.claim(0, owner(2), notes.floor));
        assert!(notes.is_written_since(KEYS_MAX as u64, last - 1) && notes.is_written_since(1, 1000));
    }

    #[test]
    fn a_batch_that_fills_a_table_is_forgotten_as_a_whole() {
        let mut notes = Notes::default();
        for key in 1..=KEYS_MAX as u64 {
            notes.written(key, 1001, || 1000);
        }
        assert_eq!((notes.keys.len(), notes.floor), (0, 1001));
        assert!(notes.is_written_since(1, 1000) && !notes.is_written_since(1, 1001));
    }

    #[test]
    fn claims_take_memory_as_long_as_they_are() {
        for commits in [true, false] {
            let (mut notes, many) = (Notes::default(), 10 * KEYS_MAX as u64);
            for key in 0..many {
                assert!(notes.claim(key, owner(1), 1000));
            }
            assert!(notes.claim(many, owner(2), 1000));
            for key in 0..many {
                if commits {
                    notes.written(key, 1001, || 1000);
                }
                assert!(!notes.claim(key, owner(2), 1000));
            }
            for key in 0..many {
                notes.release(key, owner(1), || 1000);
            }
            assert!(notes.keys.len() <= KEYS_MAX && notes.keys.capacity() <= 4 * KEYS_MAX, "{commits}");
            assert_eq!((notes.claimed, notes.is_written_since(7, 1000)), (1, commits));
            assert!(!notes.claim(many, owner(3), 2000) && notes.claim(7, owner(3), 1001));
        }
    }
}
