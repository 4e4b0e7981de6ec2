//! The footer of a table: where its indexes are, and how its blocks are checksummed.

use crate::log::low_half;
use crate::table::checksum::ChecksumKind;
use crate::table::{Handle, TRAILER_BYTES, TableFault};
use crate::varint::Input;

/// The length of a footer.
pub const FOOTER_BYTES: usize = 53;

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const VERSION_OLDEST: u32 = 2;
const VERSION_NEWEST: u32 = 7;
/// From this version on, the footer has a checksum, and checksums depend on where a block is.
const VERSION_WITH_CONTEXT: u32 = 6;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0, 0x7a, 0];
/// The offset of the footer's own checksum.
const CHECKSUM_AT: usize = 5;
/// The bytes between the type of the checksum and the version.
const MIDDLE_BYTES: usize = 40;

/// The footer of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The offset of the footer in the file.
    pub offset: u64,
    /// RocksDB's version of the table's format.
    pub version: u32,
    /// The kind of the blocks' checksums.
    pub checksum: ChecksumKind,
    /// The place of the list of meta blocks.
    pub metaindex: Handle,
    /// The place of the index. `None` if the list of meta blocks says it.
    pub index: Option<Handle>,
    /// The value that modifies the checksums of blocks, with their offsets.
    context: u32,
}

impl Footer {
    /// Parses the footer at the end of a file of `file_bytes` bytes.
    pub(crate) fn parse(bytes: &[u8; FOOTER_BYTES], file_bytes: u64) -> Result<Self, TableFault> {
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let mut input = Input::new(bytes);
        let kind = input.byte().ok_or(TableFault::Footer)?;
        let middle = input.take(MIDDLE_BYTES).ok_or(TableFault::Footer)?;
        let version = input.fixed32().ok_or(TableFault::Footer)?;
        if input.fixed64() != Some(MAGIC) {
            return Err(TableFault::Footer);
        }
        if !(VERSION_OLDEST..=VERSION_NEWEST).contains(&version) {
            return Err(TableFault::Version(version));
        }
        let checksum = ChecksumKind::of_number(kind).ok_or(TableFault::NoChecksum(kind))?;
        let mut middle = Input::new(middle);
        if version >= VERSION_WITH_CONTEXT {
            return Self::parse_middle(bytes, offset, version, checksum);
        }
        let handles = Handle::parse(&mut middle).zip(Handle::parse(&mut middle));
        let (metaindex, index) = handles.ok_or(TableFault::Footer)?;
        // RocksDB fills up with zeros and never looks at them; here they are the only sign of damage between. For the same
        // reason the handles must be as short as they can be.
        let shortest = [metaindex.offset, metaindex.bytes, index.offset, index.bytes].map(varint_bytes);
        let is_shortest = middle.rest().len() + shortest.iter().sum::<usize>() == MIDDLE_BYTES;
        if !is_shortest || middle.rest().iter().any(|byte| *byte != 0) {
            return Err(TableFault::Footer);
        }
        Ok(Self { offset, version, checksum, metaindex, index: Some(index), context: 0 })
    }

    /// Parses the part of the footer that newer versions have in place of the handles.
    fn parse_middle(
        bytes: &[u8; FOOTER_BYTES],
        offset: u64,
        version: u32,
        checksum: ChecksumKind,
    ) -> Result<Self, TableFault> {
        let mut middle = Input::new(bytes.get(1..=MIDDLE_BYTES).unwrap_or_default());
        if middle.take(EXTENDED_MAGIC.len()) != Some(EXTENDED_MAGIC.as_slice()) {
            return Err(TableFault::Footer);
        }
        let numbers = (middle.fixed32(), middle.fixed32(), middle.fixed32());
        let (Some(stored), Some(context), Some(metaindex_bytes)) = numbers else {
            return Err(TableFault::Footer);
        };
        let mut covered = *bytes;
        // The checksum is computed as if it were zero itself.
        covered.iter_mut().skip(CHECKSUM_AT).take(4).for_each(|byte| *byte = 0);
        let expected = checksum.of_bytes(&covered).wrapping_add(modifier(context, offset));
        if context == 0 || stored != expected {
            return Err(TableFault::Checksum);
        }
        let metaindex_bytes = u64::from(metaindex_bytes);
        let end = offset.saturating_sub(TRAILER_BYTES as u64);
        let start = end.checked_sub(metaindex_bytes).ok_or(TableFault::Footer)?;
        let metaindex = Handle { offset: start, bytes: metaindex_bytes };
        Ok(Self { offset, version, checksum, metaindex, index: None, context })
    }

    /// The value that is added to the checksum of the block at `offset`.
    pub(crate) fn modifier(&self, offset: u64) -> u32 {
        modifier(self.context, offset)
    }
}

/// The length of a number, seven bits in each byte.
fn varint_bytes(number: u64) -> usize {
    number.checked_ilog2().map_or(1, |highest| highest as usize / 7 + 1)
}

fn modifier(context: u32, offset: u64) -> u32 {
    if context == 0 {
        return 0;
    }
    context ^ low_half(offset).wrapping_add(low_half(offset >> 32))
}
