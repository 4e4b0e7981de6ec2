//! The limit on the memory of all compiled patterns of one request.
//!
//! A pattern of a few bytes can grow to 64 KiB when it is compiled, and a request can have a million of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes that the patterns of a request may take together.
pub(super) const BYTES_MAX: usize = 16 << 20;

/// The memory that is left for the patterns of a request. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    taken: Arc<AtomicUsize>,
}

/// The memory of one pattern. Dropping it gives the memory back.
#[derive(Debug)]
pub(super) struct Charge {
    room: Room,
    bytes: usize,
}

impl Room {
    /// Takes `bytes` bytes. Returns `None` if fewer are left.
    pub(super) fn take(&self, bytes: usize) -> Option<Charge> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // Adding first and looking afterwards is safe for threads: of two that would exceed the limit
        // together, one at least is refused. A refused charge gives its bytes back when it is dropped here.
        let charge = Charge { room: self.clone(), bytes };
        (taken <= BYTES_MAX).then_some(charge)
    }

    /// Whether half of it is left at least.
    pub(super) fn is_half_free(&self) -> bool {
        self.taken.load(Ordering::Relaxed) <= BYTES_MAX / 2
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
