//! `OP_COMPRESSED`: a message that contains another one in compressed form.

use std::io::Read;

use bytes::{BufMut, Bytes};

use crate::frame::header::{HEADER_BYTES, Header, OP_COMPRESSED};
use crate::frame::{FrameError, MESSAGE_BYTES_MAX, take_i32};

/// The compression of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// Not at all.
    Noop,
    /// By Snappy.
    Snappy,
    /// By zlib.
    Zlib,
    /// By Zstandard.
    Zstd,
}

/// A compressed message that is not decompressed yet.
///
/// ```
/// use cairndb_server::frame::compressed::{Compressed, Compressor, pack};
/// use cairndb_server::frame::header::{HEADER_BYTES, Header, OP_MSG};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let header = Header { length: HEADER_BYTES + 1000, request_id: 1, response_to: 0, opcode: OP_MSG };
/// let message = [&header.bytes()[..], &[7; 1000]].concat();
/// let packed = pack(&message, Compressor::Zstd)?;
/// assert!(packed.len() < 100);
///
/// let compressed = Compressed::parse(&packed.into(), &[Compressor::Zstd])?;
/// assert_eq!(compressed.unpack(1, 0)?, message);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// The kind of the message inside.
    pub opcode: i32,
    /// The length of the message inside, without a header.
    pub announced: i32,
    /// Its compression.
    pub compressor: Compressor,
    packed: Bytes,
}

impl Compressor {
    /// All compressors, in the order in which the server prefers them.
    pub const ALL: [Self; 4] = [Self::Zstd, Self::Snappy, Self::Zlib, Self::Noop];

    /// The name of the compressor in a hello.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Noop => 0,
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
        }
    }
}

impl Compressed {
    /// Reads a whole message, its header included, and leaves it compressed.
    ///
    /// # Errors
    /// The message is too short or compressed twice, announces more bytes than a message may have, or has a
    /// compressor that is not in `agreed`.
    pub fn parse(message: &Bytes, agreed: &[Compressor]) -> Result<Self, FrameError> {
        let mut rest = message.get(HEADER_BYTES..).ok_or(FrameError::Truncated("the header"))?;
        let opcode = take_i32(&mut rest, "the inner opcode")?;
        // A message within a message within a message would evade the limits of memory and time.
        if opcode == OP_COMPRESSED {
            return Err(FrameError::Opcode(opcode));
        }
        let announced = take_i32(&mut rest, "the inner length")?;
        let inner_max = MESSAGE_BYTES_MAX - HEADER_BYTES;
        if usize::try_from(announced).map_or(true, |length| length > inner_max) {
            return Err(FrameError::MessageLength(announced));
        }
        let (&number, packed) = rest.split_first().ok_or(FrameError::Truncated("the compressor"))?;
        let compressor = agreed.iter().find(|compressor| compressor.number() == number);
        let compressor = *compressor.ok_or(FrameError::Compressor(number))?;
        Ok(Self { opcode, announced, compressor, packed: message.slice_ref(packed) })
    }

    /// Decompresses the message inside and gives it a header. It produces no more bytes than were announced.
    ///
    /// # Errors
    /// The compressed bytes are malformed, or do not have the announced length.
    ///
    /// The example of [`Compressed`] unpacks one.
    pub fn unpack(&self, request_id: i32, response_to: i32) -> Result<Bytes, FrameError> {
        let announced = usize::try_from(self.announced).unwrap_or(0);
        let length = HEADER_BYTES + announced;
        let mut message = Header { length, request_id, response_to, opcode: self.opcode }.bytes().to_vec();
        let unpacked = match self.compressor {
            Compressor::Noop => append(&self.packed, announced, &mut message),
            Compressor::Snappy => append_snappy(&self.packed, announced, &mut message),
            Compressor::Zlib => {
                append_all(flate2::read::ZlibDecoder::new(&*self.packed), announced, &mut message)
            }
            Compressor::Zstd => match zstd::stream::read::Decoder::new(&*self.packed) {
                Ok(decoder) => append_all(decoder, announced, &mut message),
                Err(error) => Err(error.to_string()),
            },
        };
        let announced = self.announced;
        unpacked.map_err(|reason| FrameError::Decompression { announced, reason })?;
        // Too many bytes were rejected above; too few would leave a wrong length in the header.
        if message.len() != length {
            let reason = format!("it contains {}", message.len() - HEADER_BYTES);
            return Err(FrameError::Decompression { announced, reason });
        }
        Ok(message.into())
    }
}

/// Compresses a message, its header included.
///
/// # Errors
/// The message has no header, or the compressor fails.
pub fn pack(message: &[u8], compressor: Compressor) -> std::io::Result<Vec<u8>> {
    let (front, inner) = message.split_at_checked(HEADER_BYTES).unwrap_or((message, &[]));
    let header = front.first_chunk().and_then(|front| Header::parse(front).ok());
    let Some(header) = header else { return Err(std::io::Error::other("the message has no header")) };
    let packed = match compressor {
        Compressor::Noop => inner.to_vec(),
        Compressor::Snappy => snap::raw::Encoder::new().compress_vec(inner).map_err(std::io::Error::other)?,
        Compressor::Zlib => {
            let mut packed = Vec::new();
            flate2::read::ZlibEncoder::new(inner, flate2::Compression::fast()).read_to_end(&mut packed)?;
            packed
        }
        Compressor::Zstd => zstd::stream::encode_all(inner, zstd::DEFAULT_COMPRESSION_LEVEL)?,
    };
    // Nine bytes: the inner opcode, the inner length, and the number of the compressor.
    let length = HEADER_BYTES + 9 + packed.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&Header { length, opcode: OP_COMPRESSED, ..header }.bytes());
    bytes.put_i32_le(header.opcode);
    bytes.put_i32_le(i32::try_from(inner.len()).unwrap_or(i32::MAX));
    bytes.put_u8(compressor.number());
    bytes.extend_from_slice(&packed);
    Ok(bytes)
}

fn append(bytes: &[u8], announced: usize, message: &mut Vec<u8>) -> Result<(), String> {
    if bytes.len() > announced {
        return Err("it contains more".to_owned());
    }
    message.extend_from_slice(bytes);
    Ok(())
}

fn append_snappy(packed: &[u8], announced: usize, message: &mut Vec<u8>) -> Result<(), String> {
    // Snappy announces the length at its beginning, so it is checked before anything is allocated.
    let length = snap::raw::decompress_len(packed).map_err(|error| error.to_string())?;
    // At best three bytes of Snappy represent 64, so few bytes cannot announce much.
    if length != announced || length / 32 > packed.len() {
        return Err(format!("{} packed bytes announce {length}", packed.len()));
    }
    // Straight into the message: a buffer of its own would need the memory twice.
    let start = message.len();
    message.resize(start + length, 0);
    let room = message.get_mut(start..).unwrap_or_default();
    snap::raw::Decoder::new().decompress(packed, room).map(drop).map_err(|error| error.to_string())
}

fn append_all(decoder: impl Read, announced: usize, message: &mut Vec<u8>) -> Result<(), String> {
    // One byte more than announced, so that a message that is too long is noticed and not cut off.
    let read = decoder.take(announced as u64 + 1).read_to_end(message).map_err(|error| error.to_string())?;
    if read > announced { Err("it contains more".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn message(inner: &[u8]) -> Vec<u8> {
        let length = HEADER_BYTES + inner.len();
        let header = Header { length, request_id: 3, response_to: 4, opcode: 2013 };
        [&header.bytes()[..], inner].concat()
    }

    fn unpack(packed: Vec<u8>) -> Result<Bytes, FrameError> {
        Compressed::parse(&packed.into(), &Compressor::ALL)?.unpack(3, 4)
    }

    #[test]
    fn a_bomb_gives_no_more_than_it_announces() {
        let zeros = vec![0; 1 << 20];
        for compressor in Compressor::ALL {
            let mut packed = pack(&message(&zeros), compressor).expect("packed");
            packed[20..24].copy_from_slice(&100_i32.to_le_bytes());
            assert!(matches!(unpack(packed), Err(FrameError::Decompression { .. })), "{compressor:?}");
        }
    }

    #[test]
    fn what_was_not_agreed_on_is_refused() {
        let packed: Bytes = pack(&message(&[1, 2, 3]), Compressor::Zlib).expect("packed").into();
        assert_eq!(Compressed::parse(&packed, &[Compressor::Zstd]), Err(FrameError::Compressor(2)));
        let twice = pack(&packed, Compressor::Noop).expect("packed");
        assert_eq!(unpack(twice), Err(FrameError::Opcode(OP_COMPRESSED)));
        let mut long = packed.to_vec();
        long[20..24].copy_from_slice(&i32::MAX.to_le_bytes());
        assert_eq!(unpack(long), Err(FrameError::MessageLength(i32::MAX)));
    }

    #[test]
    fn long_and_even_messages_come_back() {
        for compressor in Compressor::ALL {
            let whole = message(&vec![7; 3 << 20]);
            let packed = pack(&whole, compressor).expect("packed");
            assert!(unpack(packed).is_ok_and(|unpacked| unpacked == whole), "{compressor:?}");
        }
    }

    proptest! {
        #[test]
        fn messages_come_back(inner in vec(any::<u8>(), 0..500)) {
            for compressor in Compressor::ALL {
                let packed = pack(&message(&inner), compressor).expect("packed");
                prop_assert_eq!(unpack(packed), Ok(Bytes::from(message(&inner))));
            }
        }

        #[test]
        fn whatever_comes_is_a_message_or_an_error(number in 0_u8..5, announced in 0..1000_i32, packed in vec(any::<u8>(), 0..200)) {
            let front = [&[0; HEADER_BYTES][..], &2013_i32.to_le_bytes(), &announced.to_le_bytes(), &[number]].concat();
            if let Ok(unpacked) = unpack([front, packed].concat()) {
                prop_assert_eq!(unpacked.len(), HEADER_BYTES + usize::try_from(announced).expect("positive"));
            }
        }
    }
}
