//! The rules of a well-formed document: the precondition of everything else in the workspace.
//!
//! One pass over the raw bytes, without recursion and without allocation. Rules about the meaning of
//! fields (which types an `_id` may have, names starting with `$`) are not here: they differ between
//! an insert, a replacement and a query.
//!
//! The invariant: `bson` reads every accepted document from start to end without an error.

use std::ops::Range;
use std::str;

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument};

use crate::element;
use crate::error::{DocumentFault, Error};
use crate::words::{ascii_name_end, is_ascii, name_end};

/// The largest document that may be stored, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The number of levels that a document may have.
///
/// The document itself is the first one. Every embedded document, array and scope of code that is not
/// empty adds one; an empty one adds none, as in MongoDB's check on insertion. So an empty document or
/// array may stand one level below the limit, and reading needs room for `NESTING_MAX + 1` levels.
pub const NESTING_MAX: usize = 180;

/// The bytes of the smallest document: its length and its terminator.
const EMPTY_BYTES: usize = 5;

/// The number of bytes of a name that appear in a message. A malformed document may hold a name of megabytes.
const NAME_BYTES_SHOWN_MAX: usize = 64;

/// The type bytes of BSON. The check branches on the bytes themselves, because converting each to an
/// [`ElementType`] first costs a call for every element.
mod kind {
    use bson::spec::ElementType;

    pub(super) const DOUBLE: u8 = ElementType::Double as u8;
    pub(super) const STRING: u8 = ElementType::String as u8;
    pub(super) const DOCUMENT: u8 = ElementType::EmbeddedDocument as u8;
    pub(super) const ARRAY: u8 = ElementType::Array as u8;
    pub(super) const BINARY: u8 = ElementType::Binary as u8;
    pub(super) const UNDEFINED: u8 = ElementType::Undefined as u8;
    pub(super) const OBJECT_ID: u8 = ElementType::ObjectId as u8;
    pub(super) const BOOLEAN: u8 = ElementType::Boolean as u8;
    pub(super) const DATE_TIME: u8 = ElementType::DateTime as u8;
    pub(super) const NULL: u8 = ElementType::Null as u8;
    pub(super) const REGULAR_EXPRESSION: u8 = ElementType::RegularExpression as u8;
    pub(super) const DB_POINTER: u8 = ElementType::DbPointer as u8;
    pub(super) const CODE: u8 = ElementType::JavaScriptCode as u8;
    pub(super) const SYMBOL: u8 = ElementType::Symbol as u8;
    pub(super) const CODE_WITH_SCOPE: u8 = ElementType::JavaScriptCodeWithScope as u8;
    pub(super) const INT32: u8 = ElementType::Int32 as u8;
    pub(super) const TIMESTAMP: u8 = ElementType::Timestamp as u8;
    pub(super) const INT64: u8 = ElementType::Int64 as u8;
    pub(super) const DECIMAL128: u8 = ElementType::Decimal128 as u8;
    pub(super) const MAX_KEY: u8 = ElementType::MaxKey as u8;
    pub(super) const MIN_KEY: u8 = ElementType::MinKey as u8;
}

/// A document that [`validate`] accepted, with facts collected during the check.
#[derive(Clone, Copy, Debug)]
pub struct ValidDocument<'a> {
    document: &'a RawDocument,
    id: Option<IdElement>,
    zero_timestamp: bool,
    nesting: usize,
}

/// The begin and end of the `_id` element in the document.
#[derive(Clone, Copy, Debug)]
struct IdElement {
    start: usize,
    end: usize,
}

impl<'a> ValidDocument<'a> {
    /// The document as a raw document of `bson`.
    pub fn as_raw(&self) -> &'a RawDocument {
        self.document
    }

    /// The document's bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.document.as_bytes()
    }

    /// The value of the top-level `_id`. Returns `None` if the document has no `_id`.
    pub fn id(&self) -> Option<RawBsonRef<'a>> {
        self.id.and_then(|id| element::value_at_offset(self.document, id.start))
    }

    /// The range of the `_id` element in [`as_bytes`](Self::as_bytes), from its type byte to the end of its
    /// value. Returns `None` if the document has no `_id`.
    pub fn id_element(&self) -> Option<Range<usize>> {
        self.id.map(|id| id.start..id.end)
    }

    /// Whether a top-level field is `Timestamp(0, 0)`, which an insert replaces by the current time.
    pub fn has_zero_timestamp(&self) -> bool {
        self.zero_timestamp
    }

    /// The number of levels, as [`NESTING_MAX`] counts them: 1 for a flat document.
    pub fn nesting(&self) -> usize {
        self.nesting
    }
}

/// Checks that `bytes` are exactly one well-formed document within the limits.
///
/// Empty and duplicate field names are accepted, except that there is at most one top-level `_id`. Names
/// starting with `$` or holding dots are accepted, too.
///
/// # Errors
/// [`Error::DocumentMalformed`] with the offset and the fault, [`Error::DocumentTooLarge`],
/// [`Error::DocumentTooDeep`] or [`Error::DuplicateId`].
///
/// # Examples
/// ```
/// let document = bson::rawdoc! { "_id": 7, "name": "anna" };
/// let valid = cairndb_index::validate::validate(document.as_bytes())?;
/// assert_eq!(valid.id(), Some(bson::RawBsonRef::Int32(7)));
/// assert!(cairndb_index::validate::validate(b"\x05\0\0\0").is_err());
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[inline]
pub fn validate(bytes: &[u8]) -> Result<ValidDocument<'_>, Error> {
    validate_each(bytes, |_| {})
}

/// Checks `bytes` as [`validate`] does, and passes each top-level element to `show`, from its type byte to
/// the end of its value. Elements are shown before the rest is checked, so they count only if the document is
/// accepted.
///
/// # Errors
/// As [`validate`].
pub fn validate_each(bytes: &[u8], show: impl FnMut(&[u8])) -> Result<ValidDocument<'_>, Error> {
    check(bytes, DOCUMENT_BYTES_MAX, show)
}

/// Checks `bytes` as [`validate`] does, but with a limit of `bytes_max` bytes: a command that holds a
/// document is larger than the document.
///
/// # Errors
/// As [`validate`].
pub fn validate_up_to(bytes: &[u8], bytes_max: usize) -> Result<ValidDocument<'_>, Error> {
    check(bytes, bytes_max, |_| {})
}

fn check(bytes: &[u8], bytes_max: usize, mut show: impl FnMut(&[u8])) -> Result<ValidDocument<'_>, Error> {
    if bytes.len() > bytes_max {
        return Err(Error::DocumentTooLarge { size: bytes.len(), limit: bytes_max });
    }
    let mut cursor = Cursor { bytes, at: 0, name_at: None };
    let outermost_end =
        cursor.open_outermost().map_err(|fault| cursor.malformed(&Levels::default(), fault))?;

    let mut facts = Facts::default();
    let mut nesting = 1;
    // The levels that are open below the outermost document, and the offset of the innermost terminator.
    let (mut levels, mut end) = (Levels::default(), outermost_end);
    // The offset at which the current top-level element starts.
    let mut start = cursor.at;
    loop {
        let mut rest = bytes.get(cursor.at..end).unwrap_or_default();
        // Plain elements one after the other, up to one that is not, or opens a level.
        let opened = loop {
            cursor.at = end - rest.len();
            if levels.open == 0 {
                start = cursor.at;
            }
            match plain(rest) {
                Some(Plain::Value { behind }) => {
                    if levels.open == 0 {
                        let element = rest.get(..rest.len() - behind.len()).unwrap_or_default();
                        show(element);
                        facts.note_id(element, start)?;
                    }
                    rest = behind;
                }
                Some(Plain::Container { inside, behind }) => {
                    // For messages: the name is behind the type byte.
                    cursor.name_at = Some(cursor.at + 1);
                    // Its terminator is the last byte in front of what is behind it.
                    let inner_end = end - behind.len() - 1;
                    cursor.at = inner_end - inside;
                    break Some(inner_end);
                }
                None => break None,
            }
        };
        let opened = match opened {
            None if rest.is_empty() => {
                if !levels.close() {
                    break;
                }
                // Over the terminator, to what the level around it has next.
                cursor.at += 1;
                end = levels.innermost().map_or(outermost_end, |level| level.end as usize);
                None
            }
            None => cursor.element(end).map_err(|fault| cursor.malformed(&levels, fault))?,
            opened => opened,
        };
        if let Some(inner_end) = opened {
            cursor.push(&mut levels, inner_end)?;
            nesting = nesting.max(levels.open + 1);
            end = inner_end;
        }
        // From here on a top-level element is complete, with everything nested in it.
        if levels.open == 0 {
            let element = bytes.get(start..cursor.at).unwrap_or_default();
            show(element);
            facts.note_id(element, start)?;
            facts.zero_timestamp |= is_zero_timestamp(element);
        }
    }
    // `from_bytes` checks the length and the last byte only, both accepted above, so this error is not reached.
    let document = RawDocument::from_bytes(bytes).map_err(|_| {
        let fault = DocumentFault::Truncated { needed: bytes.len(), room: bytes.len() };
        cursor.malformed(&levels, fault)
    })?;
    let Facts { id, zero_timestamp } = facts;
    Ok(ValidDocument { document, id, zero_timestamp, nesting })
}

/// The summary of the top-level elements that were read.
#[derive(Default)]
struct Facts {
    id: Option<IdElement>,
    zero_timestamp: bool,
}

impl Facts {
    /// Notes a top-level element that starts at an offset, if it is the `_id`.
    #[inline]
    fn note_id(&mut self, element: &[u8], start: usize) -> Result<(), Error> {
        // Compared as bytes of the whole element: a name has just been checked, so no name is read again.
        if element.get(1..5) == Some(b"_id\0") {
            if self.id.is_some() {
                return Err(Error::DuplicateId { offset: start });
            }
            self.id = Some(IdElement { start, end: start + element.len() });
        }
        Ok(())
    }
}

/// An element of a common type with nothing uncommon about it.
enum Plain<'a> {
    /// A value, or an empty document or array, and what is behind it.
    Value { behind: &'a [u8] },
    /// A document or an array with `inside` bytes of elements, and what is behind it.
    Container { inside: usize, behind: &'a [u8] },
}

/// Reads the first element of a level. `None` may mean a fault, but no time is spent here on finding out which:
/// [`Cursor::element`] does.
#[expect(
    clippy::inline_always,
    reason = "it has one caller, and nearly every element of a document passes here"
)]
#[inline(always)]
fn plain(level: &[u8]) -> Option<Plain<'_>> {
    let (kind, named) = level.split_first()?;
    let value = named.get(ascii_name_end(named)? + 1..)?;
    let behind = match *kind {
        kind::STRING => {
            let (text, behind) = value.get(4..)?.split_at_checked(size(value)?)?;
            // The length includes the terminator, so a text of no bytes at all is a fault.
            let (terminator, text) = text.split_last()?;
            if *terminator != 0 || !is_ascii(text) && str::from_utf8(text).is_err() {
                return None;
            }
            behind
        }
        kind::INT32 => value.get(4..)?,
        kind::DOUBLE | kind::INT64 | kind::DATE_TIME => value.get(8..)?,
        kind::OBJECT_ID => value.get(12..)?,
        kind::BOOLEAN => value.split_first().filter(|(flag, _)| **flag <= 1)?.1,
        kind::NULL => value,
        kind::DOCUMENT | kind::ARRAY => {
            let (document, behind) = value.split_at_checked(size(value)?)?;
            let inside = document.len().checked_sub(EMPTY_BYTES)?;
            if document.last() != Some(&0) {
                return None;
            }
            // An empty one opens no level, as in MongoDB's check.
            if inside > 0 {
                return Some(Plain::Container { inside, behind });
            }
            behind
        }
        _ => return None,
    };
    Some(Plain::Value { behind })
}

/// The length that a value starts with.
#[inline]
fn size(value: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*value.first_chunk()?)).ok()
}

#[inline]
fn is_zero_timestamp(element: &[u8]) -> bool {
    // Nine: the eight bytes of the value, and the zero byte that ends the name.
    element.first() == Some(&kind::TIMESTAMP) && element.ends_with(&[0; 9])
}

/// One level below the outermost document that is being read.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The offset of the name of the element that opened the level.
    name_at: u32,
    /// The offset of the level's terminating zero byte.
    end: u32,
}

/// The levels below the outermost document. Few documents have more than the first few, so the others are made when
/// they are needed: all of them have 1.4 KiB.
#[derive(Default)]
struct Levels {
    near: [Level; NEAR],
    far: Option<[Level; NESTING_MAX - 1 - NEAR]>,
    /// The number of open ones.
    open: usize,
}

/// The number of levels at hand.
const NEAR: usize = 6;

impl Levels {
    /// The level that holds what is read next. Returns `None` in the outermost document.
    #[inline]
    fn innermost(&self) -> Option<&Level> {
        let last = self.open.checked_sub(1)?;
        match last.checked_sub(NEAR) {
            None => self.near.get(last),
            Some(last) => self.far.as_ref()?.get(last),
        }
    }

    /// Opens a level. Returns `false` if there may be no more.
    #[inline]
    fn open(&mut self, level: Level) -> bool {
        let place = match self.open.checked_sub(NEAR) {
            None => self.near.get_mut(self.open),
            Some(place) => {
                self.far.get_or_insert_with(|| [Level::default(); NESTING_MAX - 1 - NEAR]).get_mut(place)
            }
        };
        let Some(place) = place else { return false };
        *place = level;
        self.open += 1;
        true
    }

    /// Closes the innermost level. Returns `false` if none is open.
    #[inline]
    fn close(&mut self) -> bool {
        let closed = self.open.checked_sub(1);
        self.open = closed.unwrap_or_default();
        closed.is_some()
    }

    /// The open levels, from the outside in.
    fn iter(&self) -> impl Iterator<Item = &Level> {
        self.near.iter().chain(self.far.iter().flatten()).take(self.open)
    }
}

/// Reads elements. When a method returns a fault, `at` is its offset.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The offset of the current element's name. `None` until its type byte is read.
    name_at: Option<usize>,
}

impl Cursor<'_> {
    fn open_outermost(&mut self) -> Result<usize, DocumentFault> {
        let limit = self.bytes.len();
        let end = self.open(limit)?;
        // An embedded document may be followed by more; the outermost one must fill its bytes.
        let excess = limit - (end + 1);
        if excess == 0 {
            return Ok(end);
        }
        self.at = end + 1;
        Err(DocumentFault::TrailingBytes { excess })
    }

    /// Steps over the length of a document that must end before `limit`. Returns the offset of its
    /// terminator.
    #[inline]
    fn open(&mut self, limit: usize) -> Result<usize, DocumentFault> {
        let start = self.at;
        let length = self.length(limit)?;
        let room = limit - start;
        let end = usize::try_from(length)
            .ok()
            .filter(|length| (EMPTY_BYTES..=room).contains(length))
            .map(|length| start + length - 1);
        let Some(end) = end else {
            self.at = start;
            return Err(DocumentFault::Length { length, room });
        };
        self.expect_zero(end)?;
        Ok(end)
    }

    fn push(&self, levels: &mut Levels, end: usize) -> Result<(), Error> {
        let level = Level { name_at: offset(self.name_at.unwrap_or(end)), end: offset(end) };
        if levels.open(level) {
            return Ok(());
        }
        // The path of the levels and of the element that would open one more.
        Err(Error::DocumentTooDeep { limit: NESTING_MAX, path: self.path(levels) })
    }

    /// Reads one element of a document whose terminator is at `end`, or finds its fault. Most elements are [`plain`] and are
    /// not read here.
    ///
    /// A document, array or scope that is not empty is only opened; the offset of its terminator is returned.
    #[inline(never)]
    fn element(&mut self, end: usize) -> Result<Option<usize>, DocumentFault> {
        let start = self.at;
        self.name_at = None;
        let type_byte = self.byte(end)?;
        self.name_at = Some(self.at);
        self.cstring(end)?;
        match type_byte {
            kind::STRING | kind::CODE | kind::SYMBOL => self.string(end)?,
            kind::INT32 => self.skip(4, end)?,
            kind::DOUBLE | kind::INT64 | kind::DATE_TIME | kind::TIMESTAMP => self.skip(8, end)?,
            kind::OBJECT_ID => self.skip(12, end)?,
            kind::BOOLEAN => self.boolean(end)?,
            kind::DOCUMENT | kind::ARRAY => {
                let inner_end = self.open(end)?;
                return Ok(self.unless_empty(inner_end));
            }
            kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY => {}
            kind::DECIMAL128 => self.skip(16, end)?,
            kind::BINARY => self.binary(end)?,
            kind::REGULAR_EXPRESSION => {
                self.cstring(end)?;
                self.cstring(end)?;
            }
            kind::DB_POINTER => {
                self.string(end)?;
                self.skip(12, end)?;
            }
            kind::CODE_WITH_SCOPE => {
                let inner_end = self.code_with_scope(end)?;
                return Ok(self.unless_empty(inner_end));
            }
            // The fault is the type byte, not the name or value that was read after it.
            _ => {
                self.at = start;
                return Err(DocumentFault::TypeUnknown { type_byte });
            }
        }
        Ok(None)
    }

    /// Steps over the terminator of an empty document, which so needs no level of its own.
    #[inline]
    fn unless_empty(&mut self, inner_end: usize) -> Option<usize> {
        if self.at == inner_end {
            self.at += 1;
            return None;
        }
        Some(inner_end)
    }

    #[inline]
    fn byte(&mut self, end: usize) -> Result<u8, DocumentFault> {
        let byte = self.bytes.get(self.at).filter(|_| self.at < end);
        // `at` is never beyond `end`, so the room does not underflow.
        let byte = byte.copied().ok_or(DocumentFault::Truncated { needed: 1, room: end - self.at })?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, needed: usize, end: usize) -> Result<(), DocumentFault> {
        let room = end - self.at;
        if needed > room {
            return Err(DocumentFault::Truncated { needed, room });
        }
        self.at += needed;
        Ok(())
    }

    #[inline]
    fn length(&mut self, end: usize) -> Result<i32, DocumentFault> {
        let bytes = self.bytes.get(self.at..end).unwrap_or_default();
        let Some(length) = bytes.first_chunk() else {
            return Err(DocumentFault::Truncated { needed: 4, room: bytes.len() });
        };
        self.at += 4;
        Ok(i32::from_le_bytes(*length))
    }

    #[inline]
    fn boolean(&mut self, end: usize) -> Result<(), DocumentFault> {
        let value = self.byte(end)?;
        if value <= 1 {
            return Ok(());
        }
        self.at -= 1;
        Err(DocumentFault::Boolean { value })
    }

    /// Reads a name: UTF-8 up to a zero byte.
    fn cstring(&mut self, end: usize) -> Result<(), DocumentFault> {
        let rest = self.bytes.get(self.at..end).unwrap_or_default();
        let (length, ascii) = name_end(rest);
        let Some((name, _)) = rest.split_at_checked(length).filter(|_| length < rest.len()) else {
            return Err(DocumentFault::TerminatorMissing { room: rest.len() });
        };
        if !ascii {
            utf8(name)?;
        }
        self.at += length + 1;
        Ok(())
    }

    /// Reads a string: a length, UTF-8, and a zero byte that the length includes.
    #[inline]
    fn string(&mut self, end: usize) -> Result<(), DocumentFault> {
        let start = self.at;
        let length = self.length(end)?;
        let room = end - self.at;
        let size = usize::try_from(length).ok().filter(|size| (1..=room).contains(size));
        let Some(text_end) = size.map(|size| self.at + size - 1) else {
            self.at = start;
            return Err(DocumentFault::Length { length, room });
        };
        // A fault counts valid bytes from `at`, so `at` moves past the text only after this check.
        utf8(self.bytes.get(self.at..text_end).unwrap_or_default())?;
        self.expect_zero(text_end)?;
        self.at = text_end + 1;
        Ok(())
    }

    fn binary(&mut self, end: usize) -> Result<(), DocumentFault> {
        let start = self.at;
        let length = self.length(end)?;
        let subtype = self.byte(end)?;
        let room = end - self.at;
        let Some(size) = usize::try_from(length).ok().filter(|size| *size <= room) else {
            self.at = start;
            return Err(DocumentFault::Length { length, room });
        };
        let after = self.at + size;
        // The deprecated subtype repeats its length before the bytes, and `bson` rejects a wrong one.
        if BinarySubtype::from(subtype) == BinarySubtype::BinaryOld {
            let inner = self.length(after)?;
            if usize::try_from(inner).ok().and_then(|inner| inner.checked_add(4)) != Some(size) {
                self.at -= 4;
                return Err(DocumentFault::BinaryLength { inner, outer: size });
            }
        }
        self.at = after;
        Ok(())
    }

    /// Reads the code and opens the scope. Returns the offset of the scope's terminator.
    fn code_with_scope(&mut self, end: usize) -> Result<usize, DocumentFault> {
        let start = self.at;
        let length = self.length(end)?;
        let room = end - start;
        let Some(declared) = usize::try_from(length).ok().filter(|size| *size <= room) else {
            self.at = start;
            return Err(DocumentFault::Length { length, room });
        };
        let after = start + declared;
        // A length below its own four bytes.
        if self.at > after {
            self.at = start;
            return Err(DocumentFault::Length { length, room });
        }
        self.string(after)?;
        let inner_end = self.open(after)?;
        // Code and scope must fill the declared length exactly: a reader that skips by it must arrive there.
        let taken = inner_end + 1 - start;
        if taken != declared {
            self.at = start;
            return Err(DocumentFault::ScopeLength { declared, taken });
        }
        Ok(inner_end)
    }

    #[inline]
    fn expect_zero(&mut self, offset: usize) -> Result<(), DocumentFault> {
        match self.bytes.get(offset) {
            Some(0) => Ok(()),
            Some(found) => {
                self.at = offset;
                Err(DocumentFault::TerminatorWrong { found: *found })
            }
            None => Err(DocumentFault::Truncated { needed: 1, room: 0 }),
        }
    }

    #[cold]
    fn malformed(&self, levels: &Levels, fault: DocumentFault) -> Error {
        Error::DocumentMalformed { offset: self.at, path: self.path(levels), fault }
    }

    /// The dotted path of the current element, for messages. Bytes that are not UTF-8 are replaced.
    fn path(&self, levels: &Levels) -> String {
        let offsets = levels.iter().map(|level| level.name_at as usize).chain(self.name_at);
        let names = offsets.map(|offset| {
            let rest = self.bytes.get(offset..).unwrap_or_default();
            let name = rest.iter().take(NAME_BYTES_SHOWN_MAX).take_while(|byte| **byte != 0).copied();
            String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned()
        });
        names.collect::<Vec<_>>().join(".")
    }
}

/// An offset in 32 bits, which halves the size of the levels. Lengths in BSON have 31 bits.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn utf8(text: &[u8]) -> Result<(), DocumentFault> {
    // Most texts are short and ASCII, and for those this test is much faster than the decoder.
    if is_ascii(text) {
        return Ok(());
    }
    match str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(DocumentFault::Utf8 { valid_up_to: error.valid_up_to() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::proptest_support::{any_value, db_pointer, nested};
    use bson::{Bson, Document, JavaScriptCodeWithScope, RawDocumentBuf, doc, rawdoc};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    const OBJECT: u8 = kind::DOCUMENT;
    const ARRAY: u8 = kind::ARRAY;

    /// A document of these elements, given without length and terminator.
    fn document(elements: &[u8]) -> Vec<u8> {
        let length = i32::try_from(elements.len() + 5).unwrap();
        [length.to_le_bytes().as_slice(), elements, &[0]].concat()
    }

    #[track_caller]
    fn check_fault(bytes: &[u8], offset: usize, path: &str, fault: DocumentFault) {
        let expected = Error::DocumentMalformed { offset, path: path.to_owned(), fault };
        assert_eq!(validate(bytes).unwrap_err(), expected);
    }

    #[track_caller]
    fn check_element(element: &[u8], offset: usize, fault: DocumentFault) {
        check_fault(&document(element), offset, "a", fault);
        let inner = [b"\x03in\0".as_slice(), &document(element)].concat();
        check_fault(&document(&inner), offset + 8, "in.a", fault);
    }

    #[track_caller]
    fn check_accepted(bytes: &[u8], nesting: usize) {
        let valid = validate(bytes).unwrap();
        assert_eq!(valid.nesting(), nesting);
        assert_eq!(valid.as_bytes(), bytes);
        walk(valid.as_raw());
        Document::try_from(valid.as_raw()).unwrap();
    }

    /// Reads everything as every later layer does, and fails at the first error.
    fn walk(document: &RawDocument) {
        let mut open = vec![document];
        while let Some(document) = open.pop() {
            for element in document.iter_elements() {
                let value = element.unwrap().value().unwrap();
                open.extend(value.as_document());
                if let Some(array) = value.as_array() {
                    open.extend(array.into_iter().filter_map(|value| value.unwrap().as_document()));
                } else if let RawBsonRef::JavaScriptCodeWithScope(code) = value {
                    open.push(code.scope);
                }
                Bson::try_from(value).unwrap();
            }
        }
    }

    #[test]
    fn the_empty_document_is_accepted() {
        check_accepted(b"\x05\0\0\0\0", 1);
    }

    #[test]
    fn every_type_is_accepted() {
        let scope = JavaScriptCodeWithScope { code: "x".into(), scope: doc! { "y": 1 } };
        let mut all = doc! {
            "double": 1.5, "string": "s\0t", "object": { "a": 1 }, "array": [1, "x"], "undefined": Bson::Undefined,
            "oid": bson::oid::ObjectId::from_bytes([7; 12]), "bool": true, "date": bson::DateTime::from_millis(-1),
            "null": Bson::Null, "regex": bson::Regex { pattern: cstr("é.*"), options: cstr("im") },
            "pointer": db_pointer("db.c", [3; 12]), "code": Bson::JavaScriptCode("f".into()), "int": 1, "long": 1_i64,
            "symbol": Bson::Symbol("s".into()), "scope": scope, "decimal": "1.5".parse::<bson::Decimal128>().unwrap(),
            "stamp": bson::Timestamp { time: 1, increment: 0 }, "min": Bson::MinKey, "max": Bson::MaxKey,
        };
        for subtype in [0, 2, 4, 0x80] {
            let bytes = vec![1, 2, 3];
            all.insert(
                format!("binary{subtype}"),
                bson::Binary { subtype: BinarySubtype::from(subtype), bytes },
            );
        }
        check_accepted(RawDocumentBuf::try_from(&all).unwrap().as_bytes(), 2);
    }

    fn cstr(text: &str) -> bson::raw::CString {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn names_may_be_empty_dotted_dollars_or_repeated() {
        check_accepted(&document(b"\x0a\0\x0a\0\x0a$x\0\x0aa.b\0\x0a$x\0"), 1);
    }

    #[test]
    fn array_keys_may_be_anything() {
        check_accepted(&document(&[b"\x04a\0".as_slice(), &document(b"\x0a7\0\x0ax\0")].concat()), 2);
    }

    #[test]
    fn lengths_of_the_document_must_fit() {
        for bytes in [b"".as_slice(), b"\x05", b"\x05\0\0"] {
            check_fault(bytes, 0, "", DocumentFault::Truncated { needed: 4, room: bytes.len() });
        }
        check_fault(b"\x05\0\0\0", 0, "", DocumentFault::Length { length: 5, room: 4 });
        check_fault(b"\x04\0\0\0", 0, "", DocumentFault::Length { length: 4, room: 4 });
        check_fault(b"\xff\xff\xff\xff\0", 0, "", DocumentFault::Length { length: -1, room: 5 });
        check_fault(b"\x06\0\0\0\0", 0, "", DocumentFault::Length { length: 6, room: 5 });
        check_fault(b"\x05\0\0\0\x01", 4, "", DocumentFault::TerminatorWrong { found: 1 });
        check_fault(b"\x05\0\0\0\0\0\0", 5, "", DocumentFault::TrailingBytes { excess: 2 });
    }

    #[test]
    fn types_must_be_known() {
        for type_byte in [0x00, 0x14, 0x7e, 0x80, 0xfe] {
            check_element(&[type_byte, b'a', 0], 4, DocumentFault::TypeUnknown { type_byte });
        }
    }

    #[test]
    fn names_must_end_and_be_utf8() {
        check_fault(&document(b"\x0aab"), 5, "ab", DocumentFault::TerminatorMissing { room: 2 });
        check_fault(&document(b"\x0a"), 5, "", DocumentFault::TerminatorMissing { room: 0 });
        check_fault(&document(b"\x0aa\xff\0"), 5, "a\u{fffd}", DocumentFault::Utf8 { valid_up_to: 1 });
        check_fault(
            &document(b"\x0a\xed\xa0\x80\0"),
            5,
            "\u{fffd}\u{fffd}\u{fffd}",
            DocumentFault::Utf8 { valid_up_to: 0 },
        );
    }

    #[test]
    fn values_must_not_be_cut_off() {
        for (type_byte, needed) in
            [(0x01, 8), (0x07, 12), (0x09, 8), (0x10, 4), (0x11, 8), (0x12, 8), (0x13, 16)]
        {
            let element = [[type_byte, b'a', 0].as_slice(), &[0].repeat(needed - 1)].concat();
            check_element(&element, 7, DocumentFault::Truncated { needed, room: needed - 1 });
        }
        check_element(b"\x08a\0", 7, DocumentFault::Truncated { needed: 1, room: 0 });
        check_element(b"\x02a\0\x01\0\0", 7, DocumentFault::Truncated { needed: 4, room: 3 });
        check_element(b"\x03a\0\x01\0\0", 7, DocumentFault::Truncated { needed: 4, room: 3 });
        check_element(b"\x05a\0\0\0\0\0", 11, DocumentFault::Truncated { needed: 1, room: 0 });
        check_element(b"\x0ca\0\x01\0\0\0\0abc", 12, DocumentFault::Truncated { needed: 12, room: 3 });
    }

    #[test]
    fn booleans_are_0_or_1() {
        check_element(b"\x08a\0\x02", 7, DocumentFault::Boolean { value: 2 });
        check_element(b"\x08a\0\xff", 7, DocumentFault::Boolean { value: 255 });
    }

    #[test]
    fn strings_need_their_length_terminator_and_utf8() {
        for type_byte in [0x02, 0x0d, 0x0e] {
            let element = |rest: &[u8]| [[type_byte, b'a', 0].as_slice(), rest].concat();
            check_element(&element(b"\0\0\0\0\0"), 7, DocumentFault::Length { length: 0, room: 1 });
            check_element(&element(b"\xff\xff\xff\xff\0"), 7, DocumentFault::Length { length: -1, room: 1 });
            check_element(&element(b"\x03\0\0\0x\0"), 7, DocumentFault::Length { length: 3, room: 2 });
            check_element(&element(b"\x02\0\0\0xy"), 12, DocumentFault::TerminatorWrong { found: b'y' });
            check_element(&element(b"\x03\0\0\0x\xc3\0"), 11, DocumentFault::Utf8 { valid_up_to: 1 });
        }
    }

    #[test]
    fn regular_expressions_are_two_terminated_utf8_texts() {
        check_element(b"\x0ba\0xy", 7, DocumentFault::TerminatorMissing { room: 2 });
        check_element(b"\x0ba\0x\0i", 9, DocumentFault::TerminatorMissing { room: 1 });
        check_element(b"\x0ba\0\xff\0\0", 7, DocumentFault::Utf8 { valid_up_to: 0 });
        check_element(b"\x0ba\0x\0\xff\0", 9, DocumentFault::Utf8 { valid_up_to: 0 });
    }

    #[test]
    fn binary_lengths_must_fit() {
        check_element(b"\x05a\0\x02\0\0\0\0x", 7, DocumentFault::Length { length: 2, room: 1 });
        check_element(b"\x05a\0\xff\xff\xff\xff\0x", 7, DocumentFault::Length { length: -1, room: 1 });
        check_element(
            b"\x05a\0\x05\0\0\0\x02\x02\0\0\0x",
            12,
            DocumentFault::BinaryLength { inner: 2, outer: 5 },
        );
        check_element(
            b"\x05a\0\x04\0\0\0\x02\xff\xff\xff\xff",
            12,
            DocumentFault::BinaryLength { inner: -1, outer: 4 },
        );
        check_element(b"\x05a\0\x03\0\0\0\x02\x02\0\0", 12, DocumentFault::Truncated { needed: 4, room: 3 });
    }

    #[test]
    fn embedded_documents_stay_inside_their_parent() {
        check_element(b"\x03a\0\x06\0\0\0\0", 7, DocumentFault::Length { length: 6, room: 5 });
        check_element(b"\x04a\0\x04\0\0\0\0", 7, DocumentFault::Length { length: 4, room: 5 });
        check_element(b"\x03a\0\x05\0\0\0\x0a", 11, DocumentFault::TerminatorWrong { found: 10 });
        check_element(b"\x04a\0\xfb\xff\xff\xff\0", 7, DocumentFault::Length { length: -5, room: 5 });
    }

    #[test]
    fn code_and_scope_fill_their_length() {
        let element =
            |length: u8| [b"\x0fa\0".as_slice(), &[length, 0, 0, 0], b"\x01\0\0\0\0\x05\0\0\0\0"].concat();
        check_accepted(&document(&element(14)), 1);
        check_element(&element(15), 7, DocumentFault::Length { length: 15, room: 14 });
        check_element(&element(13), 16, DocumentFault::Length { length: 5, room: 4 });
        check_element(&element(3), 7, DocumentFault::Length { length: 3, room: 14 });
        let longer = [element(15), vec![0]].concat();
        check_element(&longer, 7, DocumentFault::ScopeLength { declared: 15, taken: 14 });
    }

    #[test]
    fn a_long_name_is_cut_in_messages() {
        let element = [b"\x14".as_slice(), &[b'n'; 1000], b"\0"].concat();
        check_fault(&document(&element), 4, &"n".repeat(64), DocumentFault::TypeUnknown { type_byte: 0x14 });
    }

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        let bytes = rawdoc! { "a": 1, "_id": "x", "b": { "_id": 2 } };
        let valid = validate(bytes.as_bytes()).unwrap();
        assert_eq!(valid.id(), Some(RawBsonRef::String("x")));
        assert_eq!(&bytes.as_bytes()[valid.id_element().unwrap()], b"\x02_id\0\x02\0\0\0x\0");
    }

    #[test]
    fn an_id_may_be_missing() {
        let bytes = rawdoc! { "a": 1, "_idx": 2, "b": { "_id": 2 } };
        let valid = validate(bytes.as_bytes()).unwrap();
        assert_eq!((valid.id(), valid.id_element()), (None, None));
    }

    #[test]
    fn a_second_id_is_refused() {
        let bytes = document(b"\x0a_id\0\x0aa\0\x0a_id\0");
        assert_eq!(validate(&bytes).unwrap_err(), Error::DuplicateId { offset: 12 });
    }

    #[track_caller]
    fn check_zero_timestamp(document: &Document, expected: bool) {
        let bytes = RawDocumentBuf::try_from(document).unwrap();
        assert_eq!(validate(bytes.as_bytes()).unwrap().has_zero_timestamp(), expected);
    }

    #[test]
    fn zero_timestamps_count_at_the_top_level_only() {
        let stamp = |time, increment| bson::Timestamp { time, increment };
        check_zero_timestamp(&doc! { "a": 1, "b": stamp(0, 0) }, true);
        check_zero_timestamp(&doc! { "": stamp(0, 0), "b": 1 }, true);
        check_zero_timestamp(&doc! { "a": stamp(1, 0), "b": stamp(0, 1) }, false);
        check_zero_timestamp(&doc! { "a": { "b": stamp(0, 0) }, "c": 0.0, "d": 0_i64 }, false);
    }

    #[test]
    fn documents_and_arrays_are_accepted_to_180_levels() {
        for kind in [OBJECT, ARRAY] {
            // The innermost level of these is empty and does not count.
            check_accepted(&nested(NESTING_MAX, kind), NESTING_MAX);
            let path = ".".repeat(NESTING_MAX - 1);
            let too_deep = Error::DocumentTooDeep { limit: NESTING_MAX, path };
            assert_eq!(validate(&nested(NESTING_MAX + 1, kind)).unwrap_err(), too_deep);
            assert_eq!(validate(&nested(100_000, kind)).unwrap_err(), too_deep);
        }
    }

    #[test]
    fn scopes_count_as_levels() {
        let mut bytes = document(b"\x0aa\0");
        for level in 1..=NESTING_MAX {
            assert_eq!(validate(&bytes).unwrap().nesting(), level);
            let length = i32::try_from(bytes.len() + 9).unwrap().to_le_bytes();
            bytes = document(&[b"\x0fa\0".as_slice(), &length, b"\x01\0\0\0\0", &bytes].concat());
        }
        let path = vec!["a"; NESTING_MAX].join(".");
        assert_eq!(validate(&bytes).unwrap_err(), Error::DocumentTooDeep { limit: NESTING_MAX, path });
    }

    #[test]
    fn levels_side_by_side_do_not_add_up() {
        let inner = nested(NESTING_MAX - 1, OBJECT);
        let elements = [b"\x03a\0".as_slice(), &inner, b"\x04b\0", &inner, b"\x08c\0\x01"].concat();
        check_accepted(&document(&elements), NESTING_MAX);
    }

    #[test]
    fn sixteen_mebibytes_are_accepted_and_no_byte_more() {
        let sized = |size: usize| {
            let text = "x".repeat(size - document(b"\x02a\0\0\0\0\0\0").len());
            rawdoc! { "a": text }
        };
        assert!(validate(sized(DOCUMENT_BYTES_MAX).as_bytes()).is_ok());
        let too_large = Error::DocumentTooLarge { size: DOCUMENT_BYTES_MAX + 1, limit: DOCUMENT_BYTES_MAX };
        assert_eq!(validate(sized(DOCUMENT_BYTES_MAX + 1).as_bytes()).unwrap_err(), too_large);
        let (small, size) = (sized(100), 100);
        assert!(validate_up_to(small.as_bytes(), size).is_ok());
        let too_large = Error::DocumentTooLarge { size, limit: size - 1 };
        assert_eq!(validate_up_to(small.as_bytes(), size - 1).unwrap_err(), too_large);
    }

    #[test]
    fn messages_name_place_and_value() {
        let error = validate(&document(b"\x08a\0\x02")).unwrap_err();
        assert_eq!(error.to_string(), "malformed document at byte 7 in field 'a': boolean is 0x02");
    }

    proptest! {
        #[test]
        fn whatever_bson_writes_is_accepted(fields in vec(("[a-c_$.]{0,3}", any_value()), 0..6)) {
            let written = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap();
            let valid = validate(written.as_bytes()).unwrap();
            prop_assert_eq!(valid.id(), written.get("_id").unwrap());
            walk(valid.as_raw());
        }

        #[test]
        fn whatever_is_accepted_bson_reads(
            fields in vec(("[a-c]{0,2}", any_value()), 0..6),
            changes in vec((any::<Index>(), prop_oneof![0..24_u8, any::<u8>()]), 1..4),
            cut in any::<Index>(),
        ) {
            let mut bytes = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap().into_bytes();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if let Ok(valid) = validate(&bytes) {
                walk(valid.as_raw());
                Document::try_from(valid.as_raw()).unwrap();
            }
            prop_assert!(validate(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn a_plain_element_is_read_as_any_other(
            fields in vec(("[a-cä]{0,10}", any_value()), 1..6),
            changes in vec((any::<Index>(), prop_oneof![0..24_u8, any::<u8>()]), 0..3),
        ) {
            let mut bytes = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap().into_bytes();
            let end = bytes.len() - 1;
            for (place, byte) in changes {
                let place = place.index(end);
                bytes[place] = byte;
            }
            let mut cursor = Cursor { bytes: &bytes, at: 4, name_at: None };
            while cursor.at < end {
                let found = plain(&bytes[cursor.at..end]);
                let Ok(opened) = cursor.element(end) else {
                    prop_assert!(found.is_none(), "{:?}", bytes);
                    return Ok(());
                };
                let behind = match found {
                    None => end - opened.map_or(cursor.at, |inner_end| inner_end + 1),
                    Some(Plain::Value { behind }) => {
                        prop_assert_eq!(opened, None);
                        behind.len()
                    }
                    Some(Plain::Container { inside, behind }) => {
                        prop_assert_eq!(opened, Some(cursor.at + inside));
                        behind.len()
                    }
                };
                cursor.at = opened.map_or(cursor.at, |inner_end| inner_end + 1);
                prop_assert_eq!(cursor.at, end - behind);
            }
        }

        #[test]
        fn random_bytes_never_panic(elements in vec(prop_oneof![0..24_u8, any::<u8>()], 0..64)) {
            if let Ok(valid) = validate(&document(&elements)) {
                walk(valid.as_raw());
            }
            let _ = validate(&elements);
        }
    }

    #[test]
    fn every_element_of_the_top_level_is_shown() {
        let document = rawdoc! { "a": 1, "b": { "c": 2 } };
        let mut shown = Vec::new();
        validate_each(document.as_bytes(), |element| shown.push(element.to_vec())).unwrap();
        let elements: Vec<Vec<u8>> =
            crate::element::elements(document.as_bytes()).map(|element| element.whole.to_vec()).collect();
        assert_eq!(shown, elements);
    }
}
