//! MongoDB's wire protocol as bytes: pure functions between bytes and messages, without sockets.
//!
//! All bytes may come from strangers. A length is compared with the bytes that are there before it is used,
//! and nothing is allocated for an announced length alone.

pub mod checksum;
pub mod compressed;
pub mod header;
pub mod message;
pub mod query;
pub mod reply;

/// The largest message in bytes, its header included.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// The reason why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The message is too short for a header, or too long.
    #[error("a message of {0} bytes is not between 16 and {MESSAGE_BYTES_MAX}")]
    MessageLength(i32),
    /// The server does not answer messages of this kind.
    #[error("opcode {0} is not supported")]
    Opcode(i32),
    /// The message has required flag bits that the server does not know.
    #[error("the message has unknown required flags {0:#x}")]
    Flags(u32),
    /// The message ends before what it announces.
    #[error("the message ends within {0}")]
    Truncated(&'static str),
    /// Bytes follow the last part of the message.
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
    /// The checksum differs.
    #[error("the checksum of the message is {found:#010x}, not {expected:#010x}")]
    Checksum {
        /// The checksum in the message.
        found: u32,
        /// The checksum of its bytes.
        expected: u32,
    },
    /// The message has a section of an unknown kind.
    #[error("section kind {0} is not known")]
    SectionKind(u8),
    /// The message has no body, or more than one.
    #[error("the message has {0} bodies, not one")]
    Bodies(usize),
    /// Two sections have the same name.
    #[error("the message has two sections named '{0}'")]
    SectionTwice(String),
    /// The message has more sections than any command needs.
    #[error("the message has more than {0} sections of documents")]
    Sections(usize),
    /// A section announces a length that the message does not have.
    #[error("a section announces {announced} bytes where {found} are left")]
    SectionLength {
        /// The announced length.
        announced: i32,
        /// The bytes that are left of the message.
        found: usize,
    },
    /// A name is not UTF-8.
    #[error("a name is not UTF-8")]
    Name,
    /// The body is not a document.
    #[error("the body is not a document: {0}")]
    Document(String),
    /// The compressor is unknown, or both sides did not agree on it.
    #[error("compressor {0} was not agreed on")]
    Compressor(u8),
    /// The compressed bytes are malformed, or do not have the announced length.
    #[error("the compressed message does not contain the {announced} bytes that it announces: {reason}")]
    Decompression {
        /// The announced length.
        announced: i32,
        /// The error of the compressor.
        reason: String,
    },
}

/// Reads and removes a 32-bit integer at the front of `bytes`.
fn take_i32(bytes: &mut &[u8], what: &'static str) -> Result<i32, FrameError> {
    let (front, rest) = bytes.split_first_chunk().ok_or(FrameError::Truncated(what))?;
    *bytes = rest;
    Ok(i32::from_le_bytes(*front))
}

/// Reads and removes a name with its closing NUL at the front of `bytes`.
fn take_name<'a>(bytes: &mut &'a [u8], what: &'static str) -> Result<&'a str, FrameError> {
    // The name is searched for its NUL within the bytes that are there, so a name without an end is an error.
    let end = bytes.iter().position(|&byte| byte == 0).ok_or(FrameError::Truncated(what))?;
    let (name, rest) = bytes.split_at(end);
    // Without the NUL.
    *bytes = rest.get(1..).unwrap_or_default();
    std::str::from_utf8(name).map_err(|_| FrameError::Name)
}

/// Reads and removes a document at the front of `bytes`, by the length that it begins with.
fn take_document<'a>(bytes: &mut &'a [u8], what: &'static str) -> Result<&'a [u8], FrameError> {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    let length = length.ok_or(FrameError::Truncated(what))?;
    let length = usize::try_from(length).map_err(|_| FrameError::Truncated(what))?;
    // A checked split: the announced length may be beyond the end of the message.
    let (document, rest) = bytes.split_at_checked(length).ok_or(FrameError::Truncated(what))?;
    // Checks the length and the final NUL alone. The fields are checked when they are read.
    cairndb::bson::RawDocument::from_bytes(document)
        .map_err(|error| FrameError::Document(error.to_string()))?;
    *bytes = rest;
    Ok(document)
}
