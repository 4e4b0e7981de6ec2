//! The details while they are made: how much they may use, and what ends them.

use std::cell::Cell;

use bson::raw::CString;
use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use crate::error::Error;
use crate::expression::Variables;
use crate::filter::failure::considered::Considered;
use crate::pattern::Watch;
use crate::value::content_bytes;

/// The cost of every part of the details besides the values that it repeats.
const PART_BYTES: usize = 160;

/// Whether the details repeat the parts of the validator and the values of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Truncated,
}

/// The common state of all parts of the details.
pub(super) struct Report<'r> {
    pub(super) variables: &'r Variables,
    pub(super) watch: Watch<'r>,
    form: Form,
    /// The bytes that the rest may use. `None` once there were more.
    left: Cell<Option<usize>>,
}

impl<'r> Report<'r> {
    pub(super) fn new(variables: &'r Variables, form: Form, bytes_max: usize) -> Self {
        let watch = Watch::of(variables.operation());
        Self { variables, watch, form, left: Cell::new(Some(bytes_max)) }
    }

    /// The details, if they are complete. Returns `None` if they would need more than they may.
    pub(super) fn outcome(self, made: Result<Option<Document>, Error>) -> Result<Option<Document>, Error> {
        // An operation that is over leaves parts out, so its reason comes before everything else.
        let made = self.watch.outcome(made)??;
        let is_whole = self.left.get().is_some();
        // No part failed though the whole did: a number drawn at random was another one.
        let made = made.unwrap_or_else(|| doc! { "reason": "the document did not match" });
        Ok(is_whole.then_some(made))
    }

    /// Begins the details of an operator.
    pub(super) fn begin(&self, operator: &str) -> Document {
        // An estimate, because the fields that follow have fixed names and short texts.
        self.spend(PART_BYTES + operator.len());
        doc! { "operatorName": operator }
    }

    /// Adds how the operator was given.
    pub(super) fn specify(&self, details: &mut Document, given: &RawDocument) {
        if self.repeats(given.as_bytes().len()) {
            details.insert("specifiedAs", Document::try_from(given).unwrap_or_default());
        }
    }

    /// Adds the values that the operator was applied to.
    pub(super) fn consider(&self, details: &mut Document, considered: Option<&Considered<'_>>) {
        let Some(Considered { values, is_cut }) = considered else { return };
        if !self.repeats(values.iter().map(|value| content_bytes(*value)).sum()) {
            return;
        }
        // MongoDB's name says whether there is one value or several.
        match values.as_slice() {
            [only] => details.insert("consideredValue", owned(*only)),
            values => {
                let values: Vec<Bson> = values.iter().map(|value| owned(*value)).collect();
                details.insert("consideredValues", values)
            }
        };
        if *is_cut {
            details.insert("consideredValuesTruncated", true);
        }
    }

    /// Adds a value of the document under a name.
    pub(super) fn repeat(&self, details: &mut Document, name: &str, value: RawBsonRef<'_>) {
        if self.repeats(content_bytes(value)) {
            details.insert(name, owned(value));
        }
    }

    /// Counts bytes of the details. Returns whether there is room for them.
    pub(super) fn spend(&self, bytes: usize) -> bool {
        let left = self.left.get().and_then(|left| left.checked_sub(bytes));
        self.left.set(left);
        left.is_some()
    }

    /// Whether the details go on: they have room, and the operation has time.
    pub(super) fn goes_on(&self) -> bool {
        self.left.get().is_some() && self.watch.goes_on()
    }

    fn repeats(&self, bytes: usize) -> bool {
        self.form == Form::Whole && self.spend(bytes)
    }
}

/// A value of its own. A malformed one, which no stored document has, becomes null.
fn owned(value: RawBsonRef<'_>) -> Bson {
    Bson::try_from(value).unwrap_or(Bson::Null)
}

/// A document with one field.
pub(super) fn named(name: &str, value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    append(&mut document, name, value);
    document
}

/// Appends a field whose name comes from a document.
pub(super) fn append(document: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) {
    let name = CString::try_from(name).expect("the name of a field has no zero byte");
    document.append(name, value);
}
