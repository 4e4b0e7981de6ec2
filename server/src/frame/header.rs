//! The 16 bytes at the beginning of every message.

use crate::frame::{FrameError, MESSAGE_BYTES_MAX};

/// The length of a header, in bytes.
pub const HEADER_BYTES: usize = 16;
/// The opcode of the answer to an [`OP_QUERY`].
pub const OP_REPLY: i32 = 1;
/// The opcode of a query of the legacy protocol. Here it is only the first hello of a connection.
pub const OP_QUERY: i32 = 2004;
/// The opcode of a compressed message.
pub const OP_COMPRESSED: i32 = 2012;
/// The opcode of a command or its answer.
pub const OP_MSG: i32 = 2013;

/// A message's length, numbers and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the whole message, in bytes.
    pub length: usize,
    /// The sender's number of the message.
    pub request_id: i32,
    /// The number of the message that this one answers.
    pub response_to: i32,
    /// The kind of the message.
    pub opcode: i32,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`FrameError::MessageLength`] for a length that no message can have.
    ///
    /// ```
    /// use cairndb_server::frame::header::{Header, OP_MSG};
    ///
    /// let bytes = [16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0];
    /// assert_eq!(Header::parse(&bytes)?.opcode, OP_MSG);
    /// # Ok::<(), cairndb_server::frame::FrameError>(())
    /// ```
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let (fields, _) = bytes.as_chunks::<4>();
        let [length, request_id, response_to, opcode] = [0, 1, 2, 3]
            .map(|place| fields.get(place).map_or(0, |field: &[u8; 4]| i32::from_le_bytes(*field)));
        // A negative length would become a huge one if it was cast.
        let bytes = usize::try_from(length).map_err(|_| FrameError::MessageLength(length))?;
        if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes) {
            return Err(FrameError::MessageLength(length));
        }
        Ok(Self { length: bytes, request_id, response_to, opcode })
    }

    /// The header as bytes, little-endian as the protocol has all its integers. A length above 2^31 - 1 is written as that number,
    /// which every receiver rejects. The server sends no such message: it replaces a reply that is too long before it is framed.
    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        let length = i32::try_from(self.length).unwrap_or(i32::MAX);
        let mut bytes = [0; HEADER_BYTES];
        let fields = [length, self.request_id, self.response_to, self.opcode];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn refuse(length: i32) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Header::parse(&bytes), Err(FrameError::MessageLength(length)));
    }

    #[test]
    fn lengths_that_no_message_has_are_refused() {
        refuse(0);
        refuse(15);
        refuse(-1);
        refuse(i32::MIN);
        refuse(48_000_001);
        refuse(i32::MAX);
    }

    // The header of a reply of more than 2 GiB was a panic.
    #[test]
    fn a_length_beyond_the_field_is_one_that_receivers_reject() {
        let header = Header { length: usize::MAX, request_id: 1, response_to: 0, opcode: OP_MSG };
        assert_eq!(Header::parse(&header.bytes()), Err(FrameError::MessageLength(i32::MAX)));
    }

    proptest! {
        #[test]
        fn headers_come_back(length in 16_usize..=MESSAGE_BYTES_MAX, request_id: i32, response_to: i32, opcode: i32) {
            let header = Header { length, request_id, response_to, opcode };
            prop_assert_eq!(Header::parse(&header.bytes()), Ok(header));
        }
    }
}
