//! Keys that are taken, as the errors of MongoDB's driver describe them.

use mongodb::error::{Error as DriverError, ErrorKind as DriverErrorKind, WriteFailure};

/// Whether an insert failed because a key is taken.
pub(crate) fn is_duplicate_key(error: &DriverError) -> bool {
    taken_key(error).is_some()
}

/// Whether an insert failed because a key is taken in which the field at a path is.
pub(crate) fn is_duplicate_of(error: &DriverError, path: &str) -> bool {
    let key = taken_key(error).and_then(|message| message.split_once("dup key: ")).map(|(_, key)| key);
    let is_in = |key: &str| key.contains(&format!("{{ {path}: ")) || key.contains(&format!(", {path}: "));
    key.is_some_and(is_in)
}

/// The message about a key that is taken.
fn taken_key(error: &DriverError) -> Option<&str> {
    let kind = error.kind.as_ref();
    let message = if let DriverErrorKind::Write(WriteFailure::WriteError(error)) = kind {
        error.message.as_str()
    } else if let DriverErrorKind::InsertMany(error) = kind {
        error.write_errors.iter().flatten().next()?.message.as_str()
    } else if let DriverErrorKind::Command(error) = kind {
        error.message.as_str()
    } else {
        return None;
    };
    // MongoDB begins the message of no other error so.
    message.starts_with("E11000").then_some(message)
}
