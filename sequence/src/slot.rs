//! Slots: where an acquirer keeps its block of a sequence.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use arc_swap::cache::Cache;

use crate::block::{Block, SequencePosition};
use crate::run::Run;
use crate::sync::{Mutex, PerThread, RefCell};

/// The place in which one acquirer keeps its block of one sequence. Only the sequence puts blocks in, under its lock.
#[derive(Default)]
pub struct Slot {
    block: Arc<ArcSwapOption<Block>>,
    /// A block whose reserve may not be on stable storage yet. No thread draws from it before
    /// [`show`](Self::show).
    unsynced: Mutex<Option<Arc<Block>>>,
    /// The block that each thread saw here last. Checking whether it is still current writes no shared
    /// memory, so threads do not slow each other down. An old block stays in memory until its thread comes
    /// again.
    seen: PerThread<RefCell<Option<Seen>>>,
}

type Seen = Cache<Arc<ArcSwapOption<Block>>, Option<Arc<Block>>>;

impl Slot {
    /// Draws one value without a lock. Returns `None` if the block has no value left.
    #[inline]
    pub fn take_one(&self) -> Option<i64> {
        self.block.load().as_ref()?.take_one()
    }

    /// Draws up to `count` values, with the receipt of their reserve. Returns `None` if the block has no
    /// value left.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> Option<(Run, u64)> {
        let block = self.block.load();
        let block = block.as_ref()?;
        block.take(count).map(|run| (run, block.receipt()))
    }

    /// The position of the next value. Returns `None` if there is no block, or a change has closed it.
    #[inline]
    pub(crate) fn position(&self) -> Option<SequencePosition> {
        self.block.load().as_ref()?.position()
    }

    /// Passes the position of the next value to `show`, and draws one value afterwards. Returns the result of
    /// `show` and the value, or `None` if there is no open block.
    #[inline]
    pub(crate) fn position_then_take<R>(
        &self,
        show: impl FnOnce(SequencePosition) -> R,
    ) -> Option<(R, Option<i64>)> {
        let mut seen = self.seen.get_or_default().borrow_mut();
        let seen = seen.get_or_insert_with(|| Cache::new(Arc::clone(&self.block)));
        let block = seen.load().as_ref()?;
        // Register first, draw second. The other way round, the watermark could pass the value in between.
        let shown = show(block.position()?);
        Some((shown, block.take_one()))
    }

    /// The block, even if it waits for a sync.
    pub(crate) fn block(&self) -> Option<Arc<Block>> {
        // At most one of the two is set: `put` clears the block, and `show` moves the other over.
        self.block.load_full().or_else(|| self.unsynced())
    }

    /// The block that waits for its reserve to be synced.
    pub(crate) fn unsynced(&self) -> Option<Arc<Block>> {
        self.unsynced.lock().clone()
    }

    /// Puts in a block that no thread draws from yet.
    pub(crate) fn put(&self, block: Block) {
        // The old block goes first: takers must find it gone and wait for the lock, not draw beside the new
        // one.
        self.block.store(None);
        *self.unsynced.lock() = Some(Arc::new(block));
    }

    /// Lets all threads draw from the block, once its reserve is on stable storage.
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
