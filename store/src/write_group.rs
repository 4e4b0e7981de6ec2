//! Group commit: single records that several threads write at the same time go to RocksDB in one batch.
//!
//! 1. A thread that finds no write under way leads: it writes all that has gathered, with its own record.
//! 2. Every other thread adds its record to what gathers, and waits until a leader has written it or it can lead itself.
//! 3. Only the thread that holds `writing` collects what has gathered, and it says what became of it before it lets go. So a
//!    record whose outcome is not known, while no other thread writes, is in what gathers.
//!
//! RocksDB forms such groups itself, but its threads hand each group on one by one, and with more threads than cores the one
//! that is next is mostly not running. A thread that comes alone writes its record without a batch.
//!
//! An error of a batch is the error of each record in it.

use std::mem;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use base::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, yield_now};
use rocksdb::{Error, WriteBatch};

use crate::options::PlantedFault;

/// A larger record does not gather: it would be copied, and what its call costs is little beside its bytes.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// Nothing is added to a batch that has as many bytes. RocksDB adds as much to the group of a small write, so that it does not
/// wait for many large ones.
const BATCH_BYTES_MAX: usize = 128 << 10;
/// The number of times that a follower tests its outcome while the leader's write needs microseconds. Here and below
/// measured with 2, 4 and 8 threads on two cores.
const TESTS: u32 = 32;
/// The number of times that it tests it after that, each time after other threads ran, before it sleeps.
const TESTS_AFTER_OTHERS: u32 = if cfg!(feature = "shuttle") { 2 } else { 96 };
/// Pauses of the processor between two tests.
const PAUSES: u32 = 20;

/// The single records that wait to be written.
pub(super) struct WriteGroup {
    /// Held by the leader. Records that do not gather, and batches of the callers, go past it.
    writing: Mutex<()>,
    gathered: Mutex<Gathered>,
    /// The leader has reported what became of its batch. Waited for with `gathered`.
    told: Condvar,
    /// Threads that wait, asleep or not.
    waiting: AtomicUsize,
    /// Those that wait for `told`.
    sleeping: AtomicUsize,
    /// The number of times that a follower tests its outcome without letting other threads run: none on a single
    /// core, where it waits for one of them, nor where a checker runs the threads.
    tests: u32,
    fault: PlantedFault,
}

/// Records for the next batch.
#[derive(Default)]
struct Gathered {
    batch: WriteBatch,
    outcome: Arc<Outcome>,
}

/// The result of a batch, once it is known.
type Outcome = OnceLock<Ending>;

enum Ending {
    Written,
    Failed(Error),
    /// The leader has panicked, and the batch was written or not.
    Unknown,
}

/// A record for one database.
pub(super) trait Record {
    /// The bytes of key and value.
    fn bytes(&self) -> usize;
    /// Writes the record.
    fn put(&self) -> Result<(), Error>;
    /// Adds the record to a batch.
    fn add_to(&self, batch: &mut WriteBatch);
    /// Writes a batch of such records into their database.
    fn write_batch(&self, batch: WriteBatch) -> Result<(), Error>;
}

impl WriteGroup {
    pub(super) fn new(fault: PlantedFault) -> Self {
        let has_cores = available_parallelism().is_ok_and(|cores| cores.get() > 1);
        Self {
            writing: Mutex::default(),
            gathered: Mutex::default(),
            told: Condvar::default(),
            waiting: AtomicUsize::default(),
            sleeping: AtomicUsize::default(),
            tests: if has_cores && !cfg!(feature = "shuttle") { TESTS } else { 0 },
            fault,
        }
    }

    /// Writes a record, with those of other threads if several write. The caller keeps others from writing the same key.
    #[inline]
    pub(super) fn write(&self, record: &impl Record) -> Result<(), Error> {
        if record.bytes() > RECORD_BYTES_MAX {
            return record.put();
        }
        if let Some(leader) = self.try_lead() {
            return leader.write(record);
        }
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let written = self.wait(record, others == 0);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        written
    }

    #[inline]
    fn try_lead(&self) -> Option<Leader<'_>> {
        Some(Leader { group: self, writing: Some(self.writing.try_lock()?) })
    }

    #[inline(never)]
    fn wait(&self, record: &impl Record, is_only: bool) -> Result<(), Error> {
        // With two threads no record gathers, and none is copied: each leads when the other has written.
        if is_only && let Some(leader) = self.tested(|| self.try_lead()) {
            return leader.write(record);
        }
        let Some(outcome) = self.gather(record) else { return record.put() };
        match self.follow(&outcome) {
            Followed::Told => result(&outcome, record),
            Followed::Leads(leader) => leader.write_gathered(&outcome, record),
        }
    }

    /// Adds a record to what gathers. Returns `None` if that is full.
    fn gather(&self, record: &impl Record) -> Option<Arc<Outcome>> {
        let mut gathered = self.gathered.lock();
        if gathered.batch.size_in_bytes() >= BATCH_BYTES_MAX {
            return None;
        }
        record.add_to(&mut gathered.batch);
        Some(Arc::clone(&gathered.outcome))
    }

    /// Waits until `outcome` is reported, or until this thread is to lead.
    fn follow(&self, outcome: &Outcome) -> Followed<'_> {
        let followed = || match outcome.get() {
            Some(_) => Some(Followed::Told),
            None => self.try_lead().map(Followed::Leads),
        };
        if let Some(followed) = self.tested(followed) {
            return followed;
        }
        for _ in 0..TESTS_AFTER_OTHERS {
            if let Some(followed) = followed() {
                return followed;
            }
            yield_now();
        }
        // The write lasts long, or the leader is not running.
        let mut gathered = self.gathered.lock();
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        let followed = loop {
            // A leader that still holds `writing` after this will see that a thread sleeps.
            fence(Ordering::SeqCst);
            match followed() {
                Some(followed) => break followed,
                None => self.told.wait(&mut gathered),
            }
        };
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
        followed
    }

    /// Tests for a few microseconds whether there is something.
    fn tested<T>(&self, test: impl Fn() -> Option<T>) -> Option<T> {
        (0..self.tests).find_map(|_| {
            let found = test();
            if found.is_none() {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
            found
        })
    }
}

/// The end of a follower's wait.
enum Followed<'a> {
    /// A leader has reported what became of the record.
    Told,
    Leads(Leader<'a>),
}

/// The result for a record of a batch.
fn result(outcome: &Outcome, record: &impl Record) -> Result<(), Error> {
    match outcome.get() {
        Some(Ending::Written) => Ok(()),
        Some(Ending::Failed(error)) => Err(error.clone()),
        // Writing the same record once more changes nothing.
        Some(Ending::Unknown) | None => record.put(),
    }
}

/// The thread that holds `writing`, until it is dropped.
struct Leader<'a> {
    group: &'a WriteGroup,
    /// `None` while it is dropped.
    writing: Option<MutexGuard<'a, ()>>,
}

impl Leader<'_> {
    /// Writes the leader's own record with what has gathered.
    #[inline]
    fn write(self, record: &impl Record) -> Result<(), Error> {
        let_others_come();
        if self.group.waiting.load(Ordering::Relaxed) > 0
            && let Some(mut taken) = self.take()
        {
            record.add_to(&mut taken.batch);
            return taken.write(record, self.group.fault);
        }
        record.put()
    }

    /// Writes what has gathered, with the leader's own record in it unless its outcome is reported.
    fn write_gathered(self, outcome: &Outcome, record: &impl Record) -> Result<(), Error> {
        if outcome.get().is_some() {
            return result(outcome, record);
        }
        self.take().map_or_else(|| record.put(), |taken| taken.write(record, self.group.fault))
    }

    /// Returns `None` if nothing has gathered.
    fn take(&self) -> Option<Taken> {
        let mut gathered = self.group.gathered.lock();
        if gathered.batch.is_empty() {
            return None;
        }
        let Gathered { batch, outcome } = mem::take(&mut *gathered);
        Some(Taken { batch, outcome: Teller(outcome) })
    }
}

impl Drop for Leader<'_> {
    #[inline]
    fn drop(&mut self) {
        drop(self.writing.take());
        // A thread that goes to sleep from here on finds `writing` free.
        fence(Ordering::SeqCst);
        if self.group.sleeping.load(Ordering::Relaxed) > 0 {
            // One that has counted itself has the lock until it sleeps.
            drop(self.group.gathered.lock());
            self.group.told.notify_all();
        }
    }
}

/// The records that a leader writes.
struct Taken {
    batch: WriteBatch,
    outcome: Teller,
}

impl Taken {
    fn write(self, record: &impl Record, fault: PlantedFault) -> Result<(), Error> {
        if fault == PlantedFault::GroupsToldEarly {
            self.outcome.tell(&Ok(()));
            yield_now();
        }
        let_others_come();
        let written = record.write_batch(self.batch);
        self.outcome.tell(&written);
        written
    }
}

/// Lasts as long as a call of RocksDB, which is one step for a checker.
#[inline]
fn let_others_come() {
    if cfg!(feature = "shuttle") {
        (0..10).for_each(|_| yield_now());
    }
}

/// Says what became of a batch, at the latest when it is dropped.
struct Teller(Arc<Outcome>);

impl Teller {
    fn tell(&self, written: &Result<(), Error>) {
        let ending = match written {
            Ok(()) => Ending::Written,
            Err(error) => Ending::Failed(error.clone()),
        };
        let _ = self.0.set(ending);
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.0.set(Ending::Unknown);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use rocksdb::{DB, IteratorMode, Options};

    use super::*;

    /// A key that is rejected with the whole of its batch.
    const REFUSED: &[u8] = b"refused";
    /// A key whose batch panics before it is written.
    const PANICS: &[u8] = b"panics";

    /// A database whose writes are counted.
    struct Fixture {
        _folder: tempfile::TempDir,
        database: DB,
        group: WriteGroup,
        error: Error,
        /// Records that were written without a batch.
        puts: AtomicUsize,
        /// The number of records of each batch.
        batches: Mutex<Vec<usize>>,
    }

    struct Key<'a> {
        fixture: &'a Fixture,
        bytes: &'a [u8],
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let none = tempfile::tempdir().expect("a folder");
            Self {
                database: DB::open_default(folder.path()).expect("a database"),
                _folder: folder,
                group: WriteGroup::new(PlantedFault::None),
                error: DB::open_for_read_only(&Options::default(), none.path(), false)
                    .expect_err("there is no database"),
                puts: AtomicUsize::new(0),
                batches: Mutex::default(),
            }
        }

        fn write(&self, key: &[u8]) -> Result<(), Error> {
            self.group.write(&Key { fixture: self, bytes: key })
        }

        fn keys(&self) -> BTreeSet<Vec<u8>> {
            let entries = self.database.iterator(IteratorMode::Start);
            entries.map(|entry| entry.expect("read").0.to_vec()).collect()
        }

        /// Writes `keys` on a thread each while another thread writes, which ends when all of them sleep. Returns what each
        /// gets, or `None` if it panicked.
        fn write_together(&self, keys: &[&[u8]]) -> Vec<Option<Result<(), Error>>> {
            let writing = self.group.writing.lock();
            let leader = Leader { group: &self.group, writing: Some(writing) };
            thread::scope(|scope| {
                let writers: Vec<_> = keys.iter().map(|key| scope.spawn(|| self.write(key))).collect();
                while self.group.sleeping.load(Ordering::SeqCst) < keys.len() {
                    yield_now();
                }
                drop(leader);
                writers.into_iter().map(|writer| writer.join().ok()).collect()
            })
        }
    }

    impl Record for Key<'_> {
        fn bytes(&self) -> usize {
            self.bytes.len()
        }

        fn put(&self) -> Result<(), Error> {
            self.fixture.puts.fetch_add(1, Ordering::Relaxed);
            if self.bytes.ends_with(REFUSED) {
                return Err(self.fixture.error.clone());
            }
            self.fixture.database.put(self.bytes, b"")
        }

        fn add_to(&self, batch: &mut WriteBatch) {
            batch.put(self.bytes, b"");
        }

        fn write_batch(&self, batch: WriteBatch) -> Result<(), Error> {
            let holds = |key: &[u8]| batch.data().windows(key.len()).any(|part| part == key);
            self.fixture.batches.lock().push(batch.len());
            assert!(!holds(PANICS), "a planted panic");
            if holds(REFUSED) {
                return Err(self.fixture.error.clone());
            }
            self.fixture.database.write(batch)
        }
    }

    #[test]
    fn records_that_wait_for_a_write_are_one_batch() {
        let fixture = Fixture::new();
        let told = fixture.write_together(&[b"a", b"b", b"c", b"d", b"e"]);
        assert!(told.iter().all(|told| matches!(told, Some(Ok(())))), "{told:?}");
        assert_eq!(*fixture.batches.lock(), [5]);
        assert_eq!((fixture.keys().len(), fixture.puts.into_inner()), (5, 0));
    }

    #[test]
    fn an_error_is_told_to_all_who_share_the_batch_and_to_no_other() {
        let fixture = Fixture::new();
        let told = fixture.write_together(&[b"a", b"b", REFUSED, b"d", b"e"]);
        assert!(told.iter().all(|told| matches!(told, Some(Err(_)))), "{told:?}");
        assert_eq!(*fixture.batches.lock(), [5]);
        fixture.write(b"a").expect("it shares nothing with what was refused");
        assert_eq!(fixture.keys().len(), 1);
    }

    #[test]
    fn a_leader_that_panics_takes_no_record_with_it() {
        let fixture = Fixture::new();
        let told = fixture.write_together(&[b"a", b"b", PANICS, b"d", b"e"]);
        let panicked = told.iter().filter(|told| told.is_none()).count();
        assert_eq!(panicked, 1, "the leader alone: {told:?}");
        assert!(told.iter().flatten().all(Result::is_ok), "{told:?}");
        // The leader may have been any of them.
        assert_eq!(fixture.keys().len(), 4);
        assert_eq!((&*fixture.batches.lock(), fixture.puts.into_inner()), (&vec![5], 4));
    }

    #[test]
    fn a_record_that_is_large_or_finds_the_batch_full_goes_past_a_write_that_lasts() {
        let fixture = Fixture::new();
        let key = |first: u8, bytes: usize| [&[first][..], &vec![1; bytes - 1]].concat();
        let writing = fixture.group.writing.lock();
        fixture.write(&key(0, RECORD_BYTES_MAX + 1)).expect("written");
        assert_eq!(fixture.keys().len(), 1);
        let leader = Leader { group: &fixture.group, writing: Some(writing) };
        let filling = BATCH_BYTES_MAX / RECORD_BYTES_MAX;
        thread::scope(|scope| {
            for first in (1..).take(filling) {
                let (fixture, key) = (&fixture, key(first, RECORD_BYTES_MAX));
                scope.spawn(move || fixture.write(&key).expect("written"));
            }
            while fixture.group.sleeping.load(Ordering::SeqCst) < filling {
                yield_now();
            }
            fixture.write(b"small").expect("written");
            assert_eq!(fixture.keys().len(), 2);
            drop(leader);
        });
        assert_eq!((&*fixture.batches.lock(), fixture.keys().len()), (&vec![filling], 2 + filling));
    }

    #[test]
    fn each_record_of_many_threads_is_there_once_it_is_told_and_not_if_it_is_refused() {
        let fixture = Fixture::new();
        let told = Mutex::new(BTreeSet::new());
        let write = |mut key: Vec<u8>, is_refused: bool| {
            if is_refused {
                key.extend_from_slice(REFUSED);
            }
            let written = fixture.write(&key);
            assert!(written.is_err() || !is_refused, "a refused record was told as written");
            let stored = fixture.database.get(&key).expect("read");
            assert_eq!(stored.is_some(), written.is_ok());
            if written.is_ok() {
                told.lock().insert(key);
            }
        };
        let writes = |writer: u8| {
            for number in 0..2_000_u16 {
                write([&[writer][..], &number.to_be_bytes()].concat(), number % 70 == u16::from(writer));
            }
        };
        thread::scope(|scope| {
            for writer in 0..8 {
                let writes = &writes;
                scope.spawn(move || writes(writer));
            }
        });
        assert_eq!(fixture.keys(), told.into_inner());
    }
}
