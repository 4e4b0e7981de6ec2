//! Compactions on demand: tables are written again, without what was deleted or replaced.
//!
//! RocksDB does not end a compaction that it has begun, so a range of keys is cut into steps of a few tables, and between two
//! steps it is asked whether to go on. RocksDB's own compactions go on beside them, and no write waits for a step.

use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use base::sync;
use rocksdb::{BottommostLevelCompaction, CompactOptions, LiveFile};

use crate::disk::free_bytes;
use crate::families::{Database, Family};
use crate::translate;

/// The number of tables of the last level that one step compacts.
const TABLES_IN_STEP: usize = 2;
/// The longest wait for a cursor that keeps so much of a quota that compactions are paused.
const PAUSED_MAX: Duration = Duration::from_secs(10);
/// The pause between two looks whether compactions may go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// RocksDB's name for the number of its failed flushes and compactions.
const FAILURES: &str = "rocksdb.background-errors";

/// A range of one family's keys that is compacted, from the first to the last.
#[derive(Clone, Debug)]
pub struct CompactedRange {
    /// The family of the keys.
    pub family: Family,
    /// The first key.
    pub first: Vec<u8>,
    /// `None` represents the end of the family.
    pub last: Option<Vec<u8>>,
}

/// The calls of a compaction while it runs.
pub struct CompactionCalls<'a> {
    /// Says whether to go on.
    pub look: &'a dyn Fn() -> Result<()>,
    /// Receives how many bytes of tables are done, and of how many.
    pub tell: &'a mut dyn FnMut(u64, u64),
}

/// The bytes of tables before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The bytes before.
    pub before: u64,
    /// The bytes after.
    pub after: u64,
}

/// A part of a range that is compacted at once.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) family: Family,
    pub(super) first: Vec<u8>,
    pub(super) last: Option<Vec<u8>>,
    /// The bytes of its tables, on all levels.
    bytes: u64,
}

impl CompactedRange {
    /// All keys of all families.
    pub fn everything() -> Vec<Self> {
        let whole = |family| Self { family, first: Vec::new(), last: None };
        Family::ALL.into_iter().map(whole).collect()
    }

    /// The bytes of the range in tables.
    fn bytes(&self, database: &Database) -> u64 {
        match &self.last {
            Some(last) => database.file_bytes(self.family, &self.first, last),
            None => database.number_of(self.family, "rocksdb.live-sst-files-size"),
        }
    }

    fn touches(&self, file: &LiveFile) -> bool {
        // A table without keys cannot be placed. RocksDB makes none.
        let (Some(start), Some(end)) = (&file.start_key, &file.end_key) else { return false };
        file.column_family_name == self.family.name()
            && *end >= self.first
            && self.last.as_ref().is_none_or(|last| start <= last)
    }
}

impl Step {
    /// Compacts the step down to the last level. `last_level` says whether tables that are there already are written again.
    pub(super) fn run(&self, database: &Database, last_level: BottommostLevelCompaction) -> Result<()> {
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        options.set_bottommost_level_compaction(last_level);
        let failed = failures(database);
        database.raw().compact_range_cf_opt(
            database.family(self.family),
            Some(self.first.as_slice()),
            self.last.as_deref(),
            &options,
        );
        // The call itself returns no error.
        if failures(database) > failed { Err(self.failure(database)) } else { Ok(()) }
    }

    fn failure(&self, database: &Database) -> Error {
        match free_bytes(database.path()) {
            Some(free) if free < self.bytes => {
                let bytes = self.bytes;
                let message = format!(
                    "compacting {bytes} bytes of tables needs as much room, and {free} bytes are free"
                );
                Error::new(ErrorKind::NoSpace { message, during_commit: false })
            }
            Some(_) | None => {
                let message =
                    "a compaction failed; the file LOG in the folder has RocksDB's message".to_owned();
                Error::new(ErrorKind::Storage { message })
            }
        }
    }
}

/// Compacts ranges of keys, and returns what their tables had before and have after. What is in memtables is not met: flush
/// first.
///
/// What an open snapshot still sees is kept. Writers go on.
pub fn compact(
    database: &Database,
    ranges: &[CompactedRange],
    calls: CompactionCalls<'_>,
) -> Result<Compacted> {
    let CompactionCalls { look, tell } = calls;
    let sum = || ranges.iter().map(|range| range.bytes(database)).sum();
    let before = sum();
    let mut all = Vec::new();
    for range in ranges {
        all.extend(steps(database, range)?);
    }
    // Known before the first step, for the progress.
    let total = all.iter().map(|step| step.bytes).sum();
    let mut done = 0;
    tell(done, total);
    for step in &all {
        await_turn(database, step.family, look)?;
        run_with_room(database, step, BottommostLevelCompaction::IfHaveCompactionFilter, look)?;
        done += step.bytes;
        tell(done, total);
    }
    for step in leftovers(database, ranges)? {
        await_turn(database, step.family, look)?;
        run_with_room(database, &step, BottommostLevelCompaction::ForceOptimized, look)?;
    }
    if let Some(room) = database.disk_room() {
        // Puts are admitted again, if it has made enough.
        room.look(database.path());
    }
    Ok(Compacted { before, after: sum() })
}

/// Cuts a range after tables of the last level.
pub(super) fn steps(database: &Database, range: &CompactedRange) -> Result<Vec<Step>> {
    let mut files = database.raw().live_files().map_err(translate::read)?;
    files.retain(|file| range.touches(file));
    let last_level = files.iter().map(|file| file.level).max().unwrap_or(0);
    // Tables of level 0 overlap each other, and the first step compacts all of them.
    let is_cut = |file: &&LiveFile| file.level == last_level && last_level > 0;
    let mut ends: Vec<_> = files.iter().filter(is_cut).filter_map(|file| file.end_key.clone()).collect();
    ends.retain(|end| *end >= range.first && range.last.as_ref().is_none_or(|last| end < last));
    // RocksDB lists a level by its keys, but does not promise it.
    ends.sort();
    let cuts = ends.into_iter().skip(TABLES_IN_STEP - 1).step_by(TABLES_IN_STEP);
    let (family, mut first) = (range.family, range.first.clone());
    let mut steps = Vec::new();
    for cut in cuts {
        // The lowest key after the cut, so that no table is in two steps.
        let next = [cut.as_slice(), &[0]].concat();
        steps.push(Step { family, first: std::mem::replace(&mut first, next), last: Some(cut), bytes: 0 });
    }
    steps.push(Step { family, first, last: range.last.clone(), bytes: 0 });
    for file in &files {
        // A table counts in the step that its last key is in.
        let end = file.end_key.as_deref().unwrap_or_default();
        let at = steps.partition_point(|step| step.last.as_deref().is_some_and(|last| last < end));
        let at = at.min(steps.len() - 1);
        if let Some(step) = steps.get_mut(at) {
            step.bytes += file.size as u64;
        }
    }
    Ok(steps)
}

/// The tables of the last level that have deletions in them: moved there as they were, or kept for a snapshot until now.
fn leftovers(database: &Database, ranges: &[CompactedRange]) -> Result<Vec<Step>> {
    let files = database.raw().live_files().map_err(translate::read)?;
    let mut steps = Vec::new();
    for range in ranges {
        let of_range = || files.iter().filter(|file| range.touches(file));
        let last_level = of_range().map(|file| file.level).max().unwrap_or(0);
        let left = of_range().filter(|file| file.level == last_level && file.num_deletions > 0);
        steps.extend(left.filter_map(|file| {
            let (first, last) = (file.start_key.clone()?, file.end_key.clone());
            Some(Step { family: range.family, first, last, bytes: file.size as u64 })
        }));
    }
    Ok(steps)
}

/// Runs a step, with what is kept for compactions if it needs that. Where little is free it is tried again: another compaction, whose
/// tables go when it fails, may have had the room, or RocksDB has yet to recover.
fn run_with_room(
    database: &Database,
    step: &Step,
    last_level: BottommostLevelCompaction,
    look: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Some(room) = database.disk_room() else { return step.run(database, last_level) };
    room.make_room_for_compaction(database.path(), step.bytes);
    let began = Instant::now();
    loop {
        let done = step.run(database, last_level);
        if done.is_ok() || !room.is_scarce() || !room.recovers(database.path(), began) {
            return done;
        }
        look()?;
    }
}

/// Waits as long as compactions of the family are paused: by an index build whose tables are being ingested, or by a quota.
fn await_turn(database: &Database, family: Family, look: &dyn Fn() -> Result<()>) -> Result<()> {
    let began = Instant::now();
    loop {
        look()?;
        let is_paused = *database.pauses(family).lock() > 0;
        if !is_paused {
            return Ok(());
        }
        // An index build ends its pause by itself; a cursor may be open for ever.
        if let Some(quota) = database.quota()
            && quota.are_compactions_paused()
            && began.elapsed() > PAUSED_MAX
        {
            return Err(quota.pause_refusal());
        }
        sync::sleep(LOOK_INTERVAL);
    }
}

fn failures(database: &Database) -> u64 {
    database.raw().property_int_value(FAILURES).ok().flatten().unwrap_or(0)
}
