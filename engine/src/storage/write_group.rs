//! Single records that several threads write at the same time go to RocksDB in one batch.
//!
//! RocksDB forms such groups itself, but its threads hand each group on one by one, and with more threads than cores the one
//! that is next is mostly not running. Here no thread is next: the one that finds no write under way writes all that has gathered,
//! and its own record with it. A thread that comes alone writes its record as it is, and one that waits alone does not gather:
//! it would be a batch of one.
//!
//! A record counts as written for all who gathered when the one write returns, so an error of it is everybody's.

use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use rocksdb::{Error, WriteBatch};

use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, yield_now};

/// A record of more bytes does not gather: it would be copied, and what the call costs is little beside it.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// Nothing is added to a batch that has as many bytes.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How often a thread looks again at once, while a write takes microseconds; none where a checker runs the threads.
const LOOKS: u32 = if cfg!(shuttle) { 0 } else { 32 };
/// How often it looks again after that, each time after other threads ran, before it sleeps.
const LOOKS_AFTER_OTHERS: u32 = if cfg!(shuttle) { 0 } else { 96 };
/// Pauses of the processor between two looks.
const PAUSES: u32 = 20;

/// The single records that wait to be written.
#[derive(Default)]
pub(super) struct WriteGroup {
    /// Held while a record or a batch is given to RocksDB.
    turn: Mutex<()>,
    /// Threads that wait for the turn, or for a write of it.
    waiting: AtomicUsize,
    gathered: Mutex<Gathered>,
}

/// Records for the next write.
#[derive(Default)]
struct Gathered {
    batch: WriteBatch,
    outcome: Arc<Outcome>,
}

/// What became of one write.
#[derive(Default)]
struct Outcome {
    /// Set last.
    is_done: AtomicBool,
    error: OnceLock<Error>,
}

/// A record, and the ways in which it is written.
pub(super) trait Record {
    /// How many bytes key and value have.
    fn bytes(&self) -> usize;
    /// Writes the record.
    fn alone(&self) -> Result<(), Error>;
    /// Adds the record to a batch.
    fn add(&self, batch: &mut WriteBatch);
    /// Writes a batch to which it was added.
    fn together(&self, batch: WriteBatch) -> Result<(), Error>;
}

impl WriteGroup {
    /// Writes a record, alone or with others.
    #[inline]
    pub(super) fn write(&self, record: &impl Record) -> Result<(), Error> {
        if record.bytes() > RECORD_BYTES_MAX {
            return record.alone();
        }
        if let Some(turn) = self.turn.try_lock() {
            return self.write_in_turn(&turn, record);
        }
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let written = self.write_later(record, others);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        written
    }

    /// Writes a record while others are written, beside as many `others` that wait.
    #[inline(never)]
    fn write_later(&self, record: &impl Record, others: usize) -> Result<(), Error> {
        if others == 0 {
            for _ in 0..LOOKS {
                if let Some(turn) = self.turn.try_lock() {
                    return self.write_in_turn(&turn, record);
                }
                pause();
            }
        }
        let outcome = {
            let mut gathered = self.gathered.lock();
            if gathered.batch.size_in_bytes() >= BATCH_BYTES_MAX {
                drop(gathered);
                return record.alone();
            }
            record.add(&mut gathered.batch);
            Arc::clone(&gathered.outcome)
        };
        for look in 0..LOOKS + LOOKS_AFTER_OTHERS {
            if outcome.is_done.load(Ordering::Acquire) {
                return outcome.result();
            }
            if let Some(turn) = self.turn.try_lock() {
                return self.write_gathered(&turn, &outcome, record);
            }
            if look < LOOKS { pause() } else { yield_now() }
        }
        // The write takes long, or the thread that does it is not running.
        self.write_gathered(&self.turn.lock(), &outcome, record)
    }

    /// Writes a record with what has gathered until now.
    #[inline]
    fn write_in_turn(&self, _turn: &MutexGuard<'_, ()>, record: &impl Record) -> Result<(), Error> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let mut gathered = self.gathered.lock();
            if !gathered.batch.is_empty() {
                record.add(&mut gathered.batch);
                let taken = mem::take(&mut *gathered);
                drop(gathered);
                return taken.outcome.done(record.together(taken.batch));
            }
        }
        record.alone()
    }

    /// Writes what has gathered, unless another thread did so before this one had the turn.
    fn write_gathered(
        &self,
        _turn: &MutexGuard<'_, ()>,
        outcome: &Outcome,
        record: &impl Record,
    ) -> Result<(), Error> {
        // What was taken is done before the turn ends. So while this is not, it is what gathers now.
        if outcome.is_done.load(Ordering::Acquire) {
            return outcome.result();
        }
        let taken = mem::take(&mut *self.gathered.lock());
        outcome.done(record.together(taken.batch))
    }
}

/// Lets the other half of a core go on for a moment.
fn pause() {
    (0..PAUSES).for_each(|_| std::hint::spin_loop());
}

impl Outcome {
    /// Tells all who share the write what became of it.
    fn done(&self, written: Result<(), Error>) -> Result<(), Error> {
        if let Err(error) = &written {
            let _ = self.error.set(error.clone());
        }
        self.is_done.store(true, Ordering::Release);
        written
    }

    fn result(&self) -> Result<(), Error> {
        self.error.get().cloned().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use rocksdb::{DB, IteratorMode, Options};

    use super::*;

    /// A key that is refused with the whole of its batch.
    const REFUSED: &[u8] = b"refused";

    fn database(folder: &tempfile::TempDir) -> DB {
        DB::open_default(folder.path()).expect("a database")
    }

    fn an_error() -> Error {
        let folder = tempfile::tempdir().expect("a folder");
        DB::open_for_read_only(&Options::default(), folder.path(), false).expect_err("there is no database")
    }

    /// Whether a batch has a key.
    fn holds(batch: &WriteBatch, key: &[u8]) -> bool {
        batch.data().windows(key.len()).any(|part| part == key)
    }

    /// A key that is written into a database, unless it is to be refused.
    struct Key<'a> {
        database: &'a DB,
        bytes: &'a [u8],
        error: &'a Error,
        /// Counts the keys that were written with others.
        shared: &'a AtomicUsize,
    }

    impl Record for Key<'_> {
        fn bytes(&self) -> usize {
            self.bytes.len()
        }

        fn alone(&self) -> Result<(), Error> {
            unless(self.bytes.ends_with(REFUSED), self.error, || self.database.put(self.bytes, b""))
        }

        fn add(&self, batch: &mut WriteBatch) {
            batch.put(self.bytes, b"");
        }

        fn together(&self, batch: WriteBatch) -> Result<(), Error> {
            self.shared.fetch_add(batch.len(), Ordering::Relaxed);
            unless(holds(&batch, REFUSED), self.error, || self.database.write(batch))
        }
    }

    /// Writes, unless that is to be refused.
    fn unless(
        is_refused: bool,
        error: &Error,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if is_refused { Err(error.clone()) } else { write() }
    }

    /// Runs the work of eight threads, each with its number.
    fn on_threads(work: impl Fn(u8) + Sync) {
        thread::scope(|scope| {
            for writer in 0..8 {
                let work = &work;
                scope.spawn(move || work(writer));
            }
        });
    }

    #[test]
    fn each_record_of_many_threads_is_written_once_it_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, group) = (database(&folder), WriteGroup::default());
        let (error, shared) = (an_error(), AtomicUsize::new(0));
        on_threads(|writer| {
            for number in 0..2_000_u16 {
                let key = [&[writer][..], &number.to_be_bytes()].concat();
                let record = Key { database: &database, bytes: &key, error: &error, shared: &shared };
                group.write(&record).expect("written");
                assert!(database.get(&key).expect("read").is_some(), "it was told before it was there");
            }
        });
        assert_eq!(database.iterator(IteratorMode::Start).count(), 16_000);
        assert!(shared.into_inner() > 0, "no record was written with others");
    }

    #[test]
    fn an_error_is_told_to_all_who_shared_the_write_and_to_nobody_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, group) = (database(&folder), WriteGroup::default());
        let (error, shared) = (an_error(), AtomicUsize::new(0));
        let told = Mutex::new(BTreeSet::new());
        on_threads(|writer| {
            for number in 0..500_u16 {
                let mut key = [&[writer][..], &number.to_be_bytes()].concat();
                if number % 7 == u16::from(writer) {
                    key.extend_from_slice(REFUSED);
                }
                let record = Key { database: &database, bytes: &key, error: &error, shared: &shared };
                let written = group.write(&record);
                assert!(written.is_err() || !key.ends_with(REFUSED), "a refused record was told as written");
                if written.is_ok() {
                    told.lock().insert(key);
                }
            }
        });
        let stored = database.iterator(IteratorMode::Start).map(|entry| entry.expect("read").0.to_vec());
        assert_eq!(stored.collect::<BTreeSet<_>>(), told.into_inner());
    }

    #[test]
    fn a_large_record_is_written_alone_beside_a_write_that_lasts() {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, group) = (database(&folder), WriteGroup::default());
        let _turn = group.turn.lock();
        let (key, error, shared) = (vec![1; RECORD_BYTES_MAX + 1], an_error(), AtomicUsize::new(0));
        group
            .write(&Key { database: &database, bytes: &key, error: &error, shared: &shared })
            .expect("written");
        assert!(database.get(&key).expect("read").is_some());
        assert_eq!(shared.into_inner(), 0, "it does not gather");
    }
}
