//! MongoDB's wire protocol as bytes: pure functions from bytes to messages and back, without sockets.
//!
//! Everything here takes bytes of strangers: a length is compared with what is there before it is used, and nothing is
//! allocated by an announced length alone.

pub mod checksum;
pub mod compressed;
pub mod header;
pub mod message;
pub mod query;
pub mod reply;

/// The largest message, its header included.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A message of that length is too short for a header, or longer than is taken.
    #[error("a message of {0} bytes is not between 16 and {MESSAGE_BYTES_MAX}")]
    MessageLength(i32),
    /// Not an opcode that is answered.
    #[error("opcode {0} is not supported")]
    Opcode(i32),
    /// Required flag bits that mean nothing here.
    #[error("the message has unknown required flags {0:#x}")]
    Flags(u32),
    /// The message ends before what it announces.
    #[error("the message ends within {0}")]
    Truncated(&'static str),
    /// Bytes stand behind the last part of the message.
    #[error("{0} bytes stand behind the end of the message")]
    Trailing(usize),
    /// The checksum differs.
    #[error("the checksum of the message is {found:#010x}, not {expected:#010x}")]
    Checksum {
        /// What the message says.
        found: u32,
        /// What its bytes give.
        expected: u32,
    },
    /// A section of a kind that is not known.
    #[error("section kind {0} is not known")]
    SectionKind(u8),
    /// There is no body, or more than one.
    #[error("the message has {0} bodies, not one")]
    Bodies(usize),
    /// Two sections have the same name.
    #[error("the message has two sections named '{0}'")]
    SectionTwice(String),
    /// There are more sections than any command has.
    #[error("the message has more than {0} sections of documents")]
    Sections(usize),
    /// The size of a section is not that of its documents.
    #[error("a section announces {announced} bytes where {found} are left")]
    SectionLength {
        /// What it announces.
        announced: i32,
        /// What is left of the message.
        found: usize,
    },
    /// A name is not UTF-8.
    #[error("a name is not UTF-8")]
    Name,
    /// The body is not a document.
    #[error("the body is not a document: {0}")]
    Document(String),
    /// The compressor is not known, or was not agreed on.
    #[error("compressor {0} was not agreed on")]
    Compressor(u8),
    /// The compressed bytes do not give what they announce.
    #[error("the compressed message does not give the {announced} bytes that it announces: {reason}")]
    Decompression {
        /// What it announces.
        announced: i32,
        /// What the compressor said.
        reason: String,
    },
}

/// Takes a 32-bit integer off the front.
fn take_i32(bytes: &mut &[u8], what: &'static str) -> Result<i32, FrameError> {
    let (front, rest) = bytes.split_first_chunk().ok_or(FrameError::Truncated(what))?;
    *bytes = rest;
    Ok(i32::from_le_bytes(*front))
}

/// Takes a name with its closing NUL off the front.
fn take_name<'a>(bytes: &mut &'a [u8], what: &'static str) -> Result<&'a str, FrameError> {
    let end = bytes.iter().position(|&byte| byte == 0).ok_or(FrameError::Truncated(what))?;
    let (name, rest) = bytes.split_at(end);
    *bytes = rest.get(1..).unwrap_or_default();
    std::str::from_utf8(name).map_err(|_| FrameError::Name)
}

/// Takes a document, by the length that it begins with, off the front.
fn take_document<'a>(bytes: &mut &'a [u8], what: &'static str) -> Result<&'a [u8], FrameError> {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    let length = length.ok_or(FrameError::Truncated(what))?;
    let length = usize::try_from(length).map_err(|_| FrameError::Truncated(what))?;
    let (document, rest) = bytes.split_at_checked(length).ok_or(FrameError::Truncated(what))?;
    cairndb::bson::RawDocument::from_bytes(document)
        .map_err(|error| FrameError::Document(error.to_string()))?;
    *bytes = rest;
    Ok(document)
}
