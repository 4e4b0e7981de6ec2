//! The checksums of blocks: which kinds there are, and how RocksDB computes each.

use std::hash::Hasher as _;

use twox_hash::{XxHash3_64, XxHash32, XxHash64};

use crate::log::{low_half, masked};
use crate::table::TRAILER_BYTES;

/// RocksDB mixes a block's last byte, the type of its compression, into an XXH3 checksum by this factor.
const LAST_BYTE_FACTOR: u32 = 0x6b90_83d9;

/// The kind of the checksums of a table's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// CRC-32C, masked as in logs.
    Crc32c,
    /// XXH32.
    XxHash32,
    /// The lower half of XXH64.
    XxHash64,
    /// The lower half of XXH3, the default of RocksDB since 2021.
    #[default]
    Xxh3,
}

impl ChecksumKind {
    /// The kind with the number that a table's footer has. Returns `None` for an unknown one, and for a table without
    /// checksums.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Crc32c,
            2 => Self::XxHash32,
            3 => Self::XxHash64,
            4 => Self::Xxh3,
            _ => return None,
        })
    }

    /// The trailer of a block: the type of its compression, and the checksum.
    pub fn trailer(self, block: &[u8], compression: u8) -> [u8; TRAILER_BYTES] {
        let [a, b, c, d] = self.of_block(block, compression).to_le_bytes();
        [compression, a, b, c, d]
    }

    /// The checksum of a block: its bytes, and the type of its compression after them.
    pub(crate) fn of_block(self, block: &[u8], compression: u8) -> u32 {
        let mut sum = Checksum::new(self);
        sum.add(block);
        sum.finish(compression)
    }

    /// The checksum of bytes that have no type of compression after them.
    pub(crate) fn of_bytes(self, bytes: &[u8]) -> u32 {
        match bytes.split_last() {
            Some((last, front)) => self.of_block(front, *last),
            None => 0,
        }
    }
}

/// A checksum that is computed over pieces of a block.
#[derive(Clone)]
pub(crate) enum Checksum {
    Crc32c(u32),
    XxHash32(XxHash32),
    XxHash64(XxHash64),
    // Boxed, because its state is half a kilobyte.
    Xxh3(Box<XxHash3_64>),
}

impl Checksum {
    pub(crate) fn new(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Crc32c => Self::Crc32c(0),
            ChecksumKind::XxHash32 => Self::XxHash32(XxHash32::with_seed(0)),
            ChecksumKind::XxHash64 => Self::XxHash64(XxHash64::with_seed(0)),
            ChecksumKind::Xxh3 => Self::Xxh3(Box::default()),
        }
    }

    pub(crate) fn add(&mut self, piece: &[u8]) {
        match self {
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, piece),
            Self::XxHash32(sum) => sum.write(piece),
            Self::XxHash64(sum) => sum.write(piece),
            Self::Xxh3(sum) => sum.write(piece),
        }
    }

    pub(crate) fn finish(mut self, last: u8) -> u32 {
        // In the other kinds the last byte is one like all others.
        if !matches!(self, Self::Xxh3(_)) {
            self.add(&[last]);
        }
        match self {
            Self::Crc32c(sum) => masked(sum),
            Self::XxHash32(sum) => low_half(sum.finish()),
            Self::XxHash64(sum) => low_half(sum.finish()),
            Self::Xxh3(sum) => low_half(sum.finish()) ^ u32::from(last).wrapping_mul(LAST_BYTE_FACTOR),
        }
    }
}
