//! From key bytes back to values.
//!
//! Values are restored as BSON bytes, which needs no recursion: lengths are filled in when a container
//! ends. Any input gives a value or an error. The output is at most a small multiple of the input, and
//! nesting is bounded by [`DECODE_DEPTH_MAX`].

use bson::spec::{BinarySubtype, ElementType};
use bson::{Bson, RawDocument};

use super::bytes::Reader;
use super::layout::{
    CLASS_MASK, DECODE_DEPTH_MAX, Direction, END, LONG_LENGTH, TAG_ARRAY, TAG_BINARY, TAG_CODE,
    TAG_CODE_WITH_SCOPE, TAG_DATE, TAG_DB_POINTER, TAG_FALSE, TAG_MAX_KEY, TAG_MIN_KEY, TAG_NAN,
    TAG_NEGATIVE, TAG_NULL, TAG_OBJECT, TAG_OBJECT_ID, TAG_POSITIVE, TAG_REGULAR_EXPRESSION, TAG_STRING,
    TAG_TIMESTAMP, TAG_TRUE, TAG_UNDEFINED, TAG_ZERO,
};
use super::number::{SHORT_BYTES, read_number, read_short, skip_magnitude};
use super::type_bytes::{restore_common, restore_number, restore_text_type};
use crate::error::Error;

/// Reads and removes one field at the front of the key, and its type bytes if there are any.
pub(super) fn decode_value(
    key: &mut &[u8],
    direction: Direction,
    types: Option<&mut &[u8]>,
) -> Result<Bson, Error> {
    // `bson` reads values only from documents, so the value is written as one under the empty name.
    const TYPE_AT: usize = 4;
    let mut document = vec![0; TYPE_AT + 2];
    let element_type = decode_bytes(key, direction, types, &mut document)?;
    document.push(0);
    fill(&mut document, TYPE_AT, &[element_type as u8]);
    fill_len(&mut document, 0)?;
    let value = RawDocument::from_bytes(&document).ok().and_then(|document| document.iter().next()?.ok());
    let value = value.and_then(|(_, value)| Bson::try_from(value).ok());
    value.ok_or(Error::KeyMalformed { expected: "a valid value", value: element_type as u8 })
}

/// Reads and removes one field and its type bytes at the front of the key, and appends its BSON bytes to the document.
#[inline]
pub(super) fn decode_typed(
    key: &mut &[u8],
    direction: Direction,
    types: &mut &[u8],
    document: &mut Vec<u8>,
) -> Result<ElementType, Error> {
    match decode_common(key, direction, types, document) {
        Some(element_type) => Ok(element_type),
        None => decode_bytes(key, direction, Some(types), document),
    }
}

/// Does what [`decode_bytes`] does, for numbers with a short key and of a common type. Changes nothing for other fields, and
/// returns `None`.
#[inline]
fn decode_common(
    key: &mut &[u8],
    direction: Direction,
    types: &mut &[u8],
    document: &mut Vec<u8>,
) -> Option<ElementType> {
    let number = read_short(key, direction)?;
    let rest = key.get(SHORT_BYTES..)?;
    let (kind, rest_of_types) = types.split_first()?;
    let element_type = restore_common(number, *kind, document)?;
    (*key, *types) = (rest, rest_of_types);
    Some(element_type)
}

/// Reads and removes one field at the front of the key, and its type bytes if there are any, and appends its BSON bytes to the document.
pub(super) fn decode_bytes(
    key: &mut &[u8],
    direction: Direction,
    types: Option<&mut &[u8]>,
    document: &mut Vec<u8>,
) -> Result<ElementType, Error> {
    let start = document.len();
    // The decoder works on copies of both positions: on an error the caller's must not have moved.
    let mut rest_of_types = types.as_deref().copied();
    let reader = Reader::new(key, direction);
    let mut decoder = Decoder { reader, types: rest_of_types.as_mut(), document, open: Vec::new() };
    let element_type = decoder.read_value();
    let rest = decoder.reader.rest();
    // The caller may go on with its document after an error, so nothing of the field stays in it.
    if element_type.is_err() {
        document.truncate(start);
        return element_type;
    }
    *key = rest;
    if let (Some(types), Some(rest_of_types)) = (types, rest_of_types) {
        *types = rest_of_types;
    }
    element_type
}

/// The length of the field at the front of the key.
#[inline]
pub(super) fn skip(key: &[u8], direction: Direction) -> Result<usize, Error> {
    if read_short(key, direction).is_some() {
        return Ok(SHORT_BYTES);
    }
    skip_any(key, direction)
}

/// The length of any field at the front of the key.
fn skip_any(key: &[u8], direction: Direction) -> Result<usize, Error> {
    let mut reader = Reader::new(key, direction);
    let mut open = Vec::new();
    loop {
        open.extend(skip_value(&mut reader)?);
        // One value may end many containers at once.
        loop {
            let Some(kind) = open.last() else { return Ok(key.len() - reader.rest().len()) };
            if reader.peek()? != END {
                if *kind == Kind::Document {
                    reader.byte()?;
                    reader.skip_text()?;
                }
                break;
            }
            reader.byte()?;
            open.pop();
        }
    }
}

/// The kind of container that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its elements have names, which are in the key.
    Document,
    /// Its elements have positions, which are not in the key.
    Array,
}

/// Moves past a value, up to its elements if it has any.
fn skip_value(reader: &mut Reader<'_>) -> Result<Option<Kind>, Error> {
    match reader.byte()? {
        TAG_MIN_KEY | TAG_UNDEFINED | TAG_NULL | TAG_NAN | TAG_ZERO | TAG_FALSE | TAG_TRUE | TAG_MAX_KEY => {}
        tag @ (TAG_NEGATIVE | TAG_POSITIVE) => skip_magnitude(tag, reader)?,
        TAG_STRING | TAG_CODE => reader.skip_text()?,
        TAG_BINARY => {
            let len = reader.len()?;
            let [subtype] = reader.array()?;
            reader.skip(unstored_binary_len(len, subtype)?)?;
        }
        TAG_OBJECT_ID => reader.skip(12)?,
        TAG_DATE | TAG_TIMESTAMP => reader.skip(8)?,
        TAG_REGULAR_EXPRESSION => {
            reader.skip_text()?;
            reader.skip_text()?;
        }
        TAG_DB_POINTER => {
            let len = reader.len()?;
            reader.skip(len)?;
            reader.skip(12)?;
        }
        TAG_CODE_WITH_SCOPE => {
            reader.skip_text()?;
            return Ok(Some(Kind::Document));
        }
        TAG_OBJECT => return Ok(Some(Kind::Document)),
        TAG_ARRAY => return Ok(Some(Kind::Array)),
        value => return Err(Error::KeyMalformed { expected: "a tag", value }),
    }
    Ok(None)
}

/// A container that is being read.
struct Open {
    kind: Kind,
    /// The offset of the container's length in the document.
    len_at: usize,
    /// For the scope of code: where the length of both is written.
    code_at: Option<usize>,
    /// The number of elements read so far.
    elements: usize,
}

/// The state of reading one field.
struct Decoder<'a, 'k, 't> {
    reader: Reader<'k>,
    types: Option<&'a mut &'t [u8]>,
    document: &'a mut Vec<u8>,
    open: Vec<Open>,
}

impl Decoder<'_, '_, '_> {
    fn read_value(&mut self) -> Result<ElementType, Error> {
        let outermost = self.read_element()?;
        while let Some(container) = self.open.last_mut() {
            if self.reader.peek()? == END {
                self.reader.byte()?;
                self.close()?;
                continue;
            }
            // The type comes before the name in BSON but is known only after the value: a byte is kept free
            // for it.
            let position = container.elements;
            container.elements += 1;
            let kind = container.kind;
            let type_at = self.document.len();
            self.document.push(0);
            self.read_name(kind, position)?;
            let element_type = self.read_element()?;
            fill(self.document, type_at, &[element_type as u8]);
        }
        Ok(outermost)
    }

    /// Reads what comes before an element's value.
    fn read_name(&mut self, kind: Kind, position: usize) -> Result<(), Error> {
        if kind == Kind::Array {
            self.document.extend(position.to_string().as_bytes());
        } else {
            let class = self.reader.byte()?;
            self.read_cstring()?;
            // The class comes first because documents compare by class before name. A key whose class differs
            // from that of the value was never written, and would sort differently than it reads.
            let tag = self.reader.peek()?;
            if tag & CLASS_MASK != class {
                return Err(Error::KeyMalformed {
                    expected: "a value of the class before its name",
                    value: tag,
                });
            }
            return Ok(());
        }
        self.document.push(0);
        Ok(())
    }

    /// Reads a value, up to its elements if it has any.
    fn read_element(&mut self) -> Result<ElementType, Error> {
        let tag = self.reader.byte()?;
        match tag {
            TAG_NAN | TAG_NEGATIVE | TAG_ZERO | TAG_POSITIVE => {
                let number = read_number(tag, &mut self.reader)?;
                restore_number(number, self.types.as_deref_mut(), self.document)
            }
            TAG_STRING => {
                self.read_string()?;
                restore_text_type(self.types.as_deref_mut())
            }
            TAG_OBJECT => self.begin(Kind::Document, None).map(|()| ElementType::EmbeddedDocument),
            TAG_ARRAY => self.begin(Kind::Array, None).map(|()| ElementType::Array),
            TAG_CODE_WITH_SCOPE => {
                // BSON puts one length before code and scope together; the scope's end fills it in.
                let code_at = self.document.len();
                self.document.extend([0; 4]);
                self.read_string()?;
                self.begin(Kind::Document, Some(code_at)).map(|()| ElementType::JavaScriptCodeWithScope)
            }
            _ => self.read_plain(tag),
        }
    }

    /// Reads a value that has neither elements nor type bytes.
    fn read_plain(&mut self, tag: u8) -> Result<ElementType, Error> {
        let element_type = match tag {
            TAG_MIN_KEY => ElementType::MinKey,
            TAG_UNDEFINED => ElementType::Undefined,
            TAG_NULL => ElementType::Null,
            TAG_MAX_KEY => ElementType::MaxKey,
            TAG_FALSE | TAG_TRUE => {
                self.document.push(u8::from(tag == TAG_TRUE));
                ElementType::Boolean
            }
            TAG_OBJECT_ID => {
                self.reader.take(12, self.document)?;
                ElementType::ObjectId
            }
            TAG_DATE => {
                // The key holds the sign bit inverted, so that negative times sort first.
                let millis = i64::from_be_bytes(self.reader.array()?) ^ i64::MIN;
                self.document.extend(millis.to_le_bytes());
                ElementType::DateTime
            }
            TAG_TIMESTAMP => {
                // The key has the time first and big-endian; as one little-endian number, the increment comes
                // first.
                let timestamp = u64::from_be_bytes(self.reader.array()?);
                self.document.extend(timestamp.to_le_bytes());
                ElementType::Timestamp
            }
            TAG_BINARY => self.read_binary()?,
            TAG_REGULAR_EXPRESSION => {
                self.read_cstring()?;
                self.read_cstring()?;
                ElementType::RegularExpression
            }
            TAG_DB_POINTER => self.read_pointer()?,
            TAG_CODE => {
                self.read_string()?;
                ElementType::JavaScriptCode
            }
            value => return Err(Error::KeyMalformed { expected: "a tag", value }),
        };
        Ok(element_type)
    }

    fn read_binary(&mut self) -> Result<ElementType, Error> {
        let stored = self.reader.len()?;
        let [subtype] = self.reader.array()?;
        let len = unstored_binary_len(stored, subtype)?;
        self.document.extend(len_bytes(stored)?);
        self.document.push(subtype);
        // The deprecated subtype repeats its length; the key leaves the repetition out.
        if len != stored {
            self.document.extend(len_bytes(len)?);
        }
        self.reader.take(len, self.document)?;
        Ok(ElementType::Binary)
    }

    fn read_pointer(&mut self) -> Result<ElementType, Error> {
        let len = self.reader.len()?;
        // BSON's length of the namespace includes a zero byte that the key leaves out, so it is written
        // afterwards.
        let len_at = self.document.len();
        self.document.extend([0; 4]);
        self.reader.take(len, self.document)?;
        self.end_string(len_at)?;
        self.reader.take(12, self.document)?;
        Ok(ElementType::DbPointer)
    }

    /// Reads a text as a BSON string: its length, its bytes, a zero.
    fn read_string(&mut self) -> Result<(), Error> {
        let len_at = self.document.len();
        self.document.extend([0; 4]);
        self.reader.text(self.document)?;
        self.end_string(len_at)
    }

    fn end_string(&mut self, len_at: usize) -> Result<(), Error> {
        self.checked_text(len_at + 4)?;
        self.document.push(0);
        let len = len_bytes(self.document.len() - len_at - 4)?;
        fill(self.document, len_at, &len);
        Ok(())
    }

    /// Reads a text as BSON stores names and patterns: without zero bytes inside, with one at the end.
    fn read_cstring(&mut self) -> Result<(), Error> {
        let start = self.document.len();
        self.reader.text(self.document)?;
        // Keys can escape a zero, but in BSON it would end the name early and shift all that follows.
        if self.checked_text(start)?.contains('\0') {
            return Err(Error::KeyMalformed { expected: "a name or pattern without zeros", value: 0 });
        }
        self.document.push(0);
        Ok(())
    }

    /// The text from `start` to the end of the document.
    fn checked_text(&self, start: usize) -> Result<&str, Error> {
        let text = self.document.get(start..).unwrap_or_default();
        str::from_utf8(text).map_err(|error| {
            let value = text.get(error.valid_up_to()).copied().unwrap_or_default();
            Error::KeyMalformed { expected: "UTF-8", value }
        })
    }

    fn begin(&mut self, kind: Kind, code_at: Option<usize>) -> Result<(), Error> {
        // Damaged bytes could nest as deep as they are long, and later readers of the document recurse.
        if self.open.len() == DECODE_DEPTH_MAX {
            return Err(Error::KeyTooDeep { limit: DECODE_DEPTH_MAX });
        }
        self.open.push(Open { kind, len_at: self.document.len(), code_at, elements: 0 });
        self.document.extend([0; 4]);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.document.push(0);
        let Some(container) = self.open.pop() else { return Ok(()) };
        fill_len(self.document, container.len_at)?;
        container.code_at.map_or(Ok(()), |code_at| fill_len(self.document, code_at))
    }
}

/// The length of binary data without the second length that the deprecated subtype has.
fn unstored_binary_len(stored: usize, subtype: u8) -> Result<usize, Error> {
    if subtype != u8::from(BinarySubtype::BinaryOld) {
        return Ok(stored);
    }
    stored.checked_sub(4).ok_or(Error::KeyMalformed { expected: "a length of at least 4", value: subtype })
}

fn len_bytes(len: usize) -> Result<[u8; 4], Error> {
    // Only a long length in the key leads to one that BSON cannot store.
    let too_long = Error::KeyMalformed { expected: "a length below 2 GiB", value: LONG_LENGTH };
    i32::try_from(len).map(i32::to_le_bytes).map_err(|_| too_long)
}

/// Writes the length of the document from `at` to its end into the four bytes at `at`.
fn fill_len(document: &mut [u8], at: usize) -> Result<(), Error> {
    let len = len_bytes(document.len() - at)?;
    fill(document, at, &len);
    Ok(())
}

fn fill(document: &mut [u8], at: usize, bytes: &[u8]) {
    for (slot, byte) in document.iter_mut().skip(at).zip(bytes) {
        *slot = *byte;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::key::encode_with_types;
    use crate::proptest_support::{Raw, any_number, any_value};

    /// The result of a read, and the rest of the key, of its type bytes, and of a document that had a byte before.
    type Read<'k> = (Result<ElementType, Error>, &'k [u8], &'k [u8], Vec<u8>);

    fn read<'k>(
        (mut key, mut types): (&'k [u8], &'k [u8]),
        decode: impl FnOnce(&mut &'k [u8], &mut &'k [u8], &mut Vec<u8>) -> Result<ElementType, Error>,
    ) -> Read<'k> {
        let mut document = vec![7];
        let element_type = decode(&mut key, &mut types, &mut document);
        (element_type, key, types, document)
    }

    proptest! {
        #[test]
        fn common_fields_are_read_as_any_other(
            value in prop_oneof![4 => (-9_i32..9).prop_map(Bson::Int32), 8 => any_number(), 1 => any_value()],
            direction in select(vec![Direction::Ascending, Direction::Descending]),
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            other_types in prop_oneof![4 => Just(None), 1 => vec(0_u8..8, 0..3).prop_map(Some)],
            cut in 0_usize..4,
        ) {
            let (mut key, mut types) = (Vec::new(), Vec::new());
            encode_with_types(Raw::new(&value).value(), direction, &mut key, &mut types);
            key.extend([1, 2, 3]);
            for (place, byte) in changes {
                *place.get_mut(&mut key) = byte;
            }
            key.truncate(key.len() - cut);
            let types = other_types.unwrap_or(types);
            let fast = |key: &mut &[u8], types: &mut &[u8], document: &mut Vec<u8>| {
                decode_typed(key, direction, types, document)
            };
            let any = |key: &mut &[u8], types: &mut &[u8], document: &mut Vec<u8>| {
                decode_bytes(key, direction, Some(types), document)
            };
            prop_assert_eq!(read((&key, &types), fast), read((&key, &types), any));
            prop_assert_eq!(skip(&key, direction), skip_any(&key, direction));
        }
    }
}
