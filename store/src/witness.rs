//! The witness: a file of our own that says how far writes are on stable storage, so that lost writes are noticed when
//! the folder is opened.
//!
//! RocksDB opens with what is left of its files. A log that was cut at the end of a record, or that is missing, looks
//! like a log without those writes. The witness shows the difference. It has two slots, written in turn, each with a
//! checksum: a write that is cut short damages one slot, and the other is still valid.
//!
//! The invariant: everything that a slot describes was on stable storage before the slot was written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind, Result};
use base::sync::Mutex;
use rocksfile::names::FileName;

use crate::folder::failed;
use crate::format::{StoreId, WITNESS_FILE, WITNESS_SLOT_BYTES, WITNESS_SLOTS_AT, WitnessSlot};
use crate::health::Health;
use crate::options::PlantedFault;
use crate::preflight::{self, Length, Lengths, SyncedState};
use crate::private;

/// The turn of the newer slot of a witness that was just made.
const FIRST_TURN: u64 = 1;

/// The witness of an open folder.
struct Witness {
    file: File,
    last: WitnessSlot,
    /// Which of the two slots holds `last`.
    at: usize,
}

/// The newer valid slot of a folder's witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundWitness {
    pub(super) slot: WitnessSlot,
    /// Which of the two slots it was read from.
    at: usize,
    /// The other slot cannot be read.
    pub(super) other_is_damaged: bool,
}

impl FoundWitness {
    /// The id of the database, which a copy shares with its original.
    pub(super) fn store(&self) -> StoreId {
        self.slot.store
    }

    /// Whether the folder is a copy as [`write_for_copy`] left it. Every opening for writing writes a slot before its first
    /// write, also one that keeps no witness.
    pub(super) fn is_of_untouched_copy(&self) -> bool {
        self.slot.turn == FIRST_TURN && self.slot.kept && !self.other_is_damaged
    }

    /// Only the database's id. Nothing counts as synced.
    pub(super) fn id_only(&self) -> SyncedState {
        SyncedState { store: Some(self.slot.store), ..SyncedState::default() }
    }

    /// The state that the witness reports as synced. Nothing but the id if the witness was not kept.
    pub(super) fn known(&self) -> SyncedState {
        let WitnessSlot { store, kept, sequence, manifest, log, .. } = self.slot;
        if !kept {
            return self.id_only();
        }
        // On disk the number 0 represents a file that did not exist.
        let length = |(number, bytes): (u64, u64)| (number > 0).then_some(Length { number, bytes });
        SyncedState { store: Some(store), sequence, manifest: length(manifest), log: length(log) }
    }
}

/// Reads the witness of a folder. Fails if it is missing, or if no slot is valid.
pub(super) fn read(path: &Path) -> Result<FoundWitness> {
    let file = file(path);
    let damaged = |offset, reason: &str| {
        Error::new(ErrorKind::DamagedFile { path: file.clone(), offset, reason: reason.to_owned() })
    };
    let mut opened = match File::open(&file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(0, "it is missing, so it is unknown whether writes are"));
        }
        Err(error) => return Err(failed("open the file", &file)(error)),
    };
    // Each by itself, because they are in different sectors: one that the disk does not give leaves the other.
    let mut unreadable = None;
    let [first, second] = WITNESS_SLOTS_AT.map(|at| {
        let mut slot = [0; WITNESS_SLOT_BYTES];
        match opened.seek(SeekFrom::Start(at)).and_then(|_| opened.read_exact(&mut slot)) {
            Ok(()) => WitnessSlot::parse(&slot),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => {
                unreadable.get_or_insert(error);
                None
            }
        }
    });
    // A crash during a write leaves one unreadable slot. Two are damage, because an open store writes one at a time.
    match (first, second, unreadable) {
        (None, None, Some(error)) => Err(failed("read the file", &file)(error)),
        (None, None, None) => Err(damaged(0, "neither of its slots can be read")),
        (Some(slot), None, _) => Ok(FoundWitness { slot, at: 0, other_is_damaged: true }),
        (None, Some(slot), _) => Ok(FoundWitness { slot, at: 1, other_is_damaged: true }),
        (Some(first), Some(second), _) => {
            let (slot, at) = if second.turn > first.turn { (second, 1) } else { (first, 0) };
            Ok(FoundWitness { slot, at, other_is_damaged: false })
        }
    }
}

/// The first slot of a witness, which says nothing.
fn first_slot(store: StoreId) -> WitnessSlot {
    let (manifest, log) = ((0, 0), (0, 0));
    WitnessSlot { store, turn: FIRST_TURN, kept: false, copied: false, sequence: 0, manifest, log }
}

/// Creates the witness of a new database. It holds nothing but the database's id.
pub(super) fn create(path: &Path, store: StoreId) -> Result<FoundWitness> {
    let slot = WitnessSlot { kept: true, ..first_slot(store) };
    write_both(path, slot)?;
    Ok(FoundWitness { slot, at: 0, other_is_damaged: false })
}

/// Creates a witness in place of one that was lost. It counts as not kept, because only a user who does not ask for a
/// witness can open a database without one.
pub(super) fn renew(path: &Path, store: StoreId) -> Result<FoundWitness> {
    let slot = first_slot(store);
    write_both(path, slot)?;
    Ok(FoundWitness { slot, at: 0, other_is_damaged: false })
}

/// Writes the witness of a complete copy. The copy keeps the id of its original, because it has the original's logs and
/// their stamps.
pub(super) fn write_for_copy(path: &Path, store: StoreId) -> Result<()> {
    let passed = preflight::inspect(path, &SyncedState { store: Some(store), ..SyncedState::default() })?;
    let Lengths { manifest, log } = preflight::lengths(path)?;
    let log = log.map_or((0, 0), |log| (log.number, log.bytes));
    let manifest = (manifest.number, manifest.bytes);
    let sequence = passed.sequence;
    write_both(path, WitnessSlot { kept: true, copied: true, sequence, manifest, log, ..first_slot(store) })
}

/// A random id for a new database.
pub(super) fn new_store_id() -> Result<StoreId> {
    let mut id = StoreId::default();
    getrandom::fill(&mut id)
        .map_err(|error| Error::io("ask the system for random bytes", None, io::Error::from(error)))?;
    Ok(id)
}

impl Witness {
    /// Opens the witness for writing. The caller holds the folder's lock.
    fn open(path: &Path, found: FoundWitness) -> Result<Self> {
        let file = file(path);
        let file = OpenOptions::new().write(true).open(&file).map_err(failed("open the file", &file))?;
        Ok(Self { file, last: found.slot, at: found.at })
    }

    fn last(&self) -> WitnessSlot {
        self.last
    }

    /// Writes `slot` over the older of the two slots. After an error the file's state is unknown, and it must not be
    /// written again.
    fn write(&mut self, slot: WitnessSlot) -> io::Result<()> {
        let slot = WitnessSlot { turn: self.last.turn + 1, store: self.last.store, ..slot };
        let at = 1 - self.at;
        let offset = WITNESS_SLOTS_AT.get(at).copied().unwrap_or_default();
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(&slot.bytes())?;
        self.file.sync_data()?;
        // Only after the sync: the next write must not go over the slot that is still the last valid one.
        (self.last, self.at) = (slot, at);
        Ok(())
    }
}

fn write_both(path: &Path, slot: WitnessSlot) -> Result<()> {
    let file = file(path);
    let write = || -> io::Result<()> {
        let mut witness = private::file_options().create(true).truncate(true).write(true).open(&file)?;
        // Both slots get the same content, so that none is unreadable. The first gets the higher turn and is the newer.
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

/// Keeps the witness of an open folder up to date.
pub(super) struct Keeper {
    path: PathBuf,
    /// Whether [`Keeper::raise`] writes at all.
    raised: bool,
    witness: Mutex<Witness>,
}

impl Keeper {
    /// Adopts the witness that was found. If it is not to be kept, that is noted in the witness.
    pub(super) fn start(path: &Path, found: FoundWitness, kept: bool, fault: PlantedFault) -> Result<Self> {
        if !kept {
            tracing::warn!(
                path = %path.display(),
                "no witness is kept: if the files of this database return to an earlier state, that will not be detected"
            );
        }
        let mut witness = Witness::open(path, found)?;
        // Noted before the first write. Otherwise a later open would compare the folder with a witness that is out of
        // date.
        if !kept && found.slot.kept {
            let slot = WitnessSlot { kept: false, ..found.slot };
            witness.write(slot).map_err(failed("write the file", &file(path)))?;
        }
        let raised = kept && fault != PlantedFault::WitnessNotRaised;
        Ok(Self { path: path.to_owned(), raised, witness: Mutex::new(witness) })
    }

    /// Whether the folder is a copy whose log of changes goes by the id of the original's.
    pub(super) fn is_of_copy(&self) -> bool {
        self.witness.lock().last().copied
    }

    /// Notes that the log of changes has an id of its own, which is on stable storage.
    pub(super) fn settle_copy(&self, health: &Health) -> Result<()> {
        let mut witness = self.witness.lock();
        let slot = WitnessSlot { copied: false, ..witness.last() };
        witness.write(slot).map_err(|error| health.failed_io(&error))
    }

    /// Notes what is on stable storage, if that is more than the witness says. `durable` is the newest write that is
    /// known to be synced. `sync` syncs the log and returns the newest write that it covered.
    ///
    /// The order matters: first the lengths are read, then everything is synced, then the slot is written. So the
    /// witness never says more than is true.
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
        // An idle store costs no sync.
        if last.kept && last.sequence == durable && last.manifest == manifest {
            return Ok(());
        }
        let sequence = sync()?;
        let synced = sync_file(&self.path.join(FileName::Manifest(manifest.0).to_string()));
        // A failed sync of the MANIFEST is as bad as one of the log: the kernel may have dropped the pages.
        synced.map_err(|error| health.failed_io(&error))?;
        let log = log.map_or((0, 0), |log| (log.number, log.bytes));
        let slot = WitnessSlot { kept: true, sequence, manifest, log, ..last };
        witness.write(slot).map_err(|error| health.failed_io(&error))
    }
}

fn sync_file(file: &Path) -> io::Result<()> {
    match File::open(file) {
        Ok(file) => file.sync_data(),
        // RocksDB started another MANIFEST meanwhile. It syncs the new one before it deletes the old one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::fixture::{Fixture, insert, open};

    /// A closed database with one record, and what its witness says.
    fn closed() -> (TempDir, PathBuf, FoundWitness) {
        let fixture = Fixture::new();
        insert(&fixture.store, b"a key").expect("stored");
        let folder = fixture.closed();
        let path = folder.path().join("db");
        let found = read(&path).expect("a witness");
        (folder, path, found)
    }

    #[test]
    fn closing_leaves_a_witness_of_everything() {
        let (_folder, path, found) = closed();
        let store = open(&path).expect("opened");
        assert_eq!(store.enter().expect("open").latest_sequence(), found.slot.sequence);
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
        let error = open(&path).err().expect("refused");
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
        open(&path).expect("opened").close(|| (), |_| Ok(())).expect("closed");
        assert!(!read(&path).expect("a witness").other_is_damaged);
    }
}
