//! The CRC-32C that a message may end with, over all bytes in front of it.

use crate::frame::FrameError;

/// How long a checksum is.
pub const CHECKSUM_BYTES: usize = 4;

/// The message without its checksum, which must be right.
///
/// # Errors
/// The checksum is missing or differs.
pub fn verify(message: &[u8]) -> Result<&[u8], FrameError> {
    let (covered, found) = message.split_last_chunk().ok_or(FrameError::Truncated("the checksum"))?;
    let (found, expected) = (u32::from_le_bytes(*found), crc32c::crc32c(covered));
    if found == expected { Ok(covered) } else { Err(FrameError::Checksum { found, expected }) }
}

/// The checksum of a message.
pub fn of(message: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32c::crc32c(message).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        // The check value of the algorithm's definition.
        assert_eq!(of(b"123456789"), 0xe306_9283_u32.to_le_bytes());
        let message = [b"123456789".as_slice(), &of(b"123456789")].concat();
        assert_eq!(verify(&message), Ok(b"123456789".as_slice()));
        assert!(matches!(verify(b"123456789"), Err(FrameError::Checksum { .. })));
        assert!(matches!(verify(b"123"), Err(FrameError::Truncated(_))));
    }
}
