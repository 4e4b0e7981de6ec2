//! What a stranger can make the server hold, and how it is bounded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest document.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// How many statements a write may have.
pub(crate) const WRITE_BATCH_LEN_MAX: i32 = 100_000;
/// How many documents the first batch of a cursor has, when nothing else is asked for.
pub(crate) const FIRST_BATCH_LEN: u64 = 101;
/// Messages up to this length are read without asking the budget.
pub(crate) const SMALL_MESSAGE_BYTES: usize = 64 << 10;
/// A session that nothing is heard of for so long is over.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How many sessions may be remembered.
pub(crate) const SESSIONS_MAX: usize = 100_000;
/// The slowest client that is waited for, in bytes a second.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// How long a message of this length may take on its way, if a small one may take so long.
pub(crate) fn transfer_timeout(bytes: usize, of_small: Duration) -> Duration {
    of_small + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN)
}

/// Bytes that all connections together may hold for one purpose. Whoever wants more waits.
#[derive(Clone)]
pub(crate) struct Budget {
    kibibytes: Arc<Semaphore>,
    total: u32,
}

/// A part of a budget, given back when it is dropped.
pub(crate) struct Reserved {
    permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let total = kibibytes(bytes);
        Self { kibibytes: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Waits for so many bytes. A single message may take the whole budget, so that none is waited for forever.
    pub(crate) async fn reserve(&self, bytes: usize) -> Reserved {
        let wanted = kibibytes(bytes).min(self.total);
        Reserved { permit: Arc::clone(&self.kibibytes).acquire_many_owned(wanted).await.ok() }
    }
}

impl Reserved {
    /// Nothing of any budget.
    pub(crate) fn nothing() -> Self {
        Self { permit: None }
    }

    /// Gives back all but so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.permit {
            let surplus = permit.num_permits().saturating_sub(kibibytes(bytes) as usize);
            drop(permit.split(surplus));
        }
    }
}

fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_budget_gives_what_was_given_back_and_no_more() {
        let budget = Budget::new(10 << 10);
        let mut first = budget.reserve(10 << 10).await;
        assert_eq!(budget.kibibytes.available_permits(), 0);
        first.shrink_to(1);
        assert_eq!(budget.kibibytes.available_permits(), 9);
        drop(first);
        // More than there is takes all there is.
        let all = budget.reserve(1 << 30).await;
        assert_eq!(budget.kibibytes.available_permits(), 0);
        drop(all);
        assert_eq!(budget.kibibytes.available_permits(), 10);
    }
}
