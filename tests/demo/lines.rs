//! Newline-delimited JSON as documents: one line, one document.
//!
//! The length of a line is limited, so that no input needs more memory than one line; a longer line is skipped. Empty lines
//! and a byte order mark before the first line are ignored.

use std::io::{self, BufRead, Read};

use crate::json;
use crate::source::Item;

/// The longest line that is read, in bytes: the size limit of a document.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The number of bytes of a malformed line that are shown.
const EXCERPT_BYTES: usize = 80;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The lines of a reader, as documents.
pub(crate) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
    has_ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), number: 0, has_ended: false }
    }

    /// Reads the next line that is not empty. Returns `None` at the end.
    fn read(&mut self) -> io::Result<Option<Item>> {
        loop {
            self.line.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            if self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() > LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
                self.reader.skip_until(b'\n')?;
                return Ok(Some(self.malformed(format!("it is longer than {} MiB", LINE_BYTES_MAX >> 20))));
            }
            let text = match self.line.strip_prefix(BYTE_ORDER_MARK) {
                Some(text) if self.number == 1 => text,
                _ => &self.line,
            };
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            return Ok(Some(match json::parse(text) {
                Ok(document) => Item::Document { line: self.number, document },
                Err(reason) => self.malformed(reason),
            }));
        }
    }

    fn malformed(&self, reason: String) -> Item {
        Item::Malformed { line: self.number, excerpt: excerpt(&self.line), reason }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<io::Result<Item>> {
        if self.has_ended {
            return None;
        }
        let read = self.read().transpose();
        self.has_ended = !matches!(read, Some(Ok(_)));
        read
    }
}

/// The beginning of a line, with control characters escaped, so that a terminal does not execute them.
fn excerpt(line: &[u8]) -> String {
    let line = line.trim_ascii_end();
    let (shown, rest) = line.split_at(line.len().min(EXCERPT_BYTES));
    let mut text = String::new();
    for character in String::from_utf8_lossy(shown).chars() {
        if matches!(character, '"' | '\'' | '\\') {
            text.push(character);
        } else {
            text.extend(character.escape_debug());
        }
    }
    if !rest.is_empty() {
        text.push('…');
    }
    text
}
