//! Reading a folder that is damaged: whatever is whole in its tables and logs, and the list of what is not.
//!
//! Nothing in the folder is opened for writing. RocksDB is not asked to open it. What the keys mean, and what of it can be
//! trusted, is for the module `salvage` of the crate to decide.

mod logs;
mod merge;
mod partial;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind, Result};
use rocksfile::manifest::{Manifest, ManifestFault};
use rocksfile::names::{CURRENT, CURRENT_BYTES_MAX, FileName};

use crate::families::Family;
use crate::folder::{failed, refuse_irregular};
use crate::format::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, MARKER_FILE, is_readable, parse_marker};
use crate::options::PlantedFault;
use crate::preflight::SyncedState;
use crate::raw_file::{RawFile, is_of_disk};
use crate::salvage::logs::{LogChanges, NeededLog};
use crate::salvage::merge::{Sources, merge};
use crate::salvage::table::{DeletedRange, TableOutline};
use crate::{processor, witness};

pub use self::merge::Newest;
pub use self::partial::PartialFolder;
pub use self::table::Unreadable;

/// The number of bytes of a marker that are read.
const MARKER_BYTES_MAX: u64 = 64;

/// A damaged folder, of which nothing but the contents of tables is still to be read.
pub struct DamagedFolder {
    path: PathBuf,
    tables: Vec<(TableOutline, Option<Family>)>,
    logs: LogChanges,
    family_numbers: BTreeMap<u32, Family>,
    /// Families whose tables are not all there.
    incomplete: BTreeSet<&'static str>,
    /// Bytes that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// The number of further ones.
    pub unreadable_omitted: u64,
    /// General decisions, as sentences.
    pub notes: Vec<String>,
    /// The numbers of lost writes: the first and the last of each run.
    pub lost_writes: Vec<(u64, u64)>,
    fault: PlantedFault,
    /// The system's error for the first table that could not even be opened.
    unopened: Option<String>,
    /// Keeps other processes from opening the folder for writing, if it has its marker.
    _lock: Option<File>,
}

/// The known set of files.
struct Listed {
    /// `None`: all files of the folder are used.
    manifest: Option<Manifest>,
    known: SyncedState,
}

impl DamagedFolder {
    /// Looks at all files, and reads the logs. Changes of logs are sorted in the folder `scratch`, which is made.
    pub fn open(
        path: &Path,
        scratch: &Path,
        fault: PlantedFault,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        // Before the first call of RocksDB, which would end the process on a processor that is too old.
        processor::check()?;
        let mut notes = Vec::new();
        let claimed = claim(path, &mut notes)?;
        let names = names(path)?;
        let listed = list(path, &names, &mut notes);
        let unlisted = unlisted_tables(&names, listed.manifest.as_ref());
        if !unlisted.is_empty() {
            notes.push(
                "the MANIFEST names tables that are gone and not all that are there, so it is older than the folder: tables \
                 that it does not name were used too, and documents that were deleted can be back"
                    .to_owned(),
            );
        }
        let in_tables = listed.manifest.as_ref().and_then(|manifest| manifest.last_sequence);
        let logs = LogChanges::create(scratch, in_tables.map(|sequence| sequence + 1))?;
        let mut folder = Self {
            path: path.to_owned(),
            tables: Vec::new(),
            logs,
            family_numbers: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            unreadable: Vec::new(),
            unreadable_omitted: 0,
            notes,
            lost_writes: Vec::new(),
            fault,
            unopened: None,
            _lock: claimed,
        };
        folder.read_tables(&names, listed.manifest.as_ref(), unlisted, look)?;
        folder.number_families(listed.manifest.as_ref());
        folder.read_logs(&names, &listed, look)?;
        folder.refuse_unreadable()?;
        Ok(folder)
    }

    /// Fails if the disk gave no byte of any table and any log. A folder of nothing would look like what is left.
    fn refuse_unreadable(&self) -> Result<()> {
        let has_read = self.logs.has_read || self.tables.iter().any(|(outline, _)| outline.has_read);
        let of_tables = self.tables.iter().filter_map(|(outline, _)| outline.failure.as_ref());
        let said = of_tables.chain(&self.unopened).chain(&self.logs.failure).next();
        match said {
            Some(said) if !has_read => {
                let said = io::Error::other(said.clone());
                Err(failed("read any table or log of the folder", &self.path)(said))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Gives the newest version of each key of a family to `visit`, in the order of the keys.
    pub fn walk(&mut self, family: Family, visit: &mut dyn FnMut(Newest<'_>) -> Result<()>) -> Result<()> {
        let numbers = self.family_numbers.iter().filter(|(_, known)| **known == family);
        let number = numbers.map(|(number, _)| *number).next().unwrap_or(u32::MAX);
        let of_family = self.tables.iter().filter(|(_, known)| *known == Some(family));
        let tables: Vec<&TableOutline> = of_family.map(|(outline, _)| outline).collect();
        let in_logs = self.logs.deleted.iter().filter(|(of, _)| *of == number).map(|(_, range)| range);
        let in_tables = tables.iter().flat_map(|table| &table.deleted);
        let mut deleted: Vec<DeletedRange> = in_logs.chain(in_tables).cloned().collect();
        deleted.sort_by(|one, other| one.start.cmp(&other.start));
        let sources = Sources {
            folder: &self.path,
            tables: tables.into_iter().filter(|table| !table.is_empty).collect(),
            logs: self.logs.walk(number),
            deleted,
            all_may_be_old: self.incomplete.contains(family.name()),
            fault: self.fault,
        };
        let (damages, omitted) = merge(sources, visit)?;
        self.unreadable.extend(damages);
        self.unreadable_omitted += omitted;
        Ok(())
    }

    /// Reads the outlines of the tables that a MANIFEST names and of `unlisted` ones, or of all tables if there is no MANIFEST.
    fn read_tables(
        &mut self,
        files: &BTreeSet<FileName>,
        manifest: Option<&Manifest>,
        unlisted: Vec<u64>,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut listed: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
        match manifest {
            Some(manifest) => {
                let named = manifest.tables_of_families();
                listed.extend(named.map(|(family, table)| (table.number, Some(family.to_vec()))));
                listed.extend(unlisted.into_iter().map(|number| (number, None)));
            }
            None => listed.extend(tables(files).map(|number| (number, None))),
        }
        for (number, family) in listed {
            look()?;
            let named = family.as_deref().and_then(family_of);
            if !files.contains(&FileName::Table(number)) {
                self.lose_table(number, named, "the table is missing".to_owned());
                continue;
            }
            let (outline, damages) = match TableOutline::read(&self.path, number) {
                Ok(read) => read,
                // A file that cannot even be opened is as good as gone.
                Err(error) => {
                    self.lose_table(number, named, error.to_string());
                    self.unopened.get_or_insert_with(|| error.to_string());
                    continue;
                }
            };
            let family =
                named.or_else(|| outline.family.as_deref().and_then(family_of)).or(outline.likely_family());
            // Entries of indexes are made again, so what is damaged of them is not a loss.
            if family != Some(Family::Entries) {
                // Deleted ranges that cannot be read may have been about any key.
                if outline.hides_deletions {
                    self.incomplete.extend(family.map(Family::name));
                }
                self.unreadable.extend(damages);
            }
            self.tables.push((outline, family));
        }
        Ok(())
    }

    fn lose_table(&mut self, number: u64, family: Option<Family>, reason: String) {
        if family == Some(Family::Entries) {
            return;
        }
        self.incomplete.extend(family.map(Family::name));
        self.unreadable.push(Unreadable {
            path: self.path.join(FileName::Table(number).to_string()),
            offset: 0,
            bytes: 0,
            reason,
            family: family.map(|family| family.name().to_owned()),
            keys: None,
            entries: None,
        });
    }

    /// Finds out which number each family has: by the MANIFEST, by the tables, or as they are made.
    fn number_families(&mut self, manifest: Option<&Manifest>) {
        // RocksDB's default family is 0, and ours were made in this order.
        self.family_numbers.extend((1..).zip(Family::ALL));
        let by_tables = self.tables.iter().filter_map(|(outline, _)| {
            Some((outline.family_number?, family_of(outline.family.as_deref()?)?))
        });
        let by_manifest = manifest.into_iter().flat_map(Manifest::families);
        let by_manifest = by_manifest.filter_map(|(number, name)| Some((number, family_of(name)?)));
        for (number, family) in by_tables.chain(by_manifest) {
            self.family_numbers.retain(|_, known| *known != family);
            self.family_numbers.insert(number, family);
        }
    }

    fn read_logs(
        &mut self,
        files: &BTreeSet<FileName>,
        listed: &Listed,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let first = listed.manifest.as_ref().map_or(0, Manifest::first_log_needed);
        let logs = files.iter().filter_map(|name| match name {
            FileName::Log(number) if *number >= first => Some(*number),
            FileName::Log(_) | FileName::Table(_) | FileName::Manifest(_) => None,
        });
        for number in logs {
            let flushed = listed.manifest.iter().flat_map(Manifest::families_in_tables_before);
            let in_tables = flushed.filter(|(_, log)| number < *log).map(|(family, _)| family).collect();
            self.logs.read(&self.path, &NeededLog { number, in_tables }, look)?;
        }
        self.lost_writes = std::mem::take(&mut self.logs.lost);
        // The witness knows of writes that no log has any more.
        let next = self.logs.next.unwrap_or(1);
        if listed.known.sequence >= next {
            self.lost_writes.push((next, listed.known.sequence));
        }
        self.unreadable.append(&mut self.logs.damages);
        Ok(())
    }
}

impl TableOutline {
    /// The family that the first key looks like.
    fn likely_family(&self) -> Option<Family> {
        match self.first_key.first()? {
            // Keys of the catalog begin with letters, and no id of a collection is that high.
            b'a'..=b'z' => Some(Family::Meta),
            _ if self.first_is_document => Some(Family::Records),
            _ => Some(Family::Entries),
        }
    }
}

fn family_of(name: &[u8]) -> Option<Family> {
    Family::ALL.into_iter().find(|family| family.name().as_bytes() == name)
}

/// Looks at the marker, and keeps writers out as long as the result exists.
fn claim(path: &Path, notes: &mut Vec<String>) -> Result<Option<File>> {
    refuse_irregular(path)?;
    let marker = path.join(MARKER_FILE);
    let file = match File::open(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            notes.push(format!("the folder has no {MARKER_FILE} file"));
            return Ok(None);
        }
        // The disk does not give it. Nothing keeps a writer out then, but none can open such a folder either.
        Err(error) if is_of_disk(&error) => {
            notes.push(format!("the marker file {MARKER_FILE} cannot be opened: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(failed("open the file", &marker)(error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::new(ErrorKind::AlreadyOpen { path: path.to_owned() }));
        }
        Err(TryLockError::Error(error)) => return Err(failed("lock the marker file in", path)(error)),
    }
    let mut text = Vec::new();
    match (&file).take(MARKER_BYTES_MAX).read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) if is_of_disk(&error) => {
            notes.push(format!("the marker file {MARKER_FILE} cannot be read: {error}"));
            return Ok(Some(file));
        }
        Err(error) => return Err(failed("read the file", &marker)(error)),
    }
    match parse_marker(&text) {
        Some(version) if is_readable(version) => {}
        // A newer format may mean anything by the same bytes.
        Some(version) if version > FORMAT_VERSION => {
            let found = version.to_string();
            let path = path.to_owned();
            return Err(Error::new(ErrorKind::UnsupportedFormat {
                path,
                found,
                oldest: FORMAT_VERSION_OLDEST,
                supported: FORMAT_VERSION,
            }));
        }
        Some(_) | None => notes.push(format!("the marker file {MARKER_FILE} cannot be read")),
    }
    Ok(Some(file))
}

/// The files of the database in a folder.
fn names(path: &Path) -> Result<BTreeSet<FileName>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(path).map_err(failed("list the folder", path))? {
        let name = entry.map_err(failed("list the folder", path))?.file_name();
        names.extend(name.to_str().and_then(FileName::parse));
    }
    // A folder without any of them is not one of ours, and a salvage of nothing would look like a success.
    if names.is_empty() {
        let reason = "it has no table, no log and no MANIFEST".to_owned();
        return Err(Error::new(ErrorKind::NotADatabase { path: path.to_owned(), reason }));
    }
    Ok(names)
}

/// Finds out what the database consists of.
fn list(path: &Path, files: &BTreeSet<FileName>, notes: &mut Vec<String>) -> Listed {
    let known = match witness::read(path) {
        Ok(found) => found.known(),
        Err(error) => {
            notes.push(error.to_string());
            SyncedState::default()
        }
    };
    let mut current = Vec::new();
    let read = RawFile::open(&path.join(CURRENT))
        .and_then(|file| file.take(CURRENT_BYTES_MAX as u64 + 1).read_to_end(&mut current));
    let current = read.ok().and_then(|_| FileName::parse_current(&current));
    if current.is_none() {
        notes.push("CURRENT cannot be read".to_owned());
    }
    // The one in use first, and then the newest. An older one than the witness has seen knows too little.
    let others = files.iter().rev().filter_map(|name| match name {
        FileName::Manifest(number) => Some(*number),
        FileName::Log(_) | FileName::Table(_) => None,
    });
    let oldest = known.manifest.map_or(0, |known| known.number);
    for number in current.into_iter().chain(others).filter(|number| *number >= oldest) {
        match read_manifest(path, number, &known) {
            Ok(manifest) => return Listed { manifest: Some(manifest), known },
            Err(reason) => notes.push(format!("{}: {reason}", FileName::Manifest(number))),
        }
    }
    notes.push(
        "no MANIFEST says which tables belong to the database, so all tables and logs of the folder were used: documents \
         that were deleted, and older versions of documents, can be back"
            .to_owned(),
    );
    Listed { manifest: None, known }
}

/// The tables of the folder that a MANIFEST does not name, if some that it names are gone.
///
/// A MANIFEST whose last changes were not synced can end before a compaction, or lose them to damage. The tables that it
/// names then are gone, and what was in them is in tables that it does not name.
fn unlisted_tables(files: &BTreeSet<FileName>, manifest: Option<&Manifest>) -> Vec<u64> {
    let Some(manifest) = manifest else { return Vec::new() };
    let named: BTreeSet<u64> = manifest.tables_of_families().map(|(_, table)| table.number).collect();
    if named.iter().all(|number| files.contains(&FileName::Table(*number))) {
        return Vec::new();
    }
    tables(files).filter(|number| !named.contains(number)).collect()
}

/// The numbers of all tables of a folder.
fn tables(files: &BTreeSet<FileName>) -> impl Iterator<Item = u64> {
    files.iter().filter_map(|name| match name {
        FileName::Table(number) => Some(*number),
        FileName::Log(_) | FileName::Manifest(_) => None,
    })
}

fn read_manifest(path: &Path, number: u64, known: &SyncedState) -> std::result::Result<Manifest, String> {
    let file = RawFile::open(&path.join(FileName::Manifest(number).to_string()))
        .map_err(|error| error.to_string())?;
    let reading = Manifest::read(file, number).map_err(|error| error.to_string())?;
    let durable = known.manifest.filter(|known| known.number == number).map_or(0, |known| known.bytes);
    match reading.fault {
        None if reading.bytes >= durable => {}
        None => return Err(format!("it ends at {}, but {durable} bytes of it were synced", reading.bytes)),
        Some((offset, ManifestFault::Torn(_))) if offset >= durable => {}
        Some((offset, fault)) => return Err(format!("at {offset}: {fault}")),
    }
    if reading.manifest.last_sequence.is_none() || reading.manifest.next_file.is_none() {
        return Err("it ends before it says what the database consists of".to_owned());
    }
    Ok(reading.manifest)
}
