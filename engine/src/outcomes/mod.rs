//! The rows by which repeated writes are answered. A client that got no answer sends a write again, under the number or the token that it had; the rows
//! of the family `outcomes` say what of it was done. A row is in the batch of its write, so neither is there without the other.

pub(crate) mod digest;
pub(crate) mod generations;
mod highest;
pub(crate) mod once;
pub(crate) mod retryable;
pub(crate) mod row;
pub(crate) mod token;
pub(crate) mod token_row;
pub(crate) mod turns;
pub(crate) mod upkeep;
