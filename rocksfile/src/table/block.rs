//! The entries of a block, and the keys in it.
//!
//! A block is a sequence of entries in the order of their keys, and after them the offsets at which keys are
//! written in full. Between these an entry has only what its key does not share with the key before.

use crate::table::{Handle, TRAILER_BYTES, TableFault};
use crate::varint::Input;

/// The length of the number and the kind after a key.
const KEY_TRAILER_BYTES: usize = 8;
/// The low bits of a block's last number count its restart points. The others name features that the tables of this
/// library do not have, but for one that changes nothing.
const RESTARTS_MASK: u32 = (1 << 28) - 1;
const UNIFORM_KEYS: u32 = 1 << 29;
/// The bytes of keys that an index may have. Keys share their beginnings, so crafted bytes could represent far more.
const INDEX_KEY_BYTES_MAX: usize = 64 << 20;

/// The kind of a change in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Stores a value.
    Value,
    /// Deletes the key.
    Deletion,
    /// Deletes all keys from this one to the value, which is excluded.
    RangeDeletion,
    /// Something that databases of this library do not do.
    Other(u8),
}

/// A key in a table, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableKey<'a> {
    /// The key as the database's user knows it.
    pub user: &'a [u8],
    /// The number of the change. A compaction makes it 0 once no older change of the key can be left.
    pub sequence: u64,
    /// The kind of the change.
    pub kind: ChangeKind,
}

impl<'a> TableKey<'a> {
    /// Parses a key. Returns `None` if it is too short.
    ///
    /// ```
    /// use cairndb_rocksfile::table::{ChangeKind, TableKey};
    ///
    /// let key = TableKey::parse(b"cairn\x01\x07\0\0\0\0\0\0").expect("a key");
    /// assert_eq!((key.user, key.sequence, key.kind), (&b"cairn"[..], 7, ChangeKind::Value));
    /// ```
    pub fn parse(key: &'a [u8]) -> Option<Self> {
        let (user, trailer) = key.split_at_checked(key.len().checked_sub(KEY_TRAILER_BYTES)?)?;
        let packed = Input::new(trailer).fixed64()?;
        let [kind, ..] = packed.to_le_bytes();
        let kind = match kind {
            // A single deletion is a deletion of a key that was written once.
            0 | 7 => ChangeKind::Deletion,
            1 => ChangeKind::Value,
            15 => ChangeKind::RangeDeletion,
            other => ChangeKind::Other(other),
        };
        Some(Self { user, sequence: packed >> 8, kind })
    }
}

/// A key as it is stored, and its value.
pub type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// The entries of a block of data, or of a list of meta blocks.
///
/// ```
/// use cairndb_rocksfile::table::Entries;
///
/// // Two keys, of which the second shares a byte with the first; then the one restart point.
/// let block = b"\0\x02\x01ab1\x01\x01\x01c2\0\0\0\0\x01\0\0\0";
/// let mut entries = Entries::of(block)?;
/// assert_eq!(entries.step()?, Some((&b"ab"[..], &b"1"[..])));
/// assert_eq!(entries.step()?, Some((&b"ac"[..], &b"2"[..])));
/// assert_eq!(entries.step()?, None);
/// # Ok::<(), cairndb_rocksfile::table::TableFault>(())
/// ```
#[derive(Clone, Debug)]
pub struct Entries<B> {
    block: B,
    /// The end of the entries and begin of the restart points.
    end: usize,
    at: usize,
    key: Vec<u8>,
}

impl<B: AsRef<[u8]>> Entries<B> {
    /// The entries of a block that was decompressed.
    ///
    /// # Errors
    /// If the end of the block is not that of one.
    pub fn of(block: B) -> Result<Self, TableFault> {
        let end = entries_end(block.as_ref()).ok_or(TableFault::Entry)?;
        Ok(Self { block, end, at: 0, key: Vec::new() })
    }

    /// Reads the next key and its value. Returns `None` at the end.
    ///
    /// # Errors
    /// If the bytes are not an entry.
    pub fn step(&mut self) -> Result<Option<KeyValue<'_>>, TableFault> {
        if self.at >= self.end {
            return Ok(None);
        }
        let Some(bytes) = self.block.as_ref().get(self.at..self.end) else { return Ok(None) };
        let mut input = Input::new(bytes);
        let value = entry(&mut input, &mut self.key, true).ok_or(TableFault::Entry)?;
        self.at = self.end - input.rest().len();
        Ok(Some((&self.key, value)))
    }

    /// The current key: that of the last step.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// Reads the entries of an index: the highest key of each block, or one between it and the next block's, and where the
/// block is. With `delta`, only the first handle after a restart point is written in full.
pub(crate) fn index_entries(block: &[u8], delta: bool) -> Result<Vec<(Vec<u8>, Handle)>, TableFault> {
    let end = entries_end(block).ok_or(TableFault::Entry)?;
    let mut input = Input::new(block.get(..end).unwrap_or_default());
    let (mut key, mut entries) = (Vec::new(), Vec::<(Vec<u8>, Handle)>::new());
    let mut key_bytes = 0_usize;
    while !input.is_empty() {
        let shares = input.peek() != Some(0);
        let value = entry(&mut input, &mut key, !delta).ok_or(TableFault::Entry)?;
        let handle = match entries.last() {
            Some((_, before)) if delta && shares => {
                Handle::after(*before, &mut input).ok_or(TableFault::Entry)?
            }
            _ if delta => Handle::parse(&mut input).ok_or(TableFault::Entry)?,
            _ => Handle::parse(&mut Input::new(value)).ok_or(TableFault::Entry)?,
        };
        key_bytes += key.len();
        if key_bytes > INDEX_KEY_BYTES_MAX {
            return Err(TableFault::Entry);
        }
        entries.push((key.clone(), handle));
    }
    Ok(entries)
}

impl Handle {
    pub(crate) fn parse(input: &mut Input<'_>) -> Option<Self> {
        Some(Self { offset: input.varint64()?, bytes: input.varint64()? })
    }

    /// The handle of the block right after `before`, of which only the difference of lengths is stored.
    fn after(before: Self, input: &mut Input<'_>) -> Option<Self> {
        let coded = input.varint64()?;
        // The lowest bit is the sign.
        let difference = (coded >> 1).cast_signed() ^ -((coded & 1).cast_signed());
        let offset = before.offset.checked_add(before.bytes)?.checked_add(TRAILER_BYTES as u64)?;
        Some(Self { offset, bytes: before.bytes.checked_add_signed(difference)? })
    }
}

/// The end of a block's entries.
fn entries_end(block: &[u8]) -> Option<usize> {
    let packed = block.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    if packed & !(RESTARTS_MASK | UNIFORM_KEYS) != 0 {
        return None;
    }
    let restarts = usize::try_from(packed & RESTARTS_MASK).ok()?;
    block.len().checked_sub(restarts.checked_add(1)?.checked_mul(4)?)
}

/// Reads an entry, and makes its key of the key before. The value is empty if its length is not stored.
fn entry<'a>(input: &mut Input<'a>, key: &mut Vec<u8>, has_length: bool) -> Option<&'a [u8]> {
    let shared = usize::try_from(input.varint32()?).ok()?;
    let own = usize::try_from(input.varint32()?).ok()?;
    let length = if has_length { usize::try_from(input.varint32()?).ok()? } else { 0 };
    if shared > key.len() {
        return None;
    }
    key.truncate(shared);
    key.extend_from_slice(input.take(own)?);
    input.take(length)
}
