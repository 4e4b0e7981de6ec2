//! The memory that one stage may hold.

use crate::operation::{OperationContext, Reservation};
use crate::pipeline::error::Fault;

/// How many bytes one stage may hold. A stage that needs more fails; nothing is moved to disk.
pub const STAGE_BYTES_MAX: usize = 100 << 20;

/// The bytes that a stage holds, counted against its own limit and against that of the operation.
#[derive(Debug)]
pub(super) struct StageMemory {
    stage: &'static str,
    bytes: usize,
    limit: usize,
    reservation: Reservation,
}

impl StageMemory {
    /// Starts at 0 bytes of at most `limit`. What is counted is reserved from the memory of the operation.
    pub(super) fn new(stage: &'static str, limit: usize, operation: &OperationContext) -> Self {
        Self { stage, bytes: 0, limit, reservation: Reservation::of(operation) }
    }

    /// Counts `bytes` more. Fails if the stage or the operation exceeds its limit.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
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
