//! The logs as RocksDB will replay them: how far they go without a gap, and whether that is far enough.

use std::io::Read;
use std::path::{Path, PathBuf};

use rocksfile::batch::Batch;
use rocksfile::log::Fault;
use rocksfile::names::FileName;
use rocksfile::record::{Records, Step};

use crate::error::{Error, ErrorKind, Result};
use crate::results::TornEnd;
use crate::storage::folder::failed;
use crate::storage::format::LogStamp;
use crate::storage::preflight::files::{Files, open};
use crate::storage::preflight::known::{Known, Length, Passed, damaged};

/// A log, and how far it will be replayed.
struct Replayed {
    file: PathBuf,
    length: Length,
    until: u64,
    /// Why not further.
    flaw: Option<Flaw>,
}

/// Why a log is not replayed to its end.
struct Flaw {
    reason: String,
    /// RocksDB does not notice it, and would replay what follows.
    silent: bool,
    /// No crash leaves it.
    certain: bool,
}

/// The walk over all logs.
struct Replay<'a> {
    known: &'a Known,
    /// The newest write that tables can hold.
    in_tables: u64,
    /// The first write of the logs, and the one after the last that will be replayed.
    first: Option<u64>,
    next: u64,
    /// A log ended early, and none after it went on where it ended.
    stopped: bool,
    /// The newest write that a later one says was synced.
    stamped: u64,
    logs: Vec<Replayed>,
    /// Whole records follow a flaw.
    records_after: bool,
    traps_rocksdb: bool,
}

/// Reads the logs, and decides whether what they lack may be missing.
pub(super) fn judge(path: &Path, files: &Files, known: &Known) -> Result<Passed> {
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
    replay.refuse_damage(files)?;
    replay.refuse_loss(path)?;
    let mut passed = Passed {
        sequence: in_tables.max(replay.next - 1),
        log_bytes: files.logs.iter().map(|log| log.bytes).sum(),
        torn: files.torn.clone(),
        cuts: Vec::new(),
    };
    replay.leave_out(&mut passed);
    Ok(passed)
}

impl Replay<'_> {
    /// Reads a log to its end, also where it will not be replayed: stamps count wherever they stand.
    fn read(&mut self, file: PathBuf, length: Length) -> Result<()> {
        let source = open(&file, "it is missing, but was there a moment ago")?;
        // What another process adds meanwhile is left alone.
        let mut records = Records::new(source.take(length.bytes), length.number, usize::MAX);
        let mut flaw: Option<(u64, Flaw)> = None;
        let mut is_first = true;
        loop {
            let (offset, met) = match records.step().map_err(failed("read the file", &file))? {
                Step::End => break,
                Step::Fault(_, fault) => (records.whole_until(), Some(Flaw::of(fault))),
                Step::Record(record) => {
                    let Some(batch) = Batch::parse(records.front()) else {
                        flaw.get_or_insert((record.offset, Flaw::certain("a write batch has no number")));
                        continue;
                    };
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

    /// Takes in what the batch says was synced before it; whether it is another database's batch.
    fn note_stamps(&mut self, batch: &Batch<'_>) -> bool {
        let mut foreign = false;
        for stamp in batch.notes().filter_map(LogStamp::parse) {
            if self.known.store.is_none_or(|store| store == stamp.store) {
                // Nothing newer than itself can have been synced before it.
                if stamp.synced < batch.sequence {
                    self.stamped = self.stamped.max(stamp.synced);
                }
            } else {
                foreign = true;
            }
        }
        foreign
    }

    /// Replays a batch, if it is the next one.
    fn follow(&mut self, batch: &Batch<'_>, is_first: bool) -> Option<Flaw> {
        if self.stopped {
            // After a crash writes go on in a new log, with the numbers that the torn end of the old one had.
            if !is_first || batch.sequence != self.next {
                self.records_after = true;
                return Some(Flaw::silent("it follows a log that ends early"));
            }
            self.stopped = false;
        }
        let is_gap = batch.sequence > self.next;
        // The oldest log may begin with writes that are in tables already. A new log may repeat the last writes of the
        // one before, if the disk was full between them.
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

    /// Refuses what no crash leaves: flaws in what had been synced.
    fn refuse_damage(&self, files: &Files) -> Result<()> {
        for log in &self.logs {
            let Some(flaw) = &log.flaw else { continue };
            let number = log.length.number;
            let tracked = files.manifest.logs_synced().find(|(tracked, _)| *tracked == number);
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

    /// Refuses logs that end before the newest write that had been synced.
    fn refuse_loss(&self, path: &Path) -> Result<()> {
        let synced = self.known.sequence.max(self.stamped);
        let first = self.first.unwrap_or(self.in_tables + 1);
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

    /// Lists what is left out, and what must be cut so that RocksDB leaves it out too.
    fn leave_out(&self, passed: &mut Passed) {
        let silent = self.logs.iter().filter_map(|log| log.flaw.as_ref()).any(|flaw| flaw.silent);
        let must_cut = self.traps_rocksdb || (silent && self.records_after);
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
            Fault::Zeros => Self::silent(fault.to_string()),
            // Our logs are not compressed, and no crash makes them so.
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
