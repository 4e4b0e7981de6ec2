//! What a running operation may still use: whether it may go on, for how long, and how much memory.
//!
//! An [`OperationContext`] travels with an operation's [`Variables`](crate::expression::Variables) into everything that
//! loops or builds. Loops count their steps by it; at regular intervals it looks at the clock and at the tokens that can
//! end the operation, so that a step costs no more than a counter. What is built reserves its bytes.
//!
//! The invariant: once a context has refused a step it refuses every later one, with the same reason. The clock is read
//! only if there is a limit of time, and only time between [`resume`](OperationContext::resume) and
//! [`pause`](OperationContext::pause) counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many steps pass between two looks, as a power of two.
const STEPS_PER_LOOK_LOG: u32 = 7;
/// How many bytes of a document that is read or copied count as a step.
const BYTES_PER_STEP: usize = 1 << 10;
/// Values below this size are not counted one by one: the holder of many of them reserves for all.
const RESERVED_BYTES_MIN: usize = 256;
/// What an operation takes from the budget of all at a time.
const GRANT_BYTES: usize = 1 << 20;

/// Why an operation was ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interruption {
    /// It was cancelled by its token.
    #[error("operation was interrupted")]
    Cancelled,
    /// Its time was over.
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

const MAX_TIME_MS_EXPIRED: i32 = 50;
const EXCEEDED_MEMORY_LIMIT: i32 = 146;
const CURSOR_KILLED: i32 = 237;
const CLIENT_DISCONNECT: i32 = 279;
const INTERRUPTED_AT_SHUTDOWN: i32 = 11_600;
const INTERRUPTED: i32 = 11_601;

impl Interruption {
    /// MongoDB's number for it.
    pub fn code(self) -> i32 {
        match self {
            Self::Cancelled => INTERRUPTED,
            Self::TimeLimit => MAX_TIME_MS_EXPIRED,
            Self::ClientDisconnected => CLIENT_DISCONNECT,
            Self::ShuttingDown => INTERRUPTED_AT_SHUTDOWN,
            Self::CursorKilled => CURSOR_KILLED,
            Self::Memory { .. } | Self::SharedMemory { .. } => EXCEEDED_MEMORY_LIMIT,
        }
    }

    /// The number that an atomic keeps of one of the reasons that a token can have.
    fn to_byte(self) -> u8 {
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
/// Operations that were given the token fail with code 11601 soon after [`cancel`](Self::cancel), wherever they are; what
/// they have committed stays. A token is used up by being cancelled.
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
    reason: Arc<AtomicU8>,
}

impl CancellationToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends what was given the token. Repeating it is harmless.
    pub fn cancel(&self) {
        self.cancel_because(Interruption::Cancelled);
    }

    /// Ends what was given the token with a reason, which decides the number of the error. The first reason stays.
    pub fn cancel_because(&self, reason: Interruption) {
        let _ = self.reason.compare_exchange(0, reason.to_byte(), Ordering::Release, Ordering::Relaxed);
    }

    /// Whether the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Why the token was cancelled; `None` if it was not.
    pub fn reason(&self) -> Option<Interruption> {
        interruption(self.reason.load(Ordering::Acquire), (0, 0))
    }
}

/// Bytes that all operations of a store together may hold. Clones are the same budget.
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

    /// How many bytes are taken.
    pub fn taken(&self) -> usize {
        self.shared.taken.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), Interruption> {
        let before = self.shared.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.shared.limit {
            return Ok(());
        }
        self.give_back(bytes);
        Err(Interruption::SharedMemory { limit: self.shared.limit })
    }

    fn give_back(&self, bytes: usize) {
        self.shared.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What an operation is given when it begins.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    /// Each of them ends the operation.
    pub tokens: Vec<CancellationToken>,
    /// How long it may work; `None` and zero for no limit.
    pub time: Option<Duration>,
    /// How many bytes it may hold; `None` for no limit.
    pub bytes: Option<usize>,
    /// The budget that it shares with other operations.
    pub shared: Option<MemoryBudget>,
}

/// What a running operation may still use. Clones are the same operation. The default is a context without any limit,
/// which counts nothing.
///
/// ```
/// use cairndb_query::operation::{Allowance, CancellationToken, Interruption, OperationContext};
///
/// let token = CancellationToken::new();
/// let context = OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
/// assert!(context.look().is_ok());
/// token.cancel();
/// assert_eq!(context.look(), Err(Interruption::Cancelled));
/// ```
#[derive(Clone, Default)]
pub struct OperationContext {
    state: Option<Arc<State>>,
}

struct State {
    tokens: Vec<CancellationToken>,
    time: Option<Time>,
    steps: AtomicU64,
    /// The reason by which it was stopped, or 0.
    stopped: AtomicU8,
    bytes: AtomicUsize,
    bytes_max: usize,
    shared: Option<MemoryBudget>,
    /// What was taken from the shared budget, in whole grants.
    granted: AtomicUsize,
}

/// A limit of time, in nanoseconds.
struct Time {
    base: Instant,
    limit: u64,
    /// What earlier calls took.
    spent: AtomicU64,
    /// When work began, counted from `base` and from 1; 0 while it rests.
    since: AtomicU64,
}

impl OperationContext {
    /// The context of an operation that begins now, at work.
    pub fn new(allowance: Allowance) -> Self {
        let Allowance { tokens, time, bytes, shared } = allowance;
        let time = time.filter(|limit| !limit.is_zero()).map(|limit| Time {
            base: Instant::now(),
            limit: nanos(limit),
            spent: AtomicU64::new(0),
            since: AtomicU64::new(1),
        });
        let state = State {
            tokens,
            time,
            steps: AtomicU64::new(0),
            stopped: AtomicU8::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max: bytes.unwrap_or(usize::MAX),
            shared,
            granted: AtomicUsize::new(0),
        };
        Self { state: Some(Arc::new(state)) }
    }

    /// A context without any limit, which counts nothing: the default.
    pub const fn unlimited() -> Self {
        Self { state: None }
    }

    /// A context that only counts, for tests that bound steps.
    pub fn counting() -> Self {
        Self::new(Allowance::default())
    }

    /// Counts one step, and fails if the operation is to end.
    #[inline]
    pub fn step(&self) -> Result<(), Interruption> {
        self.steps(1)
    }

    /// Counts reading or copying `bytes` bytes: one step, and more for many.
    #[inline]
    pub fn pass(&self, bytes: usize) -> Result<(), Interruption> {
        self.steps(1 + (bytes / BYTES_PER_STEP) as u64)
    }

    /// Counts `count` steps, and fails if the operation is to end.
    #[inline]
    pub fn steps(&self, count: u64) -> Result<(), Interruption> {
        match &self.state {
            Some(state) if state.count(count) => state.look(),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts one step; `false` if the operation is to end. For questions that have no room for an error: the caller
    /// calls [`verdict`](Self::verdict) before it uses an answer.
    #[inline]
    pub fn goes_on(&self) -> bool {
        match &self.state {
            None => true,
            Some(state) if state.count(1) => state.look().is_ok(),
            Some(state) => state.stopped.load(Ordering::Relaxed) == 0,
        }
    }

    /// Counts as [`pass`](Self::pass) does; `false` if the operation is to end.
    #[inline]
    pub fn passes(&self, bytes: usize) -> bool {
        match &self.state {
            None => true,
            Some(state) if state.count(1 + (bytes / BYTES_PER_STEP) as u64) => state.look().is_ok(),
            Some(state) => state.stopped.load(Ordering::Relaxed) == 0,
        }
    }

    /// Fails if an earlier step was refused.
    #[inline]
    pub fn verdict(&self) -> Result<(), Interruption> {
        match &self.state {
            Some(state) if state.stopped.load(Ordering::Relaxed) != 0 => state.look(),
            Some(_) | None => Ok(()),
        }
    }

    /// Looks at the clock and the tokens now.
    pub fn look(&self) -> Result<(), Interruption> {
        self.state.as_ref().map_or(Ok(()), |state| state.look())
    }

    /// How many steps were counted.
    pub fn steps_taken(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.steps.load(Ordering::Relaxed))
    }

    /// How many bytes are reserved.
    pub fn bytes_reserved(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.bytes.load(Ordering::Relaxed))
    }

    /// Work goes on: time counts.
    pub fn resume(&self) {
        if let Some(time) = self.time() {
            time.since.store(time.now(), Ordering::Relaxed);
        }
    }

    /// Work rests: time does not count until [`resume`](Self::resume).
    pub fn pause(&self) {
        if let Some(time) = self.time() {
            time.spent.store(time.total(), Ordering::Relaxed);
            time.since.store(0, Ordering::Relaxed);
        }
    }

    /// Reserves `bytes` bytes until what is returned is dropped.
    ///
    /// # Errors
    /// [`Interruption::Memory`] or [`Interruption::SharedMemory`] if they are not there.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, Interruption> {
        let mut reservation = Reservation::of(self);
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    fn time(&self) -> Option<&Time> {
        self.state.as_ref().and_then(|state| state.time.as_ref())
    }
}

impl fmt::Debug for OperationContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, bytes) = (self.steps_taken(), self.bytes_reserved());
        f.debug_struct("OperationContext")
            .field("steps", &steps)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Counts; whether it is time to look.
    #[inline]
    fn count(&self, count: u64) -> bool {
        // An operation works in one thread at a time: nothing is lost by not adding in one step.
        let before = self.steps.load(Ordering::Relaxed);
        let after = before.wrapping_add(count);
        self.steps.store(after, Ordering::Relaxed);
        // The first step looks as well: what was cancelled before it began does nothing.
        before == 0 || (before ^ after) >> STEPS_PER_LOOK_LOG != 0
    }

    #[cold]
    fn look(&self) -> Result<(), Interruption> {
        let limits = (self.bytes_max, self.shared.as_ref().map_or(0, |budget| budget.shared.limit));
        if let Some(reason) = interruption(self.stopped.load(Ordering::Relaxed), limits) {
            return Err(reason);
        }
        let cancelled = self.tokens.iter().find_map(CancellationToken::reason);
        let is_late = || self.time.as_ref().is_some_and(|time| time.total() >= time.limit);
        match cancelled.or_else(|| is_late().then_some(Interruption::TimeLimit)) {
            None => Ok(()),
            Some(reason) => Err(self.stop(reason)),
        }
    }

    fn stop(&self, reason: Interruption) -> Interruption {
        self.stopped.store(reason.to_byte(), Ordering::Relaxed);
        reason
    }

    fn take(&self, bytes: usize) -> Result<(), Interruption> {
        let taken = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let refusal = if taken > self.bytes_max {
            Some(Interruption::Memory { limit: self.bytes_max })
        } else {
            self.grant(taken).err()
        };
        let Some(reason) = refusal else { return Ok(()) };
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(self.stop(reason))
    }

    /// Takes whole grants from the shared budget until they cover what the operation holds.
    fn grant(&self, taken: usize) -> Result<(), Interruption> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let granted = self.granted.load(Ordering::Relaxed);
        if taken <= granted {
            return Ok(());
        }
        let wanted = (taken - granted).div_ceil(GRANT_BYTES).saturating_mul(GRANT_BYTES);
        shared.take(wanted)?;
        self.granted.fetch_add(wanted, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        let left = self.bytes.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
        let Some(shared) = &self.shared else { return };
        let granted = self.granted.load(Ordering::Relaxed);
        // One grant is kept, so that small values do not go to and fro.
        let kept =
            left.div_ceil(GRANT_BYTES).saturating_add(usize::from(left > 0)).saturating_mul(GRANT_BYTES);
        if granted > kept {
            self.granted.store(kept, Ordering::Relaxed);
            shared.give_back(granted - kept);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.give_back(*self.granted.get_mut());
        }
    }
}

impl Time {
    fn now(&self) -> u64 {
        nanos(self.base.elapsed()).saturating_add(1)
    }

    /// The time at work until now.
    fn total(&self) -> u64 {
        let since = self.since.load(Ordering::Relaxed);
        let running = if since == 0 { 0 } else { self.now().saturating_sub(since) };
        self.spent.load(Ordering::Relaxed).saturating_add(running)
    }
}

/// Bytes that an operation holds, given back when it is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    context: OperationContext,
    bytes: usize,
}

impl Reservation {
    /// A reservation of nothing yet.
    pub fn of(operation: &OperationContext) -> Self {
        Self { context: operation.clone(), bytes: 0 }
    }

    /// The operation that it belongs to.
    pub fn operation(&self) -> &OperationContext {
        &self.context
    }

    /// Makes it at least `bytes` bytes, with as much to spare: for what grows piece by piece.
    ///
    /// # Errors
    /// As [`grow_to`](Self::grow_to).
    #[inline]
    pub fn grow_by_doubling(&mut self, bytes: usize) -> Result<(), Interruption> {
        if bytes <= self.bytes.max(RESERVED_BYTES_MIN) {
            Ok(())
        } else {
            self.grow_to(bytes.saturating_mul(2))
        }
    }

    /// Makes it `bytes` bytes if it has fewer.
    ///
    /// # Errors
    /// As [`OperationContext::reserve`]; what was reserved before stays so.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Interruption> {
        if bytes < RESERVED_BYTES_MIN || bytes <= self.bytes {
            return Ok(());
        }
        if let Some(state) = &self.context.state {
            state.take(bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Makes it at least `bytes` bytes, with some to spare: for what grows without an end in sight.
    ///
    /// # Errors
    /// As [`grow_to`](Self::grow_to).
    #[inline]
    pub fn grow_by_steps(&mut self, bytes: usize) -> Result<(), Interruption> {
        if bytes <= self.bytes { Ok(()) } else { self.grow_to(bytes.saturating_add(bytes / 8)) }
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let (Some(state), 1..) = (&self.context.state, self.bytes) {
            state.release(self.bytes);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a kept number stands for; `limits` are those of the operation and of all.
fn interruption(byte: u8, limits: (usize, usize)) -> Option<Interruption> {
    match byte {
        1 => Some(Interruption::Cancelled),
        2 => Some(Interruption::TimeLimit),
        3 => Some(Interruption::ClientDisconnected),
        4 => Some(Interruption::ShuttingDown),
        5 => Some(Interruption::CursorKilled),
        6 => Some(Interruption::Memory { limit: limits.0 }),
        7 => Some(Interruption::SharedMemory { limit: limits.1 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: u64 = 1 << STEPS_PER_LOOK_LOG;

    fn with_time(time: Duration) -> OperationContext {
        OperationContext::new(Allowance { time: Some(time), ..Allowance::default() })
    }

    fn with_bytes(bytes: usize, shared: &MemoryBudget) -> OperationContext {
        let shared = Some(shared.clone());
        OperationContext::new(Allowance { bytes: Some(bytes), shared, ..Allowance::default() })
    }

    #[test]
    fn a_cancelled_token_is_seen_within_a_look_and_for_ever_after() {
        let token = CancellationToken::new();
        let context =
            OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
        assert!((0..10 * LOOK).all(|_| context.step().is_ok()));
        token.cancel_because(Interruption::ShuttingDown);
        token.cancel();
        let refused = (0..LOOK).find_map(|_| context.step().err());
        assert_eq!(refused, Some(Interruption::ShuttingDown));
        assert_eq!(context.verdict(), Err(Interruption::ShuttingDown));
        assert!(!context.goes_on());
    }

    #[test]
    fn only_time_at_work_counts() {
        let context = with_time(Duration::from_secs(3600));
        assert!(context.look().is_ok());
        let over = with_time(Duration::from_nanos(1));
        over.pause();
        assert_eq!(over.look(), Err(Interruption::TimeLimit));
        let resting = with_time(Duration::from_secs(3600));
        resting.pause();
        let spent = resting.time().map(Time::total);
        assert_eq!(resting.time().map(Time::total), spent);
    }

    #[test]
    fn many_bytes_are_many_steps() {
        let context = OperationContext::counting();
        context.pass(BYTES_PER_STEP * 5).expect("no limit");
        assert_eq!(context.steps_taken(), 6);
    }

    #[test]
    fn no_time_is_no_limit() {
        assert!(with_time(Duration::ZERO).time().is_none());
        assert!(with_time(Duration::MAX).look().is_ok());
    }

    #[test]
    fn bytes_come_back_when_a_reservation_goes() {
        let shared = MemoryBudget::new(10 * GRANT_BYTES);
        let context = with_bytes(4 * GRANT_BYTES, &shared);
        let first = context.reserve(3 * GRANT_BYTES).expect("there is room");
        assert_eq!(shared.taken(), 3 * GRANT_BYTES);
        drop(first);
        assert_eq!((context.bytes_reserved(), shared.taken()), (0, 0));
        let refused = context.reserve(5 * GRANT_BYTES).map(|_| ());
        assert_eq!(refused, Err(Interruption::Memory { limit: 4 * GRANT_BYTES }));
        assert_eq!(context.bytes_reserved(), 0);
    }

    #[test]
    fn operations_share_what_there_is() {
        let shared = MemoryBudget::new(4 * GRANT_BYTES);
        let (one, other) = (with_bytes(usize::MAX, &shared), with_bytes(usize::MAX, &shared));
        let held = one.reserve(3 * GRANT_BYTES).expect("there is room");
        let refused = other.reserve(2 * GRANT_BYTES).map(|_| ());
        assert_eq!(refused, Err(Interruption::SharedMemory { limit: 4 * GRANT_BYTES }));
        drop((held, one));
        assert_eq!(shared.taken(), 0);
        let third = with_bytes(usize::MAX, &shared);
        assert!(third.reserve(2 * GRANT_BYTES).is_ok());
    }
}
