//! One table of a damaged folder: its entries in the order of their keys, past what is damaged.

use std::path::{Path, PathBuf};

use base::error::Result;
use rocksfile::names::FileName;
use rocksfile::table::{BlockKind, ChangeKind, Entries, Handle, Table, TableFault, TableKey};

use crate::checksums::KeySpan;
use crate::folder::failed;
use crate::patched::Patched;
use crate::raw_file::RawFile;

/// Bytes of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// The position in bytes at which they begin.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The reason why they cannot be read.
    pub reason: String,
    /// The column family of the lost keys, if they are of a table.
    pub family: Option<String>,
    /// Between which keys the lost ones lie, if that is known.
    pub keys: Option<KeySpan>,
    /// The number of entries of the file that could not be read, reported at the first damage of the file.
    pub entries: Option<u64>,
}

/// A deleted range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeletedRange {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
    pub(super) sequence: u64,
}

/// The known facts of a table before its entries are read.
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the table")]
pub(super) struct TableOutline {
    pub(super) number: u64,
    pub(super) family: Option<Vec<u8>>,
    pub(super) family_number: Option<u32>,
    pub(super) deleted: Vec<DeletedRange>,
    /// The first key that can be read; empty if something before it cannot.
    pub(super) first_key: Vec<u8>,
    pub(super) is_empty: bool,
    /// Whether ranges may have been deleted by it that cannot be read.
    pub(super) hides_deletions: bool,
    /// Whether the first value that can be read is a document.
    pub(super) first_is_document: bool,
    /// Its number of entries, if it has one.
    pub(super) entries: Option<u64>,
    /// Whether the disk gave any of its bytes, and what the system said of others.
    pub(super) has_read: bool,
    pub(super) failure: Option<String>,
}

/// The entries of a table.
pub(super) struct TableCursor {
    path: PathBuf,
    table: Table<Patched<RawFile>>,
    pub(super) number: u64,
    family: Option<String>,
    blocks: std::vec::IntoIter<KeyBlock>,
    above: Vec<u8>,
    entries: Option<Entries<Vec<u8>>>,
    pub(super) current: Option<CurrentEntry>,
    read: u64,
    expected: Option<u64>,
    pub(super) damages: Vec<Unreadable>,
    first_damage: Option<u64>,
    /// Whether the index leads to all blocks of data.
    has_index: bool,
}

struct KeyBlock {
    handle: Handle,
    key_bound: Option<Vec<u8>>,
}

/// The entry that a cursor is at.
#[derive(Default)]
pub(super) struct CurrentEntry {
    pub(super) key: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) kind: Option<ChangeKind>,
    pub(super) value: Vec<u8>,
}

impl TableOutline {
    /// Reads everything of a table but its entries.
    pub(super) fn read(path: &Path, number: u64) -> Result<(Self, Vec<Unreadable>)> {
        let mut cursor = TableCursor::open(path, number)?;
        let mut damages = cursor.damages_of_meta();
        let properties = cursor.table.properties().cloned();
        let ranges =
            cursor.table.blocks().iter().find(|block| block.kind == BlockKind::RangeDeletions).cloned();
        let mut deleted = Vec::new();
        // The list of meta blocks is what leads to the deleted ranges.
        let is_listed = |kind: Option<BlockKind>| kind != Some(BlockKind::MetaIndex) && kind.is_some();
        let mut hides_deletions = !cursor.table.damages().iter().all(|damage| is_listed(damage.kind));
        if let Some(block) = ranges {
            match cursor.load(block.handle).map(deleted_ranges) {
                Ok(ranges) => deleted = ranges,
                Err(reason) => {
                    hides_deletions = true;
                    let reason = format!("the {}: {reason}; what was deleted by it can be back", block.kind);
                    damages.push(cursor.unreadable(block.handle, reason, None));
                }
            }
        }
        cursor.advance();
        // Without a first block it is not known where the table begins.
        let first_key = match &cursor.current {
            Some(current) if cursor.damages.is_empty() => current.key.clone(),
            Some(_) | None => Vec::new(),
        };
        let first_is_document =
            cursor.current.as_ref().is_some_and(|current| index::validate::validate(&current.value).is_ok());
        let is_empty = cursor.current.is_none() && cursor.damages.is_empty();
        let outline = Self {
            number,
            family: properties.as_ref().and_then(|properties| properties.family_name.clone()),
            family_number: properties.as_ref().and_then(|properties| properties.family),
            deleted,
            first_key,
            is_empty,
            hides_deletions,
            first_is_document,
            entries: cursor.expected,
            has_read: cursor.table.source().has_read(),
            failure: cursor.table.source().failure().map(str::to_owned),
        };
        Ok((outline, damages))
    }

    /// The damage of a table that cannot be opened any more. All of its keys may be lost, the first of which is `from`.
    pub(super) fn lost(&self, folder: &Path, from: &[u8], reason: String) -> Unreadable {
        // A span begins after its lower end. Keys below the first one are passed by then.
        let mut above = from.to_vec();
        above.pop();
        Unreadable {
            path: folder.join(FileName::Table(self.number).to_string()),
            offset: 0,
            bytes: 0,
            reason,
            family: self.family.as_deref().map(|name| String::from_utf8_lossy(name).into_owned()),
            keys: Some(KeySpan { above, up_to: vec![0xff; 8] }),
            entries: self.entries,
        }
    }
}

impl TableCursor {
    pub(super) fn open(folder: &Path, number: u64) -> Result<Self> {
        let path = folder.join(FileName::Table(number).to_string());
        let file = RawFile::open_past_unreadable(&path).map_err(failed("open the file", &path))?;
        let mut table = Table::open(file).map_err(failed("read the file", &path))?;
        let has_index = table.has_index();
        let blocks = if has_index {
            let data = table.blocks().iter().filter(|block| block.kind == BlockKind::Data);
            data.map(|block| KeyBlock { handle: block.handle, key_bound: block.key_bound.clone() }).collect()
        } else {
            searched(&mut table, &path)?
        };
        let properties = table.properties();
        let family = properties.and_then(|properties| properties.family_name.clone());
        let family = family.map(|name| String::from_utf8_lossy(&name).into_owned());
        // Deleted ranges count as entries.
        let expected = properties.and_then(|properties| {
            properties.entries.map(|entries| entries.saturating_sub(properties.range_deletions))
        });
        Ok(Self {
            path,
            table,
            number,
            family,
            blocks: blocks.into_iter(),
            above: Vec::new(),
            entries: None,
            current: None,
            read: 0,
            expected,
            damages: Vec::new(),
            first_damage: None,
            has_index,
        })
    }

    /// Steps to the next entry that can be read. Damage on the way is noted.
    pub(super) fn advance(&mut self) {
        loop {
            if self.step_in_block() {
                self.read += 1;
                return;
            }
            let Some(block) = self.blocks.next() else {
                self.current = None;
                return;
            };
            let up_to = block.key_bound.clone();
            match self
                .load(block.handle)
                .and_then(|content| Entries::of(content).map_err(|fault| fault.to_string()))
            {
                Ok(entries) => self.entries = Some(entries),
                Err(reason) => {
                    let span = up_to.clone().map(|up_to| KeySpan { above: self.above.clone(), up_to });
                    let reason = format!("the {}: {reason}", BlockKind::Data);
                    let damage = self.unreadable(block.handle, reason, span);
                    self.first_damage.get_or_insert(damage.offset);
                    self.damages.push(damage);
                }
            }
            self.above = up_to.unwrap_or_default();
        }
    }

    /// The number of entries of the table beyond those that were read. Only at its end is that what is lost.
    pub(super) fn entries_left(&self) -> Option<u64> {
        self.expected.map(|expected| expected.saturating_sub(self.read))
    }

    pub(super) fn has_index(&self) -> bool {
        self.has_index
    }

    /// The offset of the first damage that was met.
    pub(super) fn first_damage(&self) -> Option<u64> {
        self.first_damage
    }

    /// Whether a damage is one of this table.
    pub(super) fn is_of(&self, damage: &Unreadable) -> bool {
        self.path == damage.path
    }

    /// The damage of a table that ends before all of its entries were found.
    pub(super) fn missing(&self, entries: Option<u64>) -> Unreadable {
        let handle = Handle { offset: 0, bytes: 0 };
        let reason =
            if self.has_index { "entries are missing" } else { "without an index not all blocks were found" };
        let keys = KeySpan { above: self.above.clone(), up_to: vec![0xff; 8] };
        Unreadable { entries, ..self.unreadable(handle, reason.to_owned(), Some(keys)) }
    }

    /// Steps within the current block. Returns `false` at its end.
    fn step_in_block(&mut self) -> bool {
        let Some(entries) = &mut self.entries else { return false };
        let current = self.current.get_or_insert_default();
        // A block with a right checksum has no malformed entry, unless it was written so. The rest of it is given up then,
        // which shows in the number of entries.
        if let Ok(Some((key, value))) = entries.step()
            && let Some(parsed) = TableKey::parse(key)
        {
            current.key.clear();
            current.key.extend_from_slice(parsed.user);
            current.value.clear();
            current.value.extend_from_slice(value);
            (current.sequence, current.kind) = (parsed.sequence, Some(parsed.kind));
            return true;
        }
        self.entries = None;
        false
    }

    /// The content of a block, or why there is none.
    fn load(&mut self, handle: Handle) -> std::result::Result<Vec<u8>, String> {
        // Bytes that the disk does not give are lost like those that it gives wrongly.
        match self.table.load(handle) {
            Ok(loaded) => loaded.map_err(|fault| self.reason(handle, fault)),
            Err(error) => Err(format!("it cannot be read: {error}")),
        }
    }

    /// The reason of a block's damage: the unreadable part of it, or the flaw in its content.
    fn reason(&self, handle: Handle, fault: TableFault) -> String {
        let part = handle.offset..handle.offset.saturating_add(handle.stored_bytes());
        self.table.source().unreadable_in(part).unwrap_or_else(|| fault.to_string())
    }

    fn unreadable(&self, handle: Handle, reason: String, keys: Option<KeySpan>) -> Unreadable {
        Unreadable {
            path: self.path.clone(),
            offset: handle.offset,
            bytes: handle.stored_bytes(),
            reason,
            family: self.family.clone(),
            keys,
            entries: None,
        }
    }

    /// The damages of the parts that are not data.
    fn damages_of_meta(&self) -> Vec<Unreadable> {
        let damages =
            self.table.damages().iter().filter(|damage| damage.kind != Some(BlockKind::RangeDeletions));
        let described = damages.map(|damage| {
            let place =
                damage.kind.map_or_else(|| "a part of the file".to_owned(), |kind| format!("the {kind}"));
            self.unreadable(
                damage.handle,
                format!("{place}: {}", self.reason(damage.handle, damage.fault)),
                None,
            )
        });
        described.collect()
    }
}

/// The blocks of data of a table without an index.
fn searched(table: &mut Table<Patched<RawFile>>, path: &Path) -> Result<Vec<KeyBlock>> {
    let mut blocks = Vec::new();
    let mut last = Vec::new();
    let found = table.search(|handle, content| {
        let is_data = is_data(content, &mut last);
        if is_data {
            blocks.push(KeyBlock { handle, key_bound: Some(last.clone()) });
        }
        Ok::<bool, std::io::Error>(is_data)
    });
    found.map_err(failed("read the file", path))?;
    Ok(blocks)
}

/// Whether a block has entries of data, all after the key `last`, which then becomes the last key of the block.
fn is_data(content: Vec<u8>, last: &mut Vec<u8>) -> bool {
    let Ok(mut entries) = Entries::of(content) else { return false };
    let mut newest = last.clone();
    let mut count = 0;
    loop {
        match entries.step() {
            Ok(None) => break,
            Ok(Some((key, _))) => {
                let Some(key) = TableKey::parse(key) else { return false };
                // An index has such blocks too, but its keys do not go on after the data's.
                if !matches!(key.kind, ChangeKind::Value | ChangeKind::Deletion)
                    || key.user < newest.as_slice()
                {
                    return false;
                }
                newest.clear();
                newest.extend_from_slice(key.user);
                count += 1;
            }
            Err(_) => return false,
        }
    }
    *last = newest;
    count > 0
}

/// The ranges of a list of deleted ones, which has a right checksum: a malformed end of it is left.
fn deleted_ranges(content: Vec<u8>) -> Vec<DeletedRange> {
    let mut ranges = Vec::new();
    let Ok(mut entries) = Entries::of(content) else { return ranges };
    while let Ok(Some((key, end))) = entries.step() {
        let Some(key) = TableKey::parse(key) else { break };
        ranges.push(DeletedRange { start: key.user.to_vec(), end: end.to_vec(), sequence: key.sequence });
    }
    ranges
}
