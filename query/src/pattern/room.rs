//! The memory that the compiled patterns of one request may take together.
//!
//! A pattern of a few bytes can grow to 64 KiB when it is compiled, and a request may hold a million of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes the patterns of a request may take.
pub(super) const BYTES_MAX: usize = 16 << 20;

/// What patterns that live at the same time may take. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    taken: Arc<AtomicUsize>,
}

/// What one pattern takes, until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    room: Room,
    bytes: usize,
}

impl Room {
    /// Takes so many bytes, if they are left.
    pub(super) fn take(&self, bytes: usize) -> Option<Charge> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // A charge too much is given back as it is dropped.
        let charge = Charge { room: self.clone(), bytes };
        (taken <= BYTES_MAX).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_free_again() {
        let room = Room::default();
        let half = room.take(BYTES_MAX / 2).unwrap();
        let other = room.clone().take(BYTES_MAX / 2).unwrap();
        assert!(room.take(1).is_none());
        drop(other);
        assert!(room.take(BYTES_MAX / 2).is_some());
        drop(half);
        assert!(room.take(BYTES_MAX).is_some());
    }
}
