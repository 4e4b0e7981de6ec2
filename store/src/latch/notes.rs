//! What a stripe remembers of its keys while transactions are in use: when each was last written, and which open
//! transaction has claimed it.
//!
//! A key is known by its hash. Two keys with one hash are one to a transaction, which costs a false conflict and never
//! misses a true one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU64;

/// How many keys a stripe remembers before it forgets those that no transaction can ask about.
const KEYS_MAX: usize = 512;

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
    /// A sequence number not below that of the key's last write. Zero if it was not written since notes are taken.
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
    /// How many keys were left when keys were forgotten last: claims are not, and must not be looked through at each write.
    left: usize,
}

impl Notes {
    /// Nothing is noted.
    pub(super) fn of(stripe: usize) -> Self {
        Self { stripe, ..Self::default() }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::of(self.stripe);
    }

    /// Whether the key may have been written after `sequence`.
    pub(super) fn is_written_since(&self, hash: u64, sequence: u64) -> bool {
        self.floor > sequence || self.keys.get(&hash).is_some_and(|note| note.stamp > sequence)
    }

    /// Claims a key for a transaction that reads the state of `sequence`. Returns `false` if the key was written since, or is
    /// another's.
    pub(super) fn claim(&mut self, hash: u64, owner: Owner, sequence: u64) -> bool {
        if self.is_written_since(hash, sequence) {
            return false;
        }
        let note = self.keys.entry(hash).or_default();
        *note.owner.get_or_insert(owner) == owner
    }

    /// Takes a claim back.
    pub(super) fn release(&mut self, hash: u64, owner: Owner) {
        if let Some(note) = self.keys.get_mut(&hash)
            && note.owner == Some(owner)
        {
            note.owner = None;
            if note.stamp == 0 {
                self.keys.remove(&hash);
            }
        }
    }

    /// Notes a write of the key. `oldest` tells the sequence number that the oldest open transaction reads; without one it
    /// is that of the newest write.
    pub(super) fn written(&mut self, hash: u64, stamp: u64, oldest: impl FnOnce() -> u64) {
        let note = self.keys.entry(hash).or_default();
        note.stamp = note.stamp.max(stamp);
        if self.keys.len() > KEYS_MAX.max(2 * self.left) {
            self.shrink(oldest());
        }
    }

    /// Notes that any key of the stripe may have been written.
    pub(super) fn any_written(&mut self, stamp: u64) {
        self.floor = self.floor.max(stamp);
    }

    /// Forgets the writes that all open transactions see. If there are none, all writes become the floor.
    fn shrink(&mut self, oldest: u64) {
        let before = self.keys.len();
        self.forget(oldest);
        if self.keys.len() == before {
            let stamps = self.keys.values().map(|note| note.stamp);
            self.floor = stamps.fold(self.floor, u64::max);
            self.forget(u64::MAX);
        }
        self.left = self.keys.len();
    }

    fn forget(&mut self, through: u64) {
        self.keys.retain(|_, note| note.owner.is_some() || note.stamp > through);
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
        notes.release(7, owner(2));
        assert!(!notes.claim(7, owner(2), 100));
        notes.release(7, owner(1));
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
            notes.written(key, 1000 + key, || 1010);
        }
        // Those up to 1010 are gone, and nothing else.
        assert!(!notes.is_written_since(5, 1000) && notes.is_written_since(11, 1010));
        assert_eq!((notes.keys.len(), notes.floor), (KEYS_MAX + 1 - 10, 0));
        assert!(!notes.claim(0, owner(2), 1000));
    }

    #[test]
    fn a_table_full_of_new_writes_becomes_a_floor_and_keeps_claims() {
        let mut notes = Notes::default();
        assert!(notes.claim(0, owner(1), 1000));
        for key in 1..=KEYS_MAX as u64 {
            notes.written(key, 1000 + key, || 1000);
        }
        assert_eq!((notes.keys.len(), notes.floor), (1, 1000 + KEYS_MAX as u64));
        assert!(notes.is_written_since(9999, 1000) && !notes.is_written_since(9999, notes.floor));
        assert!(!notes.claim(0, owner(2), notes.floor));
    }
}
