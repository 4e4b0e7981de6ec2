//! The description of a table by itself.

use crate::table::TableFault;
use crate::table::block::Entries;
use crate::varint::Input;

/// The highest number of a kind of index whose entries lead to blocks of data: 0 is searched by halves, 1 has a hash
/// besides. The others lead to further indexes, or have further fields.
pub(crate) const INDEX_KIND_MAX: u32 = 1;

/// The properties of a table that reading it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The number of the column family.
    pub family: Option<u32>,
    /// The name of the column family. Tables that were made outside of a database may have none.
    pub family_name: Option<Vec<u8>>,
    /// The number of entries in the blocks of data, and of deleted ranges.
    pub entries: Option<u64>,
    /// The number of deleted ranges.
    pub range_deletions: u64,
    /// Whether the index has most handles as differences.
    pub(crate) index_is_delta: bool,
    /// Whether the keys of the index are without the numbers of changes.
    pub(crate) index_has_user_keys: bool,
    pub(crate) index_kind: u32,
}

impl Properties {
    /// The defaults that RocksDB writes into tables of a version.
    pub(crate) fn of_version(version: u32) -> Self {
        Self { index_is_delta: version >= 4, index_has_user_keys: version >= 3, ..Self::default() }
    }

    /// Parses a block of properties.
    pub(crate) fn parse(block: &[u8]) -> Result<Self, TableFault> {
        let mut entries = Entries::of(block)?;
        let mut properties = Self::default();
        while let Some((name, value)) = entries.step()? {
            let number = || Input::new(value).varint64();
            match name {
                b"rocksdb.column.family.id" => {
                    properties.family = number().and_then(|id| u32::try_from(id).ok());
                }
                b"rocksdb.column.family.name" => properties.family_name = Some(value.to_vec()),
                b"rocksdb.num.entries" => properties.entries = number(),
                b"rocksdb.num.range-deletions" => properties.range_deletions = number().unwrap_or(0),
                b"rocksdb.index.value.is.delta.encoded" => properties.index_is_delta = number() != Some(0),
                b"rocksdb.index.key.is.user.key" => properties.index_has_user_keys = number() != Some(0),
                b"rocksdb.block.based.table.index.type" => {
                    properties.index_kind = Input::new(value).fixed32().unwrap_or(u32::MAX);
                }
                _ => {}
            }
        }
        Ok(properties)
    }
}
