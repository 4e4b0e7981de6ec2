//! A stream of operations and reopens leaves the engine and a naive model with the same documents, and
//! everything stored agrees with itself.
//!
//! The bytes are the decisions that the model suite takes from a seed.

#![no_main]

use cairndb_tests::choices::Choices;
use cairndb_tests::model;
use libfuzzer_sys::fuzz_target;

/// A longer history finds little that a short one does not, and takes longer.
const OPERATIONS_MAX: usize = 150;

fuzz_target!(|bytes: &[u8]| {
    model::run(Choices::from_bytes(bytes), OPERATIONS_MAX);
});
