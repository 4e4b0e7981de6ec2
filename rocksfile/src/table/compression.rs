//! The compressions of blocks that databases of this library have: none, LZ4 and Zstandard.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use crate::table::TableFault;
use crate::varint::Input;

/// The largest block that is decompressed. A block ends with the first document that fills it, and documents are at most
/// 16 MiB.
pub(crate) const BLOCK_BYTES_MAX: usize = 64 << 20;

const NONE: u8 = 0;
const LZ4: u8 = 4;
const LZ4_HC: u8 = 5;
const ZSTD: u8 = 7;

/// Whether a byte is the type of a compression that is known here.
pub(crate) fn is_known(compression: u8) -> bool {
    matches!(compression, NONE | LZ4 | LZ4_HC | ZSTD)
}

/// The content of a block that was stored with a compression.
pub(crate) fn decompress(stored: Vec<u8>, compression: u8) -> Result<Vec<u8>, TableFault> {
    if compression == NONE {
        return Ok(stored);
    }
    // The length comes first, so that memory for the content is taken once.
    let mut input = Input::new(&stored);
    let length = input.varint32().and_then(|length| usize::try_from(length).ok());
    let length =
        length.filter(|length| *length <= BLOCK_BYTES_MAX).ok_or(TableFault::Compressed(compression))?;
    let content = match compression {
        LZ4 | LZ4_HC => lz4_flex::block::decompress(input.rest(), length).ok(),
        ZSTD => zstandard(input.rest(), length),
        _ => return Err(TableFault::Compression(compression)),
    };
    content.filter(|content| content.len() == length).ok_or(TableFault::Compressed(compression))
}

fn zstandard(frame: &[u8], length: usize) -> Option<Vec<u8>> {
    // The decoder uses as much memory as the frame says that it needs, so that is looked at first.
    if window_bytes(frame)? > BLOCK_BYTES_MAX as u64 {
        return None;
    }
    let mut content = Vec::with_capacity(length);
    let decoder = StreamingDecoder::new(frame).ok()?;
    decoder.take(length as u64 + 1).read_to_end(&mut content).ok()?;
    Some(content)
}

/// The distance to which a frame of Zstandard refers back, by RFC 8878, section 3.1.1.1.
fn window_bytes(frame: &[u8]) -> Option<u64> {
    const MAGIC: u32 = 0xfd2f_b528;
    const SINGLE_SEGMENT: u8 = 1 << 5;
    let mut input = Input::new(frame);
    if input.fixed32()? != MAGIC {
        return None;
    }
    let descriptor = input.byte()?;
    if descriptor & SINGLE_SEGMENT == 0 {
        let window = input.byte()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + (base >> 3) * u64::from(window & 7));
    }
    // Without a window the content is one. Its length has 1, 2, 4 or 8 bytes, after the number of a dictionary.
    let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied()?;
    input.take(dictionary)?;
    let length = [1, 2, 4, 8].get(usize::from(descriptor >> 6)).copied()?;
    let bytes = input.take(length)?;
    let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Some(if length == 2 { number + 256 } else { number })
}
