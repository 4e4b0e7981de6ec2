//! Stalls: RocksDB has no room in memory for a write, because its flushes or compactions are behind.
//!
//! No write waits inside RocksDB. If one did, a full disk could make it wait for ever: RocksDB recovers from a full disk by
//! a flush, the flush waits for all writes that have begun, and a write that has begun waits for the recovery. So RocksDB
//! is asked to reject a write that would have to wait. It is tried again here, as long as the store accepts writes and RocksDB
//! is at work on making room.

use std::time::{Duration, Instant};

use base::error::Error;
use base::metrics::timing::Timing;
use base::sync::{self, Mutex};

use crate::families::Database;
use crate::health::Health;
use crate::translate;

/// The pause of a write before it is tried again.
const NAP: Duration = Duration::from_millis(1);
/// The longest wait of a write while RocksDB does nothing that frees space.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// The rate of writes that RocksDB permits while compactions are behind, in bytes a second; 0 if it permits all or none.
const PERMITTED_RATE: &str = "rocksdb.actual-delayed-write-rate";
/// RocksDB's names for the numbers of running flushes and compactions.
const RUNNING: [&str; 2] = ["rocksdb.num-running-flushes", "rocksdb.num-running-compactions"];

/// The result of a write.
pub(super) type WriteResult = std::result::Result<(), Refused>;

/// A write that RocksDB has not made. The store's health knows of it.
#[derive(Debug)]
pub(super) struct Refused {
    /// The error for its caller.
    pub(super) error: Error,
    /// Whether there was no room for it in memory, so that it may be tried again.
    is_stall: bool,
}

impl Refused {
    /// Notes what RocksDB says of a write that it has not made.
    pub(super) fn noted(health: &Health, error: &rocksdb::Error) -> Self {
        Self { error: health.failed(error), is_stall: translate::is_stall(error) }
    }
}

/// The queue of writes that RocksDB has rejected for now.
#[derive(Default)]
pub(super) struct Stalls {
    /// The time at which a write was last given up, if any was. Held by the write that is tried next: RocksDB counts
    /// rejected writes against the rate that it permits, so of many that try at once none would get through.
    given_up: Mutex<Option<Instant>>,
    /// The waits of writes.
    pub(super) waits: Timing,
}

/// A write that may be rejected for now.
#[derive(Clone, Copy)]
pub(super) struct Stalled<'a> {
    pub(super) database: &'a Database,
    pub(super) health: &'a Health,
    /// The number of written bytes.
    pub(super) bytes: usize,
}

impl Stalls {
    /// Returns what became of a write: `first`, or, if that was rejected for now, what comes of trying it again.
    #[inline]
    pub(super) fn outlast(
        &self,
        first: WriteResult,
        stalled: Stalled<'_>,
        write: impl Fn() -> WriteResult,
    ) -> WriteResult {
        if !first.as_ref().is_err_and(|refused| refused.is_stall) {
            return first;
        }
        // The clock is read only here, where milliseconds are lost anyway.
        let begin = Instant::now();
        let written = self.retry(stalled, &write);
        self.waits.record_since(begin);
        written
    }

    #[cold]
    fn retry(&self, stalled: Stalled<'_>, write: &dyn Fn() -> WriteResult) -> WriteResult {
        let arrived = Instant::now();
        let mut last_given_up = self.given_up.lock();
        // It has waited beside a write that was given up, and so for as long.
        let mut patience = match *last_given_up {
            Some(given_up) if given_up > arrived => Patience::spent(),
            Some(_) | None => Patience::new(stalled.work(), Instant::now()),
        };
        loop {
            let written = write();
            if !written.as_ref().is_err_and(|refused| refused.is_stall) || !stalled.health.makes_room() {
                return written;
            }
            if !stalled.wait(&mut patience) {
                *last_given_up = Some(Instant::now());
                return written;
            }
        }
    }
}

/// The work of RocksDB that frees space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    is_running: bool,
    /// The number of flushes and compactions that have failed since the database was opened.
    failures: u64,
}

/// The time that a write continues to wait. A full disk that fails compactions and not the log would hold it for
/// ever, with the latches of its documents.
struct Patience {
    /// The failures before the wait. Work that has failed since makes no room.
    failures: u64,
    /// Until when work that makes no room is waited for. Absent if it is no more.
    until: Option<Instant>,
}

impl Patience {
    fn new(work: Work, now: Instant) -> Self {
        Self { failures: work.failures, until: Some(now + IDLE_MAX) }
    }

    fn spent() -> Self {
        Self { failures: 0, until: None }
    }

    /// Whether to go on waiting.
    fn lasts(&mut self, work: Work, now: Instant) -> bool {
        let Some(until) = &mut self.until else { return false };
        if work.is_running && work.failures == self.failures {
            *until = now + IDLE_MAX;
        }
        now < *until
    }
}

impl Stalled<'_> {
    /// Waits until the write can be tried again. Returns `false` if it is not worth it.
    fn wait(self, patience: &mut Patience) -> bool {
        let began = Instant::now();
        loop {
            if !patience.lasts(self.work(), Instant::now()) {
                return false;
            }
            sync::sleep(NAP);
            if began.elapsed() >= self.due() || !self.health.makes_room() {
                return true;
            }
        }
    }

    fn work(self) -> Work {
        let count = |name| self.database.raw().property_int_value(name).ok().flatten().unwrap_or(0);
        Work {
            is_running: RUNNING.into_iter().any(|name| count(name) > 0),
            failures: count("rocksdb.background-errors"),
        }
    }

    /// After what time RocksDB permits the write. A rejected write uses up the rate for as long as the write itself
    /// would have lasted, so it is twice that.
    fn due(self) -> Duration {
        let rate = self.database.raw().property_int_value(PERMITTED_RATE).ok().flatten().unwrap_or(0);
        if rate == 0 {
            return Duration::ZERO;
        }
        let nanoseconds = u128::from(2 * self.bytes as u64) * 1_000_000_000 / u128::from(rate);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use base::metrics::report::Times;
    use rocksdb::{DB, DBCompressionType, Options, WriteOptions};

    use super::*;
    use crate::families::Family;
    use crate::format::StoreId;

    /// A database with `memtables` memtables of 64 KiB, which flushes `flushed_per_second` bytes a second.
    struct Slow {
        database: Database,
        health: Health,
        stalls: Stalls,
        tried: AtomicU64,
        _folder: tempfile::TempDir,
    }

    impl Slow {
        fn new(memtables: i32, flushed_per_second: i64) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let mut options = Options::default();
            options.create_if_missing(true);
            options.create_missing_column_families(true);
            options.set_compression_type(DBCompressionType::None);
            options.set_write_buffer_size(64 << 10);
            options.set_max_write_buffer_number(memtables);
            options.set_ratelimiter(flushed_per_second, 10_000, 10);
            let families = Family::ALL.map(|family| (family.name(), options.clone()));
            let raw = DB::open_cf_with_opts(&options, folder.path(), families).expect("a new database");
            let database = Database::new(raw, StoreId::default(), options);
            let (health, stalls) = (Health::open(), Stalls::default());
            Self { database, health, stalls, tried: AtomicU64::new(0), _folder: folder }
        }

        fn write(&self, bytes: usize) -> WriteResult {
            let Self { database, health, stalls, .. } = self;
            let mut options = WriteOptions::default();
            options.set_no_slowdown(true);
            let (family, value) = (database.family(Family::Records), vec![7; bytes]);
            let write = || {
                self.tried.fetch_add(1, Ordering::Relaxed);
                let written = database.raw().put_cf_opt(family, b"key", &value, &options);
                written.map_err(|error| Refused::noted(health, &error))
            };
            stalls.outlast(write(), Stalled { database, health, bytes }, write)
        }
    }

    #[test]
    fn writes_outlast_a_stop() {
        // A memtable is flushed for a quarter of a second, in which a busy machine fills the next one, too.
        let slow = Slow::new(2, 256 << 10);
        assert_eq!(slow.stalls.waits.times(), Times::default());
        for _ in 0..50 {
            slow.write(10_000).expect("there is room in the end");
        }
        let waits = slow.stalls.waits.times();
        // Each of them was rejected at least once, and the memtable is flushed for longer than a nap.
        let refused = slow.tried.into_inner() - 50;
        assert!(waits.count > 0 && waits.count <= refused.min(50), "{waits:?}, {refused} refused");
        assert!(u128::from(waits.total_micros) >= NAP.as_micros() * u128::from(waits.count), "{waits:?}");
    }

    #[test]
    fn a_write_waits_for_work_that_succeeds() {
        let (start, work) = (Instant::now(), Work { is_running: true, failures: 3 });
        let mut patience = Patience::new(work, start);
        for tens in 1..100 {
            assert!(patience.lasts(work, start + IDLE_MAX / 2 * tens));
        }
        let (idle, last) = (Work { is_running: false, ..work }, start + IDLE_MAX / 2 * 99);
        assert!(patience.lasts(idle, last + IDLE_MAX / 2));
        assert!(!patience.lasts(idle, last + IDLE_MAX));
    }

    #[test]
    fn a_write_does_not_wait_long_for_work_that_fails() {
        let (start, work) = (Instant::now(), Work { is_running: true, failures: 0 });
        let mut patience = Patience::new(work, start);
        let failed = Work { failures: 1, ..work };
        assert!(patience.lasts(failed, start + IDLE_MAX / 2));
        assert!(!patience.lasts(failed, start + IDLE_MAX));
        assert!(!Patience::spent().lasts(work, start));
    }

    /// A queue of writes ends as soon as the first one is given up, and does not wait once for each.
    #[test]
    fn writes_that_waited_beside_one_that_was_given_up_end_with_it() {
        let slow = Slow::new(2, 64 << 10);
        let arrived = Instant::now();
        *slow.stalls.given_up.lock() = Some(arrived + Duration::from_secs(60));
        let refused = (0..100).find_map(|_| slow.write(10_000).err()).expect("there is no room");
        assert!(refused.is_stall);
        assert!(arrived.elapsed() < Duration::from_secs(30), "{:?}", arrived.elapsed());
    }

    #[test]
    fn a_write_does_not_wait_once_the_disk_is_full() {
        let slow = Slow::new(2, 64 << 10);
        let (done, is_done) = channel();
        let refused = || (0..100).find_map(|_| slow.write(10_000).err()).map(|refused| refused.is_stall);
        std::thread::scope(|scope| {
            scope.spawn(|| done.send(refused()));
            let waits = is_done.recv_timeout(Duration::from_millis(200));
            assert_eq!(waits, Err(RecvTimeoutError::Timeout));
            slow.health.failed_io(&std::io::ErrorKind::StorageFull.into());
            let refused = is_done.recv_timeout(Duration::from_secs(60)).expect("it ends");
            assert_eq!(refused, Some(true), "there is no room");
        });
    }

    /// RocksDB counts what it rejects against the rate that it permits. A write that is tried too often is never made.
    #[test]
    fn large_writes_of_several_threads_get_through() {
        let slow = Slow::new(4, 8 << 20);
        let started = Instant::now();
        let write_all = || {
            for bytes in [100, 1 << 20, 10_000, 1 << 20] {
                slow.write(bytes).expect("there is room in the end");
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(write_all))));
        // The flushes last a second.
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        assert!(slow.tried.into_inner() > 16, "none was refused");
    }
}
