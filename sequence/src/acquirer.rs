//! Acquirers: handles with blocks of their own.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::allocator::Sequence;
use crate::fork::Process;
use crate::slot::Slot;

/// Blocks of its own for every sequence that is used through it; SequoiaDB's coordinator.
///
/// The shared acquirer of a database has its blocks in the sequences themselves.
pub struct Acquirer {
    slots: RwLock<HashMap<u64, Use>>,
    process: Process,
}

/// A sequence that an acquirer uses, and its place for blocks of it.
type Use = (Arc<Sequence>, Arc<Slot>);

impl Acquirer {
    /// The acquirer's slot for a sequence, which `id` tells from all others. A renamed sequence is another one with the
    /// same id, and gets another slot.
    pub fn slot(&self, id: u64, sequence: &Arc<Sequence>) -> Arc<Slot> {
        let known = |slots: &HashMap<u64, Use>| {
            let (of, slot) = slots.get(&id)?;
            Arc::ptr_eq(of, sequence).then(|| Arc::clone(slot))
        };
        if let Some(slot) = known(&self.slots.read().unwrap_or_else(PoisonError::into_inner)) {
            return slot;
        }
        if sequence.is_retired() {
            return Arc::default();
        }
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = known(&slots) {
            return slot;
        }
        slots.retain(|_, (sequence, _)| !sequence.is_retired());
        let slot = sequence.open_slot();
        let replaced = slots.insert(id, (Arc::clone(sequence), Arc::clone(&slot)));
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
    /// Gives back what nobody took, where it can still be handed out; the rest is listed as lost. Not in a forked child:
    /// the values are its parent's, and a thread that is not there may hold a lock.
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        let slots = std::mem::take(&mut *self.slots.write().unwrap_or_else(PoisonError::into_inner));
        for (sequence, slot) in slots.into_values() {
            sequence.close_slot(&slot);
        }
    }
}
