//! What repeated writes are answered from. A client that got no answer sends a write again, under the number that it had; the rows
//! of the family `outcomes` say what of it was done. A row is in the batch of its write, so neither is there without the other.

pub(crate) mod retryable;
pub(crate) mod row;
pub(crate) mod turns;
pub(crate) mod upkeep;
