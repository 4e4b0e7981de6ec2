//! Retryable writes: commands with a number and without a transaction, which a driver may send again.

use cairndb::bson::{RawBsonRef, RawDocument};
use query::code::Code;

use crate::dispatch::call::Call;
use crate::failure::Failure;

/// Commands that may be sent again.
const WRITES: [&str; 5] = ["delete", "findAndModify", "findandmodify", "insert", "update"];
/// The least bytes of a document: its length and its end.
const DOCUMENT_BYTES_MIN: usize = 5;

/// Refuses a number for any other command.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    let name = call.command.name();
    if WRITES.contains(&name) {
        return Ok(());
    }
    // MongoDB's words.
    let message = format!("It is illegal to provide a txnNumber for command {name}");
    Err(Failure::new(Code::INVALID_OPTIONS, message))
}

/// Refuses statements that may concern many documents: what was done of one could not be told.
pub(super) fn check_statements(call: &Call) -> Result<(), Failure> {
    match call.command.name() {
        "update" => check_each(call, "updates", |statement| {
            let is_multi = statement.get("multi")?.is_some_and(is_true);
            Ok(is_multi.then_some("Cannot use retryable writes with multi=true"))
        }),
        "delete" => check_each(call, "deletes", |statement| {
            let is_all = statement.get("limit")?.and_then(crate::fields::whole) == Some(0);
            Ok(is_all.then_some("Cannot use retryable writes with limit=0"))
        }),
        _ => Ok(()),
    }
}

fn is_true(value: RawBsonRef<'_>) -> bool {
    value.as_bool().unwrap_or_else(|| crate::fields::whole(value).is_some_and(|number| number != 0))
}

/// Looks at each statement of a write, in the body and behind it.
fn check_each(
    call: &Call,
    field: &str,
    refusal: impl Fn(&RawDocument) -> Result<Option<&'static str>, Failure>,
) -> Result<(), Failure> {
    let check = |statement: &RawDocument| match refusal(statement)? {
        Some(message) => Err(Failure::new(Code::INVALID_OPTIONS, message)),
        None => Ok(()),
    };
    // What is no statement is refused by the engine.
    for statement in call.command.body().get(field)?.and_then(RawBsonRef::as_array).into_iter().flatten() {
        if let Some(statement) = statement?.as_document() {
            check(statement)?;
        }
    }
    for sequence in call.command.sequences.iter().filter(|sequence| sequence.field == field) {
        let mut rest = &*sequence.documents;
        while let Some((statement, after)) = first(rest)? {
            check(statement)?;
            rest = after;
        }
    }
    Ok(())
}

/// The first of documents one after the other, and the rest.
fn first(documents: &[u8]) -> Result<Option<(&RawDocument, &[u8])>, Failure> {
    let Some(length) = documents.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(0);
    let parts = documents.split_at_checked(length).filter(|_| length >= DOCUMENT_BYTES_MIN);
    let Some((document, rest)) = parts else {
        return Err(Failure::invalid_bson("a document of a sequence has a wrong length"));
    };
    Ok(Some((RawDocument::from_bytes(document)?, rest)))
}
