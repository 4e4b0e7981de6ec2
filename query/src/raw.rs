//! The elements of a raw document, read in place, and a writer that builds another document.
//!
//! What an update or a projection leaves unchanged is copied as bytes. A caller that compares the writer's length
//! with a limit while it writes can stop early. The invariant: a document that was opened is closed before the one
//! around it.

use bson::raw::{RawElement, RawIter, cstr};
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::validate::{NESTING_MAX, validate};

/// The offset of a document's first element: it follows the length of 4 bytes.
pub(crate) const FIRST_ELEMENT: usize = 4;

/// An error: bytes that are not BSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// What is wrong with them.
    pub(crate) reason: String,
}

/// One element of a document or array.
pub(crate) struct Field<'a> {
    element: RawElement<'a>,
    /// The bytes of the document that holds the element.
    container: &'a [u8],
    start: usize,
}

impl<'a> Field<'a> {
    pub(crate) fn name(&self) -> &'a str {
        self.element.key().as_str()
    }

    pub(crate) fn kind(&self) -> ElementType {
        self.element.element_type()
    }

    /// The offset of the element in its document.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The offset of the first byte after the element in its document.
    pub(crate) fn end(&self) -> usize {
        self.value_start() + self.element.size()
    }

    /// The value's bytes, without type and name.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.container.get(self.value_start()..self.end()).unwrap_or_default()
    }

    /// The bytes of the whole element: type, name and value.
    pub(crate) fn whole(&self) -> &'a [u8] {
        self.container.get(self.start..self.end()).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> Result<RawBsonRef<'a>, Malformed> {
        self.element.value().map_err(Malformed::from)
    }

    /// The document or array that the value is; an array is a document whose names are positions.
    pub(crate) fn container(&self) -> Result<&'a RawDocument, Malformed> {
        RawDocument::from_bytes(self.bytes()).map_err(Malformed::from)
    }

    fn value_start(&self) -> usize {
        // One byte of type before the name, and a zero byte after it.
        self.start + 1 + self.element.key().len() + 1
    }
}

impl From<bson::error::Error> for Malformed {
    fn from(error: bson::error::Error) -> Self {
        Self { reason: error.to_string() }
    }
}

/// The elements of a document in their order. One that cannot be read gives an error, and ends the walk.
pub(crate) struct Fields<'a> {
    elements: RawIter<'a>,
    container: &'a [u8],
    next: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(document: &'a RawDocument) -> Self {
        Self { elements: document.iter_elements(), container: document.as_bytes(), next: FIRST_ELEMENT }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        // The iterator of the `bson` crate stops after an error by itself.
        Some(match self.elements.next()? {
            Ok(element) => {
                let field = Field { element, container: self.container, start: self.next };
                self.next = field.end();
                Ok(field)
            }
            Err(error) => Err(error.into()),
        })
    }
}

/// A value that is kept apart from any document: an operand of an update, in the bytes of its stored form.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// One field with the empty name.
    document: RawDocumentBuf,
}

impl Operand {
    pub(crate) fn new(value: RawBsonRef<'_>) -> Self {
        // The value is kept as the only field of a document, because a value alone has no owned raw form that
        // lends itself.
        let mut document = RawDocumentBuf::new();
        document.append(cstr!(""), value);
        Self { document }
    }

    pub(crate) fn value(&self) -> RawBsonRef<'_> {
        let first = self.document.iter().next().and_then(Result::ok);
        // `new` has put the one field there, so null stands for a case that does not occur.
        first.map_or(RawBsonRef::Null, |(_, value)| value)
    }

    pub(crate) fn kind(&self) -> ElementType {
        self.value().element_type()
    }

    /// How many levels of documents and arrays lie within the value: 0 for a scalar or an empty one.
    pub(crate) fn levels(&self) -> usize {
        // The document around the value is a level of its own. What is malformed counts as too deep, so that
        // it is refused.
        validate(self.document.as_bytes()).map_or(NESTING_MAX, |valid| valid.nesting() - 1)
    }

    /// The value's bytes, without type and name.
    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.document.as_bytes();
        // Before the value are the length, the type and the zero byte of an empty name; after it the closing
        // zero byte.
        bytes.get(FIRST_ELEMENT + 2..bytes.len() - 1).unwrap_or_default()
    }
}

/// A document that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// A length of a writer to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(usize);

impl Writer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.bytes.len())
    }

    /// Forgets everything since the mark.
    pub(crate) fn revert(&mut self, mark: Mark) {
        self.bytes.truncate(mark.0);
    }

    /// Starts a document or array, whose elements follow until [`close`](Self::close).
    pub(crate) fn open(&mut self) -> Mark {
        let mark = self.mark();
        // The length is known only at the end; `close` writes it over these zeros.
        self.bytes.extend([0; FIRST_ELEMENT]);
        mark
    }

    /// Ends the document or array that was opened at `mark`.
    pub(crate) fn close(&mut self, mark: Mark) {
        self.bytes.push(0);
        // A length beyond 31 bits is far beyond a document's limit, and refused for that.
        let length = i32::try_from(self.bytes.len() - mark.0).unwrap_or(i32::MAX);
        for (place, byte) in self.bytes.iter_mut().skip(mark.0).zip(length.to_le_bytes()) {
            *place = byte;
        }
    }

    /// Appends bytes: whole elements, or the value that follows a header.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the start of an element: its type and name.
    pub(crate) fn header(&mut self, kind: ElementType, name: &str) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    /// Appends the start of an array's element: its type, and its position as the name.
    pub(crate) fn indexed_header(&mut self, kind: ElementType, index: usize) {
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

    /// Appends a whole element.
    pub(crate) fn operand(&mut self, name: &str, operand: &Operand) {
        self.header(operand.kind(), name);
        self.copy(operand.bytes());
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawArrayBuf, rawdoc};

    use super::*;

    #[test]
    fn fields_tell_where_they_lie() {
        let document = rawdoc! { "a": 5, "bc": "text", "d": { "e": [1] } };
        let fields = Fields::of(&document).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(fields.iter().map(Field::name).collect::<Vec<_>>(), ["a", "bc", "d"]);
        let wholes = fields.iter().flat_map(|field| field.whole().to_vec()).collect::<Vec<_>>();
        assert_eq!(wholes, document.as_bytes()[4..document.as_bytes().len() - 1]);
        assert_eq!(fields[0].bytes(), 5_i32.to_le_bytes());
        assert_eq!(fields[2].container().unwrap(), &*rawdoc! { "e": [1] });
    }

    #[test]
    fn operands_keep_their_bytes() {
        let operand = Operand::new(RawBsonRef::Int64(7));
        assert_eq!((operand.kind(), operand.bytes()), (ElementType::Int64, 7_i64.to_le_bytes().as_slice()));
        assert_eq!(operand.value(), RawBsonRef::Int64(7));
    }

    #[test]
    fn a_written_document_is_what_bson_writes() {
        let mut writer = Writer::with_capacity(0);
        let outer = writer.open();
        writer.operand("a", &Operand::new(RawBsonRef::Boolean(true)));
        writer.header(ElementType::Array, "b");
        let array = writer.open();
        for index in 0..12 {
            writer.indexed_header(ElementType::Null, index);
        }
        writer.close(array);
        let undone = writer.mark();
        writer.header(ElementType::Null, "c");
        writer.revert(undone);
        writer.close(outer);
        let nulls = (0..12).map(|_| bson::RawBson::Null).collect::<RawArrayBuf>();
        assert_eq!(writer.into_bytes(), rawdoc! { "a": true, "b": nulls }.as_bytes());
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
