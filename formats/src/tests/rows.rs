//! Rows of tables against what was written: any cells, rows of any length in any order, read by one parser.
//!
//! A parser once checked the bytes that a longer row had left in its buffer, and rejected rows that were whole.

use std::sync::Arc;

use crate::columns::{ColumnOptions, Columns, Typing};
use crate::format::FileFormat;
use crate::parse::{Parser, cells};
use crate::split::Splitter;
use bson::{RawDocument, RawDocumentBuf};
use proptest::prelude::*;

const COLUMNS: [&str; 3] = ["a", "b", "c"];

/// The content in place of a row.
#[derive(Clone, Debug)]
enum Row {
    /// Cells, and which of them have quotes though they need none.
    Cells(Vec<(String, bool)>),
    /// A row that is not UTF-8, of this many bytes.
    Broken(usize),
}

fn push_cell(out: &mut Vec<u8>, text: &str, is_quoted: bool, delimiter: u8) {
    let needs_quotes = text.is_empty() || text.contains(['"', '\n', '\r', char::from(delimiter)]);
    if is_quoted || needs_quotes {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

fn written(rows: &[Row], delimiter: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        match row {
            Row::Cells(cells) => {
                for (position, (text, is_quoted)) in cells.iter().enumerate() {
                    if position > 0 {
                        out.push(delimiter);
                    }
                    push_cell(&mut out, text, *is_quoted, delimiter);
                }
            }
            Row::Broken(len) => out.extend(std::iter::repeat_n(0xc3, *len)),
        }
        out.push(b'\n');
    }
    out
}

/// The document of each record; `None` for one that is rejected.
fn read(format: FileFormat, bytes: &[u8]) -> Vec<Option<RawDocumentBuf>> {
    let options = ColumnOptions { typing: Typing::Text, ..ColumnOptions::default() };
    let columns = Arc::new(Columns::new(COLUMNS, &options).expect("three names"));
    let mut parser = Parser::table(format, columns);
    let mut splitter = Splitter::new(bytes, format);
    let mut documents = Vec::new();
    while let Some(chunk) = splitter.next_chunk().expect("bytes in memory are read without an error") {
        for record in &chunk.records {
            let mut document = Vec::new();
            let is_read = parser.parse(chunk.content(record), &mut document).is_ok();
            let document = || RawDocument::from_bytes(&document).expect("it is well-formed").to_owned();
            documents.push(is_read.then(document));
        }
    }
    documents
}

fn expected(row: &Row) -> Option<RawDocumentBuf> {
    let Row::Cells(cells) = row else { return None };
    let fields = COLUMNS.iter().zip(cells);
    let document: bson::Document =
        fields.map(|(name, (text, _))| ((*name).to_owned(), text.as_str().into())).collect();
    Some(RawDocumentBuf::try_from(&document).expect("texts are encoded"))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-z]{0,3}",
        2 => "[éü漢😀,\t\"\n ]{0,12}",
        1 => "\\PC{0,40}",
        1 => "é{0,60}",
    ]
}

fn row() -> impl Strategy<Value = Row> {
    prop_oneof![
        8 => proptest::collection::vec((text(), any::<bool>()), 1..=COLUMNS.len()).prop_map(Row::Cells),
        1 => (1..50_usize).prop_map(Row::Broken),
    ]
}

#[test]
fn a_short_row_after_a_long_one_is_read() {
    let read = |text: &str| read(FileFormat::Csv, text.as_bytes());
    let of = |a: &str, b: &str| Some(bson::rawdoc! { "a": a, "b": b });
    assert_eq!(read("éééé,1\nab,c\n"), [of("éééé", "1"), of("ab", "c")]);
    assert_eq!(read("\"漢字漢字\",1\nü,c\nabcde,d\n"), [of("漢字漢字", "1"), of("ü", "c"), of("abcde", "d")]);
}

#[test]
fn a_row_that_is_no_utf_8_is_refused_by_itself() {
    let broken = b"\xff\xff\xff\xff\xff\xff,1\nab,c\n";
    assert_eq!(read(FileFormat::Csv, broken), [None, Some(bson::rawdoc! { "a": "ab", "b": "c" })]);
    let refusal = cells(FileFormat::Csv, b"ab,\xff").expect_err("it is not UTF-8");
    assert_eq!(refusal.reason, "column 2: the cell is not UTF-8 from its byte 1 on");
    // Bytes that make a character together only because their cells follow each other.
    let refusal = cells(FileFormat::Csv, b"a\xc3,\xa9").expect_err("it is not UTF-8");
    assert_eq!(refusal.reason, "column 1: the cell is not UTF-8 from its byte 2 on");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn rows_of_any_lengths_in_any_order_are_read_as_written(rows in proptest::collection::vec(row(), 0..12)) {
        for (format, delimiter) in [(FileFormat::Csv, b','), (FileFormat::Tsv, b'\t')] {
            let wanted: Vec<_> = rows.iter().map(expected).collect();
            prop_assert_eq!(read(format, &written(&rows, delimiter)), wanted);
        }
    }
}
