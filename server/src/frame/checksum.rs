//! The CRC-32C checksum at the end of a message, which covers all bytes before it.

use crate::frame::FrameError;

/// The length of a checksum, in bytes.
pub const CHECKSUM_BYTES: usize = 4;

/// Returns the message without its checksum, after checking it.
///
/// # Errors
/// The checksum is missing or differs.
pub fn verify(message: &[u8]) -> Result<&[u8], FrameError> {
    let (covered, found) = message.split_last_chunk().ok_or(FrameError::Truncated("the checksum"))?;
    // Compared in plain time: a checksum protects against broken networks, not against attackers.
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
