//! The checksums of a folder's files: every block of every table, every record of the logs and the MANIFEST.
//!
//! RocksDB checks a block when it reads it, so damage in what is seldom read stays hidden for years. Here all of it is
//! read, beside writers and compactions, and without RocksDB: files that come and go are not findings, no lock is held, and
//! one block is in memory at a time. What is not here: whether keys and documents are right, which is the audit's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::error::{ErrorKind, Result};
use rocksfile::batch::Batch;
use rocksfile::log::BLOCK_BYTES;
use rocksfile::manifest::Manifest;
use rocksfile::names::FileName;
use rocksfile::record::{Records, Step};
use rocksfile::table::{BlockKind, Handle, Table, TableFault};

use crate::folder::failed;
use crate::options::PlantedFault;
use crate::pace::Pace;
use crate::patched::Patched;
use crate::preflight::{self, Files, Length, SyncedState};
use crate::raw_file::{RawFile, is_of_disk};
use crate::witness;

/// The time that a file is read before a check whether it was deleted meanwhile.
const DELETION_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Something wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFlaw {
    /// The file.
    pub path: PathBuf,
    /// The position in bytes at which the damage begins.
    pub offset: u64,
    /// The reason why it is damaged.
    pub problem: String,
    /// The column family whose keys are in the damaged bytes, if they are of a table.
    pub family: Option<String>,
    /// Between which keys the damaged keys lie, as far as it is known: the lower one and the higher one.
    pub keys: Option<KeySpan>,
}

/// A span of keys: from the lower one, which is not in it, to the higher one, which is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpan {
    /// The lower key.
    pub above: Vec<u8>,
    /// The higher key.
    pub up_to: Vec<u8>,
}

/// The files of a folder at one moment.
pub struct FileSet {
    path: PathBuf,
    known: SyncedState,
    logs: Vec<Length>,
    /// The tables by number, with their length if it is known.
    tables: BTreeMap<u64, TableFile>,
    manifest: Option<Manifest>,
    /// The flaws that were found while the files were listed.
    pub flaws: Vec<FileFlaw>,
    fault: PlantedFault,
}

#[derive(Clone, Debug, Default)]
struct TableFile {
    bytes: Option<u64>,
    family: Option<String>,
}

/// The result of reading one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesRead {
    /// The number of files that were read.
    pub files: u64,
    /// The number of their bytes.
    pub bytes: u64,
}

/// The view of a folder while its files are read.
#[derive(Clone, Copy, Debug)]
pub struct FolderView {
    /// Whether the folder has a witness that is kept.
    pub witness: bool,
    /// The fault that is planted in the store.
    pub fault: PlantedFault,
}

impl FileSet {
    /// Lists the files that the database consists of now. What is wrong with the MANIFEST and the witness is a flaw.
    pub fn list(path: &Path, view: FolderView) -> Result<Self> {
        let mut flaws = Vec::new();
        let known = match witness::read(path) {
            Ok(found) if view.witness => found.known(),
            Ok(found) => found.id_only(),
            Err(error) => {
                if view.witness {
                    flaws.extend(flaw_of(error)?);
                }
                SyncedState::default()
            }
        };
        let logs;
        let (mut tables, mut manifest) = (BTreeMap::new(), None);
        match preflight::list(path, &known) {
            Ok(files) => {
                let found = files.manifest.tables_of_families();
                tables.extend(found.map(|(family, table)| {
                    let family = Some(String::from_utf8_lossy(family).into_owned());
                    (table.number, TableFile { bytes: Some(table.bytes), family })
                }));
                let Files { logs: found, manifest: read, .. } = files;
                (logs, manifest) = (found, Some(read));
            }
            Err(error) => {
                // Which files belong to the database is not known then, so all that are there are looked at.
                flaws.extend(flaw_of(error)?);
                logs = preflight::all_logs(path)?;
                tables.extend(tables_in(path)?.into_iter().map(|number| (number, TableFile::default())));
            }
        }
        let path = path.to_owned();
        Ok(Self { path, known, logs, tables, manifest, flaws, fault: view.fault })
    }

    /// The number of files that were read to make the list: the MANIFEST, if it could be read.
    pub fn listed_by(&self) -> u64 {
        u64::from(self.manifest.is_some())
    }

    /// The number of bytes to read.
    pub fn bytes(&self) -> u64 {
        let logs = self.logs.iter().map(|log| log.bytes);
        logs.chain(self.tables.values().filter_map(|table| table.bytes)).sum()
    }

    /// Reads the next file. Returns `None` if there is none. A file that is gone counts as none, and is not a flaw if it may be.
    /// `tell` is called for each piece that is read, with its length. The caller collects the flaws after each step.
    ///
    /// # Errors
    /// If the pace says that the reading is to end, or the folder cannot be listed. What is wrong with a file is not an error.
    pub fn step(&mut self, pace: &mut Pace<'_>, tell: &mut dyn FnMut(u64)) -> Result<Option<FilesRead>> {
        let mut spend = |bytes| {
            pace.spend(bytes)?;
            tell(bytes);
            Ok(())
        };
        if let Some(log) = self.logs.pop() {
            let is_read = self.check_log(log, &mut spend)?;
            return Ok(Some(if is_read {
                FilesRead { files: 1, bytes: log.bytes }
            } else {
                FilesRead::default()
            }));
        }
        // The list is shortened as well by the tables that the database drops meanwhile.
        let Some((number, table)) = self.tables.pop_first() else { return Ok(None) };
        let bytes = self.check_table(number, &table, &mut spend)?;
        Ok(Some(bytes.map_or(FilesRead::default(), |bytes| FilesRead { files: 1, bytes })))
    }

    /// Reads a log up to the length that it had when the files were listed. Returns `false` if it is gone.
    fn check_log(&mut self, length: Length, spend: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        let path = self.path.join(FileName::Log(length.number).to_string());
        let file = match RawFile::open_past_unreadable(&path) {
            Ok(file) => file,
            // RocksDB deletes logs whose writes are in tables. A needed one that is missing was found by the listing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                self.flaw(&path, 0, format!("it cannot be opened: {error}"));
                return Ok(true);
            }
        };
        let durable = self.durable_bytes(length.number);
        let mut records = Records::new(file.take(length.bytes), length.number, usize::MAX);
        let mut first: Option<(u64, String)> = None;
        let mut is_damage = false;
        loop {
            // Unreadable parts read as zeros, so this is none of the disk's errors.
            let step = match records.step() {
                Ok(step) => step,
                Err(error) => {
                    (first, is_damage) =
                        (Some((records.offset(), format!("it cannot be read: {error}"))), true);
                    break;
                }
            };
            match step {
                Step::End => break,
                Step::Record(record) => {
                    // The end of a log that is being written to may be cut. With whole records after it, it is damage.
                    is_damage |= first.is_some();
                    if Batch::parse(records.front()).is_none() && first.is_none() {
                        (first, is_damage) =
                            (Some((record.offset, "a write batch has no number".to_owned())), true);
                    }
                    spend(record.end - record.offset)?;
                }
                Step::Fault(_, fault) => {
                    let _ = first.get_or_insert_with(|| (records.whole_until(), fault.to_string()));
                }
            }
        }
        let unreadable: Vec<(u64, String)> = records.source().get_ref().told().collect();
        // A flaw right where nothing could be read follows from that.
        let follows =
            |offset: u64| unreadable.iter().any(|(from, _)| from.abs_diff(offset) < BLOCK_BYTES as u64);
        if let Some((offset, problem)) = first
            && (is_damage || offset < durable)
            && !follows(offset)
        {
            self.flaw(&path, offset, problem);
        }
        for (offset, problem) in unreadable {
            self.flaw(&path, offset, problem);
        }
        Ok(true)
    }

    /// The synced length of a log, as far as the witness knows: see the preflight.
    fn durable_bytes(&self, number: u64) -> u64 {
        match self.known.log {
            Some(known) if known.number > number => u64::MAX,
            Some(known) if known.number == number => known.bytes,
            Some(_) | None => 0,
        }
    }

    /// Reads a table block by block. Returns its length, or `None` if the database has dropped it.
    fn check_table(
        &mut self,
        number: u64,
        listed: &TableFile,
        spend: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Option<u64>> {
        let path = self.path.join(FileName::Table(number).to_string());
        let opened =
            RawFile::open_past_unreadable(&path).and_then(|file| Ok((file.length(), Table::open(file)?)));
        let (bytes, mut table) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.is_still_needed(number)? {
                    self.flaw(&path, 0, "it is missing, but the MANIFEST names it".to_owned());
                    return Ok(Some(0));
                }
                return Ok(None);
            }
            Err(error) => {
                self.flaw(&path, 0, format!("it cannot be read: {error}"));
                return Ok(Some(0));
            }
        };
        if let Some(expected) = listed.bytes.filter(|expected| *expected != bytes) {
            self.flaw(
                &path,
                bytes.min(expected),
                format!("it is {bytes} bytes long, the MANIFEST says {expected}"),
            );
        }
        let mut seen = Table::damages(&table).to_vec();
        let family = listed.family.clone().or_else(|| family_of(&table));
        for damage in &seen {
            let place =
                damage.kind.map_or_else(|| "a part of the file".to_owned(), |kind| format!("the {kind}"));
            let problem = format!("{place}: {}", reason(&table, damage.handle, damage.fault));
            let (path, family) = (path.clone(), family.clone());
            let offset = damage.handle.offset;
            self.flaws.push(FileFlaw { path, offset, problem, family, keys: None });
        }
        let blocks = table.blocks().to_vec();
        let (mut above, mut asked) = (Vec::new(), Instant::now());
        for block in blocks {
            let span =
                block.key_bound.as_ref().map(|up_to| KeySpan { above: above.clone(), up_to: up_to.clone() });
            if let Some(bound) = block.key_bound {
                above = bound;
            }
            // A block that was found damaged when the table was opened is not found a second time.
            seen.retain(|damage| damage.handle >= block.handle);
            if seen.iter().any(|damage| damage.handle == block.handle) || self.is_left_out(block.kind) {
                continue;
            }
            spend(block.handle.stored_bytes().min(bytes))?;
            // A table that a compaction has replaced keeps its space as long as it is open here.
            if asked.elapsed() > DELETION_LOOK_INTERVAL {
                if table.source().file().is_deleted() {
                    return Ok(None);
                }
                asked = Instant::now();
            }
            let problem = match table.check(block.handle) {
                Ok(None) => continue,
                Ok(Some(fault)) => reason(&table, block.handle, fault),
                Err(error) => format!("it cannot be read: {error}"),
            };
            let (path, family, problem) =
                (path.clone(), family.clone(), format!("the {}: {problem}", block.kind));
            self.flaws.push(FileFlaw { path, offset: block.handle.offset, problem, family, keys: span });
        }
        Ok(Some(bytes))
    }

    /// Whether the database still has a table that was on the list. The others that it dropped meanwhile leave the list.
    fn is_still_needed(&mut self, number: u64) -> Result<bool> {
        if self.manifest.is_none() {
            return Ok(tables_in(&self.path)?.contains(&number));
        }
        let Ok(files) = preflight::list(&self.path, &self.known) else {
            // The MANIFEST could be read a moment ago, so the next verification finds that.
            return Ok(true);
        };
        let left: BTreeSet<u64> = files.manifest.tables().map(|table| table.number).collect();
        self.tables.retain(|number, _| left.contains(number));
        Ok(left.contains(&number))
    }

    fn is_left_out(&self, kind: BlockKind) -> bool {
        self.fault == PlantedFault::FiltersNotVerified && kind == BlockKind::Filter
    }

    fn flaw(&mut self, path: &Path, offset: u64, problem: String) {
        self.flaws.push(FileFlaw { path: path.to_owned(), offset, problem, family: None, keys: None });
    }
}

fn family_of<R: Read + io::Seek>(table: &Table<R>) -> Option<String> {
    let name = table.properties()?.family_name.as_ref()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The flaw of a block: the unreadable part of it, or the flaw in its content.
fn reason(table: &Table<Patched<RawFile>>, handle: Handle, fault: TableFault) -> String {
    let part = handle.offset..handle.offset.saturating_add(handle.stored_bytes());
    table.source().unreadable_in(part).unwrap_or_else(|| fault.to_string())
}

/// The flaw that an error of the preflight describes. Errors that say nothing of the disk stay errors.
fn flaw_of(error: base::error::Error) -> Result<Option<FileFlaw>> {
    let (path, offset, problem) = if let ErrorKind::DamagedFile { path, offset, reason } = error.kind() {
        (path.clone(), *offset, reason.clone())
    } else if let ErrorKind::Io { path: Some(path), error, .. } = error.kind()
        && is_of_disk(error)
    {
        (path.clone(), 0, format!("it cannot be read: {error}"))
    } else {
        return Err(error);
    };
    Ok(Some(FileFlaw { path, offset, problem, family: None, keys: None }))
}

/// The numbers of all tables in a folder.
pub(super) fn tables_in(path: &Path) -> Result<Vec<u64>> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(path).map_err(failed("list the folder", path))? {
        let name = entry.map_err(failed("list the folder", path))?.file_name();
        if let Some(FileName::Table(number)) = name.to_str().and_then(FileName::parse) {
            tables.push(number);
        }
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use rocksdb::{BlockBasedOptions, ChecksumType, DBCompressionType, Options, SstFileWriter};
    use rocksfile::table::{ChangeKind, Entries, TableKey};

    use super::*;

    /// Keys that share beginnings, some of them with large values.
    fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |number: u32| {
            let bytes = if number.is_multiple_of(97) { 20_000 } else { 60 };
            (0..bytes).map(|at| ((at * number) >> 3).to_le_bytes()[0]).collect::<Vec<u8>>()
        };
        (0..3000_u32).map(|number| ([b"key ", &number.to_be_bytes()[..]].concat(), value(number))).collect()
    }

    /// Every form of table that RocksDB can be asked to write and this library could meet.
    #[test]
    fn tables_of_rocksdb_are_read_as_rocksdb_reads_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let checksums =
            || [ChecksumType::CRC32c, ChecksumType::XXHash, ChecksumType::XXHash64, ChecksumType::XXH3];
        for version in [4, 5, 6, 7] {
            for compression in [DBCompressionType::None, DBCompressionType::Lz4, DBCompressionType::Zstd] {
                for (checksum, restarts) in checksums().into_iter().zip([1, 16, 1, 16]) {
                    let path = folder.path().join("1.sst");
                    let mut table = BlockBasedOptions::default();
                    table.set_format_version(version);
                    table.set_checksum_type(checksum);
                    table.set_block_size(2000);
                    table.set_bloom_filter(10.0, false);
                    table.set_index_block_restart_interval(restarts);
                    let mut options = Options::default();
                    options.set_block_based_table_factory(&table);
                    options.set_compression_type(compression);
                    write(&path, &options);
                    assert_eq!(read(&path), entries(), "version {version}, {compression:?}");
                }
            }
        }
    }

    fn write(path: &Path, options: &Options) {
        let mut writer = SstFileWriter::create(options);
        writer.open(path).expect("made");
        for (key, value) in entries() {
            writer.put(key, value).expect("added");
        }
        writer.finish().expect("written");
    }

    fn read(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut table = Table::open(RawFile::open(path).expect("opened")).expect("read");
        assert_eq!(table.damages(), []);
        let mut found = Vec::new();
        let mut searched = Vec::new();
        for block in table.blocks().to_vec() {
            assert_eq!(table.check(block.handle).expect("read"), None, "the {}", block.kind);
            if block.kind == BlockKind::Data {
                searched.push(block.handle);
                let content = table.load(block.handle).expect("read").expect("whole");
                let mut entries = Entries::of(content).expect("a block");
                while let Some((key, value)) = entries.step().expect("entries") {
                    let key = TableKey::parse(key).expect("a key");
                    assert_eq!(key.kind, ChangeKind::Value);
                    assert!(block.key_bound.as_deref().is_some_and(|bound| bound >= key.user));
                    found.push((key.user.to_vec(), value.to_vec()));
                }
            }
        }
        // The same blocks are found without the index.
        let mut handles = Vec::new();
        let (count, found_all) = (searched.len(), &mut handles);
        let end = table.search(|handle, _| {
            found_all.push(handle);
            Ok::<bool, io::Error>(found_all.len() < count)
        });
        end.expect("read");
        assert_eq!(handles, searched);
        found
    }
}
