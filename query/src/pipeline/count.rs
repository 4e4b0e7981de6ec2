//! `$count`: the number of documents, as one document with one field.

use bson::raw::CString;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::pipeline::collect::Collector;
use crate::pipeline::error::Fault;
use crate::value::describe;

/// Parses the name of the field that gets the count.
pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<CString, Fault> {
    let refuse =
        |expected, code| Fault::Operand { stage: "$count", expected, found: describe(operand), code };
    // MongoDB has a number of its own for each of these faults.
    let name = operand.as_str().ok_or_else(|| refuse("the name of a field", Code::COUNT_FIELD_TYPE))?;
    if name.is_empty() {
        return Err(refuse("a name that is not empty", Code::COUNT_FIELD_EMPTY));
    }
    if name.starts_with('$') {
        return Err(refuse("a name that does not start with a dollar sign", Code::COUNT_FIELD_DOLLAR));
    }
    if name.contains('.') {
        return Err(refuse("a name without a dot", Code::COUNT_FIELD_DOT));
    }
    CString::try_from(name)
        .map_err(|_| refuse("a name without a zero character", Code::COUNT_FIELD_ZERO_BYTE))
}

/// A count as the smallest integer type that holds it, as MongoDB returns it.
pub(super) fn number(count: i64) -> RawBson {
    i32::try_from(count).map_or(RawBson::Int64(count), RawBson::Int32)
}

/// The count so far.
pub(super) struct Counting {
    field: CString,
    count: i64,
}

impl Counting {
    pub(super) fn new(field: CString) -> Self {
        Self { field, count: 0 }
    }
}

impl Collector for Counting {
    fn push(&mut self, _: &RawDocument) -> Result<(), Fault> {
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        // Without documents there is no result, not one with 0: MongoDB's rule. So 0 can also mark the end.
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return Ok(None);
        }
        let mut document = RawDocumentBuf::new();
        document.append(&self.field, number(count));
        Ok(Some(document))
    }
}
