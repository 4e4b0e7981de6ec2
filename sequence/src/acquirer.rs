//! Acquirers: handles with blocks of their own.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::allocator::Sequence;
use crate::fork::Process;
use crate::slot::Slot;

/// An acquirer with its own blocks of every sequence that is used through it. SequoiaDB calls it a
/// coordinator.
///
/// The shared acquirer of a database needs no `Acquirer`: its blocks are in the sequences themselves.
///
/// ```
/// use std::sync::Arc;
/// use cairndb_sequence::acquirer::Acquirer;
/// use cairndb_sequence::allocator::Sequence;
/// use cairndb_sequence::attributes::{Attributes, Options};
/// use cairndb_sequence::store::Volatile;
///
/// let sequence = Arc::new(Sequence::new(Attributes::create(&Options::default())?));
/// let (store, acquirer) = (Volatile::default(), Acquirer::default());
/// assert_eq!(sequence.take_one(sequence.shared(), &store)?, 1);
/// // The shared acquirer has the block from 1 to 1000, so this one gets the next block.
/// assert_eq!(sequence.take_one(&acquirer.slot(7, &sequence), &store)?, 1001);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
pub struct Acquirer {
    slots: RwLock<HashMap<u64, Use>>,
    process: Process,
}

/// A sequence that an acquirer uses, with the acquirer's slot for its blocks.
type Use = (Arc<Sequence>, Arc<Slot>);

impl Acquirer {
    /// The acquirer's slot for a sequence. `id` identifies the sequence; after a rename, the new sequence has
    /// the same id and gets a new slot.
    pub fn slot(&self, id: u64, sequence: &Arc<Sequence>) -> Arc<Slot> {
        let known = |slots: &HashMap<u64, Use>| {
            let (of, slot) = slots.get(&id)?;
            Arc::ptr_eq(of, sequence).then(|| Arc::clone(slot))
        };
        if let Some(slot) = known(&self.slots.read().unwrap_or_else(PoisonError::into_inner)) {
            return slot;
        }
        // A slot that is not kept: the sequence rejects every use, so there is nothing to give back later.
        if sequence.is_retired() {
            return Arc::default();
        }
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened it between the two locks. A second slot would hold a second block.
        if let Some(slot) = known(&slots) {
            return slot;
        }
        slots.retain(|_, (sequence, _)| !sequence.is_retired());
        let slot = sequence.open_slot();
        let replaced = slots.insert(id, (Arc::clone(sequence), Arc::clone(&slot)));
        // Closing acquires the lock of the old sequence, which must not wait for the lock here.
        drop(slots);
        if let Some((sequence, slot)) = replaced {
            sequence.close_slot(&slot);
        }
        slot
    }
}

impl Default for Acquirer {
    fn default() -> Self {
        Self { slots: RwLock::default(), process: Process::current() }
    }
}

impl Drop for Acquirer {
    /// Gives back the values that were not drawn, where they can still be handed out; the rest is listed as
    /// lost.
    fn drop(&mut self) {
        // A forked child must not touch them: the values belong to its parent, and a lock may be held by a
        // thread that exists only there.
        if !self.process.is_current() {
            return;
        }
        let slots = std::mem::take(&mut *self.slots.write().unwrap_or_else(PoisonError::into_inner));
        for (sequence, slot) in slots.into_values() {
            sequence.close_slot(&slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{Attributes, Options};

    #[test]
    fn an_acquirer_has_one_slot_of_a_sequence() {
        let sequence = || Arc::new(Sequence::new(Attributes::create(&Options::default()).unwrap()));
        let (acquirer, first) = (Acquirer::default(), sequence());
        let slot = acquirer.slot(7, &first);
        assert!(Arc::ptr_eq(&slot, &acquirer.slot(7, &first)));
        // After a rename another sequence has the id.
        assert!(!Arc::ptr_eq(&slot, &acquirer.slot(7, &sequence())));
        assert!(!Arc::ptr_eq(&slot, &acquirer.slot(8, &first)));
    }
}
