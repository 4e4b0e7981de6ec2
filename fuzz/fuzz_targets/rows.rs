//! Any bytes, stored as a row by which repeated writes are answered: a reader gets a row, or an error that names the family
//! and the key. Nothing panics, and `verify` reads all of it.
//!
//! The bytes are the decisions that the suite takes from a seed.

#![no_main]

use cairndb_tests::choices::Choices;
use cairndb_tests::rows;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rows::run(&mut Choices::from_bytes(bytes));
});
