//! The construction of a filter: in steps of a few milliseconds, on the background thread.
//!
//! 1. Memory is reserved, and the empty filter put where writes enter their keys into it.
//! 2. Each latch is seen free once. A write that was admitted before the filter was there holds its latch until its
//!    commit has returned, so from now on every key that is not in the filter is stored, deleted, or was never given.
//! 3. The stored keys are read in their order. Those that are stored meanwhile are in the filter already.
//! 4. The filter replaces the old one.
//!
//! A filter that is full gets another layer, in a step as well. It is read again only if it is out of date: most of its keys
//! were deleted, or many are above its `top`.
//!
//! No write waits for a step, and a step waits for no write: it ends at a latch that is busy, and the next one goes on there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::error::Result;
use query::operation::OperationContext;
use store::keys::{CollectionId, IndexId};
use store::latch::Latches;
use store::scan::{CacheUse, Scan, last_key};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::given_keys::bloom::hash_of_key;
use crate::catalog::given_keys::filters::{Chunk, Part};
use crate::catalog::given_keys::{GivenKeys, Growth};
use crate::options::PlantedFault;

/// The time limit of a step. Syncs in the background wait for it, and for what it has begun: some keys, or a layer in
/// which megabytes are set to zero.
const STEP_TIME: Duration = Duration::from_millis(2);
/// The number of keys, and of bytes of their values, that are read before the keys are entered together and the clock
/// is checked.
const CHUNK_KEYS: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;
/// The number of deleted keys in a row that end a step with an error: RocksDB passes them within one call. They are
/// gone when it has compacted its tables, and the filter is made then.
const DELETED_MAX: u64 = 10_000;
/// A document is charged like one more key for each of these bytes: a collection of large ones is hardly ever read.
const BYTES_PER_KEY: usize = 4 << 10;

/// A step that is to be made. Until it is dropped, no other one for the same keys is left.
pub(crate) struct Step {
    pub(crate) keys: Arc<GivenKeys>,
    pub(crate) latches: Arc<Latches>,
    pub(crate) space: KeySpace,
    /// About how many keys are stored, or `None` if that is not known.
    pub(crate) stored: Option<u64>,
}

/// The place of the keys of a collection or of an index.
#[derive(Debug)]
pub(crate) struct KeySpace {
    pub(crate) family: Family,
    /// Their common prefix.
    pub(crate) prefix: Vec<u8>,
    /// The end (excluded) of all of them.
    pub(crate) end: Vec<u8>,
}

impl KeySpace {
    /// The record keys of a collection.
    pub(crate) fn of_records(collection: CollectionId) -> Self {
        Self { family: Family::Records, prefix: collection.prefix().to_vec(), end: collection.end() }
    }

    /// The entry keys of an index.
    pub(crate) fn of_entries(index: IndexId) -> Self {
        Self { family: Family::Entries, prefix: index.prefix().to_vec(), end: index.end() }
    }

    /// The highest stored key, read for an operation.
    pub(crate) fn last_stored(
        self,
        database: &Arc<Database>,
        operation: &OperationContext,
    ) -> Result<Option<Vec<u8>>> {
        last_key(&Snapshot::take(database), self.family, &self.prefix, self.end, operation)
    }
}

impl Step {
    /// Makes the step.
    pub(crate) fn run(&self, database: &Arc<Database>) {
        let until = Instant::now() + STEP_TIME;
        // Several parts in one step: those of a small collection need microseconds.
        while Instant::now() < until {
            let Some(Growth { part, generation }) = self.keys.next_part(self.stored) else { return };
            let done = match part {
                Part::Begin { keys } => Ok(self.keys.begin(database, keys, generation)),
                Part::Extend { keys } => Ok(self.keys.extend(database, keys, generation)),
                Part::Pass { latch } => Ok(self.pass(database, latch, generation)),
                Part::Read { bounds } => self.read(database, bounds, generation, until),
            };
            match done {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    // The operation that needs what could not be read meets the same error.
                    tracing::debug!(%error, "a filter of keys could not be made");
                    self.keys.give_up(generation);
                    return;
                }
            }
        }
    }

    /// Goes on with the latches at `latch`. Returns whether all have been free.
    fn pass(&self, database: &Database, latch: usize, generation: u64) -> bool {
        // Not all at one moment: a latch that was free once has no write left that does not know of the filter.
        let busy = (database.fault() != PlantedFault::FiltersStartEarly)
            .then(|| self.latches.first_busy(latch))
            .flatten();
        self.keys.has_passed(busy, &self.space.prefix, generation);
        busy.is_none()
    }

    /// Reads keys between two bounds, as far as time allows. Returns whether there is more to do.
    fn read(
        &self,
        database: &Arc<Database>,
        bounds: (Vec<u8>, Option<Vec<u8>>),
        generation: u64,
        until: Instant,
    ) -> Result<bool> {
        // As they are now, and not as they were when the filter was begun: a snapshot would keep old versions that long.
        let snapshot = Snapshot::take(database);
        let (family, cache) = (self.space.family, CacheUse::Bypass);
        let mut scan = Scan::open_hurried(&snapshot, family, bounds, cache, DELETED_MAX);
        loop {
            // Without the lock, which is then held for a few microseconds: writes need it too.
            let chunk = next_chunk(&mut scan)?;
            let goes_on = self.keys.enter_read(&chunk, generation);
            if !goes_on || chunk.is_last || Instant::now() >= until {
                return Ok(goes_on);
            }
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.keys.step_is_over();
    }
}

fn next_chunk(scan: &mut Scan) -> Result<Chunk> {
    let (mut chunk, mut bytes) = (Chunk::default(), 0);
    while chunk.hashes.len() < CHUNK_KEYS && bytes < CHUNK_BYTES {
        if !scan.advance()? {
            // Up to the filter's `top`: what is above was given later, and is not asked of it.
            chunk.is_last = true;
            break;
        }
        // RocksDB has read the value along with its key, whether it is wanted or not.
        let length = scan.value().len();
        bytes += length;
        chunk.charge += i64::try_from(1 + length / BYTES_PER_KEY).unwrap_or(i64::MAX);
        chunk.hashes.push(hash_of_key(scan.key()));
        chunk.last.clear();
        chunk.last.extend_from_slice(scan.key());
    }
    Ok(chunk)
}
