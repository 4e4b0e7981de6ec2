//! How a step of the demo ends, and how it complains.

use std::error::Error;
use std::io::{self, Write};

/// What every step gives back; the error is a sentence for the reader.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Writes a line to standard error, where a closed one is no reason to fail.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
