//! The parts of the memory budget that filters of given keys and leaves of collections may use. What they have, the block cache gives up.

use std::sync::Arc;
// Plain atomics: what a filter had is given back when it is dropped, which can be after the end of a checker's scenario.
use std::sync::atomic::{AtomicUsize, Ordering};

use rocksdb::{Cache, WriteBufferManager};

use crate::fork;

/// The bytes by which the part of leaves changes.
const LEAVES_STEP: usize = 256 << 10;
/// Leaves are lent this part of what they have in advance.
const LEAVES_AHEAD: usize = 8;
/// This part of the cache is for blocks whatever leaves of collections want, and this part for leaves however many blocks there are.
const PART_OF_BLOCKS: usize = 8;
const PART_OF_LEAVES: usize = 16;
/// The bytes by which the charge of memtables changes.
const CHARGE_STEP: usize = 256 << 10;

/// The memory of RocksDB: one cache, which the manager charges with the memtables.
#[derive(Clone)]
pub(super) struct Memory {
    /// The block cache.
    pub(super) cache: Cache,
    pub(super) memtables: WriteBufferManager,
}

/// The bytes of all filters of a store, and the limit for them.
pub(super) struct FilterSpace {
    limit: usize,
    used: AtomicUsize,
    /// The bytes of leaves of collections, which have a limit of their own.
    leaves: AtomicUsize,
    /// What gives the bytes, and how many its cache has while there are no filters and no leaves.
    memory: Option<(Memory, usize)>,
}

/// The bytes of one filter. They are given back when this is dropped.
pub struct FilterBytes {
    space: Arc<FilterSpace>,
    bytes: usize,
}

impl FilterSpace {
    /// A space of at most `limit` bytes, all of them from a cache of `capacity` bytes.
    pub(super) fn within(memory: Memory, capacity: usize, limit: usize) -> Self {
        let memory = Some((memory, capacity));
        Self { limit, used: AtomicUsize::new(0), leaves: AtomicUsize::new(0), memory }
    }

    /// A space without a byte.
    pub(super) fn none() -> Self {
        Self { limit: 0, used: AtomicUsize::new(0), leaves: AtomicUsize::new(0), memory: None }
    }

    /// The bytes that filters have now.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Reserves bytes. Returns `None` if not as many are left.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<FilterBytes> {
        let bytes = usize::try_from(bytes).ok()?;
        let mut used = self.used();
        loop {
            let sum = used.checked_add(bytes).filter(|sum| *sum <= self.limit)?;
            // In one step: two filters cannot both get the last bytes.
            match self.used.compare_exchange(used, sum, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(newer) => used = newer,
            }
        }
        self.fit_cache();
        Some(FilterBytes { space: Arc::clone(self), bytes })
    }

    /// Notes the bytes of leaves, about which the cache is to be smaller. They have `most` at most.
    pub(super) fn lend_to_leaves(&self, bytes: usize, most: usize) {
        // Somewhat more than they have, so that there is room for the next; in steps, because each costs a lock of the cache.
        let bytes = (bytes + bytes / LEAVES_AHEAD).min(most).next_multiple_of(LEAVES_STEP);
        if self.leaves.swap(bytes, Ordering::AcqRel) != bytes {
            self.fit_cache();
        }
    }

    /// The bytes that leaves of collections may have beside filters, memtables and blocks.
    pub(super) fn room_of_leaves(&self) -> usize {
        let Some((memory, capacity)) = &self.memory else { return 0 };
        let left = capacity.saturating_sub(self.used());
        // Where memtables are written out, the cache is charged with them until they have a quarter less.
        let charge = memory.memtables.get_usage() / 3 * 4 + CHARGE_STEP;
        let beside_memtables = left.saturating_sub(charge + capacity / PART_OF_BLOCKS);
        // A cache that is made smaller lets go of blocks only as others come in.
        let beside_blocks = left.saturating_sub(memory.cache.get_usage()).max(capacity / PART_OF_LEAVES);
        beside_memtables.min(beside_blocks)
    }

    /// Sets the cache to what filters and leaves leave it. It lets go of blocks that are too many with the next one that comes in.
    fn fit_cache(&self) {
        // RocksDB acquires a lock for it, which another thread may have held when the process was forked.
        let Some((memory, capacity)) = self.memory.as_ref().filter(|_| !fork::is_child()) else { return };
        loop {
            let lent = || self.used() + self.leaves.load(Ordering::Acquire);
            let now = lent();
            memory.cache.clone().set_capacity(capacity.saturating_sub(now));
            // Another thread may have changed it in between, and set the cache before this one.
            if lent() == now {
                break;
            }
        }
    }
}

impl Drop for FilterBytes {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.bytes, Ordering::AcqRel);
        self.space.fit_cache();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_is_taken_and_all_is_given_back() {
        let (capacity, limit) = (32 << 20, 8 << 20);
        let cache = Cache::new_hyper_clock_cache(capacity, 0);
        let memtables =
            WriteBufferManager::new_write_buffer_manager_with_cache(capacity / 2, false, cache.clone());
        let memory = Memory { cache, memtables };
        let space = Arc::new(FilterSpace::within(memory, capacity, limit));
        // Without an eighth for blocks, and a step of the memtables' charge.
        let room = (28 << 20) - (256 << 10);
        assert_eq!(space.room_of_leaves(), room);
        space.lend_to_leaves(2 << 20, 4 << 20);
        assert_eq!(space.leaves.load(Ordering::Relaxed), (2 << 20) + (256 << 10));
        space.lend_to_leaves(4 << 20, 4 << 20);
        assert_eq!(space.leaves.load(Ordering::Relaxed), 4 << 20);
        let first = space.take(5 << 20).expect("it fits");
        assert!(space.take(4 << 20).is_none() && space.take(u64::MAX).is_none());
        let second = space.take(3 << 20).expect("it fits");
        assert_eq!((space.used(), space.room_of_leaves()), (limit, room - limit));
        drop(first);
        assert_eq!(space.used(), 3 << 20);
        drop(second);
        assert_eq!(space.used(), 0);
        assert_eq!(space.room_of_leaves(), room);
        let none = Arc::new(FilterSpace::none());
        assert!(none.take(1).is_none() && none.room_of_leaves() == 0);
    }
}
