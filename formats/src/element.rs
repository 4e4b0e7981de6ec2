//! Raw BSON, written into a buffer from its first byte to its last: the header of an element, and the frame around
//! elements. Nothing is checked here but what could not be read again.

use std::io::Write as _;

use bson::spec::ElementType;

/// The room for a length that is known later.
const UNKNOWN: [u8; 4] = [0; 4];

/// A document, array or value whose length is written when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    start: usize,
}

impl Frame {
    /// Leaves room for the length.
    pub(crate) fn begin(out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&UNKNOWN);
        Self { start }
    }

    /// Ends a document or an array.
    pub(crate) fn end_document(self, out: &mut Vec<u8>) {
        out.push(0);
        self.end(out);
    }

    /// Ends what has nothing after its last value.
    pub(crate) fn end(self, out: &mut [u8]) {
        // A record is limited to much less than 2 GiB, and a document is not larger than three times its record;
        // a length that does not fit would be rejected when the document is validated.
        let len = i32::try_from(out.len() - self.start).unwrap_or(i32::MAX);
        if let Some(room) = out.get_mut(self.start..self.start + UNKNOWN.len()) {
            room.copy_from_slice(&len.to_le_bytes());
        }
    }
}

/// The place of a type byte that is set when the value is known.
#[derive(Clone, Copy)]
pub(crate) struct TypeByte {
    at: usize,
}

impl TypeByte {
    /// Writes the header of an element whose type is not known yet. The name must have no NUL.
    pub(crate) fn begin(out: &mut Vec<u8>, name: &str) -> Self {
        let at = out.len();
        out.push(ElementType::Null as u8);
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        Self { at }
    }

    /// Writes the header of an element of an array.
    pub(crate) fn begin_at(out: &mut Vec<u8>, position: u32) -> Self {
        let at = out.len();
        out.push(ElementType::Null as u8);
        // Writing to a vector cannot fail.
        let _ = write!(out, "{position}\0");
        Self { at }
    }

    pub(crate) fn set(self, out: &mut [u8], kind: ElementType) {
        if let Some(byte) = out.get_mut(self.at) {
            *byte = kind as u8;
        }
    }
}

/// A string with its length and its NUL, as strings, code and symbols are written.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    let frame = Frame::begin(out);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    // The length counts the text and its NUL, and not itself.
    let len = i32::try_from(text.len() + 1).unwrap_or(i32::MAX);
    if let Some(room) = out.get_mut(frame.start..frame.start + UNKNOWN.len()) {
        room.copy_from_slice(&len.to_le_bytes());
    }
}

/// A string that ends at its NUL.
pub(crate) fn push_c_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Binary data with its length and its subtype.
pub(crate) fn push_binary(out: &mut Vec<u8>, subtype: u8, bytes: &[u8]) {
    /// Binary data of the oldest subtype has its length twice.
    const OLD: u8 = 2;
    let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    let is_old = subtype == OLD;
    out.extend_from_slice(&if is_old { len.saturating_add(4) } else { len }.to_le_bytes());
    out.push(subtype);
    if is_old {
        out.extend_from_slice(&len.to_le_bytes());
    }
    out.extend_from_slice(bytes);
}

/// An integer in the smaller of the two types that holds it. Returns the type.
pub(crate) fn push_whole(out: &mut Vec<u8>, number: i64) -> ElementType {
    if let Ok(number) = i32::try_from(number) {
        out.extend_from_slice(&number.to_le_bytes());
        ElementType::Int32
    } else {
        out.extend_from_slice(&number.to_le_bytes());
        ElementType::Int64
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocument, rawdoc};

    use super::*;

    #[test]
    fn what_is_written_is_what_bson_writes() {
        let mut out = Vec::new();
        let outer = Frame::begin(&mut out);
        TypeByte::begin(&mut out, "a").set(&mut out, ElementType::Int32);
        assert_eq!(push_whole(&mut out, 7), ElementType::Int32);
        TypeByte::begin(&mut out, "b").set(&mut out, ElementType::EmbeddedDocument);
        let inner = Frame::begin(&mut out);
        TypeByte::begin(&mut out, "c").set(&mut out, ElementType::String);
        push_text(&mut out, "ü");
        inner.end_document(&mut out);
        outer.end_document(&mut out);
        let expected = rawdoc! { "a": 7, "b": { "c": "ü" } };
        assert_eq!(RawDocument::from_bytes(&out).unwrap(), &*expected);
    }
}
