//! No index changes an answer: two collections with the same documents, one of them with indexes, are asked the same.
//!
//! The bytes are the decisions that the suite takes from a seed: documents, indexes, questions and writes.

#![no_main]

use cairndb_tests::choices::Choices;
use cairndb_tests::indexes;
use cairndb_tests::scratch::small;
use libfuzzer_sys::fuzz_target;

/// Each round asks twenty questions. More of them find little that other bytes do not, and take longer.
const ROUNDS_MAX: usize = 2;

fuzz_target!(|bytes: &[u8]| {
    indexes::run(&mut Choices::from_bytes(bytes), ROUNDS_MAX, small());
});
