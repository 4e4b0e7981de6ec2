//! Tables: RocksDB's files of sorted keys, read block by block.
//!
//! A table is a sequence of blocks, each followed by the type of its compression and a checksum, and at the end of the
//! file a footer. The footer names the list of meta blocks (properties, filter, deleted ranges) and the index, which
//! names the blocks of data. RocksDB gives up a table at the first thing that it cannot read; [`Table`] notes it and goes
//! on with what is whole.
//!
//! What is not here: what the keys mean, and which tables belong to a database.

mod block;
mod checksum;
mod compression;
mod footer;
mod properties;
mod search;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Seek, SeekFrom};

use crate::table::block::index_entries;
use crate::table::checksum::Checksum;
use crate::table::compression::{BLOCK_BYTES_MAX, decompress};

pub use self::block::{ChangeKind, Entries, KeyValue, TableKey};
pub use self::checksum::ChecksumKind;
pub use self::footer::{FOOTER_BYTES, Footer};
pub use self::properties::Properties;
pub use self::search::BlockSearch;

/// The length of what follows a block: the type of its compression, and its checksum.
pub const TRAILER_BYTES: usize = 5;

/// The number of bytes that are read at once to check a block.
const CHUNK_BYTES: usize = 1 << 20;

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    /// The offset of the block in the file.
    pub offset: u64,
    /// The length of the block as it is stored, without what follows it.
    pub bytes: u64,
}

impl Handle {
    /// The length of the block with what follows it. It does not overflow in a handle of [`Table::blocks`].
    pub fn stored_bytes(self) -> u64 {
        self.bytes.saturating_add(TRAILER_BYTES as u64)
    }
}

/// The purpose of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Keys and values.
    Data,
    /// The places of the blocks of data.
    Index,
    /// The places of the other meta blocks.
    MetaIndex,
    /// Which keys may be in the table.
    Filter,
    /// The description of the table: its family, and its number of entries.
    Properties,
    /// Ranges of deleted keys.
    RangeDeletions,
    /// A meta block of another name.
    Other,
}

impl std::fmt::Display for BlockKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Data => "block of data",
            Self::Index => "index",
            Self::MetaIndex => "list of meta blocks",
            Self::Filter => "filter",
            Self::Properties => "block of properties",
            Self::RangeDeletions => "list of deleted ranges",
            Self::Other => "meta block",
        })
    }
}

/// A block of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The purpose of the block.
    pub kind: BlockKind,
    /// The place of the block.
    pub handle: Handle,
    /// Of a block of data: a key that is not below its last one, and below the first one of the next block.
    pub key_bound: Option<Vec<u8>>,
}

/// Bytes of a table that are damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The place of the damaged block.
    pub handle: Handle,
    /// The purpose of the block. `None`: a part of the file that is not a block.
    pub kind: Option<BlockKind>,
    /// The flaw.
    pub fault: TableFault,
}

/// A flaw of a part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// The end of the file is not that of a table.
    #[error("the file does not end as a table does")]
    Footer,
    /// A version of the format that is not known.
    #[error("the table has the unknown format {0}")]
    Version(u32),
    /// The table has no checksums, or unknown ones.
    #[error("the table has checksums of the unknown type {0}")]
    NoChecksum(u8),
    /// A handle reaches beyond the file or into another block.
    #[error("it is said to be where no block can be")]
    Handle,
    /// The file ends inside of the block.
    #[error("the file ends inside of it")]
    Cut,
    /// The checksum does not match.
    #[error("its checksum does not fit its bytes")]
    Checksum,
    /// A compression that databases of this library do not have.
    #[error("it has the unknown compression {0}")]
    Compression(u8),
    /// The checksum is right, and the content cannot be decompressed.
    #[error("it cannot be decompressed (type {0})")]
    Compressed(u8),
    /// The checksum is right, and the content is not made of entries.
    #[error("it has a malformed entry")]
    Entry,
    /// The index is of a kind that databases of this library do not have.
    #[error("it is an index of the unknown kind {0}")]
    IndexKind(u32),
    /// The table has bytes that belong to no block.
    #[error("bytes belong to no block")]
    Unnamed,
}

/// A table that was opened: what its index and its meta blocks say, as far as they can be read.
#[derive(Debug)]
pub struct Table<R> {
    source: R,
    bytes: u64,
    footer: Option<Footer>,
    /// In the order of their offsets.
    blocks: Vec<Block>,
    properties: Option<Properties>,
    damages: Vec<Damage>,
}

impl<R: Read + Seek> Table<R> {
    /// Reads the footer, the list of meta blocks, the properties and the index.
    ///
    /// # Errors
    /// The error of the source, if it cannot be read.
    pub fn open(mut source: R) -> io::Result<Self> {
        let bytes = source.seek(SeekFrom::End(0))?;
        let mut table =
            Self { source, bytes, footer: None, blocks: Vec::new(), properties: None, damages: Vec::new() };
        let at = bytes.saturating_sub(FOOTER_BYTES as u64);
        let footer = match table.read_at(at, FOOTER_BYTES)?.first_chunk() {
            Some(found) => Footer::parse(found, bytes),
            None => Err(TableFault::Footer),
        };
        match footer {
            Ok(footer) => {
                table.footer = Some(footer);
                table.read_meta(&footer)?;
            }
            // Without a footer no block can be found by a handle.
            Err(fault) => {
                let handle = Handle { offset: at, bytes: bytes - at };
                table.damages.push(Damage { handle, kind: None, fault });
            }
        }
        Ok(table)
    }

    /// The blocks that handles lead to, in the order of their offsets. Those that [`Table::open`] has read and found
    /// damaged are among them.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The damage that was found when the table was opened.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// The description of the table. `None` if that cannot be read.
    pub fn properties(&self) -> Option<&Properties> {
        self.properties.as_ref()
    }

    /// Whether the index was read, so that [`Table::blocks`] has all blocks of data.
    pub fn has_index(&self) -> bool {
        self.footer.is_some()
            && !self.damages.iter().any(|damage| {
                matches!(damage.kind, Some(BlockKind::Index))
                    || (damage.kind == Some(BlockKind::MetaIndex) && !self.names_index())
            })
    }

    /// The source of the table.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// Checks the checksum of a block, and returns what is wrong. Memory is bounded whatever the length of the block.
    ///
    /// # Errors
    /// The error of the source, if it cannot be read.
    pub fn check(&mut self, handle: Handle) -> io::Result<Option<TableFault>> {
        let Some(footer) = self.footer else { return Ok(Some(TableFault::Footer)) };
        if self.refuses(handle) {
            return Ok(Some(TableFault::Handle));
        }
        let mut sum = Checksum::new(footer.checksum);
        self.source.seek(SeekFrom::Start(handle.offset))?;
        let (mut left, mut piece) = (handle.bytes, Vec::new());
        while left > 0 {
            piece.clear();
            let wanted = left.min(CHUNK_BYTES as u64);
            self.source.by_ref().take(wanted).read_to_end(&mut piece)?;
            if (piece.len() as u64) < wanted {
                return Ok(Some(TableFault::Cut));
            }
            sum.add(&piece);
            left -= wanted;
        }
        let mut trailer = Vec::new();
        self.source.by_ref().take(TRAILER_BYTES as u64).read_to_end(&mut trailer)?;
        let Some(([compression], stored)) = trailer.split_first_chunk() else {
            return Ok(Some(TableFault::Cut));
        };
        let stored = stored.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let computed = sum.finish(*compression).wrapping_add(footer.modifier(handle.offset));
        Ok((stored != Some(computed)).then_some(TableFault::Checksum))
    }

    /// Reads a block, checks it and decompresses it.
    ///
    /// # Errors
    /// The error of the source, if it cannot be read. What is wrong with the block is the inner error.
    pub fn load(&mut self, handle: Handle) -> io::Result<Result<Vec<u8>, TableFault>> {
        if self.refuses(handle) {
            return Ok(Err(TableFault::Handle));
        }
        // A handle that was searched for is good without a footer too.
        let checksum = self.footer.map_or_else(ChecksumKind::default, |footer| footer.checksum);
        let modifier = self.footer.map_or(0, |footer| footer.modifier(handle.offset));
        self.load_as(handle, checksum, modifier)
    }

    /// Searches for the blocks of data of a table whose index cannot be read, and gives each to `found`. Returns the offset
    /// at which the search ended: that of the first damaged block, or of the first one that is not of data.
    ///
    /// # Errors
    /// The error of the source, or of `found`.
    pub fn search<E: From<io::Error>>(
        &mut self,
        mut found: impl FnMut(Handle, Vec<u8>) -> Result<bool, E>,
    ) -> Result<u64, E> {
        let checksum = self.footer.map_or_else(ChecksumKind::default, |footer| footer.checksum);
        let mut search = BlockSearch::new(checksum, self.bytes);
        let mut offset = 0;
        // Blocks are nearly always short, so a short piece of the file is tried before a long one.
        while let Some(handle) = self.search_at(&mut search, offset)? {
            let modifier = self.footer.map_or(0, |footer| footer.modifier(offset));
            let content = self.load_as(handle, checksum, modifier).map_err(E::from)?;
            let Ok(content) = content else { break };
            if !found(handle, content)? {
                break;
            }
            offset += handle.stored_bytes();
        }
        Ok(offset)
    }

    fn search_at(&mut self, search: &mut BlockSearch, offset: u64) -> io::Result<Option<Handle>> {
        let footer = self.footer;
        for bytes in [BLOCK_SEARCHED_FIRST, BLOCK_BYTES_MAX] {
            let piece = self.read_at(offset, bytes)?;
            let modifier = |offset| footer.map_or(0, |footer| footer.modifier(offset));
            if let Some(handle) = search.block_at(&piece, offset, modifier) {
                return Ok(Some(handle));
            }
            if piece.len() < bytes {
                break;
            }
        }
        Ok(None)
    }

    fn load_as(
        &mut self,
        handle: Handle,
        checksum: ChecksumKind,
        modifier: u32,
    ) -> io::Result<Result<Vec<u8>, TableFault>> {
        let stored = usize::try_from(handle.stored_bytes()).ok().filter(|bytes| *bytes <= BLOCK_BYTES_MAX);
        let Some(stored) = stored else { return Ok(Err(TableFault::Handle)) };
        let mut block = self.read_at(handle.offset, stored)?;
        if block.len() < stored {
            return Ok(Err(TableFault::Cut));
        }
        let trailer = block.split_off(block.len() - TRAILER_BYTES);
        let Some(([compression], sum)) = trailer.split_first_chunk() else {
            return Ok(Err(TableFault::Cut));
        };
        let sum = sum.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if sum != Some(checksum.of_block(&block, *compression).wrapping_add(modifier)) {
            return Ok(Err(TableFault::Checksum));
        }
        Ok(decompress(block, *compression))
    }

    /// Reads up to `bytes` bytes: fewer at the end of the file.
    fn read_at(&mut self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        self.source.seek(SeekFrom::Start(offset))?;
        self.source.by_ref().take(bytes as u64).read_to_end(&mut read)?;
        Ok(read)
    }

    /// Whether no block can be where a handle says.
    fn refuses(&self, handle: Handle) -> bool {
        let footer_bytes = if self.footer.is_some() { FOOTER_BYTES as u64 } else { 0 };
        let end = self.bytes.saturating_sub(footer_bytes);
        handle.offset.checked_add(handle.stored_bytes()).is_none_or(|after| after > end)
    }

    /// Reads what the footer leads to.
    fn read_meta(&mut self, footer: &Footer) -> io::Result<()> {
        let mut index = footer.index;
        for (name, handle) in self.meta_blocks(footer.metaindex)? {
            let kind = kind_of(&name);
            if kind == BlockKind::Index {
                index = index.or(Some(handle));
                continue;
            }
            self.blocks.push(Block { kind, handle, key_bound: None });
            if kind == BlockKind::Properties {
                match self.load(handle)?.and_then(|block| Properties::parse(&block)) {
                    Ok(properties) => self.properties = Some(properties),
                    Err(fault) => self.damages.push(Damage { handle, kind: Some(kind), fault }),
                }
            }
        }
        // After the properties, which say how the index is written.
        if let Some(index) = index {
            self.read_index(index, footer)?;
        }
        self.blocks.sort_by_key(|block| block.handle);
        self.find_unnamed(footer);
        Ok(())
    }

    /// The names and places of the meta blocks.
    fn meta_blocks(&mut self, handle: Handle) -> io::Result<Vec<(Vec<u8>, Handle)>> {
        let kind = BlockKind::MetaIndex;
        self.blocks.push(Block { kind, handle, key_bound: None });
        let listed = self.load(handle)?.and_then(|block| {
            let (mut entries, mut listed) = (Entries::of(block)?, Vec::new());
            while let Some((name, mut value)) =
                entries.step()?.map(|(name, value)| (name, crate::varint::Input::new(value)))
            {
                listed.push((name.to_vec(), Handle::parse(&mut value).ok_or(TableFault::Entry)?));
            }
            Ok(listed)
        });
        Ok(listed.unwrap_or_else(|fault| {
            self.damages.push(Damage { handle, kind: Some(kind), fault });
            Vec::new()
        }))
    }

    fn read_index(&mut self, handle: Handle, footer: &Footer) -> io::Result<()> {
        let kind = BlockKind::Index;
        self.blocks.push(Block { kind, handle, key_bound: None });
        let defaults = Properties::of_version(footer.version);
        let form = self.properties.as_ref().unwrap_or(&defaults);
        let (delta, user_keys, index_kind) = (form.index_is_delta, form.index_has_user_keys, form.index_kind);
        let block = if index_kind > properties::INDEX_KIND_MAX {
            Err(TableFault::IndexKind(index_kind))
        } else {
            self.load(handle)?
        };
        match block.and_then(|block| index_entries(&block, delta)) {
            Ok(entries) => {
                for (key, handle) in entries {
                    let key = if user_keys {
                        Some(key)
                    } else {
                        TableKey::parse(&key).map(|key| key.user.to_vec())
                    };
                    self.blocks.push(Block { kind: BlockKind::Data, handle, key_bound: key });
                }
            }
            Err(fault) => self.damages.push(Damage { handle, kind: Some(kind), fault }),
        }
        Ok(())
    }

    /// Notes the bytes that belong to no block. With all that was read, every byte of a whole table belongs to one.
    fn find_unnamed(&mut self, footer: &Footer) {
        if !self.damages.is_empty() {
            return;
        }
        let mut end = 0;
        for block in &self.blocks {
            if block.handle.offset != end {
                let handle =
                    Handle { offset: end.min(block.handle.offset), bytes: end.abs_diff(block.handle.offset) };
                self.damages.push(Damage { handle, kind: None, fault: TableFault::Unnamed });
            }
            end = block.handle.offset.saturating_add(block.handle.stored_bytes());
        }
        if end != footer.offset {
            let handle = Handle { offset: end.min(footer.offset), bytes: end.abs_diff(footer.offset) };
            self.damages.push(Damage { handle, kind: None, fault: TableFault::Unnamed });
        }
    }

    /// Whether the footer itself leads to the index.
    fn names_index(&self) -> bool {
        self.footer.is_some_and(|footer| footer.index.is_some())
    }
}

/// The number of bytes in which the end of a block is searched for first.
const BLOCK_SEARCHED_FIRST: usize = 64 << 10;

fn kind_of(name: &[u8]) -> BlockKind {
    match name {
        b"rocksdb.index" => BlockKind::Index,
        b"rocksdb.properties" => BlockKind::Properties,
        b"rocksdb.range_del" => BlockKind::RangeDeletions,
        name if name.starts_with(b"fullfilter.") || name.starts_with(b"partitionedfilter.") => {
            BlockKind::Filter
        }
        _ => BlockKind::Other,
    }
}
