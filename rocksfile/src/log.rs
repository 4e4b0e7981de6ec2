//! Blocks and fragments: the layout of RocksDB's logs, for write-ahead logs and the MANIFEST alike.
//!
//! A log is a sequence of blocks of 32 KiB. A block is a sequence of fragments, none of which reaches into
//! the next block: checksum, length, kind, in a recycled log the log's number, and then the payload. At a
//! block's end, fewer bytes than a header are unused. Every block starts with a fragment, so after damage
//! reading continues at the next.
//!
//! What is not here: how fragments make records ([`crate::record`]), and whether damage is a write that was
//! cut short.

use std::io::{self, Read};

/// The length of a block.
pub const BLOCK_BYTES: usize = 32 << 10;
/// The length of a fragment's header.
pub const HEADER_BYTES: usize = 7;
/// The length of a fragment's header in a recycled log.
pub const RECYCLABLE_HEADER_BYTES: usize = 11;

/// The number of bytes that are read at once.
const CHUNK_BYTES: usize = 32 * BLOCK_BYTES;
/// The number of bytes that may be checksummed in the search for fragments inside blocks. After that only the
/// starts of blocks are tested, so that crafted bytes cannot make reading slow.
const SEARCH_BYTES_MAX: u64 = 64 << 20;
/// The offsets of a fragment's length, and of its kind, where the bytes under the checksum begin.
const LENGTH_AT: usize = 4;
const KIND_AT: usize = 6;
/// RocksDB skips a kind that it does not know if this bit is set.
const IGNORABLE: u8 = 0x80;

/// The kind of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole record.
    Full,
    /// The beginning of a record.
    First,
    /// Neither the beginning nor the end of a record.
    Middle,
    /// The end of a record.
    Last,
    /// Marks that the fragments after it are compressed.
    Compression,
    /// The length of timestamps in keys.
    TimestampSizes,
    /// The end of the log before this one.
    Predecessor,
}

impl Kind {
    /// The kind, and whether it is one of a recycled log.
    fn parse(byte: u8) -> Option<(Self, bool)> {
        Some(match byte {
            1 => (Self::Full, false),
            2 => (Self::First, false),
            3 => (Self::Middle, false),
            4 => (Self::Last, false),
            5 => (Self::Full, true),
            6 => (Self::First, true),
            7 => (Self::Middle, true),
            8 => (Self::Last, true),
            9 => (Self::Compression, false),
            10 => (Self::TimestampSizes, false),
            11 => (Self::TimestampSizes, true),
            130 => (Self::Predecessor, false),
            131 => (Self::Predecessor, true),
            _ => return None,
        })
    }
}

/// A fragment with a right checksum. [`Reader::payload`] has its payload until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The offset of the header in the file.
    pub offset: u64,
    /// The offset of the payload's end in the file.
    pub end: u64,
    /// The kind of the fragment.
    pub kind: Kind,
    /// The begin and end of the payload in the reader's buffer.
    start: usize,
    stop: usize,
}

/// The reason why bytes are not a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file ends inside of a header.
    #[error("the file ends inside of a record's header")]
    HeaderCut,
    /// The file ends inside of a payload.
    #[error("the file ends inside of a record")]
    PayloadCut,
    /// The length reaches beyond the block.
    #[error("a record's length reaches beyond its block")]
    Length,
    /// The checksum does not match.
    #[error("a record's checksum does not fit its bytes")]
    Checksum,
    /// A header of zeros: either nothing was written here, or it was lost.
    #[error("there are zeros where a record should begin")]
    Zeros,
    /// A kind that does not exist, with a right checksum.
    #[error("a record has the unknown type {0}")]
    Kind(u8),
    /// A fragment of a recycled log after fragments of a plain one. RocksDB's own reader never gets past it.
    #[error("a record has the type of a recycled log in a log that is not recycled")]
    Recycled,
    /// A fragment of the log whose file was recycled.
    #[error("a record belongs to another log")]
    OtherLog,
    /// The log is compressed.
    #[error("the log is compressed")]
    Compressed,
    /// A record that begins and does not end.
    #[error("a record has no end")]
    Unfinished,
    /// The end of a record that does not begin.
    #[error("a record has no beginning")]
    Headless,
}

/// The next result of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A fragment with a right checksum.
    Fragment(Fragment),
    /// At this offset begin bytes that are not a fragment. The next step is the next fragment anywhere after
    /// them.
    Fault(u64, Fault),
    /// The end of the file.
    End,
}

/// Which kinds a log consists of. RocksDB's reader decides it at the first whole record, or the first
/// recycled kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Unknown,
    Plain,
    Recycled,
}

/// The stored checksum of a fragment's kind, log number if it has one, and payload. RocksDB masks it, because
/// a checksum over bytes that hold a checksum is weak.
pub fn stored_checksum(covered: &[u8]) -> u32 {
    masked(crc32c::crc32c(covered))
}

/// A CRC-32C as RocksDB stores it.
pub(crate) fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Reads a log of any bytes, from the first to the last.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    /// The lower half of the log's number, for recycled logs.
    log: u32,
    buffer: Vec<u8>,
    /// The offset of the buffer in the file: always the start of a block.
    buffer_offset: u64,
    at: usize,
    ended: bool,
    searching: bool,
    search_bytes_left: u64,
    layout: Layout,
    traps: bool,
}

impl<R: Read> Reader<R> {
    /// A reader of the log with that number.
    pub fn new(source: R, log: u64) -> Self {
        Self {
            source,
            log: low_half(log),
            buffer: Vec::new(),
            buffer_offset: 0,
            at: 0,
            ended: false,
            searching: false,
            search_bytes_left: SEARCH_BYTES_MAX,
            layout: Layout::Unknown,
            traps: false,
        }
    }

    /// The reader's offset in the file.
    pub fn offset(&self) -> u64 {
        self.buffer_offset + self.at as u64
    }

    /// The source of the log.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// Whether RocksDB's own reader could meet a fragment that it never gets past: see [`Fault::Recycled`].
    pub fn traps_rocksdb(&self) -> bool {
        self.traps
    }

    /// The payload of the fragment that was read last.
    pub fn payload(&self, fragment: &Fragment) -> &[u8] {
        self.buffer.get(fragment.start..fragment.stop).unwrap_or_default()
    }

    /// Reads up to the next fragment, the next fault, or the end.
    pub fn step(&mut self) -> io::Result<Step> {
        loop {
            if self.at == self.buffer.len() && !self.fill()? {
                return Ok(Step::End);
            }
            let block_end = self.block_end();
            if self.searching {
                match self.search(block_end) {
                    Some(fragment) => return Ok(Step::Fragment(fragment)),
                    None => self.at = block_end,
                }
                continue;
            }
            let offset = self.offset();
            let whole_block = block_end.is_multiple_of(BLOCK_BYTES);
            match self.fragment_at(self.at, block_end) {
                Ok(Some(fragment)) => return Ok(Step::Fragment(self.pass(fragment))),
                Ok(None) => {}
                // The unused end of a block. A block that the end of the file cuts short has none, so there
                // it is a cut header.
                Err(Fault::HeaderCut) if whole_block && block_end - self.at < HEADER_BYTES => {
                    self.at = block_end;
                }
                // One fault for each stretch of damage: from here on only the next whole fragment is looked
                // for.
                Err(fault) => {
                    self.traps |= fault == Fault::Recycled;
                    self.searching = true;
                    self.at += 1;
                    return Ok(Step::Fault(offset, fault));
                }
            }
        }
    }

    /// Reads the next bytes. Returns `false` at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        // Whole blocks at a time, so a fragment never crosses from one buffer into the next.
        if self.ended {
            return Ok(false);
        }
        self.buffer_offset += self.buffer.len() as u64;
        self.buffer.clear();
        self.at = 0;
        self.source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut self.buffer)?;
        self.ended = self.buffer.len() < CHUNK_BYTES;
        Ok(!self.buffer.is_empty())
    }

    /// The end of the current block in the buffer.
    fn block_end(&self) -> usize {
        let end = (self.at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        end.min(self.buffer.len())
    }

    /// The fragment that begins at `at`. Returns `None` after skipping a fragment of an ignorable kind.
    fn fragment_at(&mut self, at: usize, block_end: usize) -> Result<Option<Fragment>, Fault> {
        let block = self.buffer.get(at..block_end).unwrap_or_default();
        let header = block.first_chunk::<HEADER_BYTES>().ok_or(Fault::HeaderCut)?;
        let [_, _, _, _, low, high, kind_byte] = *header;
        let length = usize::from(u16::from_le_bytes([low, high]));
        let kind = Kind::parse(kind_byte);
        let recyclable = kind.is_some_and(|(_, recyclable)| recyclable);
        // The faults in the order in which RocksDB's reader finds them, so that both agree on what is whole.
        if recyclable && self.layout == Layout::Plain {
            return Err(Fault::Recycled);
        }
        let header_bytes = if recyclable { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        let Some(fragment) = block.get(..header_bytes + length) else {
            let at_the_end = self.ended && block_end == self.buffer.len();
            return Err(if at_the_end { Fault::PayloadCut } else { Fault::Length });
        };
        if kind_byte == 0 && length == 0 {
            return Err(Fault::Zeros);
        }
        if !has_right_checksum(fragment) {
            return Err(Fault::Checksum);
        }
        let Some((kind, _)) = kind else {
            if kind_byte & IGNORABLE == 0 {
                return Err(Fault::Kind(kind_byte));
            }
            self.at = at + fragment.len();
            return Ok(None);
        };
        if recyclable && fragment.get(HEADER_BYTES..RECYCLABLE_HEADER_BYTES) != Some(&self.log.to_le_bytes())
        {
            return Err(Fault::OtherLog);
        }
        let offset = self.buffer_offset + at as u64;
        let stop = at + fragment.len();
        let end = self.buffer_offset + stop as u64;
        if recyclable {
            self.layout = Layout::Recycled;
        }
        Ok(Some(Fragment { offset, end, kind, start: at + header_bytes, stop }))
    }

    /// Searches for a fragment from here to the end of the block.
    fn search(&mut self, block_end: usize) -> Option<Fragment> {
        while block_end - self.at >= HEADER_BYTES {
            let starts_block = self.at.is_multiple_of(BLOCK_BYTES);
            if starts_block || self.may_be_fragment(block_end) {
                match self.fragment_at(self.at, block_end) {
                    Ok(Some(fragment)) => {
                        self.searching = false;
                        return Some(self.pass(fragment));
                    }
                    // RocksDB's reader goes from block to block, so it reads whatever is at the start of one.
                    Err(Fault::Recycled) if starts_block => self.traps = true,
                    Ok(None) | Err(_) => {}
                }
            }
            if self.search_bytes_left == 0 {
                return None;
            }
            self.at += 1;
        }
        None
    }

    /// Whether bytes inside a block look like a fragment, and the search may still compute a checksum.
    fn may_be_fragment(&mut self, block_end: usize) -> bool {
        let block = self.buffer.get(self.at..block_end).unwrap_or_default();
        let Some([low, high, kind]) = block.get(LENGTH_AT..HEADER_BYTES) else { return false };
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if Kind::parse(*kind).is_none() || HEADER_BYTES + length > block.len() {
            return false;
        }
        self.search_bytes_left = self.search_bytes_left.saturating_sub(1 + length as u64);
        self.search_bytes_left > 0
    }

    /// The number of bytes that the search may still checksum.
    #[cfg(test)]
    pub(crate) fn search_bytes_left(&self) -> u64 {
        self.search_bytes_left
    }

    fn pass(&mut self, fragment: Fragment) -> Fragment {
        self.at = fragment.stop;
        if self.layout == Layout::Unknown && matches!(fragment.kind, Kind::Full | Kind::Last) {
            self.layout = Layout::Plain;
        }
        fragment
    }
}

fn has_right_checksum(fragment: &[u8]) -> bool {
    let stored = fragment.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    fragment.get(KIND_AT..).map(stored_checksum) == stored
}

/// The lower 32 bits of a number.
pub(crate) fn low_half(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
