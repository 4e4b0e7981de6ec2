//! `OP_MSG`: a command or its answer, with a body and with sequences of documents outside of the body.

use bytes::{BufMut, Bytes};

use crate::frame::checksum::{self, CHECKSUM_BYTES};
use crate::frame::header::{HEADER_BYTES, Header, OP_MSG};
use crate::frame::{FrameError, take_document, take_i32, take_name};

/// The flag of a message that ends with a checksum.
pub const CHECKSUM_PRESENT: u32 = 1;
/// The flag of a message after which the sender sends another one, or waits for no answer.
pub const MORE_TO_COME: u32 = 1 << 1;
/// The flag of a command whose sender accepts several answers.
pub const EXHAUST_ALLOWED: u32 = 1 << 16;
/// A message with an unknown flag among these bits must be rejected.
const REQUIRED_FLAGS: u32 = 0xffff;
/// The highest number of document sequences in a message. No command has more than two.
const SEQUENCES_MAX: usize = 16;
/// The number of characters of a sequence's name that an error shows.
const NAME_CHARS_SHOWN_MAX: usize = 64;
/// The bytes before the body of an answer: the header, the flags and the kind of the first section.
pub const ANSWER_FRONT_BYTES: usize = HEADER_BYTES + 4 + 1;

/// A command or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The flag bits.
    pub flags: u32,
    /// The document of the only section of kind 0. Only its length was checked.
    pub body: Bytes,
    /// The sections of kind 1.
    pub sequences: Vec<DocumentSequence>,
}

/// Documents of a command that are sent outside of its body, one after the other.
///
/// ```
/// use cairndb::bson::rawdoc;
/// use cairndb_server::frame::message::{DocumentSequence, Message};
///
/// let document = rawdoc! { "_id": 1 }.into_bytes();
/// let documents = DocumentSequence { field: "documents".to_owned(), documents: document.into() };
/// let body = rawdoc! { "insert": "things", "$db": "shop" }.into_bytes().into();
/// let insert = Message { flags: 0, body, sequences: vec![documents] };
/// assert_eq!(Message::parse(&insert.bytes(1, 0).into())?.sequences, insert.sequences);
/// # Ok::<(), cairndb_server::frame::FrameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSequence {
    /// The field of the command to which the documents belong.
    pub field: String,
    /// The bytes of the documents, which were not checked.
    pub documents: Bytes,
}

impl Message {
    /// Reads a whole message, its header included. Body and documents share its bytes.
    ///
    /// # Errors
    /// Unknown required flags, a wrong checksum, sections that do not fill the message.
    ///
    /// The example of [`DocumentSequence`] reads one.
    pub fn parse(message: &Bytes) -> Result<Self, FrameError> {
        let mut rest = message.get(HEADER_BYTES..).ok_or(FrameError::Truncated("the header"))?;
        let flags = take_i32(&mut rest, "the flags")?.cast_unsigned();
        // By the protocol the upper 16 bits are optional, and a receiver ignores those that it does not know.
        let unknown = flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME);
        if unknown != 0 {
            return Err(FrameError::Flags(unknown));
        }
        // Before the sections are read: what a broken network changed must not be understood by half.
        if flags & CHECKSUM_PRESENT != 0 {
            checksum::verify(message)?;
            rest = rest.split_last_chunk::<CHECKSUM_BYTES>().ok_or(FrameError::Truncated("the checksum"))?.0;
        }
        // Sections may come in any order, so the body is known only at the end.
        let (mut body, mut sequences) = (None, Vec::new());
        while let Some((&kind, section)) = rest.split_first() {
            rest = section;
            match kind {
                0 if body.is_some() => return Err(FrameError::Bodies(2)),
                0 => body = Some(take_document(&mut rest, "the body")?),
                1 => add_sequence(take_sequence(message, &mut rest)?, &mut sequences)?,
                other => return Err(FrameError::SectionKind(other)),
            }
        }
        let body = body.ok_or(FrameError::Bodies(0))?;
        Ok(Self { flags, body: message.slice_ref(body), sequences })
    }

    /// Whether the sender accepts several answers to this command.
    pub fn allows_exhaust(&self) -> bool {
        self.flags & EXHAUST_ALLOWED != 0
    }

    /// Whether the sender waits for no answer.
    pub fn wants_no_answer(&self) -> bool {
        self.flags & MORE_TO_COME != 0
    }

    /// The message as bytes. It ends with a checksum if its flags say so.
    pub fn bytes(&self, request_id: i32, response_to: i32) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.put_u32_le(self.flags);
        bytes.put_u8(0);
        bytes.extend_from_slice(&self.body);
        for DocumentSequence { field, documents } in &self.sequences {
            let length = 4 + field.len() + 1 + documents.len();
            bytes.put_u8(1);
            bytes.put_i32_le(i32::try_from(length).unwrap_or(i32::MAX));
            bytes.extend_from_slice(field.as_bytes());
            bytes.put_u8(0);
            bytes.extend_from_slice(documents);
        }
        let has_checksum = self.flags & CHECKSUM_PRESENT != 0;
        let length = bytes.len() + if has_checksum { CHECKSUM_BYTES } else { 0 };
        write_header(&mut bytes, Header { length, request_id, response_to, opcode: OP_MSG });
        if has_checksum {
            let checksum = checksum::of(&bytes);
            bytes.extend_from_slice(&checksum);
        }
        bytes
    }
}

/// Completes an answer: writes the header and the flags into the [`ANSWER_FRONT_BYTES`] that were left free
/// before its document.
pub fn finish_answer(bytes: &mut [u8], request_id: i32, response_to: i32) {
    let header = Header { length: bytes.len(), request_id, response_to, opcode: OP_MSG };
    write_header(bytes, header);
    // No flags, and a section of kind 0.
    if let Some(front) = bytes.get_mut(HEADER_BYTES..ANSWER_FRONT_BYTES) {
        front.fill(0);
    }
}

/// Marks an answer as one after which another answer follows.
pub fn announce_another(bytes: &mut [u8]) {
    if let Some(flags) = bytes.get_mut(HEADER_BYTES..HEADER_BYTES + 4) {
        flags.copy_from_slice(&MORE_TO_COME.to_le_bytes());
    }
}

fn write_header(bytes: &mut [u8], header: Header) {
    if let Some(front) = bytes.first_chunk_mut() {
        *front = header.bytes();
    }
}

/// Adds a sequence. A sequence in memory needs more than an empty section of a message, so their number is
/// bounded.
fn add_sequence(sequence: DocumentSequence, sequences: &mut Vec<DocumentSequence>) -> Result<(), FrameError> {
    // As in MongoDB. It also keeps the number of sequences below that of the fields of a command.
    if sequences.iter().any(|other| other.field == sequence.field) {
        return Err(FrameError::SectionTwice(sequence.field.chars().take(NAME_CHARS_SHOWN_MAX).collect()));
    }
    if sequences.len() == SEQUENCES_MAX {
        return Err(FrameError::Sections(SEQUENCES_MAX));
    }
    sequences.push(sequence);
    Ok(())
}

fn take_sequence(message: &Bytes, rest: &mut &[u8]) -> Result<DocumentSequence, FrameError> {
    let left = rest.len();
    let announced = take_i32(rest, "the size of a section")?;
    // The length includes its own four bytes, so a smaller one is never right.
    let wrong = FrameError::SectionLength { announced, found: left };
    let length = usize::try_from(announced).ok().filter(|&length| length >= 4).ok_or(wrong.clone())?;
    let (mut section, following) = rest.split_at_checked(length - 4).ok_or(wrong)?;
    *rest = following;
    let field = take_name(&mut section, "the name of a section")?.to_owned();
    Ok(DocumentSequence { field, documents: message.slice_ref(section) })
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{RawDocumentBuf, rawdoc};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn body() -> Bytes {
        rawdoc! { "ping": 1, "$db": "admin" }.into_bytes().into()
    }

    fn message(flags: u32) -> Message {
        Message { flags, body: body(), sequences: Vec::new() }
    }

    #[track_caller]
    fn refuse(bytes: Vec<u8>, expected: &FrameError) {
        assert_eq!(Message::parse(&bytes.into()).as_ref(), Err(expected));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        refuse(message(1 << 2).bytes(1, 0), &FrameError::Flags(4));
        refuse(message(1 << 15).bytes(1, 0), &FrameError::Flags(1 << 15));
        let mut kind = message(0).bytes(1, 0);
        kind[20] = 7;
        refuse(kind, &FrameError::SectionKind(7));
        let whole = message(0).bytes(1, 0);
        refuse(whole[..20].to_vec(), &FrameError::Bodies(0));
        refuse([&whole[..], &whole[20..]].concat(), &FrameError::Bodies(2));
        refuse(whole[..whole.len() - 1].to_vec(), &FrameError::Truncated("the body"));
        refuse(whole[..18].to_vec(), &FrameError::Truncated("the flags"));
        refuse(
            [&whole[..], &[1, 3, 0, 0, 0]].concat(),
            &FrameError::SectionLength { announced: 3, found: 4 },
        );
        refuse(
            [&whole[..], &[1, 255, 0, 0, 0, 0]].concat(),
            &FrameError::SectionLength { announced: 255, found: 5 },
        );
        refuse(
            [&whole[..], &[1, 255, 255, 255, 255]].concat(),
            &FrameError::SectionLength { announced: -1, found: 4 },
        );
        refuse([&whole[..], &[1, 5, 0, 0, 0, 65]].concat(), &FrameError::Truncated("the name of a section"));
        refuse([&whole[..], &[1, 6, 0, 0, 0, 255, 0]].concat(), &FrameError::Name);
    }

    /// Eight million empty sections of one name once used nine times the message.
    #[test]
    fn sections_are_few_and_have_different_names() {
        let whole = message(0).bytes(1, 0);
        let section = |name: u8| [1, 6, 0, 0, 0, name, 0];
        refuse(
            [&whole[..], &section(b'a'), &section(b'a')].concat(),
            &FrameError::SectionTwice("a".to_owned()),
        );
        let many: Vec<u8> = (b'a'..=b'p').flat_map(section).collect();
        assert!(
            Message::parse(&[&whole[..], &many].concat().into()).is_ok_and(|read| read.sequences.len() == 16)
        );
        refuse([&whole[..], &many, &section(b'q')].concat(), &FrameError::Sections(16));
    }

    #[test]
    fn a_wrong_checksum_is_refused() {
        let mut bytes = message(CHECKSUM_PRESENT).bytes(1, 0);
        assert_eq!(Message::parse(&bytes.clone().into()), Ok(message(CHECKSUM_PRESENT)));
        *bytes.last_mut().expect("bytes") ^= 1;
        assert!(matches!(Message::parse(&bytes.into()), Err(FrameError::Checksum { .. })));
    }

    #[test]
    fn optional_flags_are_tolerated() {
        let message = message(EXHAUST_ALLOWED | 1 << 31 | MORE_TO_COME);
        assert_eq!(Message::parse(&message.bytes(1, 0).into()), Ok(message));
    }

    proptest! {
        #[test]
        fn messages_come_back(flags in 0_u32..4, fields in btree_map("[a-z]{0,8}", vec(any::<i32>(), 0..5), 0..4)) {
            let sequences = fields.into_iter().map(|(field, numbers)| {
                let documents = numbers.into_iter().flat_map(|n| rawdoc! { "n": n }.into_bytes()).collect::<Vec<u8>>();
                DocumentSequence { field, documents: documents.into() }
            });
            let message = Message { flags, body: body(), sequences: sequences.collect() };
            prop_assert_eq!(Message::parse(&message.bytes(7, 8).into()), Ok(message));
        }

        #[test]
        fn whatever_comes_is_a_message_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
            let message = [vec![0; HEADER_BYTES + 4], bytes].concat();
            if let Ok(message) = Message::parse(&message.into()) {
                prop_assert!(RawDocumentBuf::from_bytes(message.body.to_vec()).is_ok());
            }
        }
    }

    #[test]
    fn flags_say_how_many_answers_there_are() {
        let exhaust = message(EXHAUST_ALLOWED);
        assert!(exhaust.allows_exhaust() && !exhaust.wants_no_answer());
        let mut answer = [&[0; ANSWER_FRONT_BYTES][..], &[5, 0, 0, 0, 0]].concat();
        finish_answer(&mut answer, 2, 1);
        assert_eq!(answer[0], 26);
        assert!(!Message::parse(&answer.clone().into()).expect("an answer").wants_no_answer());
        announce_another(&mut answer);
        assert!(Message::parse(&answer.into()).expect("an answer").wants_no_answer());
    }
}
