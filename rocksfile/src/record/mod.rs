//! Fragments joined to records.

use std::io::{self, Read};

use crate::log::{Fault, Fragment, Kind, Reader, Step as Piece};

/// A whole record. [`Records::front`] has its bytes until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The offset of the first fragment in the file.
    pub offset: u64,
    /// The offset of the last fragment's end in the file.
    pub end: u64,
    /// The length of the record.
    pub bytes: u64,
    /// Whether there was a fault anywhere before it in this file.
    pub after_fault: bool,
}

/// The next result of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole record.
    Record(Record),
    /// A fault at this offset. The next step is the next whole record anywhere after it, or another fault.
    Fault(u64, Fault),
    /// The end of the file.
    End,
}

/// Reads the records of a log.
///
/// ```
/// use cairndb_rocksfile::log::{Fault, stored_checksum};
/// use cairndb_rocksfile::record::{Records, Step};
///
/// // A record of one fragment: checksum, length, kind 1, payload.
/// let mut log = stored_checksum(b"\x01cairn").to_le_bytes().to_vec();
/// log.extend_from_slice(b"\x05\x00\x01cairn");
/// let mut records = Records::new(&log[..], 12, 64);
/// assert!(matches!(records.step()?, Step::Record(record) if record.bytes == 5));
/// assert_eq!(records.front(), b"cairn");
/// assert_eq!(records.step()?, Step::End);
///
/// log[9] ^= 1;
/// let mut records = Records::new(&log[..], 12, 64);
/// assert_eq!(records.step()?, Step::Fault(0, Fault::Checksum));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Records<R> {
    fragments: Reader<R>,
    /// The number of bytes of each record that are kept.
    front_bytes: usize,
    joined: Vec<u8>,
    /// The fragment that is the whole record, so that its bytes need not be copied.
    single: Option<Fragment>,
    /// The record whose last fragment was not read yet.
    open: Option<Record>,
    /// Whether the open record is whole and is the next step.
    ready: bool,
    whole_until: u64,
    faulty: bool,
}

impl<R: Read> Records<R> {
    /// A reader of the log with that number, which keeps the first `front_bytes` of each record.
    pub fn new(source: R, log: u64, front_bytes: usize) -> Self {
        Self {
            fragments: Reader::new(source, log),
            front_bytes,
            joined: Vec::new(),
            single: None,
            open: None,
            ready: false,
            whole_until: 0,
            faulty: false,
        }
    }

    /// The first bytes of the record that was read last.
    pub fn front(&self) -> &[u8] {
        match &self.single {
            Some(fragment) => {
                let payload = self.fragments.payload(fragment);
                payload.get(..self.front_bytes).unwrap_or(payload)
            }
            None => &self.joined,
        }
    }

    /// The end of the last whole record before the first fault.
    pub fn whole_until(&self) -> u64 {
        self.whole_until
    }

    /// The reader's offset in the file: its length once the end was reached.
    pub fn offset(&self) -> u64 {
        self.fragments.offset()
    }

    /// The source of the log.
    pub fn source(&self) -> &R {
        self.fragments.source()
    }

    /// Whether RocksDB's own reader could meet a fragment that it never gets past.
    pub fn traps_rocksdb(&self) -> bool {
        self.fragments.traps_rocksdb()
    }

    /// Reads up to the next whole record, the next fault, or the end.
    pub fn step(&mut self) -> io::Result<Step> {
        if std::mem::take(&mut self.ready)
            && let Some(step) = self.complete()
        {
            return Ok(step);
        }
        loop {
            let fragment = match self.fragments.step()? {
                Piece::Fragment(fragment) => fragment,
                Piece::Fault(offset, fault) => {
                    self.open = None;
                    return Ok(self.fault(offset, fault));
                }
                Piece::End => {
                    return Ok(match self.open.take() {
                        Some(record) => self.fault(record.offset, Fault::Unfinished),
                        None => Step::End,
                    });
                }
            };
            if let Some(step) = self.join(fragment) {
                return Ok(step);
            }
        }
    }

    /// Adds a fragment to its record. Returns the step that this completes.
    fn join(&mut self, fragment: Fragment) -> Option<Step> {
        match (fragment.kind, self.open) {
            (Kind::Full | Kind::First, Some(record)) if record.bytes > 0 => {
                // The open record has no end, which says nothing against the new one. Its fault is reported
                // first; a new record that is whole already waits for the next step.
                let fault = self.fault(record.offset, Fault::Unfinished);
                self.begin(fragment);
                self.ready = fragment.kind == Kind::Full;
                Some(fault)
            }
            (Kind::Full, _) => {
                self.begin(fragment);
                self.complete()
            }
            (Kind::First, _) => {
                self.begin(fragment);
                None
            }
            (Kind::Middle | Kind::Last, None) => Some(self.fault(fragment.offset, Fault::Headless)),
            (Kind::Middle, Some(record)) => {
                self.extend(record, fragment);
                None
            }
            (Kind::Last, Some(record)) => {
                self.extend(record, fragment);
                self.complete()
            }
            (Kind::Compression, _) => Some(self.fault(fragment.offset, Fault::Compressed)),
            (Kind::TimestampSizes | Kind::Predecessor, _) => {
                // These fragments belong to no record, but the log is whole up to their end.
                if self.open.is_none() && !self.faulty {
                    self.whole_until = fragment.end;
                }
                None
            }
        }
    }

    fn begin(&mut self, fragment: Fragment) {
        let Fragment { offset, end, kind, .. } = fragment;
        let payload = self.fragments.payload(&fragment);
        self.open = Some(Record { offset, end, bytes: payload.len() as u64, after_fault: self.faulty });
        // Most records are one fragment, which is read from the buffer in place.
        self.joined.clear();
        self.single = (kind == Kind::Full).then_some(fragment);
        if self.single.is_none() {
            self.joined.extend_from_slice(payload.get(..self.front_bytes).unwrap_or(payload));
        }
    }

    fn extend(&mut self, record: Record, fragment: Fragment) {
        let payload = self.fragments.payload(&fragment);
        let room = self.front_bytes.saturating_sub(self.joined.len());
        self.joined.extend_from_slice(payload.get(..room).unwrap_or(payload));
        let bytes = record.bytes + payload.len() as u64;
        self.open = Some(Record { end: fragment.end, bytes, ..record });
    }

    fn complete(&mut self) -> Option<Step> {
        let record = self.open.take()?;
        if !self.faulty {
            self.whole_until = record.end;
        }
        Some(Step::Record(record))
    }

    fn fault(&mut self, offset: u64, fault: Fault) -> Step {
        self.faulty = true;
        Step::Fault(offset, fault)
    }
}

#[cfg(test)]
mod tests;
