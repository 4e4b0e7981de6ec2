//! Database commands as bytes: small ones from documents, and those that end with an array of raw documents.

use cairndb::bson::spec::ElementType;
use cairndb::bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::failure::{Exit, Failure};

/// A command that is a small document.
pub(crate) fn raw(document: &Document) -> Result<RawDocumentBuf, Failure> {
    document.try_into().map_err(|error| Failure::usage(format!("the command is too large: {error}")))
}

/// Whether a command opens a cursor that follows a collection, or a change stream.
pub(crate) fn is_tailable(command: &RawDocument) -> bool {
    let Some((name, _)) = command.iter().next().and_then(Result::ok) else { return false };
    match name.as_str() {
        "find" => command.get_bool("tailable").is_ok_and(|is_tailable| is_tailable),
        "aggregate" => is_change_stream(command),
        _ => false,
    }
}

/// Whether an `aggregate` is a change stream.
pub(crate) fn is_change_stream(command: &RawDocument) -> bool {
    let stages = command.get_array("pipeline").ok();
    let first = stages.and_then(|stages| stages.into_iter().next()).and_then(Result::ok);
    let name = first.and_then(RawBsonRef::as_document).and_then(|stage| stage.iter().next());
    name.and_then(Result::ok).is_some_and(|(name, _)| name == "$changeStream")
}

/// A count in a reply, whatever its type.
pub(crate) fn count(reply: &Document, name: &str) -> Option<u64> {
    let number = reply.get_i64(name).or_else(|_| reply.get_i32(name).map(i64::from)).ok()?;
    u64::try_from(number).ok()
}

/// The command with an array of documents at its end. Written by hand, because the array is nearly all of it, and would
/// otherwise be copied twice.
pub(crate) fn with_array(
    head: RawDocumentBuf,
    field: &str,
    documents: &[&RawDocument],
) -> Result<RawDocumentBuf, Failure> {
    let too_large = || Failure::new(Exit::Failed, "a batch is larger than 2 GiB");
    let bytes: usize = documents.iter().map(|document| document.as_bytes().len() + size_of::<u64>()).sum();
    let mut out = head.into_bytes();
    out.reserve(bytes + field.len() + 16);
    // The NUL at the end of the head goes, and comes again after the array.
    out.pop();
    out.push(ElementType::Array as u8);
    out.extend_from_slice(field.as_bytes());
    out.push(0);
    let start = out.len();
    out.extend_from_slice(&[0; size_of::<i32>()]);
    for (position, document) in documents.iter().enumerate() {
        out.push(ElementType::EmbeddedDocument as u8);
        out.extend_from_slice(position.to_string().as_bytes());
        out.push(0);
        out.extend_from_slice(document.as_bytes());
    }
    out.push(0);
    set_len(&mut out, start).ok_or_else(too_large)?;
    out.push(0);
    set_len(&mut out, 0).ok_or_else(too_large)?;
    RawDocumentBuf::from_bytes(out).map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

/// Writes the length of what begins at `start` and goes to the end.
fn set_len(out: &mut [u8], start: usize) -> Option<()> {
    let len = i32::try_from(out.len() - start).ok()?;
    out.get_mut(start..start + size_of::<i32>())?.copy_from_slice(&len.to_le_bytes());
    Some(())
}
