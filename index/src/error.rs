//! The one error type of this crate: what can be wrong with key bytes, definitions and documents.
//!
//! A variant names the thing and the value. Texts are lower case and end without a full stop, so
//! that a caller can put its own context in front.

use thiserror::Error;

/// Errors of the functions of this crate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Key bytes end in the middle of an encoded field.
    #[error("key ends within a field")]
    KeyTruncated,
    /// Key bytes hold something that no value encodes to.
    #[error("key holds {value:#04x} where {expected} is expected")]
    KeyMalformed {
        /// The byte that the layout demands there.
        expected: &'static str,
        /// The byte found there, with the complement of a descending field undone.
        value: u8,
    },
    /// Key bytes hold a number beyond the range and precision of every type.
    #[error("key holds a number that no type has")]
    KeyNumberUnrepresentable,
    /// Type bytes do not belong to their key.
    #[error("type bytes do not fit the key: {expected} is expected")]
    TypesMalformed {
        /// The type bytes that the key demands.
        expected: &'static str,
    },
    /// Key bytes hold a value nested more deeply than any value that may be stored.
    #[error("key is nested more than {limit} levels deep")]
    KeyTooDeep {
        /// The number of levels that are read.
        limit: usize,
    },
    /// Bytes are not one well-formed document.
    #[error("malformed document at byte {offset}{}: {fault}", in_field(path))]
    DocumentMalformed {
        /// The offset of the fault, in bytes from the start of the outermost document.
        offset: usize,
        /// The dotted path of the field at fault; empty if the outermost document itself is at fault.
        path: String,
        /// The fault there.
        fault: DocumentFault,
    },
    /// A document is longer than any that may be stored.
    #[error("document of {size} bytes is larger than the limit of {limit} bytes")]
    DocumentTooLarge {
        /// The document's length in bytes.
        size: usize,
        /// The largest length that is accepted, in bytes.
        limit: usize,
    },
    /// A document is nested more deeply than any that may be stored.
    #[error("document exceeds {limit} levels of nesting at '{}'", start_of(path))]
    DocumentTooDeep {
        /// The number of levels that are accepted.
        limit: usize,
        /// The dotted path of the first field beyond the limit.
        path: String,
    },
    /// A document has two top-level fields `_id`.
    #[error("document has more than one field '_id': the second is at byte {offset}")]
    DuplicateId {
        /// The offset of the second one, in bytes from the start of the document.
        offset: usize,
    },
    /// A dotted path cannot be read.
    #[error("invalid path '{path}': {fault}")]
    PathInvalid {
        /// The path as given.
        path: String,
        /// The reason.
        fault: PathFault,
    },
    /// An index definition has too few or too many fields.
    #[error("an index has 1 to {limit} fields, not {count}")]
    IndexFieldCount {
        /// The number of fields given.
        count: usize,
        /// The largest number accepted.
        limit: usize,
    },
    /// An index definition names a field twice.
    #[error("index key names the field '{field}' twice")]
    IndexFieldTwice {
        /// The field's dotted path.
        field: String,
    },
    /// The value of a field in an index definition is not a direction.
    #[error("index field '{field}' needs a non-zero number or the name of an index kind, not {value}")]
    IndexDirectionInvalid {
        /// The field's dotted path.
        field: String,
        /// The value given, as relaxed extended JSON.
        value: String,
    },
    /// An index definition asks for a kind of index that MongoDB has and this store does not support.
    #[error("index kind '{kind}' of field '{field}' is not supported")]
    IndexKindUnsupported {
        /// The field's dotted path.
        field: String,
        /// The kind asked for.
        kind: String,
    },
    /// A wildcard index is declared with an option that it cannot have.
    #[error("Index type 'wildcard' does not support the {option} option")]
    WildcardOption {
        /// The option.
        option: &'static str,
    },
    /// The paths of a wildcard index are not declared as they must be.
    #[error("the field 'wildcardProjection' is not valid: {reason}")]
    WildcardProjection {
        /// The reason.
        reason: String,
    },
    /// Two fields of a compound index lie in different arrays of one document.
    #[error("cannot index parallel arrays [{second}] [{first}]")]
    ParallelArrays {
        /// The last name on the way to the array found later.
        second: String,
        /// The last name on the way to the array found first.
        first: String,
    },
    /// A numeric path component is both a position of an array and a field of one of its elements.
    #[error("ambiguous field name '{field}' in array: it is a position and a field of an element")]
    AmbiguousPosition {
        /// The component.
        field: String,
    },
    /// A document has more keys in one index than is allowed.
    #[error("document has more than {limit} keys in one index")]
    TooManyKeys {
        /// The largest number accepted.
        limit: usize,
    },
    /// The keys of a document in one index use more bytes than is allowed.
    #[error("keys of a document in one index take more than {limit} bytes")]
    KeysTooLarge {
        /// The largest total accepted, in bytes.
        limit: usize,
    },
}

/// A flaw in the bytes of a malformed document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DocumentFault {
    /// A length is negative, too small, or larger than what encloses it.
    #[error("length {length} is not possible where {room} bytes remain")]
    Length {
        /// The length that is declared.
        length: i32,
        /// The number of bytes that remain there in the enclosing document.
        room: usize,
    },
    /// A value is cut off by the end of its document.
    #[error("{needed} bytes are needed where {room} remain")]
    Truncated {
        /// The length of the value in bytes.
        needed: usize,
        /// The number of bytes that remain there in the enclosing document.
        room: usize,
    },
    /// Bytes follow the end of the document.
    #[error("{excess} bytes follow the document")]
    TrailingBytes {
        /// The number of bytes after the end.
        excess: usize,
    },
    /// A string or document does not end in a zero byte.
    #[error("{found:#04x} in place of the terminating zero byte")]
    TerminatorWrong {
        /// The byte found there.
        found: u8,
    },
    /// A name or regular expression runs to the end of its document.
    #[error("no terminating zero byte in {room} bytes")]
    TerminatorMissing {
        /// The number of searched bytes.
        room: usize,
    },
    /// A type byte that BSON does not define.
    #[error("unknown type {type_byte:#04x}")]
    TypeUnknown {
        /// The byte.
        type_byte: u8,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("boolean is {value:#04x}")]
    Boolean {
        /// The byte.
        value: u8,
    },
    /// A name or string is not UTF-8.
    #[error("invalid UTF-8 after {valid_up_to} bytes of text")]
    Utf8 {
        /// The number of bytes of the text that are valid.
        valid_up_to: usize,
    },
    /// The inner length of a binary value of subtype 2 is not four less than the outer one.
    #[error("inner length {inner} does not fit the binary value of {outer} bytes")]
    BinaryLength {
        /// The inner length.
        inner: i32,
        /// The outer length.
        outer: usize,
    },
    /// Code and scope do not fill exactly the length declared for both.
    #[error("code and scope take {taken} bytes where {declared} are declared")]
    ScopeLength {
        /// The length declared for both, in bytes.
        declared: usize,
        /// The length of code and scope, in bytes.
        taken: usize,
    },
}

/// A flaw of a dotted path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathFault {
    /// The path is empty.
    #[error("it is empty")]
    Empty,
    /// The path starts or ends with a dot, or has two in a row.
    #[error("component {component} is empty")]
    EmptyComponent {
        /// Which component, counted from 0.
        component: usize,
    },
    /// A zero byte, which no field name can hold.
    #[error("it holds a zero byte at {offset}")]
    ZeroByte {
        /// The offset of the zero byte, in bytes from the start of the path.
        offset: usize,
    },
    /// A component starts with a dollar sign and is not one of a reference's `$ref`, `$id` and `$db`.
    #[error("component {component} starts with '$'")]
    DollarComponent {
        /// Which component, counted from 0.
        component: usize,
    },
}

/// The number of characters of a path that an error message repeats.
const PATH_CHARACTERS_MAX: usize = 64;

/// ` in field 'path'`, or an empty text for the document itself.
fn in_field(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" in field '{}'", start_of(path)) }
}

/// The beginning of a path, cut so that a path of a hundred parts does not fill the log.
fn start_of(path: &str) -> String {
    let mut letters = path.chars();
    let start = letters.by_ref().take(PATH_CHARACTERS_MAX).collect::<String>();
    if letters.next().is_some() { start + "..." } else { start }
}
