//! The memory that one stage may hold.

use crate::operation::{OperationContext, Reservation};
use crate::pipeline::error::Fault;

/// The limit of one stage's memory, in bytes. A stage that needs more goes on in temporary files, if it is one that
/// can and the operation has them, or fails.
pub const STAGE_BYTES_MAX: usize = 100 << 20;

/// Fewer bytes are not moved to a file before the limit of the stage is reached.
pub(super) const SPILLED_BYTES_MIN: usize = 1 << 20;

/// The bytes that a stage holds, counted against its own limit and against that of the operation.
#[derive(Debug)]
pub(super) struct StageMemory {
    stage: &'static str,
    bytes: usize,
    limit: usize,
    reservation: Reservation,
    /// Whether what is counted can be moved to a file. Then a lack of memory is noted, and is not a fault.
    can_spill: bool,
    is_short: bool,
}

impl StageMemory {
    /// Starts at 0 bytes of at most `limit`, or less if the operation allows its stages less. What is counted is reserved from the memory of the operation.
    pub(super) fn new(stage: &'static str, limit: usize, operation: &OperationContext) -> Self {
        // The store's option bounds every stage, whatever its own limit is.
        let limit = operation.stage_bytes_max(limit);
        let reservation = Reservation::of(operation);
        Self { stage, bytes: 0, limit, reservation, can_spill: false, is_short: false }
    }

    /// Lets [`grow`](Self::grow) only note that memory is short. The caller asks [`is_short`](Self::is_short) after each
    /// document, and moves something to a file.
    pub(super) fn spilling(self) -> Self {
        Self { can_spill: true, ..self }
    }

    /// The number of counted bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes that may be counted.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Notes that memory is short for another reason.
    pub(super) fn lack(&mut self) {
        self.is_short = true;
    }

    /// Whether memory was short since the last [`release`](Self::release).
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Counts `bytes` less, which were moved to a file, and gives back what is not needed any more.
    pub(super) fn release(&mut self, bytes: usize) {
        self.shrink(bytes);
        self.reservation.clear();
        // The rest was reserved a moment ago. If another operation has got it since, more has to be moved.
        self.is_short = self.bytes > self.limit || !self.reservation.try_grow_to(self.bytes);
    }

    /// Counts `bytes` more. Fails if the stage or the operation exceeds its limit.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        // Files of a few documents would be too many, so these have to be reserved as by any stage.
        if self.can_spill && self.bytes >= self.limit.min(SPILLED_BYTES_MIN) {
            self.is_short |= self.bytes > self.limit || !self.reservation.try_grow_by_steps(self.bytes);
            return Ok(());
        }
        if self.bytes > self.limit {
            return Err(Fault::MemoryExceeded { stage: self.stage, limit: self.limit });
        }
        // The stages of an operation share its memory, so it is asked in steps and not for each value.
        Ok(self.reservation.grow_by_steps(self.bytes)?)
    }

    /// Counts reading or copying `bytes` bytes as steps of the operation.
    pub(super) fn pass(&self, bytes: usize) -> Result<(), Fault> {
        Ok(self.reservation.operation().pass(bytes)?)
    }

    /// Counts nothing any more: all that was counted is dropped.
    pub(super) fn clear(&mut self) {
        self.bytes = 0;
    }

    /// Counts `bytes` less. The reservation stays as it is: a stage that replaces a value grows again at once.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
