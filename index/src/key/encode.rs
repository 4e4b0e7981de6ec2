//! From values to key bytes.
//!
//! Scalars are written directly. Documents and arrays are walked with a stack on the heap, so that
//! no nesting overflows the thread's stack. A malformed nested element ends its container.

use bson::{RawBinaryRef, RawBsonRef, RawDbPointerRef, Timestamp};

use super::bytes::{write_len, write_text};
use super::layout::{
    CLASS_MASK, Direction, END, TAG_ARRAY, TAG_BINARY, TAG_CODE, TAG_CODE_WITH_SCOPE, TAG_DATE,
    TAG_DB_POINTER, TAG_FALSE, TAG_MAX_KEY, TAG_MIN_KEY, TAG_NULL, TAG_OBJECT, TAG_OBJECT_ID,
    TAG_REGULAR_EXPRESSION, TAG_STRING, TAG_TIMESTAMP, TAG_TRUE, TAG_UNDEFINED, TYPE_STRING, TYPE_SYMBOL,
    first_bytes,
};
use super::number::{write_double, write_integer, write_number};
use super::type_bytes::Types;
use crate::number::Number;
use crate::order::{Container, Member, pointer_bytes, stored_binary_len, type_class};

/// Appends one field to `key`, and its type bytes to `types`.
#[inline]
pub(super) fn encode_field<T: Types>(
    value: RawBsonRef<'_>,
    direction: Direction,
    key: &mut Vec<u8>,
    types: &mut T,
) {
    let start = key.len();
    if let Some(container) = write_value(value, key, types) {
        write_elements(container, key, types);
    }
    // The complement reverses the order of whole fields only because no field is a prefix of another.
    if direction == Direction::Descending {
        key.get_mut(start..).unwrap_or_default().iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends a value without its elements. Returns the elements, if it has any.
#[inline]
fn write_value<'v, T: Types>(
    value: RawBsonRef<'v>,
    key: &mut Vec<u8>,
    types: &mut T,
) -> Option<Container<'v>> {
    match value {
        // Numbers and texts have type bytes: their classes are the only ones with more than one type.
        RawBsonRef::ObjectId(id) => write_tagged(TAG_OBJECT_ID, id.bytes(), key),
        RawBsonRef::Int32(integer) => {
            write_integer(i64::from(integer), key);
            types.note_number(value);
        }
        RawBsonRef::Int64(integer) => {
            write_integer(integer, key);
            types.note_number(value);
        }
        RawBsonRef::Double(double) => {
            write_double(double, key);
            types.note_number(value);
        }
        RawBsonRef::Decimal128(decimal) => {
            write_number(Number::from_decimal128(decimal), key);
            types.note_number(value);
        }
        RawBsonRef::String(text) => {
            write_tagged_text(TAG_STRING, text, key);
            types.note(&[TYPE_STRING]);
        }
        RawBsonRef::Symbol(text) => {
            write_tagged_text(TAG_STRING, text, key);
            types.note(&[TYPE_SYMBOL]);
        }
        RawBsonRef::Boolean(false) => key.push(TAG_FALSE),
        RawBsonRef::Boolean(true) => key.push(TAG_TRUE),
        RawBsonRef::DateTime(date) => write_tagged(TAG_DATE, signed_bytes(date.timestamp_millis()), key),
        RawBsonRef::Null => key.push(TAG_NULL),
        RawBsonRef::Undefined => key.push(TAG_UNDEFINED),
        RawBsonRef::MinKey => key.push(TAG_MIN_KEY),
        RawBsonRef::MaxKey => key.push(TAG_MAX_KEY),
        RawBsonRef::Binary(binary) => write_binary(binary, key),
        RawBsonRef::Timestamp(Timestamp { time, increment }) => {
            // MongoDB compares the time first, which BSON stores last.
            write_tagged(TAG_TIMESTAMP, (u64::from(time) << 32 | u64::from(increment)).to_be_bytes(), key);
        }
        RawBsonRef::RegularExpression(expression) => {
            write_tagged_text(TAG_REGULAR_EXPRESSION, expression.pattern.as_str(), key);
            write_text(expression.options.as_str().as_bytes(), key);
        }
        RawBsonRef::DbPointer(pointer) => write_pointer(pointer, key),
        RawBsonRef::JavaScriptCode(code) => write_tagged_text(TAG_CODE, code, key),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            write_tagged_text(TAG_CODE_WITH_SCOPE, code.code, key);
            return Some(Container::document(code.scope));
        }
        RawBsonRef::Document(document) => {
            key.push(TAG_OBJECT);
            return Some(Container::document(document));
        }
        RawBsonRef::Array(array) => {
            key.push(TAG_ARRAY);
            return Some(Container::Array(array.into_iter()));
        }
    }
    None
}

/// Appends all elements of a container, of the containers in it, and their ends.
fn write_elements<T: Types>(container: Container<'_>, key: &mut Vec<u8>, types: &mut T) {
    // The deepest container is last. Four levels fit most documents without growing.
    let mut open = Vec::with_capacity(4);
    open.push(container);
    while let Some(container) = open.last_mut() {
        let Some(Member { name, value }) = container.next() else {
            key.push(END);
            open.pop();
            continue;
        };
        // Fields of documents compare by class, then name, then value, so the class comes before the name.
        if let Some(name) = name {
            key.push(first_bytes(type_class(value)).start() & CLASS_MASK);
            write_text(name.as_bytes(), key);
        }
        open.extend(write_value(value, key, types));
    }
}

#[inline]
fn write_tagged<const N: usize>(tag: u8, bytes: [u8; N], key: &mut Vec<u8>) {
    key.reserve(N + 1);
    key.push(tag);
    key.extend_from_slice(&bytes);
}

#[inline]
fn write_tagged_text(tag: u8, text: &str, key: &mut Vec<u8>) {
    key.reserve(text.len() + 2);
    key.push(tag);
    write_text(text.as_bytes(), key);
}

/// The bytes of a signed integer with the sign bit inverted, which sort by value.
#[inline]
fn signed_bytes(value: i64) -> [u8; 8] {
    (value ^ i64::MIN).to_be_bytes()
}

fn write_binary(binary: RawBinaryRef<'_>, key: &mut Vec<u8>) {
    key.push(TAG_BINARY);
    // MongoDB compares the length first, then the subtype. With the length known, the bytes need no escapes.
    write_len(stored_binary_len(binary), key);
    key.push(binary.subtype.into());
    key.extend_from_slice(binary.bytes);
}

fn write_pointer(pointer: RawDbPointerRef<'_>, key: &mut Vec<u8>) {
    let bytes = pointer_bytes(pointer);
    key.push(TAG_DB_POINTER);
    // The id has a fixed size, so the length of the namespace orders pointers as their whole length does.
    write_len(bytes.len().saturating_sub(12), key);
    key.extend_from_slice(&bytes);
}
