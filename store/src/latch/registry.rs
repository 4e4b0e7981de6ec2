//! The open transactions, and whether writers leave notes for them.
//!
//! Notes are switched on as index builds are: set a flag, then see every latch free once. A writer that read the flag
//! as unset held its latch before the pass came to its stripe, so its write had returned before the first snapshot was
//! taken; one after the pass reads it as set.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::sync::{self, AtomicBool, Mutex, MutexGuard};
use query::operation::{Interruption, OperationContext};

use super::notes::Owner;
use crate::options::PlantedFault;

/// The open transactions of a store.
pub(super) struct Registry {
    /// Held while notes are switched on or off.
    switching: Mutex<()>,
    noting: AtomicBool,
    open: Mutex<Open>,
    pub(super) fault: PlantedFault,
}

struct Open {
    /// Whether a snapshot that is taken now misses no note.
    is_on: bool,
    last_owner: u64,
    /// The sequence numbers of the states that transactions read, ascending, and how many read each.
    sequences: VecDeque<(u64, usize)>,
    /// The time at which the last one ended.
    idle_since: Instant,
}

impl Open {
    /// The place of a sequence number, or that which it would have. A newer state has one at the end.
    fn place_of(&self, sequence: u64) -> usize {
        self.sequences.partition_point(|(other, _)| *other < sequence)
    }
}

impl Registry {
    pub(super) fn new(fault: PlantedFault) -> Self {
        let open =
            Open { is_on: false, last_owner: 0, sequences: VecDeque::new(), idle_since: Instant::now() };
        Self { switching: Mutex::new(()), noting: AtomicBool::new(false), open: Mutex::new(open), fault }
    }

    /// Whether writers leave notes. To be asked under the latch, before the write: see the header.
    #[inline]
    pub(super) fn is_noting(&self) -> bool {
        // The latch orders it.
        self.noting.load(Ordering::Relaxed)
    }

    /// Adds a transaction on the state that `take` makes and gives the sequence number of. Returns `None` if notes are not
    /// switched on.
    pub(super) fn add<T>(&self, take: impl FnOnce() -> (u64, T)) -> Option<(Owner, T)> {
        let mut open = self.open();
        if !open.is_on {
            return None;
        }
        open.last_owner += 1;
        let owner = Owner::new(NonZeroU64::new(open.last_owner)?);
        let (sequence, taken) = take();
        let place = open.place_of(sequence);
        match open.sequences.get_mut(place) {
            Some((same, count)) if *same == sequence => *count += 1,
            Some(_) | None => open.sequences.insert(place, (sequence, 1)),
        }
        Some((owner, taken))
    }

    /// Removes a transaction on the state of `sequence`.
    pub(super) fn remove(&self, sequence: u64) {
        let mut open = self.open();
        let place = open.place_of(sequence);
        if let Some((_, count)) = open.sequences.get_mut(place).filter(|(same, _)| *same == sequence) {
            *count -= 1;
            if *count == 0 {
                open.sequences.remove(place);
            }
        }
        if open.sequences.is_empty() {
            open.idle_since = Instant::now();
        }
    }

    /// The sequence number of the oldest state that a transaction reads.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.open().sequences.front().map(|(sequence, _)| *sequence)
    }

    /// Switches notes on. `pass` sees every latch free once, and clears what is noted there.
    pub(super) fn switch_on(
        &self,
        operation: &OperationContext,
        pass: impl FnOnce() -> Result<(), Interruption>,
    ) -> Result<(), Interruption> {
        let _switching = sync::lock_for(operation, &self.switching)?;
        // Another may have come first.
        if self.open().is_on {
            return Ok(());
        }
        self.noting.store(true, Ordering::Relaxed);
        if self.fault == PlantedFault::OnBeforePass {
            self.open().is_on = true;
        }
        let passed = pass();
        match passed {
            Ok(()) => self.open().is_on = true,
            Err(_) => self.noting.store(false, Ordering::Relaxed),
        }
        passed
    }

    /// Switches notes off if no transaction was open for `time`.
    pub(super) fn switch_off_after(&self, time: Duration) {
        let _switching = self.switching.lock();
        let mut open = self.open();
        if open.is_on && open.sequences.is_empty() && open.idle_since.elapsed() >= time {
            open.is_on = false;
            self.noting.store(false, Ordering::Relaxed);
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_state_is_that_of_a_transaction_which_is_open() {
        let registry = Registry::new(PlantedFault::None);
        registry.switch_on(&OperationContext::unlimited(), || Ok(())).expect("switched on");
        let add = |sequence| assert!(registry.add(|| (sequence, ())).is_some(), "notes are on");
        assert_eq!(registry.oldest(), None);
        for sequence in [5, 5, 9, 7, 9] {
            add(sequence);
        }
        for (ends, oldest) in [(7, 5), (5, 5), (6, 5), (5, 9), (9, 9)] {
            registry.remove(ends);
            assert_eq!(registry.oldest(), Some(oldest), "{ends} has ended");
        }
        registry.remove(9);
        assert_eq!(registry.oldest(), None);
    }
}
