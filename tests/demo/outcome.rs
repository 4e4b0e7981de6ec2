//! The result of a step of the demo, and messages on standard error.

use std::error::Error;
use std::io::{self, Write};

/// The result of every step. The error is a sentence for the reader.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Writes a line to standard error. It is no failure if that is closed.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
