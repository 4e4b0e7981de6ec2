//! The witness: a file of our own that says how far writes are on stable storage, so that a folder that went back is
//! noticed when it is opened.
//!
//! RocksDB opens with whatever is left of its files. What is cut off at the end of a record, or a whole file, cannot be
//! told from a write that never was, unless something remembers. The witness has two slots, written in turn, each with a
//! checksum: a write that is cut short damages one, and the other still holds.
//!
//! The invariant: everything that a slot says was on stable storage before the slot was written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rocksfile::names::FileName;

use crate::error::{Error, ErrorKind, Result};
use crate::options::PlantedFault;
use crate::storage::folder::failed;
use crate::storage::format::{StoreId, WITNESS_FILE, WITNESS_SLOT_BYTES, WITNESS_SLOTS_AT, WitnessSlot};
use crate::storage::health::Health;
use crate::storage::preflight::{self, Known, Length, Lengths};
use crate::storage::private;

/// The witness of an open folder.
struct Witness {
    file: File,
    last: WitnessSlot,
    /// Which of the two slots holds `last`.
    at: usize,
}

/// What a folder's witness says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) slot: WitnessSlot,
    at: usize,
    /// The other slot holds nothing that can be read.
    pub(super) other_is_damaged: bool,
}

impl Found {
    /// Whose logs there are, and nothing else.
    pub(super) fn id_only(&self) -> Known {
        Known { store: Some(self.slot.store), ..Known::default() }
    }

    /// What it says was on stable storage: nothing, if it was not kept.
    pub(super) fn known(&self) -> Known {
        let WitnessSlot { store, kept, sequence, manifest, log, .. } = self.slot;
        if !kept {
            return self.id_only();
        }
        let length = |(number, bytes): (u64, u64)| (number > 0).then_some(Length { number, bytes });
        Known { store: Some(store), sequence, manifest: length(manifest), log: length(log) }
    }
}

/// Reads the witness of a folder.
pub(super) fn read(path: &Path) -> Result<Found> {
    let file = file(path);
    let damaged = |offset, reason: &str| {
        Error::new(ErrorKind::DamagedFile { path: file.clone(), offset, reason: reason.to_owned() })
    };
    let mut bytes = Vec::new();
    match File::open(&file) {
        Ok(opened) => {
            opened.take(witness_bytes()).read_to_end(&mut bytes).map_err(failed("read the file", &file))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(0, "it is missing, so nothing tells whether writes are"));
        }
        Err(error) => return Err(failed("open the file", &file)(error)),
    }
    let [first, second] = WITNESS_SLOTS_AT.map(|at| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let slot = bytes.get(at..)?.first_chunk::<WITNESS_SLOT_BYTES>()?;
        WitnessSlot::parse(slot)
    });
    match (first, second) {
        (None, None) => Err(damaged(0, "neither of its slots can be read")),
        (Some(slot), None) => Ok(Found { slot, at: 0, other_is_damaged: true }),
        (None, Some(slot)) => Ok(Found { slot, at: 1, other_is_damaged: true }),
        (Some(first), Some(second)) => {
            let (slot, at) = if second.turn > first.turn { (second, 1) } else { (first, 0) };
            Ok(Found { slot, at, other_is_damaged: false })
        }
    }
}

/// Makes the witness of a folder that has none. It says nothing yet but whose it is.
pub(super) fn create(path: &Path, store: StoreId) -> Result<Found> {
    let slot = WitnessSlot { store, turn: 1, kept: true, sequence: 0, manifest: (0, 0), log: (0, 0) };
    write_both(path, slot)?;
    Ok(Found { slot, at: 0, other_is_damaged: false })
}

/// Makes a witness anew that was lost, because its owner said that it need not be kept.
pub(super) fn renew(path: &Path, store: StoreId) -> Result<Found> {
    let slot = WitnessSlot { store, turn: 1, kept: false, sequence: 0, manifest: (0, 0), log: (0, 0) };
    write_both(path, slot)?;
    Ok(Found { slot, at: 0, other_is_damaged: false })
}

/// Writes the witness of a copy that is complete. It has its origin's name, because it has its origin's logs.
pub(super) fn write_for_copy(path: &Path, store: StoreId) -> Result<()> {
    let passed = preflight::inspect(path, &Known { store: Some(store), ..Known::default() })?;
    let Lengths { manifest, log } = preflight::lengths(path)?;
    let log = log.map_or((0, 0), |log| (log.number, log.bytes));
    let manifest = (manifest.number, manifest.bytes);
    write_both(path, WitnessSlot { store, turn: 1, kept: true, sequence: passed.sequence, manifest, log })
}

/// A name for a new database, which no other has.
pub(super) fn new_store_id() -> Result<StoreId> {
    let mut id = StoreId::default();
    getrandom::fill(&mut id)
        .map_err(|error| Error::io("ask the system for random bytes", None, io::Error::from(error)))?;
    Ok(id)
}

impl Witness {
    /// Takes over the witness of a folder that was locked.
    fn open(path: &Path, found: Found) -> Result<Self> {
        let file = file(path);
        let file = OpenOptions::new().write(true).open(&file).map_err(failed("open the file", &file))?;
        Ok(Self { file, last: found.slot, at: found.at })
    }

    fn last(&self) -> WitnessSlot {
        self.last
    }

    /// Writes what is on stable storage now. After an error nothing is known of the file, and it must not be written again.
    fn write(&mut self, slot: WitnessSlot) -> io::Result<()> {
        let slot = WitnessSlot { turn: self.last.turn + 1, store: self.last.store, ..slot };
        let at = 1 - self.at;
        let offset = WITNESS_SLOTS_AT.get(at).copied().unwrap_or_default();
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(&slot.bytes())?;
        self.file.sync_data()?;
        (self.last, self.at) = (slot, at);
        Ok(())
    }
}

fn write_both(path: &Path, slot: WitnessSlot) -> Result<()> {
    let file = file(path);
    let write = || -> io::Result<()> {
        let mut witness = private::file_options().create(true).truncate(true).write(true).open(&file)?;
        for (older, at) in WITNESS_SLOTS_AT.into_iter().enumerate() {
            witness.seek(SeekFrom::Start(at))?;
            witness.write_all(&WitnessSlot { turn: slot.turn - older as u64, ..slot }.bytes())?;
        }
        witness.sync_all()
    };
    write().map_err(failed("write the file", &file))
}

fn file(path: &Path) -> PathBuf {
    path.join(WITNESS_FILE)
}

fn witness_bytes() -> u64 {
    WITNESS_SLOTS_AT.into_iter().max().unwrap_or_default() + WITNESS_SLOT_BYTES as u64
}

/// Keeps the witness of an open folder up to date.
pub(super) struct Keeper {
    path: PathBuf,
    raised: bool,
    witness: Mutex<Witness>,
}

impl Keeper {
    /// Takes over the witness of the folder. If it is not to be kept, it says so from now on.
    pub(super) fn start(path: &Path, found: Found, kept: bool, fault: PlantedFault) -> Result<Self> {
        if !kept {
            tracing::warn!(
                path = %path.display(),
                "no witness is kept: if the files of this database go back to an earlier state, nothing will tell"
            );
        }
        let mut witness = Witness::open(path, found)?;
        if !kept && found.slot.kept {
            let slot = WitnessSlot { kept: false, ..found.slot };
            witness.write(slot).map_err(failed("write the file", &file(path)))?;
        }
        let raised = kept && fault != PlantedFault::WitnessNotRaised;
        Ok(Self { path: path.to_owned(), raised, witness: Mutex::new(witness) })
    }

    /// Writes what is on stable storage, if that is more than the witness says. `durable` is the newest write of which that
    /// is known; `sync` syncs the log, and gives the newest write that it covered.
    ///
    /// The order matters: lengths are taken first, then everything is synced, then the slot is written. So it never says
    /// more than is true.
    pub(super) fn raise(
        &self,
        durable: u64,
        health: &Health,
        sync: impl FnOnce() -> Result<u64>,
    ) -> Result<()> {
        if !self.raised {
            return Ok(());
        }
        let mut witness = self.witness.lock();
        let last = witness.last();
        let Lengths { manifest, log } = preflight::lengths(&self.path)?;
        let manifest = (manifest.number, manifest.bytes);
        if last.kept && last.sequence == durable && last.manifest == manifest {
            return Ok(());
        }
        let sequence = sync()?;
        let synced = sync_file(&self.path.join(FileName::Manifest(manifest.0).to_string()));
        synced.map_err(|error| health.failed_io(&error))?;
        let log = log.map_or((0, 0), |log| (log.number, log.bytes));
        let slot = WitnessSlot { kept: true, sequence, manifest, log, ..last };
        witness.write(slot).map_err(|error| health.failed_io(&error))
    }
}

fn sync_file(file: &Path) -> io::Result<()> {
    match File::open(file) {
        Ok(file) => file.sync_data(),
        // RocksDB began another one meanwhile, which it synced before it let go of this one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use tempfile::TempDir;

    use super::*;
    use crate::client::Client;

    /// A closed database with one document, and what its witness says.
    fn closed() -> (TempDir, PathBuf, Found) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let client = Client::open(&path).expect("made");
        client.database("d").collection::<Document>("c").insert_one(doc! { "_id": 1 }).run().expect("stored");
        client.close().expect("closed");
        let found = read(&path).expect("a witness");
        (folder, path, found)
    }

    #[test]
    fn closing_leaves_a_witness_of_everything() {
        let (_folder, path, found) = closed();
        let client = Client::open(&path).expect("opened");
        assert_eq!(client.written_seq().expect("open"), found.slot.sequence);
        assert!(found.slot.kept && !found.other_is_damaged);
        let known = found.known();
        let log = known.log.expect("a log");
        let length = std::fs::metadata(path.join(FileName::Manifest(found.slot.manifest.0).to_string()));
        assert!(length.is_err(), "opening began another MANIFEST");
        assert!(log.bytes > 0 && known.manifest.is_some());
    }

    #[test]
    fn a_folder_that_lacks_what_its_witness_has_seen_is_refused() {
        let (_folder, path, found) = closed();
        let sequence = found.slot.sequence;
        write_both(&path, WitnessSlot { sequence: sequence + 5, ..found.slot }).expect("written");
        let error = Client::open(&path).expect_err("refused");
        let ErrorKind::DataLoss { from, to, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!((*from, *to), (sequence + 1, sequence + 5));
        assert!(error.is_corruption());
    }

    #[test]
    fn one_damaged_slot_leaves_the_other() {
        let (_folder, path, found) = closed();
        for at in WITNESS_SLOTS_AT {
            write_both(&path, found.slot).expect("written");
            let mut file = OpenOptions::new().write(true).open(file(&path)).expect("the witness");
            file.seek(SeekFrom::Start(at + 40)).expect("within");
            file.write_all(b"damaged").expect("written");
            let left = read(&path).expect("the other slot");
            assert!(left.other_is_damaged);
            assert_eq!(WitnessSlot { turn: 0, ..left.slot }, WitnessSlot { turn: 0, ..found.slot });
        }
        Client::open(&path).expect("opened").close().expect("closed");
        assert!(!read(&path).expect("a witness").other_is_damaged);
    }
}
