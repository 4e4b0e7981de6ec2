//! Names and versions that reach the disk. Nothing here may ever change its meaning: a new layout gets a new format
//! version, and a folder of another version is rejected or upgraded. `docs/format.md` describes the same in prose.

/// The version of the format of folders that this library makes. A folder names its own, and one that cannot be read is
/// rejected with both numbers.
///
/// ```
/// assert!(cairndb::FORMAT_VERSION >= 7);
/// ```
pub const FORMAT_VERSION: u32 = 7;
/// The version of RocksDB that is linked. Its files are read by later versions, and not by all earlier ones.
///
/// ```
/// assert_eq!(cairndb::ROCKSDB_VERSION.split('.').count(), 3);
/// ```
pub const ROCKSDB_VERSION: &str = match option_env!("CAIRNDB_ROCKSDB_VERSION") {
    Some(version) => version,
    // Only where another crate includes this file: the build script sets it.
    None => "",
};
/// The oldest version that is read. A writer upgrades its folder while it opens it.
pub const FORMAT_VERSION_OLDEST: u32 = 3;

/// The family of the format stamp, catalog entries and counters.
pub const FAMILY_META: &str = "meta";
/// The family of documents.
pub const FAMILY_RECORDS: &str = "records";
/// The family of secondary index entries.
pub const FAMILY_ENTRIES: &str = "entries";
/// The family of what repeated writes are answered from. Format 6 has added it.
pub const FAMILY_OUTCOMES: &str = "outcomes";
/// The family of what was changed, for those who watch. Format 7 has added it.
pub const FAMILY_CHANGES: &str = "changes";

/// A column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Format stamp, catalog entries, counters.
    Meta,
    /// Documents by collection and `_id`.
    Records,
    /// Secondary index entries.
    Entries,
    /// The answers to repeated writes.
    Outcomes,
    /// The log of changes.
    Changes,
}

impl Family {
    /// All families, in the order in which they are created.
    pub const ALL: [Self; 5] = [Self::Meta, Self::Records, Self::Entries, Self::Outcomes, Self::Changes];

    /// The name on disk.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => FAMILY_META,
            Self::Records => FAMILY_RECORDS,
            Self::Entries => FAMILY_ENTRIES,
            Self::Outcomes => FAMILY_OUTCOMES,
            Self::Changes => FAMILY_CHANGES,
        }
    }
}

/// The file that marks a folder as a complete database. It is created last.
pub const MARKER_FILE: &str = "CAIRNDB";
/// The marker file's name while the database is created. Nothing in such a folder was ever acknowledged.
pub const CREATING_FILE: &str = "CAIRNDB.creating";
/// The first words of the marker file; the version follows in decimal, then a line feed.
pub const MARKER_PREFIX: &str = "CairnDB format ";

/// The marker file's whole content.
pub fn marker_text() -> String {
    format!("{MARKER_PREFIX}{FORMAT_VERSION}\n")
}

/// The format named by a marker file's content, if a version could have written it: "+4" and "04" are numbers, and no versions.
pub fn parse_marker(bytes: &[u8]) -> Option<u32> {
    let number = str::from_utf8(bytes).ok()?.strip_prefix(MARKER_PREFIX)?.strip_suffix('\n')?;
    number.parse().ok().filter(|version: &u32| version.to_string() == number)
}

/// Whether this library reads folders of a version.
pub fn is_readable(version: u32) -> bool {
    (FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&version)
}

/// The file that says how far writes are on stable storage.
pub const WITNESS_FILE: &str = "CAIRNDB.witness";
/// The offsets of the witness's two slots, in bytes. They lie apart, so that a write that fails in one leaves the
/// other intact.
pub const WITNESS_SLOTS_AT: [u64; 2] = [0, 4096];
/// The length of a slot of the witness.
pub const WITNESS_SLOT_BYTES: usize = 76;
const WITNESS_MAGIC: [u8; 8] = *b"CairnWit";
const WITNESS_NOT_KEPT: u64 = 1;
/// The flag of a copy whose log of changes has the id of the original's.
const WITNESS_COPIED: u64 = 2;

/// The beginning of the names of files with the part that was cut from the end of a log. The log's name and the
/// offset of the cut follow.
pub const ASIDE_PREFIX: &str = "CAIRNDB.torn-";

/// The beginning of the names of folders with the files of an index build. The id of the index follows. Nothing in
/// them is needed after the build, so they are removed when the database is opened.
pub const BUILD_PREFIX: &str = "CAIRNDB.build-";

/// The folder of the temporary files of sorts, groups and joins. Nothing in it is needed after the operation, so it is removed when
/// the database is opened.
pub const SPILL_FOLDER: &str = "CAIRNDB.spill";

/// The beginning of the names of folders with links to the files of the store, while a reader copies it beside a
/// writer. The number of the reader's process follows. What a kill left is removed when the database is opened.
pub const BACKUP_PREFIX: &str = "CAIRNDB.backup-";

/// The file by which a copy is known while it is made, and that is locked then.
pub const COPYING_FILE: &str = "CAIRNDB.copying";

/// The file that marks a folder as one of generations of backups, and is locked while one is made.
pub const BACKUPS_FILE: &str = "CAIRNDB.backups";
/// Its beginning. The id of the store follows in hexadecimal, then a line feed.
pub const BACKUPS_PREFIX: &str = "CairnDB backups 1 ";
/// The file beside generations that lists the tables of the newest one.
pub const TABLES_FILE: &str = "CAIRNDB.tables";
/// Its beginning. The name of the generation follows, and after it a line for each table: name, length, and hash
/// (XXH3, 128 bits) in hexadecimal.
pub const TABLES_PREFIX: &str = "CairnDB tables 1 ";

/// The id of a database: random bytes. The stamps in its logs carry it.
pub type StoreId = [u8; 8];

const LOG_STAMP_TAG: u8 = b'S';
const LOG_STAMP_BYTES: usize = 17;

/// A note in the log with a commit. It says what was on stable storage before the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStamp {
    /// The store that wrote it.
    pub store: StoreId,
    /// The newest write known to be on stable storage.
    pub synced: u64,
}

impl LogStamp {
    /// The stamp as the log has it.
    pub fn bytes(self) -> [u8; LOG_STAMP_BYTES] {
        let mut bytes = [LOG_STAMP_TAG; LOG_STAMP_BYTES];
        let parts = self.store.into_iter().chain(self.synced.to_be_bytes());
        bytes.iter_mut().skip(1).zip(parts).for_each(|(byte, part)| *byte = part);
        bytes
    }

    /// Reads a note of the log. Returns `None` if it is not a stamp.
    pub fn parse(note: &[u8]) -> Option<Self> {
        let (tag, rest) = note.split_first()?;
        let (store, synced) = rest.split_first_chunk()?;
        let synced = <[u8; 8]>::try_from(synced).ok()?;
        (*tag == LOG_STAMP_TAG).then_some(Self { store: *store, synced: u64::from_be_bytes(synced) })
    }
}

/// A slot of the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessSlot {
    /// The store that wrote it.
    pub store: StoreId,
    /// The number of slots that were written before. Of two slots the one with the higher turn is the newer.
    pub turn: u64,
    /// Whether the witness is kept. If not, the fields below say nothing.
    pub kept: bool,
    /// Whether the folder is a copy whose log of changes goes by the id of the original's.
    pub copied: bool,
    /// The newest write on stable storage.
    pub sequence: u64,
    /// The MANIFEST in use: its number, and its bytes on stable storage.
    pub manifest: (u64, u64),
    /// The newest log that is not empty: its number, and its bytes on stable storage.
    pub log: (u64, u64),
}

impl WitnessSlot {
    /// The slot as the file has it.
    pub fn bytes(&self) -> [u8; WITNESS_SLOT_BYTES] {
        let flags =
            if self.kept { 0 } else { WITNESS_NOT_KEPT } | if self.copied { WITNESS_COPIED } else { 0 };
        let numbers =
            [self.turn, flags, self.sequence, self.manifest.0, self.manifest.1, self.log.0, self.log.1];
        let mut bytes = [0; WITNESS_SLOT_BYTES];
        let parts = WITNESS_MAGIC.into_iter().chain(self.store);
        let parts = parts.chain(numbers.into_iter().flat_map(u64::to_be_bytes));
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        // The checksum covers everything before it, so a slot that was written in part is never valid.
        if let Some((covered, checksum)) = bytes.split_last_chunk_mut() {
            *checksum = crc32c::crc32c(covered).to_be_bytes();
        }
        bytes
    }

    /// Reads a slot. Returns `None` if the bytes are not a slot, or were damaged.
    pub fn parse(bytes: &[u8; WITNESS_SLOT_BYTES]) -> Option<Self> {
        let (covered, checksum) = bytes.split_last_chunk()?;
        if crc32c::crc32c(covered).to_be_bytes() != *checksum {
            return None;
        }
        let (magic, rest) = covered.split_first_chunk::<8>()?;
        let (store, rest) = rest.split_first_chunk()?;
        let mut numbers = rest.as_chunks::<8>().0.iter().map(|number| u64::from_be_bytes(*number));
        let mut next = || numbers.next();
        let (turn, flags, sequence) = (next()?, next()?, next()?);
        let (manifest, log) = ((next()?, next()?), (next()?, next()?));
        // An unknown flag comes from a later version, whose slot may mean something else.
        let known = *magic == WITNESS_MAGIC && flags & !(WITNESS_NOT_KEPT | WITNESS_COPIED) == 0;
        let (kept, copied) = (flags & WITNESS_NOT_KEPT == 0, flags & WITNESS_COPIED != 0);
        known.then_some(Self { store: *store, turn, kept, copied, sequence, manifest, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_names_its_format() {
        assert_eq!(parse_marker(marker_text().as_bytes()), Some(FORMAT_VERSION));
        assert_eq!(parse_marker(b"CairnDB format 7\n"), Some(7));
        for malformed in [
            &b"CairnDB format 3"[..],
            b"CairnDB format +4\n",
            b"CairnDB format 04\n",
            b"CairnDB format x\n",
            b"\xff",
            b"",
        ] {
            assert_eq!(parse_marker(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn the_versions_since_the_oldest_are_readable() {
        assert!((FORMAT_VERSION_OLDEST..=FORMAT_VERSION).all(is_readable));
        assert!(!is_readable(2) && !is_readable(FORMAT_VERSION + 1) && !is_readable(u32::MAX));
        // `FolderLock::upgrade` writes one text over the other.
        assert_eq!(FORMAT_VERSION.to_string().len(), FORMAT_VERSION_OLDEST.to_string().len());
    }

    #[test]
    fn a_log_stamp_is_read_as_it_was_written() {
        let stamp = LogStamp { store: *b"database", synced: 0x0102_0304_0506_0708 };
        assert_eq!(stamp.bytes(), *b"Sdatabase\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(LogStamp::parse(&stamp.bytes()), Some(stamp));
        let longer = [stamp.bytes().as_slice(), &[0]].concat();
        for other in [b"".as_slice(), b"S", &stamp.bytes()[1..], &longer] {
            assert_eq!(LogStamp::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_witness_slot_is_read_as_it_was_written_or_not_at_all() {
        for (kept, copied) in [(true, false), (false, false), (true, true), (false, true)] {
            let slot = WitnessSlot {
                store: *b"database",
                turn: 7,
                kept,
                copied,
                sequence: 1000,
                manifest: (5, 300),
                log: (4, u64::MAX),
            };
            let bytes = slot.bytes();
            assert_eq!(WitnessSlot::parse(&bytes), Some(slot));
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(WitnessSlot::parse(&damaged), None, "bit {bit}");
            }
        }
        assert_eq!(WitnessSlot::parse(&[0; WITNESS_SLOT_BYTES]), None);
    }
}
