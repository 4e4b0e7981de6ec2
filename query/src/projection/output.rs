//! Documents written as bytes, element after element.
//!
//! The invariant: every document that was opened is closed before the one around it, so that all lengths are filled in
//! when the outermost is closed.

use bson::raw::cstr;
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf};
use index::validate::DOCUMENT_BYTES_MAX;

use crate::projection::elements::Element;
use crate::projection::error::Error;

/// How many bytes a result may have: a little more than a stored document, as it is never stored.
const RESULT_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;

/// Where the value of an element starts that stands alone in a document under the empty name: behind the document's
/// length, the type and the end of the name.
const LONE_VALUE: usize = 4 + 1 + 1;

/// A document that is being written.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
}

/// A document that was opened and not closed yet.
#[derive(Debug)]
#[must_use]
pub(super) struct Open {
    start: usize,
}

impl Output {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    /// Starts a document or array.
    pub(super) fn open(&mut self) -> Open {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        Open { start }
    }

    /// Ends a document or array.
    pub(super) fn close(&mut self, Open { start }: Open) -> Result<(), Error> {
        self.bytes.push(0);
        let length = self.bytes.len().saturating_sub(start);
        let too_large = Error::TooLarge { length, limit: RESULT_BYTES_MAX };
        if length > RESULT_BYTES_MAX {
            return Err(too_large);
        }
        let length = i32::try_from(length).map_err(|_| too_large)?;
        if let Some(place) = self.bytes.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
            *place = length.to_le_bytes();
        }
        Ok(())
    }

    /// Starts an element; its value must follow.
    pub(super) fn name(&mut self, kind: ElementType, name: &str) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    /// Appends an element as it is.
    pub(super) fn copy(&mut self, element: &Element<'_>) {
        self.name(element.kind, element.name);
        self.bytes.extend_from_slice(element.value);
    }

    /// Appends an element's value under another name.
    pub(super) fn copy_as(&mut self, name: &str, element: &Element<'_>) {
        self.name(element.kind, name);
        self.bytes.extend_from_slice(element.value);
    }

    /// Appends a value.
    pub(super) fn value(&mut self, name: &str, value: RawBsonRef<'_>) {
        let mut lone = RawDocumentBuf::new();
        lone.append(cstr!(""), value);
        let bytes = lone.as_bytes();
        let end = bytes.len().saturating_sub(1);
        self.name(value.element_type(), name);
        self.bytes.extend_from_slice(bytes.get(LONE_VALUE..end).unwrap_or_default());
    }

    /// The whole, once everything is closed.
    pub(super) fn finish(self) -> Result<RawDocumentBuf, Error> {
        RawDocumentBuf::from_bytes(self.bytes).map_err(|_| Error::InvalidDocument)
    }
}
