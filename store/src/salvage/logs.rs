//! The logs of a damaged folder: every record that is whole, past what is not, with the newest change of each key.
//!
//! The changes are sorted by a RocksDB of their own in a folder that is removed afterwards, because logs can be larger
//! than memory. Only the newest change of a key is kept; deleted ranges are few and stay in memory.

use std::collections::BTreeSet;
use std::path::Path;

use base::error::Result;
use rocksdb::{DB, DBRawIterator, Options, WriteBatch, WriteOptions};
use rocksfile::batch::{Batch, Change};
use rocksfile::names::FileName;
use rocksfile::record::{Record, Records, Step};
use rocksfile::table::ChangeKind;

use crate::raw_file::RawFile;
use crate::salvage::table::{DeletedRange, Unreadable};
use crate::translate;

/// Bytes after which changes are written to the sorted ones.
const BATCH_BYTES: usize = 1 << 20;
/// The fewest bytes of log that a change uses: its kind, the lengths of its key and its value, and a byte of a key.
const CHANGE_BYTES_MIN: u64 = 3;
/// The length of what is before a value: the change's number and its kind.
const HEADER_BYTES: usize = 9;

/// The changes of all logs.
pub(super) struct LogChanges {
    sorted: DB,
    pending: WriteBatch,
    /// By the number of the column family.
    pub(super) deleted: Vec<(u32, DeletedRange)>,
    pub(super) damages: Vec<Unreadable>,
    /// The numbers of writes that are in no log and should be: the first and the last of each run.
    pub(super) lost: Vec<(u64, u64)>,
    /// The number that the next write must have, once one is known.
    pub(super) next: Option<u64>,
    /// Whether the disk gave any byte of a log, and what the system said of others.
    pub(super) has_read: bool,
    pub(super) failure: Option<String>,
}

/// A log that is read.
pub(super) struct NeededLog {
    pub(super) number: u64,
    /// The numbers of the families whose changes in it are in tables.
    pub(super) in_tables: BTreeSet<u32>,
}

/// A change as it is sorted.
pub(super) struct LogChange<'a> {
    pub(super) key: &'a [u8],
    pub(super) sequence: u64,
    pub(super) kind: ChangeKind,
    pub(super) value: &'a [u8],
}

impl LogChanges {
    /// Makes the place in which changes are sorted. `next` is the number that the first write of the logs must not be
    /// beyond.
    pub(super) fn create(scratch: &Path, next: Option<u64>) -> Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_error_if_exists(true);
        options.set_write_buffer_size(16 << 20);
        let sorted = DB::open(&options, scratch).map_err(translate::read)?;
        let pending = WriteBatch::default();
        Ok(Self {
            sorted,
            pending,
            deleted: Vec::new(),
            damages: Vec::new(),
            lost: Vec::new(),
            next,
            has_read: false,
            failure: None,
        })
    }

    /// Reads a log. Logs are read in the order of their numbers. The changes of families that are in tables already are
    /// passed by: a table may have lost their numbers, and would seem to be older. `look` says whether to go on.
    pub(super) fn read(
        &mut self,
        folder: &Path,
        log: &NeededLog,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let number = log.number;
        let path = folder.join(FileName::Log(number).to_string());
        let file = match RawFile::open_past_unreadable(&path) {
            Ok(file) => file,
            // A file that cannot even be opened is as good as gone.
            Err(error) => {
                self.note(&path, 0, 0, format!("the log cannot be opened: {error}"));
                self.failure.get_or_insert_with(|| error.to_string());
                return Ok(());
            }
        };
        let length = file.length();
        let mut records = Records::new(file, number, usize::MAX);
        // Start of the current damaged range, and its flaw.
        let mut damage: Option<(u64, String)> = None;
        let mut end = 0;
        loop {
            look()?;
            let step = match records.step() {
                Ok(step) => step,
                // Unreadable parts read as zeros, so this is none of the disk's errors.
                Err(error) => {
                    damage.get_or_insert((end, format!("it cannot be read: {error}")));
                    break;
                }
            };
            match step {
                Step::End => break,
                Step::Fault(offset, fault) => {
                    damage.get_or_insert((offset.max(end), fault.to_string()));
                }
                Step::Record(record) => {
                    let gap = damage.as_ref().map_or(0, |(offset, _)| record.offset.saturating_sub(*offset));
                    let is_taken = self.take(record, records.front(), log, gap)?;
                    let ended = if is_taken { damage.take() } else { None };
                    if let Some((offset, reason)) = ended {
                        let reason = records.source().unreadable_in(offset..record.offset).unwrap_or(reason);
                        self.note(&path, offset, record.offset, reason);
                    }
                    if !is_taken {
                        let reason = "a record does not continue the writes before it".to_owned();
                        damage.get_or_insert((record.offset, reason));
                    }
                    end = record.end;
                }
            }
        }
        if let Some((offset, reason)) = damage {
            let reason = records
                .source()
                .unreadable_in(offset..length)
                .unwrap_or_else(|| format!("{reason}; nothing follows, so a crash may have cut it short"));
            self.note(&path, offset, length, reason);
        }
        self.has_read |= records.source().has_read();
        self.failure = self.failure.take().or_else(|| records.source().failure().map(str::to_owned));
        self.write_pending()
    }

    /// Reads the changes of a record. Returns `false` if it is not a batch, or cannot be what was written at this place: after
    /// damage, bytes of a document can look like a record.
    fn take(&mut self, record: Record, bytes: &[u8], log: &NeededLog, damaged_bytes: u64) -> Result<bool> {
        let Some(batch) = Batch::parse(bytes) else { return Ok(false) };
        if let Some(next) = self.next {
            if record.after_fault {
                let lost_max = damaged_bytes / CHANGE_BYTES_MIN;
                if batch.sequence < next || batch.sequence - next > lost_max {
                    return Ok(false);
                }
            }
            if batch.sequence > next {
                self.lost.push((next, batch.sequence - 1));
            }
        }
        self.next = Some(batch.next_sequence().max(self.next.unwrap_or(0)));
        for change in batch.changes().filter(|change| !log.in_tables.contains(&change.family)) {
            self.add(change)?;
        }
        Ok(true)
    }

    fn add(&mut self, change: Change<'_>) -> Result<()> {
        let Change { sequence, family, kind, key, value } = change;
        let kind = match kind {
            ChangeKind::RangeDeletion => {
                let range = DeletedRange { start: key.to_vec(), end: value.to_vec(), sequence };
                self.deleted.push((family, range));
                return Ok(());
            }
            ChangeKind::Deletion => 0,
            ChangeKind::Value => 1,
            ChangeKind::Other(_) => 2,
        };
        // A later change of the same key replaces this one.
        let key = [&family.to_be_bytes()[..], key].concat();
        self.pending.put(key, [&sequence.to_be_bytes()[..], &[kind], value].concat());
        if self.pending.size_in_bytes() >= BATCH_BYTES { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<()> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.sorted.write_opt(std::mem::take(&mut self.pending), &options).map_err(translate::read)
    }

    fn note(&mut self, path: &Path, offset: u64, end: u64, reason: String) {
        let (path, bytes) = (path.to_owned(), end.saturating_sub(offset));
        self.damages.push(Unreadable {
            path,
            offset,
            bytes,
            reason,
            family: None,
            keys: None,
            entries: None,
        });
    }

    /// A walk over the changes of a family.
    pub(super) fn walk(&self, family: u32) -> LogWalk<'_> {
        let mut iterator = self.sorted.raw_iterator();
        iterator.seek(family.to_be_bytes());
        LogWalk { iterator, prefix: family.to_be_bytes() }
    }
}

/// A walk over the changes of a family in the order of their keys.
pub(super) struct LogWalk<'a> {
    iterator: DBRawIterator<'a>,
    prefix: [u8; 4],
}

impl LogWalk<'_> {
    /// The current change. Returns `None` at the end.
    pub(super) fn current(&self) -> Result<Option<LogChange<'_>>> {
        let Some((key, value)) = self.iterator.item() else {
            return self.iterator.status().map(|()| None).map_err(translate::read);
        };
        let Some(key) = key.strip_prefix(&self.prefix) else { return Ok(None) };
        let (header, value) = value.split_at_checked(HEADER_BYTES).unwrap_or_default();
        let sequence = header.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let kind = match header.last() {
            Some(0) => ChangeKind::Deletion,
            Some(1) => ChangeKind::Value,
            other => ChangeKind::Other(other.copied().unwrap_or_default()),
        };
        Ok(Some(LogChange { key, sequence, kind, value }))
    }

    pub(super) fn advance(&mut self) {
        if self.iterator.valid() {
            self.iterator.next();
        }
    }
}
