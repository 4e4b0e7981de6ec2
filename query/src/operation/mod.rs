//! The limits of a running operation: steps, time, memory, and tokens that end it from outside.
//!
//! An [`OperationContext`] travels with an operation's [`Variables`](crate::expression::Variables) into everything
//! that loops or builds. A loop counts its steps; every 128 steps the context looks at the clock and the tokens, so
//! that a step costs no more than a counter. What is built reserves its bytes.
//!
//! The invariant: once a context has rejected a step it rejects every later one, with the same reason. Only time between
//! [`resume`](OperationContext::resume) and [`pause`](OperationContext::pause) counts, and without a limit of time the clock is
//! read only at looks.

mod budget;
mod interruption;
mod looks;
mod slice;
mod spill;
mod work_clock;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

pub use self::budget::MemoryBudget;
pub use self::interruption::{CancellationToken, Interruption, WakeOnCancel};
use self::interruption::{MemoryLimits, interruption};
use self::looks::Looks;
pub use self::slice::Slice;
use self::slice::SliceState;
pub use self::spill::{
    RunSink, RunSource, SortedSink, SortedSource, SpillFailure, TemporaryFile, TemporaryFiles,
};
use self::work_clock::WorkClock;

/// The number of steps between two looks at clock and tokens, as a power of two.
const STEPS_PER_LOOK_LOG: u32 = 7;
/// Reading or copying this many bytes counts as a step.
const BYTES_PER_STEP: usize = 1 << 10;
/// Smaller values are not reserved one by one: a list of many of them reserves for all.
const RESERVED_BYTES_MIN: usize = 256;
/// An operation reserves bytes from the shared budget in grants of this size, so that threads seldom meet there.
const GRANT_BYTES: usize = 1 << 20;

/// The limits that an operation is given when it begins. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    /// Tokens, each of which ends the operation.
    pub tokens: Vec<CancellationToken>,
    /// The time limit. `None` and zero mean no limit.
    pub time: Option<Duration>,
    /// The limit of its memory, in bytes. `None` means no limit.
    pub bytes: Option<usize>,
    /// The budget that it shares with other operations.
    pub shared: Option<MemoryBudget>,
    /// The limit of a sort's memory, and of each stage of a pipeline, in bytes. `None` means the limit of the stage.
    pub stage_bytes: Option<usize>,
    /// The files in which sorts, groups and joins that need more continue. Without it they fail.
    pub files: Option<Arc<dyn TemporaryFiles>>,
}

/// The limits of a running operation, and what it has used of them. Clones are the same operation.
///
/// The default is a context without limits, which counts nothing.
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
    state: Option<Arc<OperationState>>,
}

struct OperationState {
    tokens: Vec<CancellationToken>,
    time: Option<WorkClock>,
    steps: AtomicU64,
    /// The reason by which it was stopped, or 0.
    stopped: AtomicU8,
    bytes: AtomicUsize,
    bytes_max: usize,
    /// The memory that was reserved before the operation began, and is held as long as it lives.
    kept: OnceLock<Reservation>,
    shared: Option<MemoryBudget>,
    /// The bytes reserved of the shared budget, in whole grants.
    granted: AtomicUsize,
    looks: Looks,
    slice: SliceState,
    stage_bytes: usize,
    files: Option<Arc<dyn TemporaryFiles>>,
    /// Whether the caller does not want it to use files.
    is_off_disk: AtomicBool,
    /// The number of times that something was moved to a file.
    spills: AtomicU64,
}

impl OperationContext {
    /// The context of an operation that begins now: its time counts from here.
    pub fn new(allowance: Allowance) -> Self {
        let Allowance { tokens, time, bytes, shared, stage_bytes, files } = allowance;
        // MongoDB reads a `maxTimeMS` of 0 as no limit.
        let time = time.filter(|limit| !limit.is_zero()).map(WorkClock::starting_now);
        let state = OperationState {
            tokens,
            time,
            steps: AtomicU64::new(0),
            stopped: AtomicU8::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max: bytes.unwrap_or(usize::MAX),
            kept: OnceLock::new(),
            shared,
            granted: AtomicUsize::new(0),
            looks: Looks::default(),
            slice: SliceState::default(),
            stage_bytes: stage_bytes.unwrap_or(usize::MAX),
            files,
            is_off_disk: AtomicBool::new(false),
            spills: AtomicU64::new(0),
        };
        Self { state: Some(Arc::new(state)) }
    }

    /// A context without limits, which counts nothing: the default.
    pub const fn unlimited() -> Self {
        Self { state: None }
    }

    /// A context that counts and has no limits, for tests that bound the steps of an operation.
    pub fn counting() -> Self {
        Self::new(Allowance::default())
    }

    /// Counts one step. Fails if the operation must end.
    #[inline]
    pub fn step(&self) -> Result<(), Interruption> {
        self.steps(1)
    }

    /// Counts reading or copying `bytes` bytes: one step, and another for each KiB.
    #[inline]
    pub fn pass(&self, bytes: usize) -> Result<(), Interruption> {
        self.steps(1 + (bytes / BYTES_PER_STEP) as u64)
    }

    /// Counts reading or copying `bytes` bytes within a step that was counted: a step for each whole KiB.
    #[inline]
    pub(crate) fn pass_within(&self, bytes: usize) -> Result<(), Interruption> {
        if bytes < BYTES_PER_STEP { Ok(()) } else { self.steps((bytes / BYTES_PER_STEP) as u64) }
    }

    /// Counts `count` steps. Fails if the operation must end.
    #[inline]
    pub fn steps(&self, count: u64) -> Result<(), Interruption> {
        match &self.state {
            Some(state) if state.count(count) => state.look(),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts one step. Returns `false` if the operation must end.
    ///
    /// For functions that cannot return an error: their caller asks [`verdict`](Self::verdict) before it uses the
    /// answer.
    #[inline]
    pub fn goes_on(&self) -> bool {
        match &self.state {
            None => true,
            Some(state) if state.count(1) => state.look().is_ok(),
            Some(state) => state.stopped.load(Ordering::Relaxed) == 0,
        }
    }

    /// Counts like [`pass`](Self::pass). Returns `false` if the operation must end.
    #[inline]
    pub fn passes(&self, bytes: usize) -> bool {
        match &self.state {
            None => true,
            Some(state) if state.count(1 + (bytes / BYTES_PER_STEP) as u64) => state.look().is_ok(),
            Some(state) => state.stopped.load(Ordering::Relaxed) == 0,
        }
    }

    /// Counts what a library has done that asks from time to time whether to go on: as many steps as lie between two looks,
    /// and so it looks each time. Returns `false` if the operation must end.
    pub(crate) fn works_on(&self) -> bool {
        self.steps(1 << STEPS_PER_LOOK_LOG).is_ok()
    }

    /// Fails if an earlier step was rejected.
    #[inline]
    pub fn verdict(&self) -> Result<(), Interruption> {
        match &self.state {
            Some(state) if state.stopped.load(Ordering::Relaxed) != 0 => state.look(),
            Some(_) | None => Ok(()),
        }
    }

    /// Looks at the clock and the tokens now, without waiting for the next interval of steps.
    pub fn look(&self) -> Result<(), Interruption> {
        self.state.as_ref().map_or(Ok(()), |state| state.look())
    }

    /// Stops the operation, as if its time were over, once it has made `steps` more steps, until what is returned is dropped; then
    /// it goes on. For work that others wait for: what is stopped so is done again, where nothing waits.
    ///
    /// ```
    /// # use cairndb_query::operation::OperationContext;
    /// let context = OperationContext::counting();
    /// let slice = context.slice(1000);
    /// assert!(context.steps(1900).is_err() && slice.is_over());
    /// drop(slice);
    /// assert!(context.steps(900).is_ok());
    /// ```
    pub fn slice(&self, steps: u64) -> Slice<'_> {
        let Some(state) = &self.state else { return Slice::endless() };
        state.slice.begin(self.steps_taken().saturating_add(steps), &state.stopped)
    }

    /// Wakes by `waker` when one of the operation's tokens is cancelled, until what is returned is dropped.
    pub fn wake_when_cancelled(&self, waker: &Waker) -> Vec<WakeOnCancel> {
        let tokens = self.state.iter().flat_map(|state| &state.tokens);
        tokens.map(|token| token.wake(waker.clone())).collect()
    }

    /// The number of counted steps.
    pub fn steps_taken(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.steps.load(Ordering::Relaxed))
    }

    /// The number of reserved bytes.
    pub fn bytes_reserved(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.bytes.load(Ordering::Relaxed))
    }

    /// Lets time count again after [`pause`](Self::pause).
    #[inline]
    pub fn resume(&self) {
        if let Some(time) = self.time() {
            time.resume();
        }
    }

    /// Lets time not count until [`resume`](Self::resume), while a cursor waits for its client.
    #[inline]
    pub fn pause(&self) {
        if let Some(state) = &self.state {
            // Time after the pause does not count as work. The time up to it is unknown, and short.
            state.looks.pause();
        }
        if let Some(time) = self.time() {
            // A second pause changes nothing: without a start the total is what was spent before.
            time.pause();
        }
    }

    /// About how long the operation has worked for a long time: the time between two looks at the limits without a pause
    /// between them. An operation that pauses before its second look has 0. To know it costs no clock besides those of the looks.
    pub fn time_between_looks(&self) -> Duration {
        self.state.as_ref().map_or(Duration::ZERO, |state| state.looks.between())
    }

    /// Whether the operation has no limits at all, and counts nothing.
    pub fn is_unlimited(&self) -> bool {
        self.state.is_none()
    }

    /// Reserves `bytes` bytes until the reservation is dropped.
    ///
    /// # Errors
    /// [`Interruption::Memory`] or [`Interruption::SharedMemory`] if the limit does not allow them.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, Interruption> {
        let mut reservation = Reservation::of(self);
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    /// Keeps a reservation until the last clone of this context is dropped: what was needed before the operation could
    /// begin, such as the request that asks for it, and lives as long. Only the first is kept; a context without limits
    /// keeps none.
    pub fn keep(&self, reservation: Reservation) {
        if let Some(state) = &self.state {
            // A second one is dropped, and given back.
            let _ = state.kept.set(reservation);
        }
    }

    /// The bytes that a stage may hold if it may hold `limit` bytes by itself.
    pub fn stage_bytes_max(&self, limit: usize) -> usize {
        self.state.as_ref().map_or(limit, |state| state.stage_bytes.min(limit))
    }

    /// Forbids the operation to use temporary files: what needs more memory than it may have fails.
    pub fn keep_off_disk(&self) {
        if let Some(state) = &self.state {
            state.is_off_disk.store(true, Ordering::Relaxed);
        }
    }

    /// The files in which sorts, groups and joins may continue beyond their memory. `None` if they may not.
    pub fn temporary_files(&self) -> Option<Arc<dyn TemporaryFiles>> {
        let state = self.state.as_ref().filter(|state| !state.is_off_disk.load(Ordering::Relaxed))?;
        state.files.clone()
    }

    /// The number of times that something was moved to a temporary file.
    pub fn spills(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.spills.load(Ordering::Relaxed))
    }

    /// Notes that something was moved to a temporary file.
    pub(crate) fn note_spill(&self) {
        if let Some(state) = &self.state {
            state.spills.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn time(&self) -> Option<&WorkClock> {
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

impl OperationState {
    /// Counts steps. Returns whether it is time to look at clock and tokens.
    #[inline]
    fn count(&self, count: u64) -> bool {
        // An operation works in one thread at a time, so a load and a store lose no steps, and cost less than an
        // atomic addition.
        let before = self.steps.load(Ordering::Relaxed);
        let after = before.wrapping_add(count);
        self.steps.store(after, Ordering::Relaxed);
        // The first step looks as well, so that an operation that was cancelled before it began does nothing.
        before == 0 || (before ^ after) >> STEPS_PER_LOOK_LOG != 0
    }

    #[cold]
    fn look(&self) -> Result<(), Interruption> {
        self.looks.note();
        let shared = self.shared.as_ref().map_or(0, MemoryBudget::limit);
        let limits = MemoryLimits { own: self.bytes_max, shared };
        // The reason that stopped it comes before a new look, so that every rejection names the same one.
        if let Some(reason) = interruption(self.stopped.load(Ordering::Relaxed), limits) {
            return Err(reason);
        }
        let cancelled = self.tokens.iter().find_map(CancellationToken::reason);
        // The clock is read last: it costs most.
        let is_late = || self.time.as_ref().is_some_and(WorkClock::is_over);
        let reason = cancelled.or_else(|| is_late().then_some(Interruption::TimeLimit));
        if let Some(reason) = reason {
            return Err(self.stop(reason));
        }
        if self.slice.is_over_at(self.steps.load(Ordering::Relaxed)) {
            return Err(self.stop(Interruption::TimeLimit));
        }
        Ok(())
    }

    fn stop(&self, reason: Interruption) -> Interruption {
        self.stopped.store(reason.to_byte(), Ordering::Relaxed);
        reason
    }

    fn take(&self, bytes: usize) -> Result<(), Interruption> {
        self.try_take(bytes).map_err(|reason| self.stop(reason))
    }

    /// Reserves bytes. The operation goes on if they are rejected.
    fn try_take(&self, bytes: usize) -> Result<(), Interruption> {
        // The bytes are added first, and subtracted again on rejection, so that the check is one with the
        // addition.
        let taken = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let refusal = if taken > self.bytes_max {
            Some(Interruption::Memory { limit: self.bytes_max })
        } else {
            self.grant(taken).err()
        };
        let Some(reason) = refusal else { return Ok(()) };
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(reason)
    }

    /// Reserves whole grants of the shared budget until they cover what the operation holds.
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
        // One grant more than needed is kept, so that an operation that frees and reserves by turns does not go to the
        // shared budget each time.
        let kept =
            left.div_ceil(GRANT_BYTES).saturating_add(usize::from(left > 0)).saturating_mul(GRANT_BYTES);
        if granted > kept {
            self.granted.store(kept, Ordering::Relaxed);
            shared.give_back(granted - kept);
        }
    }
}

impl Drop for OperationState {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            // Reservations hold clones of the context, so none is left when the state is dropped.
            shared.give_back(*self.granted.get_mut());
        }
    }
}

/// Bytes that an operation holds. They are given back when the reservation is dropped.
///
/// ```
/// use cairndb_query::operation::{OperationContext, Reservation};
///
/// let context = OperationContext::counting();
/// let mut reservation = Reservation::of(&context);
/// reservation.grow_to(1000)?;
/// reservation.grow_to(5000)?;
/// assert_eq!(context.bytes_reserved(), 5000);
/// # Ok::<(), cairndb_query::operation::Interruption>(())
/// ```
#[derive(Debug, Default)]
pub struct Reservation {
    context: OperationContext,
    bytes: usize,
}

impl Reservation {
    /// A reservation of 0 bytes, to grow later.
    pub fn of(operation: &OperationContext) -> Self {
        Self { context: operation.clone(), bytes: 0 }
    }

    /// The operation that it belongs to.
    pub fn operation(&self) -> &OperationContext {
        &self.context
    }

    /// Makes it at least `bytes` bytes, and twice that when it has to grow: for buffers that double.
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

    /// Makes it `bytes` bytes if it has fewer. Less than 256 bytes are not reserved at all.
    ///
    /// # Errors
    /// As [`OperationContext::reserve`]; what was reserved before stays reserved.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Interruption> {
        // A value that is being built grows until it is dropped, or given back as a whole.
        if bytes < RESERVED_BYTES_MIN || bytes <= self.bytes {
            return Ok(());
        }
        if let Some(state) = &self.context.state {
            // Only the difference is reserved. On rejection the reservation stays as it was, and is still given
            // back when dropped.
            state.take(bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Makes it at least `bytes` bytes, and an eighth more when it has to grow: for lists that may become large.
    ///
    /// # Errors
    /// As [`grow_to`](Self::grow_to).
    #[inline]
    pub fn grow_by_steps(&mut self, bytes: usize) -> Result<(), Interruption> {
        if bytes <= self.bytes { Ok(()) } else { self.grow_to(bytes.saturating_add(bytes / 8)) }
    }

    /// As [`grow_by_steps`](Self::grow_by_steps), but a rejection does not end the operation. Returns whether it has grown.
    pub(crate) fn try_grow_by_steps(&mut self, bytes: usize) -> bool {
        bytes <= self.bytes || self.try_grow_to(bytes.saturating_add(bytes / 8))
    }

    /// As [`grow_to`](Self::grow_to), but a rejection does not end the operation. Returns whether it has grown.
    pub(crate) fn try_grow_to(&mut self, bytes: usize) -> bool {
        let Some(state) = self.context.state.as_ref().filter(|_| bytes > self.bytes) else { return true };
        // Below that nothing is reserved, as in `grow_to`.
        let is_taken = bytes < RESERVED_BYTES_MIN || state.try_take(bytes - self.bytes).is_ok();
        if is_taken && bytes >= RESERVED_BYTES_MIN {
            self.bytes = bytes;
        }
        is_taken
    }

    /// Gives all bytes back.
    pub(crate) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let (Some(state), 1..) = (&self.context.state, bytes) {
            state.release(bytes);
        }
    }

    /// The number of bytes that it holds: 0 if its context has no limits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // Nothing was reserved for a reservation below the smallest size, so nothing is given back.
        self.clear();
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
        let spent = resting.time().map(WorkClock::total);
        assert_eq!(resting.time().map(WorkClock::total), spent);
    }

    #[test]
    fn many_bytes_are_many_steps() {
        let context = OperationContext::counting();
        context.pass(BYTES_PER_STEP * 5).expect("no limit");
        assert_eq!(context.steps_taken(), 6);
    }

    #[test]
    fn a_context_without_limits_counts_nothing() {
        let context = OperationContext::unlimited();
        assert!(context.steps(1_000_000).is_ok());
        assert_eq!((context.steps_taken(), context.is_unlimited()), (0, true));
        assert!(OperationContext::default().is_unlimited() && !OperationContext::counting().is_unlimited());
    }

    #[test]
    fn steps_without_a_pause_are_time_at_work() {
        let context = OperationContext::counting();
        assert_eq!(context.time_between_looks(), Duration::ZERO);
        assert!((0..10 * LOOK).all(|_| context.step().is_ok()));
        assert!(context.time_between_looks() > Duration::ZERO);
    }

    #[test]
    fn every_token_of_an_operation_can_wake() {
        let tokens = vec![CancellationToken::new(), CancellationToken::new()];
        let context = OperationContext::new(Allowance { tokens, ..Allowance::default() });
        assert_eq!(context.wake_when_cancelled(Waker::noop()).len(), 2);
    }

    #[test]
    fn a_stage_has_what_it_may_have_or_what_it_was_given() {
        assert_eq!(OperationContext::default().stage_bytes_max(1000), 1000);
        let context = OperationContext::new(Allowance { stage_bytes: Some(10), ..Allowance::default() });
        assert_eq!(context.stage_bytes_max(1000), 10);
    }

    #[test]
    fn a_reservation_grows_with_room_to_spare() {
        let context = OperationContext::new(Allowance { bytes: Some(9_000), ..Allowance::default() });
        let mut doubled = Reservation::of(&context);
        doubled.grow_by_doubling(1000).expect("there is room");
        doubled.grow_by_doubling(2000).expect("it is there already");
        assert_eq!(doubled.bytes(), 2000);
        let mut stepped = Reservation::of(&context);
        stepped.grow_by_steps(4000).expect("there is room");
        assert_eq!((stepped.bytes(), context.bytes_reserved()), (4500, 6500));
        stepped.grow_to(4501).expect("there is room");
        assert!(stepped.grow_to(7001).is_err());
        assert_eq!(stepped.bytes(), 4501);
    }

    #[test]
    fn what_an_operation_keeps_goes_with_it() {
        let shared = MemoryBudget::new(10 * GRANT_BYTES);
        let request = with_bytes(usize::MAX, &shared).reserve(GRANT_BYTES).expect("there is room");
        let operation = with_bytes(usize::MAX, &shared);
        operation.keep(request);
        assert!(shared.taken() >= GRANT_BYTES);
        drop(operation);
        assert_eq!(shared.taken(), 0);
    }

    #[test]
    fn an_interruption_has_mongodbs_code() {
        assert_eq!(Interruption::TimeLimit.code(), 50);
        assert_eq!(Interruption::Cancelled.code(), 11_601);
        let token = CancellationToken::new();
        assert!(!token.is_cancelled() && token.reason().is_none());
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
