//! The elements of a document as bytes that can be copied, without reading what they mean.

use bson::RawDocument;
use bson::raw::RawIter;
use bson::spec::ElementType;

use crate::projection::error::Error;

/// One element of a document or array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'d> {
    pub(super) kind: ElementType,
    pub(super) name: &'d str,
    /// What follows the name.
    pub(super) value: &'d [u8],
}

impl<'d> Element<'d> {
    /// The document or array that the value is; an array with positions for names.
    pub(super) fn nested(&self) -> Result<&'d RawDocument, Error> {
        RawDocument::from_bytes(self.value).map_err(|_| Error::InvalidDocument)
    }
}

/// Walks the elements of a document or array.
pub(super) struct Elements<'d> {
    iter: RawIter<'d>,
    bytes: &'d [u8],
    offset: usize,
}

impl<'d> Elements<'d> {
    pub(super) fn of(document: &'d RawDocument) -> Self {
        // Before the first element stands the document's length.
        Self { iter: document.iter_elements(), bytes: document.as_bytes(), offset: 4 }
    }

    fn read(&mut self, element: bson::error::Result<bson::raw::RawElement<'d>>) -> Option<Element<'d>> {
        let element = element.ok()?;
        let (kind, name) = (element.element_type(), element.key().as_str());
        let start = self.offset.checked_add(name.len() + 2)?;
        let end = start.checked_add(element.size())?;
        self.offset = end;
        Some(Element { kind, name, value: self.bytes.get(start..end)? })
    }
}

impl<'d> Iterator for Elements<'d> {
    type Item = Result<Element<'d>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let element = self.iter.next()?;
        Some(self.read(element).ok_or(Error::InvalidDocument))
    }
}
