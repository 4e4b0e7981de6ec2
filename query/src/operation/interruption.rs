//! The reasons to end an operation, and the tokens that end it from another thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crate::code::Code;

/// The reason why an operation was ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interruption {
    /// It was cancelled by its token.
    #[error("operation was interrupted")]
    Cancelled,
    /// Its limit of time was reached.
    #[error("operation exceeded time limit")]
    TimeLimit,
    /// The client that asked for it went away.
    #[error("operation was interrupted because the client disconnected")]
    ClientDisconnected,
    /// The server or the store is being stopped.
    #[error("operation was interrupted because the server is shutting down")]
    ShuttingDown,
    /// The cursor that it belongs to was killed.
    #[error("operation was interrupted because its cursor was killed")]
    CursorKilled,
    /// It needed more memory than an operation may have.
    #[error("operation exceeded the memory limit of {limit} bytes for one operation")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// All operations together needed more memory than they may have.
    #[error("operation exceeded the memory limit of {limit} bytes for all operations together")]
    SharedMemory {
        /// The limit.
        limit: usize,
    },
}

impl Interruption {
    /// MongoDB's code for the reason.
    pub fn code(self) -> Code {
        match self {
            Self::Cancelled => Code::INTERRUPTED,
            Self::TimeLimit => Code::MAX_TIME_MS_EXPIRED,
            Self::ClientDisconnected => Code::CLIENT_DISCONNECT,
            Self::ShuttingDown => Code::INTERRUPTED_AT_SHUTDOWN,
            Self::CursorKilled => Code::CURSOR_KILLED,
            Self::Memory { .. } | Self::SharedMemory { .. } => Code::EXCEEDED_MEMORY_LIMIT,
        }
    }

    /// The reason as a byte for an atomic, in which 0 is none. `interruption` reads it back.
    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::Cancelled => 1,
            Self::TimeLimit => 2,
            Self::ClientDisconnected => 3,
            Self::ShuttingDown => 4,
            Self::CursorKilled => 5,
            Self::Memory { .. } => 6,
            Self::SharedMemory { .. } => 7,
        }
    }
}

/// Ends operations from another thread. Clones are the same token.
///
/// Operations that were given the token fail with code 11601 soon after [`cancel`](Self::cancel); what they have
/// committed stays. A token cannot be used again after it was cancelled.
///
/// ```
/// use cairndb_query::operation::CancellationToken;
///
/// let token = CancellationToken::new();
/// let other = token.clone();
/// std::thread::spawn(move || other.cancel()).join().unwrap();
/// assert!(token.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    state: Arc<TokenState>,
}

#[derive(Debug, Default)]
struct TokenState {
    reason: AtomicU8,
    waiting: Mutex<Waiting>,
}

/// A waiter for something else, and for the cancellation.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// Keeps a waker with a token, until it is dropped.
///
/// For its use see [`CancellationToken::wake`].
#[must_use = "nothing is woken after it was dropped"]
#[derive(Debug)]
pub struct WakeOnCancel {
    state: Arc<TokenState>,
    number: u64,
}

impl Drop for WakeOnCancel {
    fn drop(&mut self) {
        let mut waiting = self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.wakers.remove(&self.number);
    }
}

impl CancellationToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the operations that were given the token. Calling it again has no effect.
    pub fn cancel(&self) {
        self.cancel_because(Interruption::Cancelled);
    }

    /// Ends the operations that were given the token, with a reason that their error names. The first reason stays.
    ///
    /// ```
    /// # use cairndb_query::operation::{CancellationToken, Interruption};
    /// let token = CancellationToken::new();
    /// token.cancel_because(Interruption::ShuttingDown);
    /// token.cancel();
    /// assert_eq!(token.reason(), Some(Interruption::ShuttingDown));
    /// ```
    pub fn cancel_because(&self, reason: Interruption) {
        // Only the first reason is stored. What was written before the cancellation is seen by the operation
        // that finds it.
        let _ = self.state.reason.compare_exchange(0, reason.to_byte(), Ordering::Release, Ordering::Relaxed);
        let waiting = self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let wakers: Vec<Waker> = waiting.wakers.values().cloned().collect();
        drop(waiting);
        // Without the lock: a waker may run code of another crate.
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes by `waker` when the token is cancelled, until what is returned is dropped. If it is cancelled already, it wakes at
    /// once.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use std::task::{Wake, Waker};
    /// # use cairndb_query::operation::CancellationToken;
    /// #[derive(Default)]
    /// struct Woken(AtomicBool);
    ///
    /// impl Wake for Woken {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.store(true, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// let (token, woken) = (CancellationToken::new(), Arc::new(Woken::default()));
    /// let waiting = token.wake(Waker::from(Arc::clone(&woken)));
    /// token.cancel();
    /// assert!(woken.0.load(Ordering::Relaxed));
    /// drop(waiting);
    /// ```
    pub fn wake(&self, waker: Waker) -> WakeOnCancel {
        let mut waiting = self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Numbered, because two may wait with the same waker.
        waiting.last += 1;
        let number = waiting.last;
        waiting.wakers.insert(number, waker.clone());
        drop(waiting);
        // After it was added: a token that is cancelled from now on finds it.
        if self.is_cancelled() {
            waker.wake();
        }
        WakeOnCancel { state: Arc::clone(&self.state), number }
    }

    /// Whether the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// The reason of the cancellation. Returns `None` if it was not.
    pub fn reason(&self) -> Option<Interruption> {
        interruption(self.state.reason.load(Ordering::Acquire), MemoryLimits::default())
    }
}

/// The limits that messages about memory name: that of the operation, and that of all operations.
#[derive(Clone, Copy, Default)]
pub(super) struct MemoryLimits {
    pub(super) own: usize,
    pub(super) shared: usize,
}

/// The reason that a byte represents, the inverse of `Interruption::to_byte`.
pub(super) fn interruption(byte: u8, limits: MemoryLimits) -> Option<Interruption> {
    match byte {
        1 => Some(Interruption::Cancelled),
        2 => Some(Interruption::TimeLimit),
        3 => Some(Interruption::ClientDisconnected),
        4 => Some(Interruption::ShuttingDown),
        5 => Some(Interruption::CursorKilled),
        6 => Some(Interruption::Memory { limit: limits.own }),
        7 => Some(Interruption::SharedMemory { limit: limits.shared }),
        // 0 is not a reason, and other bytes are never stored.
        _ => None,
    }
}
