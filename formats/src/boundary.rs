//! The end of records, format by format. A boundary gets the bytes of a stream piece by piece and remembers what
//! it is within: a text, a bracket, a quoted cell, the rest of a length.
//!
//! The content of a record is not looked at, so a record that is wrong ends where a right one would. Only what separates
//! records can be so wrong that nothing after it can be read: a length that no document has.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use index::validate::DOCUMENT_BYTES_MAX;
use memchr::{memchr, memchr2};

use crate::refusal::Refusal;

/// The smallest document.
pub(crate) const EMPTY_BYTES: usize = 5;
/// The bytes that servers add to a document of the largest size, and still send.
const SLACK_BYTES: usize = 16 << 10;
/// Cells are looked at in pieces of this size while only their ends are of interest.
const CELL_BYTES: usize = 4 << 10;
const CELLS: usize = 64;

/// A flaw between records, or at the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The record is longer than can be read.
    TooLong,
    /// The stream ends within the record.
    Unfinished,
    /// The array of documents has no end.
    OpenArray,
    /// Two documents of an array have no comma between them.
    MissingComma,
    /// There is more after the end of the array.
    AfterArray,
    /// The length is none that a document has. Nothing after it can be distinguished.
    WrongLength,
}

impl Problem {
    /// The reason for which the record is rejected.
    pub fn refusal(self) -> Refusal {
        let reason = match self {
            Self::TooLong => "the record is longer than 32 MiB",
            Self::Unfinished => "the file ends within the record",
            Self::OpenArray => "the file ends before its array does",
            Self::MissingComma => "there is no comma before the document",
            Self::AfterArray => "there is more after the end of the array",
            Self::WrongLength => {
                "the length is not that of a document, and the rest of the file cannot be read"
            }
        };
        Refusal::not_parsed(reason)
    }
}

/// The result for the next bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All of them belong to the record, which goes on.
    More,
    /// Bytes that belong to no record: their count.
    Between(usize),
    /// The record ends: the count of its bytes, and what is wrong with it.
    Ended(usize, Option<Problem>),
}

/// The end of records in one format.
pub(crate) enum Boundary {
    Lines,
    Json(JsonScan),
    Table(TableScan),
    Bson(BsonScan),
}

impl Boundary {
    pub(crate) fn table(delimiter: u8) -> Self {
        Self::Table(TableScan::new(delimiter))
    }

    /// Looks at bytes that were not looked at before; there is at least one.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        match self {
            Self::Lines => memchr(b'\n', bytes).map_or(Step::More, |at| Step::Ended(at + 1, None)),
            Self::Json(scan) => scan.step(bytes),
            Self::Table(scan) => scan.step(bytes),
            Self::Bson(scan) => scan.step(bytes),
        }
    }

    /// The flaw if the stream ends here; `is_within` says that there are bytes of a record without an end.
    pub(crate) fn finish(&mut self, is_within: bool) -> Option<Problem> {
        match self {
            Self::Lines => None,
            Self::Json(scan) => scan.finish(),
            // A line feed ends a record, unless a quoted cell is open.
            Self::Table(scan) => (is_within && scan.step(b"\n") == Step::More).then_some(Problem::Unfinished),
            Self::Bson(_) => is_within.then_some(Problem::Unfinished),
        }
    }
}

/// Texts and brackets of JSON.
#[derive(Default)]
pub(crate) struct JsonScan {
    within: Within,
    depth: usize,
    array: Array,
    has_comma: bool,
    problem: Option<Problem>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    /// Before, between or after records.
    #[default]
    Nothing,
    /// Within brackets, or a token that has none.
    Value,
    Text,
    /// After a backslash in a text.
    Escape,
    /// A token at the top that is neither text nor brackets: `1`, `null`.
    Token,
}

/// Whether the records are in one array.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Array {
    /// No record has begun.
    #[default]
    Unknown,
    None,
    Open,
    Closed,
}

impl JsonScan {
    fn step(&mut self, bytes: &[u8]) -> Step {
        if self.within == Within::Nothing {
            match self.between(bytes) {
                0 => {}
                count => return Step::Between(count),
            }
        }
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += match self.within {
                Within::Text => self.text(bytes.get(at..).unwrap_or_default()),
                Within::Escape => {
                    self.within = Within::Text;
                    1
                }
                Within::Token if is_token_end(byte) => return self.end(at),
                Within::Token => 1,
                Within::Nothing | Within::Value => self.value(byte),
            };
            if self.depth == 0 && matches!(self.within, Within::Nothing | Within::Value) {
                return self.end(at);
            }
        }
        Step::More
    }

    /// The number of bytes before the next record.
    fn between(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match (byte, self.array) {
                (b' ' | b'\t' | b'\n' | b'\r', _) => {}
                (b',', _) => self.has_comma = true,
                (b'[', Array::Unknown) => {
                    self.array = Array::Open;
                    self.has_comma = true;
                }
                (b']', Array::Open) => self.array = Array::Closed,
                (_, Array::Unknown | Array::None) => {
                    self.array = Array::None;
                    return at;
                }
                (_, Array::Open) => {
                    self.problem = (!self.has_comma).then_some(Problem::MissingComma);
                    return at;
                }
                (_, Array::Closed) => {
                    self.problem = Some(Problem::AfterArray);
                    return at;
                }
            }
        }
        bytes.len()
    }

    /// Goes on within a text. Returns how many bytes that used.
    fn text(&mut self, bytes: &[u8]) -> usize {
        let Some(at) = memchr2(b'"', b'\\', bytes) else { return bytes.len() };
        self.within = if bytes.get(at) == Some(&b'"') { Within::Value } else { Within::Escape };
        at + 1
    }

    fn value(&mut self, byte: u8) -> usize {
        let begins = self.within == Within::Nothing;
        self.within = Within::Value;
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' => self.within = Within::Text,
            _ if begins => self.within = Within::Token,
            _ => {}
        }
        1
    }

    fn end(&mut self, at: usize) -> Step {
        self.within = Within::Nothing;
        self.has_comma = false;
        Step::Ended(at, self.problem.take())
    }

    fn finish(&self) -> Option<Problem> {
        match self.within {
            Within::Value | Within::Text | Within::Escape => Some(Problem::Unfinished),
            // The token is wrong anyway, and is reported before the array is.
            Within::Token => None,
            Within::Nothing => (self.array == Array::Open).then_some(Problem::OpenArray),
        }
    }
}

fn is_token_end(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b'{' | b'[' | b']' | b'}' | b'"')
}

/// The end of the JSON value that begins with the first byte, if it ends within `bytes`.
pub(crate) fn json_end(bytes: &[u8]) -> Option<usize> {
    match (JsonScan { array: Array::None, ..JsonScan::default() }).step(bytes) {
        Step::Ended(end, _) => Some(end),
        Step::More | Step::Between(_) => None,
    }
}

/// Quotes and line ends of a table, by the reader that splits its cells later.
pub(crate) struct TableScan {
    reader: Box<Reader>,
    cells: Box<[u8]>,
    ends: Box<[usize]>,
}

impl TableScan {
    fn new(delimiter: u8) -> Self {
        let reader = Box::new(ReaderBuilder::new().delimiter(delimiter).build());
        Self { reader, cells: vec![0; CELL_BYTES].into(), ends: vec![0; CELLS].into() }
    }

    fn step(&mut self, bytes: &[u8]) -> Step {
        let mut taken = 0;
        // The reader must never be given nothing: it would mistake that for the end of the stream.
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let (result, read, _, _) = self.reader.read_record(rest, &mut self.cells, &mut self.ends);
            taken += read;
            match result {
                ReadRecordResult::Record => return Step::Ended(taken, None),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => break,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {}
            }
        }
        Step::More
    }
}

/// Lengths before documents.
#[derive(Default)]
pub(crate) struct BsonScan {
    header: Vec<u8>,
    left: usize,
}

impl BsonScan {
    fn step(&mut self, bytes: &[u8]) -> Step {
        let mut taken = 0;
        if self.left == 0 {
            let missing = size_of::<i32>() - self.header.len();
            taken = missing.min(bytes.len());
            self.header.extend(bytes.iter().take(taken));
            if taken < missing {
                return Step::More;
            }
            let len = bson_len(&self.header);
            let header = std::mem::take(&mut self.header);
            match len {
                Some(len) => self.left = len - header.len(),
                None => return Step::Ended(taken, Some(Problem::WrongLength)),
            }
        }
        let rest = bytes.len() - taken;
        if rest < self.left {
            self.left -= rest;
            return Step::More;
        }
        taken += std::mem::take(&mut self.left);
        Step::Ended(taken, None)
    }
}

/// The length of a BSON document that begins here, if it is one that a document can have.
pub(crate) fn bson_len(bytes: &[u8]) -> Option<usize> {
    let len = i32::from_le_bytes(*bytes.first_chunk()?);
    usize::try_from(len).ok().filter(|len| (EMPTY_BYTES..=DOCUMENT_BYTES_MAX + SLACK_BYTES).contains(len))
}

/// The bytes without the mark that some programs begin UTF-8 with.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_json(text: &str, expected: Option<usize>) {
        assert_eq!(json_end(text.as_bytes()), expected);
    }

    #[test]
    fn a_value_ends_with_its_brackets() {
        check_json("{}", Some(2));
        check_json(r#"{"a":"}"} x"#, Some(9));
        check_json(r#"{"a":"\"}"}"#, Some(11));
        check_json(r#"{"a":[{}]"#, None);
        check_json(r#""a" "#, Some(3));
        check_json("12,", Some(2));
        check_json("}", Some(1));
    }

    #[test]
    fn lengths_of_documents_have_a_smallest_and_a_largest() {
        let len = |len: i32| bson_len(&len.to_le_bytes());
        assert_eq!([len(4), len(5), len(-1)], [None, Some(5), None]);
        assert_eq!(len((16 << 20) + (16 << 10) + 1), None);
    }
}
