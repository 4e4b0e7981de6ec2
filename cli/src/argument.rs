//! Values of options that may be in a file or on standard input.

use std::io::Read;
use std::path::Path;

use crate::failure::Failure;
use crate::interruptible::Interruptible;
use crate::signals::Signals;

/// A larger filter or pipeline could not be sent.
const ARGUMENT_BYTES_MAX: u64 = 16 << 20;

/// The text that an option's value means.
pub(crate) fn content(option: &str, value: &str, signals: &Signals) -> Result<String, Failure> {
    let (name, opened) = if value == "-" {
        ("standard input", Interruptible::standard(signals))
    } else if let Some(path) = value.strip_prefix('@') {
        (path, Interruptible::open(Path::new(path), signals))
    } else {
        return Ok(value.to_owned());
    };
    let mut text = String::new();
    opened
        .and_then(|input| input.take(ARGUMENT_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| Failure::usage(format!("{option}: {name}: {error}")))?;
    if text.len() as u64 > ARGUMENT_BYTES_MAX {
        return Err(Failure::usage(format!("{option}: {name} is larger than 16 MiB")));
    }
    Ok(text)
}

/// The beginning of an option's value, for errors: a file may have megabytes.
pub(crate) fn shown(text: &str) -> &str {
    const CHARACTERS_MAX: usize = 400;
    text.char_indices().nth(CHARACTERS_MAX).map_or(text, |(end, _)| text.get(..end).unwrap_or_default())
}
