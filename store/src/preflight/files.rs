//! Checks that the files of a database exist and are long enough: CURRENT, the MANIFEST, tables and logs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base::error::Result;
use rocksfile::manifest::{Manifest, ManifestFault, Reading};
use rocksfile::names::{CURRENT, CURRENT_BYTES_MAX, FileName, NUMBERS_END};

use crate::folder::failed;
use crate::preflight::synced::{Length, SyncedState, damaged};
use crate::raw_file::RawFile;
use crate::recovery::TornEnd;

/// The files of a folder. The contents of logs and tables were not looked at.
pub(crate) struct Files {
    /// The content of the MANIFEST.
    pub manifest: Manifest,
    /// The MANIFEST's number, and how much of it was read.
    pub manifest_length: Length,
    /// The logs that RocksDB will replay, oldest first.
    pub logs: Vec<Length>,
    /// The end of the MANIFEST that is left out, if there is one.
    pub(super) torn: Vec<TornEnd>,
    /// The point at which the MANIFEST must be cut, because RocksDB would not stop there by itself.
    pub(super) cut: Option<(PathBuf, u64)>,
}

/// The result of reading the MANIFEST.
struct ReadManifest {
    reading: Reading,
    torn: Vec<TornEnd>,
    cut: Option<(PathBuf, u64)>,
}

/// The lengths of the MANIFEST in use and of the newest log that is not empty.
pub(crate) struct Lengths {
    /// Of the MANIFEST.
    pub manifest: Length,
    /// Of the log, if there is one.
    pub log: Option<Length>,
}

impl Files {
    /// Reads the MANIFEST, and checks that the logs exist that it and the witness name, and that tables have their lengths.
    pub(super) fn read(path: &Path, known: &SyncedState) -> Result<Self> {
        let files = Self::list(path, known)?;
        files.check_tables(path)?;
        Ok(files)
    }

    /// Reads the MANIFEST, and checks that the logs exist that it and the witness name.
    pub(super) fn list(path: &Path, known: &SyncedState) -> Result<Self> {
        refuse_numbers(path)?;
        let number = current_manifest(path, known)?;
        let ReadManifest { reading, torn, cut } = read_manifest(path, number, known)?;
        let manifest = reading.manifest;
        let logs = needed_logs(path, &manifest, known)?;
        let manifest_length = Length { number, bytes: reading.bytes };
        Ok(Self { manifest, manifest_length, logs, torn, cut })
    }

    /// The length of the MANIFEST's whole records, in bytes.
    pub(crate) fn whole_manifest(&self) -> u64 {
        self.torn.first().map_or(self.manifest_length.bytes, |torn| torn.offset)
    }

    fn check_tables(&self, path: &Path) -> Result<()> {
        let number = self.manifest_length.number;
        // The tables come last. If another process deletes one meanwhile, it has changed the MANIFEST before, and the
        // caller notices that and reads again.
        for table in self.manifest.tables() {
            let file = path.join(FileName::Table(table.number).to_string());
            match fs::metadata(&file) {
                Ok(metadata) if metadata.len() == table.bytes => {}
                // The damage begins where the shorter of the two lengths ends.
                Ok(metadata) => {
                    let manifest = FileName::Manifest(number);
                    let reason =
                        format!("it is {} bytes long, {manifest} says {}", metadata.len(), table.bytes);
                    return Err(damaged(&file, metadata.len().min(table.bytes), reason));
                }
                // The message names the MANIFEST too: a damaged MANIFEST can name tables that were deleted rightly.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let reason = format!("it is missing, but {} names it", FileName::Manifest(number));
                    return Err(damaged(&file, 0, reason));
                }
                Err(error) => return Err(failed("look at the file", &file)(error)),
            }
        }
        Ok(())
    }
}

/// The present lengths of the files that the witness keeps.
pub(crate) fn lengths(path: &Path) -> Result<Lengths> {
    let number = current_manifest(path, &SyncedState::default())?;
    let manifest = path.join(FileName::Manifest(number).to_string());
    let metadata = fs::metadata(&manifest).map_err(failed("look at the file", &manifest))?;
    let manifest = Length { number, bytes: metadata.len() };
    // RocksDB creates logs ahead of the first write to them; an empty one proves nothing.
    let log = logs(path)?.into_iter().rev().find(|(_, bytes)| *bytes > 0);
    Ok(Lengths { manifest, log: log.map(|(number, bytes)| Length { number, bytes }) })
}

/// The content of CURRENT, and the names and lengths of all files. Two pictures differ if another process wrote to the
/// folder in between. Returns `None` if the folder cannot be read.
pub(super) fn picture(path: &Path) -> Option<(Vec<u8>, BTreeMap<String, u64>)> {
    let mut current = Vec::new();
    RawFile::open(&path.join(CURRENT)).ok()?.take(CURRENT_BYTES_MAX as u64).read_to_end(&mut current).ok()?;
    let mut lengths = BTreeMap::new();
    for entry in fs::read_dir(path).ok()? {
        let entry = entry.ok()?;
        // A file that was deleted after it was listed counts as empty. The next picture does not have it and differs.
        lengths
            .insert(entry.file_name().into_string().ok()?, entry.metadata().map_or(0, |found| found.len()));
    }
    Some((current, lengths))
}

fn current_manifest(path: &Path, known: &SyncedState) -> Result<u64> {
    let file = path.join(CURRENT);
    let mut content = Vec::new();
    // One byte above the limit is read, so that a longer file is rejected and not cut to a valid one.
    open(&file, "it is missing, so it is unknown which files belong to the database")?
        .take(CURRENT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut content)
        .map_err(failed("read the file", &file))?;
    let Some(number) = FileName::parse_current(&content) else {
        return Err(damaged(&file, 0, "it does not name a MANIFEST"));
    };
    // RocksDB's file numbers only rise, so a lower one comes from an older state of the folder.
    if let Some(known) = known.manifest
        && number < known.number
    {
        let (found, used) = (FileName::Manifest(number), FileName::Manifest(known.number));
        return Err(damaged(&file, 0, format!("it names {found}, but {used} was in use later")));
    }
    Ok(number)
}

fn read_manifest(path: &Path, number: u64, known: &SyncedState) -> Result<ReadManifest> {
    let file = path.join(FileName::Manifest(number).to_string());
    let source = open(&file, "it is missing, but CURRENT names it")?;
    let reading = Manifest::read(source, number).map_err(failed("read the file", &file))?;
    // Of a MANIFEST that is newer than the witness nothing is known.
    let known = known.manifest.filter(|known| known.number == number).map(|known| known.bytes);
    let durable = known.unwrap_or(0);
    if reading.bytes < durable {
        return Err(too_short(&file, reading.bytes, durable));
    }
    let left_out = |fault: &dyn ToString| TornEnd {
        file: file.clone(),
        offset: reading.whole_until,
        bytes: reading.bytes - reading.whole_until,
        reason: fault.to_string(),
        set_aside: None,
    };
    let (torn, cut) = match reading.fault {
        None => (Vec::new(), None),
        // A crash can tear only what was not synced. RocksDB itself must stop at the same place.
        Some((offset, ManifestFault::Torn(fault))) if offset >= durable && !reading.traps_rocksdb => {
            (vec![left_out(&fault)], None)
        }
        // RocksDB writes several edits before it syncs them. The disk may have kept a later one without an earlier one,
        // or parts of one. RocksDB rejects such a file. Whether what is left names what there is, is checked after this.
        Some((_, ManifestFault::Torn(fault) | ManifestFault::Record(fault)))
            if known.is_some() && reading.whole_until >= durable =>
        {
            (vec![left_out(&fault)], Some((file.clone(), reading.whole_until)))
        }
        Some((offset, fault)) => return Err(damaged(&file, offset, fault.to_string())),
    };
    if reading.manifest.last_sequence.is_none() || reading.manifest.next_file.is_none() {
        return Err(damaged(
            &file,
            reading.whole_until,
            "it ends before it says what the database consists of",
        ));
    }
    Ok(ReadManifest { reading, torn, cut })
}

/// Returns the logs from the first that RocksDB must replay. Fails if a log that was synced is missing or too short.
fn needed_logs(path: &Path, manifest: &Manifest, known: &SyncedState) -> Result<Vec<Length>> {
    let first = manifest.first_log_needed();
    let mut logs = logs(path)?;
    // An older log may be deleted already: what it held is in tables.
    let of_witness = known.log.filter(|log| log.number >= first).map(|log| (log.number, log.bytes));
    for (number, bytes) in manifest.logs_synced().chain(of_witness) {
        let file = path.join(FileName::Log(number).to_string());
        match logs.get(&number) {
            None => return Err(damaged(&file, 0, format!("it is missing; {bytes} bytes of it were synced"))),
            Some(found) if *found < bytes => return Err(too_short(&file, *found, bytes)),
            Some(_) => {}
        }
    }
    let needed = logs.split_off(&first);
    Ok(needed.into_iter().map(|(number, bytes)| Length { number, bytes }).collect())
}

/// All logs of the folder, needed or not.
pub(crate) fn all_logs(path: &Path) -> Result<Vec<Length>> {
    Ok(logs(path)?.into_iter().map(|(number, bytes)| Length { number, bytes }).collect())
}

/// Fails if a file of the folder has a number that RocksDB has not given, and cannot count on from.
fn refuse_numbers(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(failed("list the folder", path))? {
        let file = entry.map_err(failed("list the folder", path))?.path();
        let name = file.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
        if name.is_some_and(|name| name.number() >= NUMBERS_END) {
            let reason =
                "it is no file of this database: none has such a high number, and RocksDB would fail over it";
            return Err(damaged(&file, 0, reason));
        }
    }
    Ok(())
}

/// The numbers and lengths of all logs in the folder.
fn logs(path: &Path) -> Result<BTreeMap<u64, u64>> {
    let mut logs = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(failed("list the folder", path))? {
        let entry = entry.map_err(failed("list the folder", path))?;
        let name = entry.file_name();
        let Some(FileName::Log(number)) = name.to_str().and_then(FileName::parse) else { continue };
        match entry.metadata() {
            Ok(metadata) => {
                logs.insert(number, metadata.len());
            }
            // RocksDB deleted a log that it no longer needs, after the folder was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look at the file", &entry.path())(error)),
        }
    }
    Ok(logs)
}

fn too_short(file: &Path, found: u64, synced: u64) -> base::error::Error {
    damaged(file, found, format!("it ends here, but {synced} bytes of it were synced"))
}

/// Opens a file that must exist. `missing` is the reason in the error if it does not.
pub(super) fn open(file: &Path, missing: &str) -> Result<RawFile> {
    match RawFile::open(file) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(damaged(file, 0, missing)),
        Err(error) => Err(failed("open the file", file)(error)),
    }
}
