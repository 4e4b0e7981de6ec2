//! What a stranger can make the server hold, and how it is bounded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The largest document.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// How many statements a write may have.
pub(crate) const WRITE_BATCH_LEN_MAX: i32 = 100_000;
/// How many documents the first batch of a cursor has, when nothing else is asked for.
pub(crate) const FIRST_BATCH_LEN: u64 = 101;
/// The largest message of a connection that has to log in and has not. A login, and all that comes before it, is shorter.
pub(crate) const STRANGER_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// What each message and each answer may hold without asking a budget.
pub(crate) const UNCHARGED_BYTES: usize = 16 << 10;
/// Work on messages up to this length is done in the thread that they came in by.
pub(crate) const SMALL_MESSAGE_BYTES: usize = 64 << 10;
/// A session that nothing is heard of for so long is over.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How many sessions may be remembered.
pub(crate) const SESSIONS_MAX: usize = 100_000;
/// The slowest client that is waited for, in bytes a second.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// How many file descriptors a connection takes: its socket, and a second one that tells when the client is gone.
const FILES_PER_CONNECTION: u64 = 2;

/// How many of `asked` connections a process may have that can open `files`: half of them are left to the store, which
/// stops writing when it cannot open a file.
pub(crate) fn connections_within(files: Option<u64>, asked: u32) -> u32 {
    let within = files.map_or(u64::MAX, |files| (files / 2 / FILES_PER_CONNECTION).max(1));
    u32::try_from(within).unwrap_or(u32::MAX).min(asked)
}

/// How long a message of this length may take on its way, if a small one may take so long.
pub(crate) fn transfer_timeout(bytes: usize, of_small: Duration) -> Duration {
    of_small + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN)
}

/// Bytes that all connections together may hold for one purpose.
///
/// Memory is asked for in parts, as it is needed, so two holders of a part could wait for each other. Therefore one holder
/// at a time may go on beyond the budget: it is exceeded by one message or answer at most.
#[derive(Clone)]
pub(crate) struct Budget {
    kibibytes: Arc<Semaphore>,
    /// Held by the one that may go beyond.
    overdraft: Arc<Semaphore>,
    total: u32,
}

/// A part of a budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    permit: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

/// The budget had nothing left for as long as was waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let total = kibibytes(bytes);
        let kibibytes = Arc::new(Semaphore::new(total as usize));
        Self { kibibytes, overdraft: Arc::new(Semaphore::new(1)), total }
    }

    /// Makes `reserved` cover `bytes` if the budget has as many left, without waiting.
    pub(crate) fn try_grow(&self, reserved: &mut Reserved, bytes: usize) -> bool {
        let missing = self.missing(reserved, bytes);
        if missing == 0 {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.kibibytes).try_acquire_many_owned(missing) else { return false };
        reserved.add(permit);
        true
    }

    /// Makes `reserved` cover `bytes`. It waits for those that others hold, but no longer than `patience`.
    pub(crate) async fn grow(
        &self,
        reserved: &mut Reserved,
        bytes: usize,
        patience: Duration,
    ) -> Result<(), Exhausted> {
        if self.try_grow(reserved, bytes) {
            return Ok(());
        }
        let missing = self.missing(reserved, bytes);
        let given = timeout(patience, async {
            tokio::select! {
                biased;
                permit = Arc::clone(&self.kibibytes).acquire_many_owned(missing) => (permit.ok(), None),
                turn = Arc::clone(&self.overdraft).acquire_owned() => (None, turn.ok()),
            }
        });
        match given.await {
            Ok((Some(permit), _)) => reserved.add(permit),
            Ok((None, Some(turn))) => reserved.overdraft = Some(turn),
            // Neither semaphore is ever closed.
            Ok((None, None)) | Err(_) => return Err(Exhausted),
        }
        Ok(())
    }

    /// In kibibytes. A single message may take the whole budget, so that none waits for what there never is.
    fn missing(&self, reserved: &Reserved, bytes: usize) -> u32 {
        if reserved.overdraft.is_some() || bytes <= UNCHARGED_BYTES {
            return 0;
        }
        let held = reserved.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        kibibytes(bytes).min(self.total).saturating_sub(u32::try_from(held).unwrap_or(u32::MAX))
    }
}

impl Reserved {
    /// Nothing of any budget.
    pub(crate) fn nothing() -> Self {
        Self { permit: None, overdraft: None }
    }

    /// Whether it goes beyond the budget, which keeps everybody else from it.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.overdraft.is_some()
    }

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.permit {
            let surplus = permit.num_permits().saturating_sub(kibibytes(bytes) as usize);
            drop(permit.split(surplus));
        }
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
    }
}

fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_store() {
        assert_eq!(connections_within(None, 10_000), 10_000);
        assert_eq!(connections_within(Some(1 << 20), 10_000), 10_000);
        assert_eq!(connections_within(Some(1024), 10_000), 256);
        assert_eq!(connections_within(Some(1024), 100), 100);
        assert_eq!(connections_within(Some(0), 100), 1);
    }

    #[tokio::test]
    async fn a_budget_gives_what_was_given_back_and_no_more() {
        let budget = Budget::new(100 << 10);
        let mut first = Reserved::nothing();
        assert!(budget.try_grow(&mut first, UNCHARGED_BYTES));
        assert_eq!(budget.kibibytes.available_permits(), 100);
        assert!(budget.try_grow(&mut first, 40 << 10) && budget.try_grow(&mut first, 100 << 10));
        assert_eq!(budget.kibibytes.available_permits(), 0);
        assert!(!budget.try_grow(&mut Reserved::nothing(), 20 << 10));
        first.shrink_to(1);
        assert_eq!(budget.kibibytes.available_permits(), 99);
        drop(first);
        // More than there is takes all there is.
        let mut all = Reserved::nothing();
        assert_eq!(budget.grow(&mut all, 1 << 30, Duration::from_secs(10)).await, Ok(()));
        assert_eq!(budget.kibibytes.available_permits(), 0);
        drop(all);
        assert_eq!(budget.kibibytes.available_permits(), 100);
    }

    /// Two that hold a half each, and need more, would wait for each other.
    #[tokio::test]
    async fn one_at_a_time_goes_beyond_the_budget() {
        let budget = Budget::new(100 << 10);
        let (mut first, mut second) = (Reserved::nothing(), Reserved::nothing());
        assert!(budget.try_grow(&mut first, 50 << 10) && budget.try_grow(&mut second, 50 << 10));
        let patience = Duration::from_millis(20);
        assert_eq!(budget.grow(&mut first, 80 << 10, patience).await, Ok(()));
        assert!(first.is_overdrawn());
        assert_eq!(budget.grow(&mut second, 80 << 10, patience).await, Err(Exhausted));
        drop(first);
        assert_eq!(budget.grow(&mut second, 80 << 10, patience).await, Ok(()));
        assert!(!second.is_overdrawn());
    }
}
