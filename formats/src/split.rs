//! A stream, cut into chunks of whole records.
//!
//! A record has a line, a number and an offset in the stream, which stay the same however the stream is read. Blank
//! lines are not records. One record at a time may be larger than a chunk; of one that is larger than
//! [`RECORD_BYTES_MAX`] only the beginning is kept.

use std::io::{Error, ErrorKind, Read, Result};
use std::ops::Range;

use memchr::memchr_iter;

pub use crate::boundary::Problem;
use crate::boundary::{Boundary, BsonScan, JsonScan, Step, without_mark};
use crate::format::FileFormat;

/// Longer records are rejected. Extended JSON of a large document is longer than the document.
pub const RECORD_BYTES_MAX: usize = 32 << 20;
/// The number of bytes that are kept of a record that is too long.
pub const KEPT_BYTES: usize = 64 << 10;
/// The number of bytes of one read, and about the size of a chunk.
const READ_BYTES: usize = 256 << 10;

/// A record, or what is in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    range: Range<usize>,
    /// The line in which it begins, from 1.
    pub line: u64,
    /// Which record it is, from 1.
    pub number: u64,
    /// Its offset in the stream.
    pub offset: u64,
    /// The offset at which the stream continues after it.
    pub end: u64,
    /// Its flaw, if that is known without reading its content.
    pub problem: Option<Problem>,
}

/// Whole records that follow each other.
#[derive(Debug, Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    /// In the order of the stream. Never empty.
    pub records: Vec<Record>,
}

impl Chunk {
    /// The bytes of a record, without its line end.
    pub fn content(&self, record: &Record) -> &[u8] {
        self.bytes.get(record.range.clone()).unwrap_or_default()
    }

    /// Drops all but the beginning of a record that is longer than [`KEPT_BYTES`], which is alone in its chunk.
    pub fn forget_long(&mut self) {
        if let [record] = self.records.as_mut_slice() {
            let end = record.range.end.min(record.range.start + KEPT_BYTES);
            record.range.end = end;
            self.bytes.truncate(end);
            self.bytes.shrink_to_fit();
        }
    }

    /// The size of the chunk in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<Record>()
    }
}

/// Reads chunks from a stream.
///
/// ```
/// use cairndb_formats::{format::FileFormat, split::Splitter};
///
/// let mut splitter = Splitter::new(&b"a,b\n1,\"2\n3\"\n4,5\n"[..], FileFormat::Csv);
/// let chunk = splitter.next_chunk()?.expect("there are records");
/// let lines: Vec<u64> = chunk.records.iter().map(|record| record.line).collect();
/// assert_eq!(lines, [1, 2, 4]);
/// assert_eq!(chunk.content(&chunk.records[1]), b"1,\"2\n3\"");
/// assert!(splitter.next_chunk()?.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Splitter<R> {
    input: R,
    format: FileFormat,
    boundary: Boundary,
    buffer: Vec<u8>,
    /// The begin of the current record in the buffer, and the end of the part that was searched.
    start: usize,
    scanned: usize,
    /// The offsets of the buffer and of the current record in the stream.
    base: u64,
    offset: u64,
    line: u64,
    number: u64,
    /// Whether only the beginning of the current record is kept.
    is_too_long: bool,
    is_begun: bool,
    is_ended: bool,
    /// The error after the last bytes of the buffer.
    failed: Option<Error>,
}

impl<R: Read> Splitter<R> {
    /// A splitter of a stream that is in `format`.
    pub fn new(input: R, format: FileFormat) -> Self {
        let boundary = match format {
            FileFormat::Lines => Boundary::Lines,
            FileFormat::Json => Boundary::Json(JsonScan::default()),
            FileFormat::Csv => Boundary::table(b','),
            FileFormat::Tsv => Boundary::table(b'\t'),
            FileFormat::Bson => Boundary::Bson(BsonScan::default()),
        };
        Self {
            input,
            format,
            boundary,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            base: 0,
            offset: 0,
            line: 1,
            number: 0,
            is_too_long: false,
            is_begun: false,
            is_ended: false,
            failed: None,
        }
    }

    /// The same of a table with another delimiter between its cells.
    #[must_use]
    pub fn with_delimiter(mut self, delimiter: u8) -> Self {
        if matches!(self.boundary, Boundary::Table(_)) {
            self.boundary = Boundary::table(delimiter);
        }
        self
    }

    /// Reads the next records, also those that came before an error. Returns `None` after the last one.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let mut records = Vec::new();
        loop {
            self.scan(&mut records);
            if !records.is_empty() {
                return Ok(Some(self.take(records)));
            }
            if self.is_ended {
                return Ok(None);
            }
            self.keep_little();
            if !self.read()? {
                self.is_ended = true;
                self.finish(&mut records);
                return Ok((!records.is_empty()).then(|| self.take(records)));
            }
        }
    }

    /// Adds the records that end in the buffer.
    fn scan(&mut self, records: &mut Vec<Record>) {
        while let Some(rest) =
            self.buffer.get(self.scanned..).filter(|rest| !rest.is_empty() && !self.is_ended)
        {
            match self.boundary.step(rest) {
                Step::More => self.scanned = self.buffer.len(),
                Step::Between(count) => {
                    self.scanned += count;
                    self.pass();
                }
                Step::Ended(count, problem) => {
                    self.scanned += count;
                    let is_long = self.scanned - self.start > READ_BYTES;
                    self.push(records, problem);
                    if problem == Some(Problem::WrongLength) {
                        self.is_ended = true;
                    }
                    // So that it is alone in its chunk. It was the first one in the buffer.
                    if is_long {
                        return;
                    }
                }
            }
        }
    }

    /// Ends the current record where the buffer was looked at last, and begins the next.
    fn push(&mut self, records: &mut Vec<Record>, problem: Option<Problem>) {
        let bytes = self.buffer.get(self.start..self.scanned).unwrap_or_default();
        let before = match self.format {
            FileFormat::Csv | FileFormat::Tsv => {
                bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count()
            }
            FileFormat::Lines | FileFormat::Json | FileFormat::Bson => 0,
        };
        let bytes = bytes.get(before..).unwrap_or_default();
        let is_blank = match self.format {
            FileFormat::Lines => bytes.trim_ascii().is_empty(),
            FileFormat::Csv | FileFormat::Tsv => bytes.is_empty(),
            FileFormat::Json | FileFormat::Bson => false,
        };
        let is_text = self.format != FileFormat::Bson;
        let after = bytes.iter().rev().take_while(|byte| is_text && matches!(byte, b'\n' | b'\r')).count();
        if before > 0 {
            self.line += newlines(self.buffer.get(self.start..self.start + before));
        }
        if !is_blank {
            self.number += 1;
            // Of a record that was cut the buffer has the beginning, and of its last piece nothing is shown.
            let end = if self.is_too_long { self.start + KEPT_BYTES } else { self.scanned - after };
            records.push(Record {
                range: self.start + before..end.max(self.start + before),
                line: self.line,
                number: self.number,
                offset: self.offset + before as u64,
                end: self.base + self.scanned as u64,
                problem: if self.is_too_long { Some(Problem::TooLong) } else { problem },
            });
        }
        self.line += newlines(self.buffer.get(self.start + before..self.scanned));
        self.is_too_long = false;
        self.begin();
    }

    /// Passes over bytes between records.
    fn pass(&mut self) {
        self.line += newlines(self.buffer.get(self.start..self.scanned));
        self.begin();
    }

    fn begin(&mut self) {
        self.start = self.scanned;
        self.offset = self.base + self.scanned as u64;
    }

    /// The records with their bytes, which leave the buffer.
    fn take(&mut self, records: Vec<Record>) -> Chunk {
        let rest = self.buffer.split_off(self.start);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        self.base += self.start as u64;
        self.scanned -= self.start;
        self.start = 0;
        Chunk { bytes, records }
    }

    /// Makes room: what was passed over goes, and of a record that is too long all but its beginning.
    fn keep_little(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.base += self.start as u64;
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.buffer.len() > RECORD_BYTES_MAX {
            self.is_too_long = true;
        }
        if self.is_too_long && self.buffer.len() > KEPT_BYTES {
            self.line += newlines(self.buffer.get(KEPT_BYTES..));
            self.base += (self.buffer.len() - KEPT_BYTES) as u64;
            self.buffer.truncate(KEPT_BYTES);
            self.buffer.shrink_to(READ_BYTES);
            self.scanned = KEPT_BYTES;
        }
    }

    /// Reads on. Returns whether there was more.
    fn read(&mut self) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let before = self.buffer.len();
        self.buffer.resize(before + READ_BYTES, 0);
        let mut filled = before;
        // A pipe gives little at a time, and a chunk should not be smaller than it must be.
        while let Some(room) = self.buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.input.read(room) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if filled == before => {
                    self.buffer.truncate(before);
                    return Err(error);
                }
                // The whole records before the error come first.
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        self.buffer.truncate(filled);
        if !self.is_begun {
            self.is_begun = true;
            if self.format != FileFormat::Bson {
                self.scanned = self.buffer.len() - without_mark(&self.buffer).len();
                self.begin();
            }
        }
        Ok(filled > before)
    }

    /// Ends what the stream ended within.
    fn finish(&mut self, records: &mut Vec<Record>) {
        let is_within = self.scanned > self.start;
        let problem = self.boundary.finish(is_within);
        // Without bytes of a record there may still be an array that has no end.
        if is_within || problem.is_some() {
            self.push(records, problem);
        }
    }
}

fn newlines(bytes: Option<&[u8]>) -> u64 {
    memchr_iter(b'\n', bytes.unwrap_or_default()).count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMATS: [FileFormat; 5] =
        [FileFormat::Lines, FileFormat::Json, FileFormat::Csv, FileFormat::Tsv, FileFormat::Bson];

    /// A stream that gives a few bytes at a time.
    struct Slowly<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl Read for Slowly<'_> {
        fn read(&mut self, room: &mut [u8]) -> Result<usize> {
            let count = self.step.min(room.len()).min(self.bytes.len());
            let (now, later) = self.bytes.split_at(count);
            room[..count].copy_from_slice(now);
            self.bytes = later;
            Ok(count)
        }
    }

    /// Line, number, offset, end, content and problem.
    type Told = (u64, u64, u64, u64, Vec<u8>, Option<Problem>);

    /// The records as a reader gets them.
    fn records(input: impl Read, format: FileFormat) -> Vec<Told> {
        let mut splitter = Splitter::new(input, format);
        let mut all = Vec::new();
        while let Some(chunk) = splitter.next_chunk().unwrap() {
            for record in &chunk.records {
                let content = chunk.content(record).to_vec();
                all.push((record.line, record.number, record.offset, record.end, content, record.problem));
            }
        }
        all
    }

    #[track_caller]
    fn check(format: FileFormat, input: &[u8], expected: &[(u64, &str, Option<Problem>)]) {
        let found = records(input, format);
        let found: Vec<_> = found
            .iter()
            .map(|(line, _, _, _, content, problem)| (*line, std::str::from_utf8(content).unwrap(), *problem))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn records_have_the_lines_in_which_they_begin() {
        check(FileFormat::Lines, b"a\n\n \r\nb\r\nc", &[(1, "a", None), (4, "b", None), (5, "c", None)]);
        check(
            FileFormat::Csv,
            b"\xef\xbb\xbfa,\"b\n\"\r\n\r\n\nc\n",
            &[(1, "a,\"b\n\"", None), (5, "c", None)],
        );
        check(FileFormat::Tsv, b"a\t\"b\t\n", &[(1, "a\t\"b\t", Some(Problem::Unfinished))]);
        check(FileFormat::Json, b"\n{\n}\n{}", &[(2, "{\n}", None), (4, "{}", None)]);
    }

    #[test]
    fn an_array_has_commas_and_an_end() {
        use Problem::{AfterArray, MissingComma, OpenArray, Unfinished};

        check(FileFormat::Json, b"[]", &[]);
        check(
            FileFormat::Json,
            b"[{},[1],\"]\"]\n",
            &[(1, "{}", None), (1, "[1]", None), (1, "\"]\"", None)],
        );
        check(FileFormat::Json, b"[{}", &[(1, "{}", None), (1, "", Some(OpenArray))]);
        check(FileFormat::Json, b"[{} {}]", &[(1, "{}", None), (1, "{}", Some(MissingComma))]);
        check(FileFormat::Json, b"[{}]{}", &[(1, "{}", None), (1, "{}", Some(AfterArray))]);
        check(FileFormat::Json, b"{\"a\":[", &[(1, "{\"a\":[", Some(Unfinished))]);
        check(FileFormat::Json, b"{}}", &[(1, "{}", None), (1, "}", None)]);
    }

    /// A stream that breaks.
    struct Broken<'a>(&'a [u8]);

    impl Read for Broken<'_> {
        fn read(&mut self, room: &mut [u8]) -> Result<usize> {
            match self.0.read(room)? {
                0 => Err(Error::other("broken")),
                count => Ok(count),
            }
        }
    }

    #[test]
    fn whole_records_come_before_the_error_that_ends_the_stream() {
        let mut splitter = Splitter::new(Broken(b"a\nb\nhalf of"), FileFormat::Lines);
        let chunk = splitter.next_chunk().unwrap().unwrap();
        let whole: Vec<&[u8]> = chunk.records.iter().map(|record| chunk.content(record)).collect();
        assert_eq!(whole, [b"a", b"b"]);
        assert_eq!(splitter.next_chunk().unwrap_err().to_string(), "broken");
    }

    #[test]
    fn lengths_tell_documents_apart() {
        let input = b"\x05\0\0\0\0\x06\0\0\0\0\0\x01\0\0\0\x05\0\0\0\0";
        let found = records(&input[..], FileFormat::Bson);
        let told: Vec<_> = found
            .iter()
            .map(|(_, number, offset, end, _, problem)| (*number, *offset, *end, *problem))
            .collect();
        assert_eq!(told, [(1, 0, 5, None), (2, 5, 11, None), (3, 11, 15, Some(Problem::WrongLength))]);
        let cut = records(&b"\x05\0\0\0\0\x06\0"[..], FileFormat::Bson);
        assert_eq!(cut.last().map(|record| record.5), Some(Some(Problem::Unfinished)));
    }

    #[test]
    fn a_record_that_is_too_long_is_read_over() {
        let long = vec![b'x'; RECORD_BYTES_MAX + READ_BYTES];
        let input = [b"a\n", long.as_slice(), b"\nb\n"].concat();
        let found = records(input.as_slice(), FileFormat::Lines);
        let told: Vec<_> = found
            .iter()
            .map(|(line, _, offset, end, content, problem)| (*line, *offset, *end, content.len(), *problem))
            .collect();
        let end = 2 + long.len() as u64 + 1;
        assert_eq!(
            told,
            [(1, 0, 2, 1, None), (2, 2, end, KEPT_BYTES, Some(Problem::TooLong)), (3, end, end + 2, 1, None)]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The cuts between reads of a stream must make no difference.
        #[test]
        fn records_do_not_depend_on_reads(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("{"), Just("}"), Just("["), Just("]"), Just("\""), Just("\\"), Just(","), Just("\n"),
                    Just("\r\n"), Just("\t"), Just(" "), Just("a"), Just("1"), Just("\u{5}\0\0\0"), Just("\0"),
                    Just("\u{feff}"),
                ],
                0..60,
            ),
            step in 1_usize..7,
        ) {
            let input = pieces.concat();
            for format in FORMATS {
                let whole = records(input.as_bytes(), format);
                let slow = records(Slowly { bytes: input.as_bytes(), step }, format);
                prop_assert_eq!(&whole, &slow);
                // Offsets ascend, and a record's content is what is there.
                for (_, _, offset, end, content, _) in &whole {
                    prop_assert!(offset <= end && *end <= input.len() as u64);
                    let start = usize::try_from(*offset).unwrap();
                    prop_assert_eq!(&input.as_bytes()[start..start + content.len()], content.as_slice());
                }
            }
        }
    }

    #[test]
    fn of_a_long_record_the_beginning_is_kept() {
        let line = vec![b'x'; 1 << 20];
        let mut chunk =
            Splitter::new(&line[..], FileFormat::Lines).next_chunk().unwrap().expect("there is a line");
        chunk.forget_long();
        assert_eq!(chunk.content(&chunk.records[0]).len(), KEPT_BYTES);
    }
}
