//! Writes raw documents, element by element. What is copied from another document is copied as bytes.
//!
//! A caller that compares the length with a limit while it writes can stop early. The invariant: a document that was opened is
//! closed before the one around it.

use bson::RawDocument;
use bson::spec::ElementType;

/// The bytes of a document's length, before its first element.
const LENGTH_BYTES: usize = 4;

/// A value in the bytes of its stored form, which are borrowed: its type, and what follows the name.
#[derive(Clone, Copy, Debug)]
pub struct StoredValue<'a> {
    kind: ElementType,
    bytes: &'a [u8],
}

impl<'a> StoredValue<'a> {
    /// A value by its type, and the bytes that follow its name.
    #[inline]
    pub fn new(kind: ElementType, bytes: &'a [u8]) -> Self {
        Self { kind, bytes }
    }

    /// A document.
    #[inline]
    pub fn document(document: &'a RawDocument) -> Self {
        Self { kind: ElementType::EmbeddedDocument, bytes: document.as_bytes() }
    }

    /// The length of the value in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is not a collection")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// An array, by its bytes.
    pub fn array(bytes: &'a [u8]) -> Self {
        Self { kind: ElementType::Array, bytes }
    }
}

/// A document that is being written.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// A length of a writer to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Writer {
    /// A writer with room for `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// A writer that goes on behind some bytes.
    #[must_use]
    pub fn after(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The number of bytes written so far.
    #[expect(clippy::len_without_is_empty, reason = "it is not a collection")]
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes written so far.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes written.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Makes room for `bytes` further bytes, and for no more.
    pub fn reserve_exact(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// The present length.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.bytes.len())
    }

    /// Everything since the mark.
    #[inline]
    #[must_use]
    pub fn since(&self, mark: Mark) -> &[u8] {
        self.bytes.get(mark.0..).unwrap_or_default()
    }

    /// Forgets everything since the mark.
    #[inline]
    pub fn revert(&mut self, mark: Mark) {
        self.bytes.truncate(mark.0);
    }

    /// Starts a document or array, whose elements follow until [`close`](Self::close).
    #[inline]
    pub fn open(&mut self) -> Mark {
        let mark = self.mark();
        // The length is known only at the end; `close` writes it over these zeros.
        self.bytes.extend([0; LENGTH_BYTES]);
        mark
    }

    /// Ends the document or array that was opened at `mark`.
    #[inline]
    pub fn close(&mut self, mark: Mark) {
        self.bytes.push(0);
        let length = length(self.bytes.len() - mark.0);
        if let Some(place) = self.bytes.get_mut(mark.0..).and_then(<[u8]>::first_chunk_mut) {
            *place = length;
        }
    }

    /// Appends bytes: whole elements, or the value that follows a header.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the start of an element: its type and name.
    #[inline]
    pub fn header(&mut self, kind: ElementType, name: &str) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    /// Appends the start of an array's element: its type, and its position as the name.
    #[inline]
    pub fn indexed_header(&mut self, kind: ElementType, index: usize) {
        // Positions are written for every element of large arrays, so no text is allocated. 64 bits have 20
        // digits.
        let mut digits = [0_u8; 20];
        let mut rest = index;
        let mut count = 0;
        // From the end: a division gives the last digit first.
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            count += 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(digits.get(digits.len() - count..).unwrap_or_default());
        self.bytes.push(0);
    }

    /// Appends a whole element with a value that is copied.
    #[inline]
    pub fn stored(&mut self, name: &str, value: StoredValue<'_>) {
        self.header(value.kind, name);
        self.copy(value.bytes);
    }

    /// Appends a string.
    #[inline]
    pub fn string(&mut self, name: &str, value: &str) {
        self.header(ElementType::String, name);
        // The length includes the zero byte at the end.
        self.bytes.extend_from_slice(&length(value.len() + 1));
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
    }

    /// Appends a value of eight bytes: an integer, a double, a date or a timestamp.
    #[inline]
    pub fn eight_bytes(&mut self, kind: ElementType, name: &str, value: [u8; 8]) {
        self.header(kind, name);
        self.bytes.extend_from_slice(&value);
    }

    /// Appends a document.
    #[inline]
    pub fn document(&mut self, name: &str, document: &RawDocument) {
        self.stored(name, StoredValue::document(document));
    }

    /// Appends a document of whole elements.
    #[inline]
    pub fn document_of(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.header(ElementType::EmbeddedDocument, name);
        let inner = self.open();
        write(self);
        self.close(inner);
    }
}

/// A length as it is stored. One beyond 31 bits is far beyond a document's limit, and refused for that.
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, RawArrayBuf, RawBson, rawdoc};

    use super::*;

    #[test]
    fn a_written_document_is_what_bson_writes() {
        let mut writer = Writer::with_capacity(0);
        let outer = writer.open();
        writer.stored("a", StoredValue::new(ElementType::Boolean, &[1]));
        writer.header(ElementType::Array, "b");
        let array = writer.open();
        for index in 0..12 {
            writer.indexed_header(ElementType::Null, index);
        }
        writer.close(array);
        let undone = writer.mark();
        writer.header(ElementType::Null, "c");
        writer.revert(undone);
        writer.string("d", "ä");
        writer.eight_bytes(ElementType::DateTime, "e", 7_i64.to_le_bytes());
        writer.document("f", &rawdoc! { "g": 1 });
        writer.document_of("h", |writer| writer.string("i", ""));
        writer.close(outer);
        let nulls = (0..12).map(|_| RawBson::Null).collect::<RawArrayBuf>();
        let expected = rawdoc! {
            "a": true, "b": nulls, "d": "ä", "e": DateTime::from_millis(7), "f": { "g": 1 }, "h": { "i": "" },
        };
        assert_eq!(writer.into_bytes(), expected.as_bytes());
    }

    #[test]
    fn indexes_are_written_in_full() {
        for index in [0, 9, 10, 1_500_000, usize::MAX] {
            let mut writer = Writer::with_capacity(0);
            writer.indexed_header(ElementType::Null, index);
            assert_eq!(writer.into_bytes(), [b"\x0a", index.to_string().as_bytes(), b"\0"].concat());
        }
    }
}
