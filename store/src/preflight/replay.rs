//! Reads the logs as RocksDB will replay them: how far they go without a gap, and whether that is far enough.

use std::io::Read;
use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind, Result};
use rocksfile::batch::Batch;
use rocksfile::log::Fault;
use rocksfile::names::FileName;
use rocksfile::record::{Records, Step};

use crate::folder::failed;
use crate::format::LogStamp;
use crate::preflight::files::{Files, open};
use crate::preflight::synced::{Length, Passed, SyncedState, damaged};
use crate::recovery::TornEnd;

/// A log that was read.
struct Replayed {
    file: PathBuf,
    length: Length,
    /// The offset at which its replay ends.
    until: u64,
    /// The reason why the replay ends before the end of the file.
    flaw: Option<Flaw>,
}

/// The reason why a log is not replayed to its end.
struct Flaw {
    reason: String,
    /// RocksDB does not notice the flaw and would replay what follows it.
    silent: bool,
    /// No crash causes such a flaw, so it is damage.
    certain: bool,
}

/// The state while all logs are read, oldest first.
struct Replay<'a> {
    known: &'a SyncedState,
    /// The sequence number of the newest write that tables can hold.
    in_tables: u64,
    /// The sequence number of the first write in the logs.
    first: Option<u64>,
    /// The sequence number that the next write must have.
    next: u64,
    /// A log ended early, and no later log continued where it ended.
    stopped: bool,
    /// The newest write that the stamp of a later write reports as synced.
    stamped: u64,
    logs: Vec<Replayed>,
    /// Complete records follow a flaw.
    records_after: bool,
    /// RocksDB would loop for ever at a flaw.
    traps_rocksdb: bool,
}

/// Reads the logs, and rejects them if a write is missing or damaged that had been synced.
pub(super) fn judge(path: &Path, files: &Files, known: &SyncedState) -> Result<Passed> {
    let in_tables = files.manifest.last_sequence.unwrap_or(0);
    let mut replay = Replay {
        known,
        in_tables,
        first: None,
        next: in_tables + 1,
        stopped: false,
        stamped: 0,
        logs: Vec::new(),
        records_after: false,
        traps_rocksdb: false,
    };
    for length in &files.logs {
        replay.read(path.join(FileName::Log(length.number).to_string()), *length)?;
    }
    // Damage before loss: it names a file and an offset, which helps more than a range of lost writes.
    replay.refuse_damage(files)?;
    replay.refuse_loss(path)?;
    replay.refuse_half_flushed(files)?;
    let mut passed = Passed {
        // The logs can end before the newest write that tables hold.
        sequence: in_tables.max(replay.next - 1),
        log_bytes: files.logs.iter().map(|log| log.bytes).sum(),
        torn: files.torn.clone(),
        cuts: files.cut.iter().cloned().collect(),
        tables: files.manifest.tables().map(|table| table.number).collect(),
    };
    replay.leave_out(files, &mut passed);
    Ok(passed)
}

impl Replay<'_> {
    /// Reads a log to its end. The part that will not be replayed is read for its stamps.
    fn read(&mut self, file: PathBuf, length: Length) -> Result<()> {
        let source = open(&file, "it is missing, but was there a moment ago")?;
        // Bytes that another process appends meanwhile are not read.
        let mut records = Records::new(source.take(length.bytes), length.number, usize::MAX);
        let mut flaw: Option<(u64, Flaw)> = None;
        let mut is_first = true;
        loop {
            let (offset, met) = match records.step().map_err(failed("read the file", &file))? {
                Step::End => break,
                Step::Fault(_, fault) => (records.whole_until(), Some(Flaw::of(fault))),
                Step::Record(record) => {
                    let Some(batch) = Batch::parse(records.front()) else {
                        // Only the first flaw of a log counts: the replay ends there.
                        flaw.get_or_insert((record.offset, Flaw::certain("a write batch has no number")));
                        continue;
                    };
                    // After a fault the bytes of a log that was stored as a document can look like a record, so a
                    // foreign stamp proves nothing there.
                    let foreign = self.note_stamps(&batch) && !record.after_fault;
                    let met = if foreign {
                        Some(Flaw::certain("a write is another database's"))
                    } else if flaw.is_some() {
                        self.records_after = true;
                        None
                    } else {
                        self.follow(&batch, is_first)
                    };
                    is_first = false;
                    (record.offset, met)
                }
            };
            if let Some(met) = met {
                flaw.get_or_insert((offset, met));
            }
        }
        self.traps_rocksdb |= records.traps_rocksdb();
        self.stopped |= flaw.is_some();
        let until = flaw.as_ref().map_or(length.bytes, |(offset, _)| *offset);
        self.logs.push(Replayed { file, length, until, flaw: flaw.map(|(_, flaw)| flaw) });
        Ok(())
    }

    /// Notes which writes the stamps of the batch report as synced. Returns whether the batch is from another database.
    fn note_stamps(&mut self, batch: &Batch<'_>) -> bool {
        let mut foreign = false;
        for stamp in batch.notes().filter_map(LogStamp::parse) {
            if self.known.store.is_none_or(|store| store == stamp.store) {
                // A stamp says what was synced before its own write. One that names a newer write is not believed.
                if stamp.synced < batch.sequence {
                    self.stamped = self.stamped.max(stamp.synced);
                }
            } else {
                foreign = true;
            }
        }
        foreign
    }

    /// Counts a batch as replayed if it is the next one. Otherwise returns the flaw.
    fn follow(&mut self, batch: &Batch<'_>, is_first: bool) -> Option<Flaw> {
        if self.stopped {
            // After a crash RocksDB continues in a new log, with the sequence numbers that the torn end of the old log
            // had.
            if !is_first || batch.sequence != self.next {
                self.records_after = true;
                return Some(Flaw::silent("it follows a log that ends early"));
            }
            self.stopped = false;
        }
        let is_gap = batch.sequence > self.next;
        // The oldest log may begin with writes that are in tables already. A new log may repeat the last writes of the
        // previous one if the disk was full in between.
        let repeats = batch.sequence < self.next
            && self.first.is_some()
            && !(is_first && batch.next_sequence() >= self.next);
        if is_gap {
            self.records_after = true;
            let missing = format!("writes {} to {} are missing before it", self.next, batch.sequence - 1);
            return Some(Flaw::silent(missing));
        }
        if repeats {
            let again = format!("write {} comes after write {}", batch.sequence, self.next - 1);
            return Some(Flaw::certain(again));
        }
        self.first.get_or_insert(batch.sequence);
        self.next = batch.next_sequence();
        None
    }

    /// Fails if a log has a flaw that no crash causes, or one in the part that had been synced.
    fn refuse_damage(&self, files: &Files) -> Result<()> {
        for log in &self.logs {
            let Some(flaw) = &log.flaw else { continue };
            let number = log.length.number;
            let tracked = files.manifest.logs_synced().find(|(tracked, _)| *tracked == number);
            // The witness names the log in use; RocksDB had synced all older logs completely before it began that one.
            let synced = match self.known.log {
                Some(known) if known.number > number => u64::MAX,
                Some(known) if known.number == number => known.bytes,
                Some(_) | None => 0,
            };
            if flaw.certain || log.until < synced.max(tracked.map_or(0, |(_, bytes)| bytes)) {
                return Err(damaged(&log.file, log.until, flaw.reason.clone()));
            }
        }
        Ok(())
    }

    /// Fails if the replay ends before the newest write that had been synced.
    fn refuse_loss(&self, path: &Path) -> Result<()> {
        let synced = self.known.sequence.max(self.stamped);
        let first = self.first.unwrap_or(self.in_tables + 1);
        // A synced write below the first of the logs is in tables, and one below `next` is replayed.
        if synced < first || synced < self.next {
            return Ok(());
        }
        let flawed = self.logs.iter().find_map(|log| log.flaw.as_ref().map(|flaw| (log, flaw)));
        Err(match flawed {
            Some((log, flaw)) => {
                let lost = format!("{}; the synced writes {} to {synced} are lost", flaw.reason, self.next);
                damaged(&log.file, log.until, lost)
            }
            None => Error::new(ErrorKind::DataLoss { path: path.to_owned(), from: self.next, to: synced }),
        })
    }

    /// Fails if tables of one family hold writes that come after the end of the logs, while another family has its part of
    /// such writes in the logs only: half of a write would come back. RocksDB syncs older logs before it flushes a family. But
    /// when it recovers from a write that found the disk full, it flushes what the log may have lost, family by family, and
    /// the power may fail between two.
    fn refuse_half_flushed(&self, files: &Files) -> Result<()> {
        let Some(ahead) = files.manifest.newest_ahead().filter(|ahead| ahead.newest >= self.next) else {
            return Ok(());
        };
        // If there is no write in the logs, none of any family is missing from them.
        let (Some(_), Some(last)) =
            (self.first, self.logs.iter().find(|log| log.flaw.is_some()).or(self.logs.last()))
        else {
            return Ok(());
        };
        let table = FileName::Table(ahead.number);
        let reason = format!(
            "the logs end before write {}, but {table} holds writes of one column family up to {}",
            self.next, ahead.newest
        );
        Err(damaged(&last.file, last.until, reason))
    }

    /// Lists what is left out, and where logs must be cut so that RocksDB leaves it out too.
    fn leave_out(&self, files: &Files, passed: &mut Passed) {
        let silent = self.logs.iter().filter_map(|log| log.flaw.as_ref()).any(|flaw| flaw.silent);
        // Without a need no log is cut: RocksDB stops at most flaws by itself, and files stay as the crash left them.
        // It rejects a torn log before the first one that a family needs, also if that family's tables end before the tear.
        let refuses =
            |log: &Replayed| log.flaw.is_some() && files.manifest.has_tables_beyond(log.length.number);
        let must_cut = self.traps_rocksdb
            || (silent && self.records_after)
            || (self.stopped && self.logs.iter().any(refuses));
        for log in &self.logs {
            let Some(flaw) = &log.flaw else { continue };
            passed.torn.push(TornEnd {
                file: log.file.clone(),
                offset: log.until,
                bytes: log.length.bytes - log.until,
                reason: flaw.reason.clone(),
                set_aside: None,
            });
            if must_cut {
                passed.cuts.push((log.file.clone(), log.until));
            }
        }
    }
}

impl Flaw {
    fn of(fault: Fault) -> Self {
        match fault {
            // RocksDB reads on after zeros.
            Fault::Zeros => Self::silent(fault.to_string()),
            // We never compress logs, and a crash cannot change that.
            Fault::Compressed => Self::certain(fault.to_string()),
            Fault::HeaderCut
            | Fault::PayloadCut
            | Fault::Length
            | Fault::Checksum
            | Fault::Kind(_)
            | Fault::Recycled
            | Fault::OtherLog
            | Fault::Unfinished
            | Fault::Headless => Self { reason: fault.to_string(), silent: false, certain: false },
        }
    }

    fn silent(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), silent: true, certain: false }
    }

    fn certain(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), silent: false, certain: true }
    }
}
