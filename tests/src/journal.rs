//! The records that a process that will be killed reports to its parent, over a pipe: what it is about to do, and what the
//! database acknowledged.
//!
//! A record is written by one `write` of fewer bytes than a pipe accepts at once, so a killed process leaves
//! whole records, and every record that it wrote reaches the parent.

use std::io::{self, Read, Write};

/// One line of the journal. A version of 0 stands for "absent".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The database is open.
    Opened,
    /// The document `tag` is about to become `version`.
    Begun {
        /// The document.
        tag: u64,
        /// What it becomes.
        version: u64,
    },
    /// The document `tag` is `version`, says the database.
    Done {
        /// The document.
        tag: u64,
        /// What it is.
        version: u64,
    },
    /// The documents `first` and following are about to be inserted by one call, as version 1.
    ManyBegun {
        /// The first of them.
        first: u64,
        /// How many there are.
        count: u64,
    },
    /// All of them are stored, says the database.
    ManyDone {
        /// The first of them.
        first: u64,
        /// How many there are.
        count: u64,
    },
    /// `thread` won the id that all threads try to insert, says the database.
    Won {
        /// The id.
        id: u64,
        /// The winner.
        thread: u64,
    },
    /// The plain index is about to be made or dropped.
    IndexBegun {
        /// Whether it will be there.
        exists: bool,
    },
    /// The plain index was made or dropped, says the database.
    IndexDone {
        /// Whether it is there.
        exists: bool,
    },
    /// A TTL pass is about to be made.
    PassBegun,
    /// The pass deleted what had expired when it began, says the database.
    PassDone,
    /// The database gave a value: a document has it, or the caller.
    Taken {
        /// The place of the course in its list.
        course: u64,
        /// The value.
        value: i64,
    },
    /// A sync is about to be asked for, or a ticket was requested: it stands for all writes until now.
    SyncBegun {
        /// The sync, or the ticket.
        number: u64,
    },
    /// What the sync or the ticket stands for is on stable storage, says the database.
    SyncDone {
        /// The sync, or the ticket.
        number: u64,
    },
    /// A change stream has shown that the document `tag` has become `version`.
    Shown {
        /// The document.
        tag: u64,
        /// What it has become.
        version: u64,
    },
    /// The database did what it must not; the text is on standard error.
    Fault,
    /// The database was closed in order.
    Closed,
}

/// The version of something begins to be written, or is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Of what.
    pub tag: u64,
    /// The version.
    pub version: u64,
    /// Whether the database says that it is there.
    pub is_done: bool,
}

const RECORD_BYTES: usize = 24;

impl Record {
    /// The step of a version, for suites whose oracle follows those alone. Absent if the record is about something else.
    ///
    /// # Errors
    /// If the process met a fault.
    pub fn step(self) -> Result<Option<Step>, String> {
        match self {
            Self::Begun { tag, version } => Ok(Some(Step { tag, version, is_done: false })),
            Self::Done { tag, version } => Ok(Some(Step { tag, version, is_done: true })),
            Self::Fault => Err("the process met a fault".to_owned()),
            Self::Opened
            | Self::Closed
            | Self::ManyBegun { .. }
            | Self::ManyDone { .. }
            | Self::Won { .. }
            | Self::IndexBegun { .. }
            | Self::IndexDone { .. }
            | Self::PassBegun
            | Self::PassDone
            | Self::SyncBegun { .. }
            | Self::SyncDone { .. }
            | Self::Shown { .. }
            | Self::Taken { .. } => Ok(None),
        }
    }

    /// Writes the record at once.
    pub fn write_to(self, mut journal: impl Write) -> io::Result<()> {
        let fields = match self {
            Self::Opened => [0, 0, 0],
            Self::Begun { tag, version } => [1, tag, version],
            Self::Done { tag, version } => [2, tag, version],
            Self::ManyBegun { first, count } => [3, first, count],
            Self::ManyDone { first, count } => [4, first, count],
            Self::Won { id, thread } => [5, id, thread],
            Self::IndexBegun { exists } => [6, u64::from(exists), 0],
            Self::IndexDone { exists } => [7, u64::from(exists), 0],
            Self::Fault => [8, 0, 0],
            Self::Closed => [12, 0, 0],
            Self::Taken { course, value } => [9, course, value.cast_unsigned()],
            Self::PassBegun => [10, 0, 0],
            Self::PassDone => [11, 0, 0],
            Self::SyncBegun { number } => [13, number, 0],
            Self::SyncDone { number } => [14, number, 0],
            Self::Shown { tag, version } => [15, tag, version],
        };
        let bytes: Vec<u8> = fields.into_iter().flat_map(u64::to_le_bytes).collect();
        journal.write_all(&bytes)
    }

    /// Reads the next record; `None` at the end.
    pub fn read_from(mut journal: impl Read) -> io::Result<Option<Self>> {
        let mut bytes = [0; RECORD_BYTES];
        match journal.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut fields = bytes.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || fields.next().unwrap_or(0);
        let (kind, first, second) = (next(), next(), next());
        Ok(Some(match kind {
            0 => Self::Opened,
            1 => Self::Begun { tag: first, version: second },
            2 => Self::Done { tag: first, version: second },
            3 => Self::ManyBegun { first, count: second },
            4 => Self::ManyDone { first, count: second },
            5 => Self::Won { id: first, thread: second },
            6 => Self::IndexBegun { exists: first == 1 },
            7 => Self::IndexDone { exists: first == 1 },
            8 => Self::Fault,
            9 => Self::Taken { course: first, value: second.cast_signed() },
            10 => Self::PassBegun,
            11 => Self::PassDone,
            12 => Self::Closed,
            13 => Self::SyncBegun { number: first },
            14 => Self::SyncDone { number: first },
            15 => Self::Shown { tag: first, version: second },
            other => return Err(io::Error::other(format!("a journal record of kind {other}"))),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(record: Record) {
        let mut bytes = Vec::new();
        record.write_to(&mut bytes).expect("written");
        assert_eq!(bytes.len(), RECORD_BYTES);
        assert_eq!(Record::read_from(&*bytes).expect("read"), Some(record));
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        check(Record::Opened);
        check(Record::Begun { tag: 7, version: 0 });
        check(Record::Done { tag: u64::MAX, version: 3 });
        check(Record::ManyBegun { first: 1, count: 2 });
        check(Record::ManyDone { first: 1, count: 2 });
        check(Record::Won { id: 1, thread: 7 });
        check(Record::IndexBegun { exists: true });
        check(Record::IndexDone { exists: false });
        check(Record::Taken { course: 7, value: -3 });
        check(Record::PassBegun);
        check(Record::PassDone);
        check(Record::SyncBegun { number: 9 });
        check(Record::SyncDone { number: 9 });
        check(Record::Shown { tag: 9, version: 0 });
        check(Record::Fault);
        check(Record::Closed);
    }

    #[test]
    fn a_cut_record_is_the_end() {
        assert_eq!(Record::read_from(&[1_u8; RECORD_BYTES - 1][..]).expect("read"), None);
    }
}
