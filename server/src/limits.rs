//! The limits on what a client can make the server hold: sizes, times and budgets of memory.
//!
//! A stranger is a client that has to log in and has not done so yet.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The largest document, in bytes.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// The highest number of statements in one write command.
pub(crate) const WRITE_BATCH_LEN_MAX: i32 = 100_000;
/// The highest number of fields of a command, without those inside of its values. No command has a tenth of it, but
/// `currentOp` accepts conditions as fields.
pub(crate) const COMMAND_FIELDS_MAX: usize = 1_000;
/// The number of documents in the first batch of a cursor, if the command does not say.
pub(crate) const FIRST_BATCH_LEN: u64 = 101;
/// The bytes of the events in a batch of a change stream, if the command does not say how many it wants. Clients read several batches
/// of this length sooner than one of 16 MiB, whose memory the system has to give them anew.
pub(crate) const STREAM_BATCH_BYTES_MAX: usize = 2 << 20;
/// The largest message of a stranger, in bytes. A login, and every command before it, is smaller.
pub(crate) const STRANGER_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The bytes of each message and each answer that are not counted against a budget.
pub(crate) const UNCHARGED_BYTES: usize = 16 << 10;
/// Messages of up to this many bytes are compressed and decompressed in the thread that received them.
pub(crate) const SMALL_MESSAGE_BYTES: usize = 64 << 10;
/// The lifetime of a session without a command in it.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The highest number of sessions that one command may name, as MongoDB's specification of sessions bids drivers.
pub(crate) const NAMED_SESSIONS_MAX: usize = 10_000;
/// The highest number of cursors that one command closes.
pub(crate) const NAMED_CURSORS_MAX: usize = 10_000;
/// The highest number of users that one command asks for.
pub(crate) const NAMED_USERS_MAX: usize = 10_000;
/// The highest number of compressions that a client offers, and of labels and names in a fault for test suites.
pub(crate) const NAMED_TEXTS_MAX: usize = 1_000;
/// The highest number of stages of a pipeline that the server reads itself. The engine allows fewer.
pub(crate) const STAGES_MAX: usize = 10_000;
/// The highest number of sessions that `$listLocalSessions` shows: they are made before the memory of the command is counted.
pub(crate) const SHOWN_SESSIONS_MAX: usize = 10_000;
/// The highest number of sessions. One more ends the oldest of the user who has most.
pub(crate) const SESSIONS_MAX: usize = 100_000;
/// The lowest speed of a client that the server waits for, in bytes per second.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// The file descriptors of a connection: its socket, and a second one that reports when the client is gone.
const FILES_PER_CONNECTION: u64 = 2;

/// The number of `asked` connections that a process may have that can open `files` files. Half of the files are left
/// to the store, which stops writing when it cannot open a file.
pub(crate) fn connections_within(files: Option<u64>, asked: u32) -> u32 {
    // At least one connection, even where the system allows very few files: a server without any would be of
    // no use.
    let within = files.map_or(u64::MAX, |files| (files / 2 / FILES_PER_CONNECTION).max(1));
    u32::try_from(within).unwrap_or(u32::MAX).min(asked)
}

/// The limit for the transfer of a message of `bytes` bytes, if that of a small one is `of_small`.
pub(crate) fn transfer_timeout(bytes: usize, of_small: Duration) -> Duration {
    of_small + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN)
}

/// The bytes that all connections together may hold for one purpose.
///
/// Memory is reserved step by step, so two holders could each wait for what the other has. Therefore one
/// holder at a time may exceed the budget: it is exceeded by one message or answer at most.
#[derive(Clone)]
pub(crate) struct Budget {
    kibibytes: Arc<Semaphore>,
    /// Held by the one holder that may exceed the budget.
    overdraft: Arc<Semaphore>,
    total: u32,
}

/// Bytes reserved from a budget. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Reserved {
    permit: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

/// The budget had no bytes left within the time that the caller was willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let total = kibibytes(bytes);
        let kibibytes = Arc::new(Semaphore::new(total as usize));
        Self { kibibytes, overdraft: Arc::new(Semaphore::new(1)), total }
    }

    /// Makes `reserved` cover `bytes` if the budget has enough left. It does not wait.
    pub(crate) fn try_grow(&self, reserved: &mut Reserved, bytes: usize) -> bool {
        let missing = self.missing(reserved, bytes);
        if missing == 0 {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.kibibytes).try_acquire_many_owned(missing) else { return false };
        reserved.add(permit);
        true
    }

    /// Makes `reserved` cover `bytes`. It waits until others give bytes back, but no longer than `patience`.
    pub(crate) async fn grow(
        &self,
        reserved: &mut Reserved,
        bytes: usize,
        patience: Duration,
    ) -> Result<(), Exhausted> {
        if self.try_grow(reserved, bytes) {
            return Ok(());
        }
        // Whatever comes first: enough bytes, or the right to exceed the budget. `biased` asks for the bytes
        // first, so that the right stays free for a holder that has no other way.
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

    /// The kibibytes that `reserved` lacks to cover `bytes`. A single message needs no more than the whole
    /// budget, or it would wait for ever.
    fn missing(&self, reserved: &Reserved, bytes: usize) -> u32 {
        // The holder of the overdraft asks for nothing more: it may use what it needs.
        if reserved.overdraft.is_some() || bytes <= UNCHARGED_BYTES {
            return 0;
        }
        let held = reserved.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        kibibytes(bytes).min(self.total).saturating_sub(u32::try_from(held).unwrap_or(u32::MAX))
    }
}

impl Reserved {
    /// A reservation of no bytes, of any budget.
    pub(crate) fn nothing() -> Self {
        Self { permit: None, overdraft: None }
    }

    /// Whether this holder exceeds the budget. No other holder can do so meanwhile.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.overdraft.is_some()
    }

    /// Gives back all bytes but the first `bytes`.
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
    // A semaphore counts permits in 32 bits, which would be too few for bytes.
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
        // A request for more than there is gets all there is.
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
