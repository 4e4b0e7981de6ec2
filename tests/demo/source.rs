//! Where documents come from: standard input if it has any, otherwise the packages that CairnDB is built from.

use std::io::{self, BufRead, BufReader, Cursor, IsTerminal, Read};

use cairndb::bson::RawDocumentBuf;
use zstd::stream::read::Decoder;

use crate::lines::Lines;
use crate::outcome::{Outcome, complain};
use crate::packages;

/// The first bytes of a Zstandard frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// One piece of the input.
pub(crate) enum Item {
    /// A document and its line, or its position where there are no lines.
    Document { line: u64, document: RawDocumentBuf },
    /// A line that is not a document: an excerpt of it, and the reason.
    Malformed { line: u64, excerpt: String, reason: String },
}

/// The items of an input in their order. After an error there are no more.
pub(crate) type Items = Box<dyn Iterator<Item = io::Result<Item>>>;

/// An input.
pub(crate) struct Source {
    /// What it is, for the output.
    pub(crate) name: String,
    /// The number of items, if it is known.
    pub(crate) len: Option<u64>,
    /// A field that has a different value in each document, if one is known.
    pub(crate) unique_field: Option<&'static str>,
    /// A field to ask for, if one is known.
    pub(crate) question: Option<&'static str>,
    /// The items.
    pub(crate) items: Items,
}

impl Source {
    /// Opens standard input, or the packages if it is a terminal or empty.
    pub(crate) fn open() -> Outcome<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return packages::source();
        }
        complain("demo: standard input is not a terminal, so documents are read from it");
        let cannot_read = |error: io::Error| format!("cannot read standard input: {error}");
        let mut stdin = stdin.lock();
        let mut head = Vec::new();
        stdin.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head).map_err(cannot_read)?;
        if head.is_empty() {
            complain("demo: standard input is empty, so the packages of this workspace are taken");
            return packages::source();
        }
        let compressed = head == ZSTD_MAGIC;
        let whole = Cursor::new(head).chain(stdin);
        let (name, reader): (_, Box<dyn BufRead>) = if compressed {
            let decoder = Decoder::with_buffer(whole).map_err(cannot_read)?;
            ("newline-delimited JSON from standard input, decompressed", Box::new(BufReader::new(decoder)))
        } else {
            ("newline-delimited JSON from standard input", Box::new(whole))
        };
        Ok(Self::of_lines(name, reader))
    }

    /// An input of newline-delimited JSON.
    pub(crate) fn of_lines(name: &str, lines: impl BufRead + 'static) -> Self {
        Self {
            name: name.to_owned(),
            len: None,
            unique_field: None,
            question: None,
            items: Box::new(Lines::new(lines)),
        }
    }
}
