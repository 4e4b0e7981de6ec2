//! Finding the blocks of a table whose index is lost.
//!
//! Blocks follow each other from the beginning of the file, and nothing in a block says how long it is. But a checksum
//! follows it, and the type of its compression before that, so each place that could be a trailer is tried.

use crate::table::checksum::Checksum;
use crate::table::{ChecksumKind, Handle, TRAILER_BYTES, compression};

/// The number of bytes that may be checksummed in the search for the blocks of one file, for each of its bytes. Far more
/// than the blocks of a real table need, and a bound on what crafted bytes cost.
const SUMMED_PER_BYTE: u64 = 64;

/// The number of bytes that may be checksummed in any file, however short.
const SUMMED_ANYWAY: u64 = 64 << 20;

/// A search for blocks, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct BlockSearch {
    checksum: ChecksumKind,
    bytes_left: u64,
}

impl BlockSearch {
    /// A search in a file of `file_bytes` bytes.
    pub fn new(checksum: ChecksumKind, file_bytes: u64) -> Self {
        Self {
            checksum,
            bytes_left: file_bytes.saturating_mul(SUMMED_PER_BYTE).saturating_add(SUMMED_ANYWAY),
        }
    }

    /// The block that begins with the first of `bytes`, which are at `offset` in the file. Returns `None` if there is none,
    /// or if the search has cost too much.
    pub fn block_at(&mut self, bytes: &[u8], offset: u64, modifier: impl Fn(u64) -> u32) -> Option<Handle> {
        let mut running = 0;
        let mut sum = Checksum::new(self.checksum);
        // The checksum goes on from trailer to trailer, and a copy of its state is finished at each.
        for end in 0..bytes.len().saturating_sub(TRAILER_BYTES - 1) {
            let trailer = bytes.get(end..end + TRAILER_BYTES)?;
            let (compression, stored) = trailer.split_first()?;
            if !compression::is_known(*compression) {
                continue;
            }
            sum.add(bytes.get(running..end)?);
            self.bytes_left = self.bytes_left.checked_sub((end - running) as u64 + COPY_COST)?;
            running = end;
            let stored = stored.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            let computed = sum.clone().finish(*compression).wrapping_add(modifier(offset));
            if computed == stored && end > 0 {
                return Some(Handle { offset, bytes: end as u64 });
            }
        }
        None
    }
}

/// The cost of copying the state of a checksum, in bytes that are checksummed.
const COPY_COST: u64 = 256;
