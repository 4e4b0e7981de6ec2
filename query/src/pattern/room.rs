//! The limit on the memory of all compiled patterns of one request, which counts as memory of its operation too.
//!
//! A pattern of a few bytes can grow to 64 KiB when it is compiled, and a request can have a million of them. A cursor keeps
//! them as long as it is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::operation::{Interruption, OperationContext, Reservation};

/// The most bytes that the patterns of a request may use together.
pub(super) const BYTES_MAX: usize = 16 << 20;
/// The bytes of a request's first patterns, which are not counted as memory of the operation: it uses memory in pieces that are
/// much larger than the few patterns that most requests have.
const BYTES_FREE: usize = 16 << 10;

/// The memory that is left for the patterns of a request. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    taken: Arc<AtomicUsize>,
    operation: OperationContext,
}

/// The memory of one pattern. Dropping it gives the memory back.
#[derive(Debug)]
pub(super) struct Charge {
    room: Room,
    bytes: usize,
    /// Its share of the operation's memory.
    held: Option<Reservation>,
}

impl Room {
    /// The same room within an operation.
    pub(crate) fn within(self, operation: OperationContext) -> Self {
        Self { operation, ..self }
    }

    /// Reserves `bytes` bytes. Fails with the limit if fewer are left.
    pub(super) fn take(&self, bytes: usize) -> Result<Charge, usize> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // Adding first and looking afterwards is safe for threads: of two that would exceed the limit
        // together, one at least is rejected. A rejected charge gives its bytes back when it is dropped here.
        let mut charge = Charge { room: self.clone(), bytes, held: None };
        if taken > BYTES_MAX {
            return Err(BYTES_MAX);
        }
        if taken > BYTES_FREE {
            charge.held = Some(self.operation.reserve(bytes).map_err(limit_of)?);
        }
        Ok(charge)
    }

    /// Whether half of it is left at least.
    pub(super) fn is_half_free(&self) -> bool {
        self.taken.load(Ordering::Relaxed) <= BYTES_MAX / 2
    }
}

/// The limit that rejected memory.
fn limit_of(reason: Interruption) -> usize {
    if let Interruption::Memory { limit } | Interruption::SharedMemory { limit } = reason {
        return limit;
    }
    // Memory is rejected for no other reason.
    BYTES_MAX
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held = None;
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Allowance;

    #[test]
    fn what_is_dropped_is_free_again() {
        let room = Room::default();
        let half = room.take(BYTES_MAX / 2).unwrap();
        let other = room.clone().take(BYTES_MAX / 2).unwrap();
        assert!(room.take(1).is_err());
        drop(other);
        assert!(room.take(BYTES_MAX / 2).is_ok());
        drop(half);
        assert!(room.take(BYTES_MAX).is_ok());
    }

    #[test]
    fn patterns_are_memory_of_the_operation() {
        let allowance = Allowance { bytes: Some(1 << 20), ..Allowance::default() };
        let operation = OperationContext::new(allowance);
        let room = Room::default().within(operation.clone());
        let small = room.take(BYTES_FREE).expect("there is room");
        assert_eq!(operation.bytes_reserved(), 0);
        let large = room.take(1 << 19).expect("there is room");
        assert!(operation.bytes_reserved() >= 1 << 19);
        drop((small, large));
        assert_eq!(operation.bytes_reserved(), 0);
        assert_eq!(room.take(2 << 20).err(), Some(1 << 20), "the operation may have less");
        assert!(operation.verdict().is_err());
    }
}
