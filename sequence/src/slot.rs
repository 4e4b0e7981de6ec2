//! Slots: where an acquirer has its block of a sequence.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use arc_swap::cache::Cache;

use crate::block::{Block, SequencePosition};
use crate::run::Run;
use crate::sync::{Mutex, PerThread, RefCell};

/// One acquirer's place for blocks of one sequence. Only the sequence puts blocks in, under its lock.
#[derive(Default)]
pub struct Slot {
    block: Arc<ArcSwapOption<Block>>,
    /// A block whose reserve may not be on stable storage yet: nobody takes from it before [`show`](Self::show).
    unsynced: Mutex<Option<Arc<Block>>>,
    /// The block that each thread saw here last: to look whether it is still the one writes nothing that threads share.
    /// It stays in memory until its thread comes again.
    seen: PerThread<RefCell<Option<Seen>>>,
}

type Seen = Cache<Arc<ArcSwapOption<Block>>, Option<Arc<Block>>>;

impl Slot {
    /// Takes one value if a block lasts.
    #[inline]
    pub fn take_one(&self) -> Option<i64> {
        self.block.load().as_ref()?.take_one()
    }

    /// Takes up to `count` values if a block lasts; with the receipt of their reserve.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> Option<(Run, u64)> {
        let block = self.block.load();
        let block = block.as_ref()?;
        block.take(count).map(|run| (run, block.receipt()))
    }

    /// Where the next value stands, if there is a block, and it is not held still by a change.
    #[inline]
    pub(crate) fn position(&self) -> Option<SequencePosition> {
        self.block.load().as_ref()?.position()
    }

    /// Shows where the next value stands, as [`position`](Self::position) tells it, and then takes one.
    #[inline]
    pub(crate) fn position_then_take<R>(
        &self,
        show: impl FnOnce(SequencePosition) -> R,
    ) -> Option<(R, Option<i64>)> {
        let mut seen = self.seen.get_or_default().borrow_mut();
        let seen = seen.get_or_insert_with(|| Cache::new(Arc::clone(&self.block)));
        let block = seen.load().as_ref()?;
        let shown = show(block.position()?);
        Some((shown, block.take_one()))
    }

    /// The block, shown or not.
    pub(crate) fn block(&self) -> Option<Arc<Block>> {
        self.block.load_full().or_else(|| self.unsynced())
    }

    /// The block that waits for its reserve to be synced.
    pub(crate) fn unsynced(&self) -> Option<Arc<Block>> {
        self.unsynced.lock().clone()
    }

    /// Puts in a block from which nobody takes yet.
    pub(crate) fn put(&self, block: Block) {
        self.block.store(None);
        *self.unsynced.lock() = Some(Arc::new(block));
    }

    /// Lets everyone take from the block: its reserve is on stable storage.
    pub(crate) fn show(&self) {
        if let Some(block) = self.unsynced.lock().take() {
            self.block.store(Some(block));
        }
    }

    pub(crate) fn clear(&self) {
        self.block.store(None);
        *self.unsynced.lock() = None;
    }
}
