//! Room on the disk that is kept for deletes and compactions, where no quota keeps it.
//!
//! A disk that is full rejects deletes too, because they are written to the log, and room for what is deleted comes back only
//! by a compaction, which writes tables before it removes others. So puts are rejected before the disk is full. Others may
//! fill it all the same: while little is free, a file without a name, the ballast, keeps blocks, and is given up for deletes
//! and compactions.
//!
//! ```text
//!         free < AMPLE_BYTES              free < floor, or a write met the full disk
//! Ample ────────────────────▶ Scarce ────────────────────────────────────────────────▶ Low
//!   ▲                          │  ▲                                                      │
//!   └──────────────────────────┘  └──────────────────────────────────────────────────────┘
//!       free ≥ AMPLE_BYTES                free ≥ floor + ballast + a margin
//! ```
//! - Ample: nothing is kept, and a write pays for one look at a flag.
//! - Scarce: the ballast is held, and puts draw on a credit, which is half of what is free above the floor. Then the disk is
//!   measured again, because the tables that were written meanwhile raise the floor, and compactions use room too.
//! - Low: the ballast is given up, and puts are rejected. Deletes and compactions have all that is free.
//!
//! The floor has room for a flush of the memtables, which are as large as the logs, and for a compaction; so has the ballast.
//! The invariant: each change of the state is in [`DiskRoom::enter`].

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use base::sync::{self, AtomicBool, AtomicU64, Mutex};

use crate::folder::failed;
use crate::format::SPILL_FOLDER;
use crate::{disk, private};

/// With as many free bytes nothing is kept: more than is written between two looks, and than is ever kept.
const AMPLE_BYTES: u64 = 1 << 30;
/// The most that a compaction is given, in bytes. One step on demand has two tables of 64 MiB.
const COMPACTION_BYTES_MAX: u64 = 128 << 20;
/// The space for records of deletes and for RocksDB's small files: a part of the disk, and at most that many bytes.
const SLACK_PART: u64 = 32;
const SLACK_MAX: u64 = 2 << 20;
/// The time that a measurement is valid while puts are rejected, and while nothing is written.
const REFUSED_FOR: Duration = Duration::from_millis(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The free space that RocksDB needs to recover from a full disk, the longest wait for it, and the pause between two
/// tries.
const RECOVERY_BYTES: u64 = 1 << 20;
const RECOVERY_MAX: Duration = Duration::from_secs(12);
const RECOVERY_NAP: Duration = Duration::from_millis(50);
const BALLAST_FILE: &str = "ballast";

/// The state of the disk, as it was found last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ample,
    Scarce,
    Low,
}

/// The request of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskCharge {
    /// The most that it adds.
    pub(crate) bytes: u64,
    /// Whether it only deletes.
    pub(crate) is_delete: bool,
    /// Whether it puts nothing but what describes collections.
    pub(crate) is_of_definitions: bool,
}

/// The room of an open database.
pub(crate) struct DiskRoom {
    /// Whether writes must look: in all states but [`State::Ample`].
    is_scarce: AtomicBool,
    /// The bytes that puts may still use before the disk is measured again.
    credit: AtomicU64,
    /// The bytes that definitions and counters may use while puts are rejected: those that closing writes, for
    /// example.
    small_credit: AtomicU64,
    held: Mutex<Held>,
}

struct Held {
    state: State,
    ballast: Option<Ballast>,
    looked: Option<Instant>,
    /// As they were found last.
    sizes: Sizes,
    /// The bytes above the floor that the credit left out: for a put that is larger than the credit of a new measurement.
    rest: u64,
}

/// Blocks of the disk that nothing is stored in.
struct Ballast {
    file: File,
    bytes: u64,
}

/// A measurement of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    /// The free bytes, without the ballast.
    free: u64,
    /// The free bytes that puts must leave.
    floor: u64,
    /// The size that the ballast is to have.
    ballast: u64,
    slack: u64,
}

impl Sizes {
    /// The sizes for a disk of `disk` bytes of which `free` are free, where a store has logs and tables of that many bytes.
    fn of(disk: u64, free: u64, stored: Stored) -> Self {
        let Stored { logs, tables } = stored;
        let slack = (disk / SLACK_PART).min(SLACK_MAX);
        // A flush writes the content of the logs to tables, and then they go. RocksDB's own compactions are not to fill the disk
        // while puts are admitted.
        let floor = slack.saturating_add(logs).saturating_add(tables.min(COMPACTION_BYTES_MAX));
        // A flush and then a compaction, which is assumed to leave half after deletes.
        let ballast = logs.max(logs.saturating_add(tables) / 2).min(COMPACTION_BYTES_MAX);
        Self { free, floor, ballast, slack }
    }

    /// The state that follows from `state`. In every state but [`State::Low`] a ballast of that many bytes is held.
    fn next(self, state: State, held: u64) -> State {
        let free = match state {
            State::Ample | State::Scarce => self.free,
            // Room for the ballast, and not so little more that it would be given up again at once.
            State::Low => {
                let margin = self.slack.max(self.ballast / 4);
                if self.free < self.floor.saturating_add(self.ballast).saturating_add(margin) {
                    return State::Low;
                }
                self.free
            }
        };
        if free.saturating_add(held) >= AMPLE_BYTES {
            State::Ample
        } else if free < self.floor {
            State::Low
        } else {
            State::Scarce
        }
    }
}

/// The bytes of a store's logs and tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stored {
    logs: u64,
    tables: u64,
}

impl Stored {
    fn in_folder(folder: &Path) -> Result<Self> {
        let mut stored = Self::default();
        for entry in fs::read_dir(folder).map_err(failed("look at the folder", folder))? {
            let entry = entry.map_err(failed("look at the folder", folder))?;
            // Files that have gone meanwhile use no space.
            let Ok(metadata) = entry.metadata() else { continue };
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("log") => stored.logs += metadata.len(),
                Some("sst") => stored.tables += metadata.len(),
                Some(_) | None => {}
            }
        }
        Ok(stored)
    }
}

impl DiskRoom {
    /// The room of a database, as the disk of its folder is now.
    pub(crate) fn new(folder: &Path) -> Self {
        let held =
            Held { state: State::Ample, ballast: None, looked: None, sizes: Sizes::default(), rest: 0 };
        let room = Self {
            is_scarce: AtomicBool::new(false),
            credit: AtomicU64::new(0),
            small_credit: AtomicU64::new(0),
            held: Mutex::new(held),
        };
        room.look(folder);
        room
    }

    /// Whether writes must be admitted.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.is_scarce.load(Ordering::Relaxed)
    }

    /// Whether puts are rejected.
    pub(crate) fn is_low(&self) -> bool {
        self.is_scarce() && self.held.lock().state == State::Low
    }

    /// Admits a write while little is free. Fails if it is a put for which too little room is left.
    #[cold]
    pub(crate) fn admit(&self, folder: &Path, charge: DiskCharge) -> Result<()> {
        let bytes = charge.bytes;
        if charge.is_delete || sync::subtract(&self.credit, bytes) {
            return Ok(());
        }
        let mut held = self.held.lock();
        // Whatever makes room ends the rejections at once.
        let has_more = || disk::free_bytes(folder).is_none_or(|free| free > held.sizes.free);
        let is_known = held.state == State::Low
            && held.looked.is_some_and(|looked| looked.elapsed() < REFUSED_FOR)
            && !has_more();
        if !is_known {
            self.look_again(&mut held, folder);
        }
        if held.state == State::Ample || (held.state == State::Scarce && self.pay_at_once(&mut held, bytes)) {
            return Ok(());
        }
        if charge.is_of_definitions && sync::subtract(&self.small_credit, bytes) {
            return Ok(());
        }
        Err(refusal(bytes, held.sizes, held.state))
    }

    /// Subtracts `bytes` from the credit of a measurement and, if that is too little, from the rest of it.
    fn pay_at_once(&self, held: &mut Held, bytes: u64) -> bool {
        let is_paid = sync::subtract(&self.credit, bytes);
        if is_paid || !sync::subtract(&self.credit, bytes.saturating_sub(held.rest)) {
            return is_paid;
        }
        held.rest = 0;
        true
    }

    /// Looks at the disk.
    pub(crate) fn look(&self, folder: &Path) {
        self.look_again(&mut self.held.lock(), folder);
    }

    /// Looks at the disk, if that was not done a moment ago.
    pub(crate) fn look_from_time_to_time(&self, folder: &Path) {
        let mut held = self.held.lock();
        if held.looked.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL) {
            self.look_again(&mut held, folder);
        }
    }

    fn look_again(&self, held: &mut Held, folder: &Path) {
        held.looked = Some(Instant::now());
        // If it is unknown, the disk counts as an ample one.
        let Some(disk) = disk::disk_bytes(folder) else { return };
        let ballast = held.ballast.as_ref().map_or(0, |ballast| ballast.bytes);
        if disk.free.saturating_add(ballast) >= AMPLE_BYTES && held.state == State::Ample {
            return;
        }
        let stored = match Stored::in_folder(folder) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(%error, "it could not be seen how much room deletes need");
                return;
            }
        };
        held.sizes = Sizes::of(disk.all, disk.free, stored);
        let next = held.sizes.next(held.state, ballast);
        self.enter(held, next, folder);
    }

    /// Gives the ballast up and rejects puts from now on, until there is room: a write or a compaction has found none.
    pub(crate) fn give_up(&self, folder: &Path) {
        let mut held = self.held.lock();
        self.enter(&mut held, State::Low, folder);
        held.looked = Some(Instant::now());
    }

    /// Gives the ballast up for work that has found no room, and waits a little for RocksDB, which tries to recover every five
    /// seconds. Returns `false` if it is not worth trying again: there is no room, or it lasts long.
    pub(crate) fn recovers(&self, folder: &Path, began: Instant) -> bool {
        self.give_up(folder);
        let has_room = disk::free_bytes(folder).is_some_and(|free| free >= RECOVERY_BYTES);
        let goes_on = has_room && began.elapsed() < RECOVERY_MAX;
        if goes_on {
            sync::sleep(RECOVERY_NAP);
        }
        goes_on
    }

    /// Gives the ballast up if a compaction of `bytes` bytes needs it.
    pub(crate) fn make_room_for_compaction(&self, folder: &Path, bytes: u64) {
        if self.is_scarce() && disk::free_bytes(folder).is_some_and(|free| free < bytes) {
            self.give_up(folder);
        }
    }

    /// Changes the state, and what is held in it.
    fn enter(&self, held: &mut Held, next: State, folder: &Path) {
        if held.state != next && (held.state == State::Low || next == State::Low) {
            let Sizes { free, floor, ballast, .. } = held.sizes;
            let is_low = next == State::Low;
            tracing::warn!(
                is_low,
                free,
                kept = floor + ballast,
                "whether the disk is nearly full has changed"
            );
        }
        if held.state != State::Low {
            self.small_credit.store(held.sizes.slack / 2, Ordering::Release);
        }
        held.state = next;
        match next {
            State::Scarce => held.keep_ballast(folder),
            State::Ample | State::Low => held.drop_ballast(),
        }
        let credit = match next {
            State::Scarce => held.sizes.free.saturating_sub(held.sizes.floor),
            State::Ample | State::Low => 0,
        };
        held.rest = credit / 2;
        self.credit.store(credit - held.rest, Ordering::Release);
        self.is_scarce.store(next != State::Ample, Ordering::Release);
    }
}

impl Held {
    /// Makes the ballast as large as it is to be. One that is only a little too large stays.
    fn keep_ballast(&mut self, folder: &Path) {
        let bytes = self.sizes.ballast;
        let has = self.ballast.as_ref().map_or(0, |ballast| ballast.bytes);
        if (bytes..=bytes.saturating_mul(2)).contains(&has) {
            return;
        }
        self.drop_ballast();
        self.sizes.free = self.sizes.free.saturating_add(has);
        // It uses nothing of what puts must leave free.
        let bytes = bytes.min(self.sizes.free.saturating_sub(self.sizes.floor));
        if bytes == 0 {
            return;
        }
        match Ballast::take(folder, bytes) {
            Ok(ballast) => {
                self.ballast = Some(ballast);
                self.sizes.free -= bytes;
            }
            // Then puts are rejected in time all the same, and others may fill the disk.
            Err(error) => tracing::debug!(%error, bytes, "no room could be kept for deletes"),
        }
    }

    fn drop_ballast(&mut self) {
        if let Some(ballast) = self.ballast.take() {
            // Not only by closing the file: a forked child may have it open too.
            let _ = ballast.file.set_len(0);
        }
    }
}

impl Ballast {
    /// Allocates blocks of the disk.
    fn take(folder: &Path, bytes: u64) -> Result<Self> {
        let spills = folder.join(SPILL_FOLDER);
        // It may be there for temporary files.
        let _ = private::create_folder(&spills);
        let path = spills.join(BALLAST_FILE);
        let opened = private::file_options().create_new(true).read(true).write(true).open(&path);
        let file = opened.map_err(failed("make the file", &path))?;
        // Without a name nothing is left of it when the process ends.
        fs::remove_file(&path).map_err(failed("remove the file", &path))?;
        allocate(&file, bytes).map_err(failed("take room for the file", &path))?;
        Ok(Self { file, bytes })
    }
}

#[cfg(unix)]
fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
}

#[cfg(not(unix))]
fn allocate(_file: &File, _bytes: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

fn refusal(bytes: u64, sizes: Sizes, state: State) -> Error {
    let Sizes { free, floor, ballast, .. } = sizes;
    let kept = if state == State::Low { floor + ballast } else { floor };
    let message = format!(
        "the disk has no room for {bytes} bytes more: {free} bytes are free, and {kept} are kept for deletes and compactions"
    );
    Error::new(ErrorKind::NoSpace { message, during_commit: false })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn stored(logs: u64, tables: u64) -> Stored {
        Stored { logs: logs * MEBIBYTE, tables: tables * MEBIBYTE }
    }

    #[test]
    fn what_is_kept_grows_with_logs_and_tables_up_to_a_limit() {
        let sizes = |logs, tables| Sizes::of(8192 * MEBIBYTE, 500 * MEBIBYTE, stored(logs, tables));
        let kept = |logs, tables| {
            let Sizes { floor, ballast, .. } = sizes(logs, tables);
            (floor / MEBIBYTE, ballast / MEBIBYTE)
        };
        assert_eq!(kept(0, 0), (2, 0));
        assert_eq!(kept(10, 0), (12, 10));
        assert_eq!(kept(10, 90), (102, 50));
        assert_eq!(kept(200, 9000), (330, 128));
        // A small disk has less to give.
        assert_eq!(Sizes::of(32 * MEBIBYTE, 0, stored(0, 0)).floor, MEBIBYTE);
    }

    /// All transitions.
    #[test]
    fn each_state_follows_from_what_is_free() {
        let next = |state, free, held| {
            Sizes::of(8192 * MEBIBYTE, free * MEBIBYTE, stored(10, 90)).next(state, held * MEBIBYTE)
        };
        for state in [State::Ample, State::Scarce] {
            assert_eq!(next(state, 1024, 0), State::Ample);
            assert_eq!(next(state, 1023, 0), State::Scarce);
            assert_eq!(next(state, 102, 0), State::Scarce);
            assert_eq!(next(state, 101, 0), State::Low);
        }
        assert_eq!(next(State::Scarce, 1000, 50), State::Ample);
        // The floor, the ballast and a quarter of it.
        assert_eq!(next(State::Low, 164, 0), State::Low);
        assert_eq!(next(State::Low, 165, 0), State::Scarce);
        assert_eq!(next(State::Low, 1024, 0), State::Ample);
    }

    /// On the disk of the machine, whatever is free on it.
    #[test]
    fn a_ballast_takes_room_and_gives_it_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let ballast = Ballast::take(folder.path(), 8 * MEBIBYTE).expect("there is room");
        assert_eq!(ballast.file.metadata().expect("it is open").len(), 8 * MEBIBYTE);
        let left = fs::read_dir(folder.path().join(SPILL_FOLDER)).expect("a folder").count();
        assert_eq!(left, 0, "it has a name");
        let again = Ballast::take(folder.path(), MEBIBYTE).expect("the name is free");
        let mut held = Held {
            state: State::Scarce,
            ballast: Some(again),
            looked: None,
            sizes: Sizes::default(),
            rest: 0,
        };
        held.drop_ballast();
        assert!(held.ballast.is_none());
    }

    #[test]
    fn puts_are_refused_while_room_is_low_and_deletes_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = DiskRoom::new(folder.path());
        let put = DiskCharge { bytes: 1000, is_delete: false, is_of_definitions: false };
        room.give_up(folder.path());
        assert!(room.is_scarce() && room.is_low());
        // As if the disk had no more than then.
        room.held.lock().sizes.free = u64::MAX;
        assert!(room.admit(folder.path(), put).is_err_and(|error| error.is_no_space()));
        room.admit(folder.path(), DiskCharge { is_delete: true, ..put }).expect("it is kept for deletes");
        let definition = DiskCharge { is_of_definitions: true, ..put };
        assert!(room.admit(folder.path(), definition).is_err());
        room.small_credit.store(1500, Ordering::Relaxed);
        room.admit(folder.path(), definition).expect("they may take a little");
        assert!(room.admit(folder.path(), definition).is_err());
        // The disk has room, which is seen at the next look.
        room.look(folder.path());
        assert!(!room.is_low());
        room.admit(folder.path(), put).expect("there is room");
    }

    /// Puts once had all that is free above the floor before the disk was measured again, and compactions of what they had
    /// written found none.
    #[test]
    fn puts_have_half_of_what_is_free_before_the_disk_is_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = DiskRoom::new(folder.path());
        let mut held = room.held.lock();
        held.sizes = Sizes { free: 1000, floor: 100, ..Sizes::default() };
        room.enter(&mut held, State::Scarce, folder.path());
        assert!(sync::subtract(&room.credit, 450) && !sync::subtract(&room.credit, 1));
        // A put that is larger than half has it at once after a measurement, and has it once.
        room.enter(&mut held, State::Scarce, folder.path());
        assert!(!room.pay_at_once(&mut held, 901));
        assert!(room.pay_at_once(&mut held, 800));
        assert!(room.pay_at_once(&mut held, 100) && !room.pay_at_once(&mut held, 1));
    }
}
