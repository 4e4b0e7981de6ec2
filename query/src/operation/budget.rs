//! The memory that all operations of a store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::operation::interruption::Interruption;

/// The bytes that all operations of a store together may hold. Clones are the same budget.
///
/// ```
/// use cairndb_query::operation::{Allowance, MemoryBudget, OperationContext};
///
/// let budget = MemoryBudget::new(64 << 20);
/// let allowance = Allowance { shared: Some(budget.clone()), ..Allowance::default() };
/// let context = OperationContext::new(allowance);
/// let held = context.reserve(10 << 20)?;
/// assert!(budget.taken() >= held.bytes());
/// # Ok::<(), cairndb_query::operation::Interruption>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    shared: Arc<SharedBytes>,
}

#[derive(Debug)]
struct SharedBytes {
    taken: AtomicUsize,
    limit: usize,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { shared: Arc::new(SharedBytes { taken: AtomicUsize::new(0), limit }) }
    }

    /// The used bytes, in whole grants of 1 MiB.
    pub fn taken(&self) -> usize {
        self.shared.taken.load(Ordering::Relaxed)
    }

    /// The most bytes that may be reserved.
    pub(super) fn limit(&self) -> usize {
        self.shared.limit
    }

    /// Reserves `bytes` bytes, or none if they are not left.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Interruption> {
        // Added first and given back if that was too much: two threads cannot both get the last bytes.
        let before = self.shared.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.shared.limit {
            return Ok(());
        }
        self.give_back(bytes);
        Err(Interruption::SharedMemory { limit: self.shared.limit })
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.shared.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}
