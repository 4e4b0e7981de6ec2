//! Any bytes in any format: reading ends, nothing panics, and what is accepted is a document that the store takes. The
//! fuzz target `formats` looks further; this is its short form, which runs with every test.

use std::sync::Arc;

use cairndb_formats::columns::{ColumnOptions, Columns, Typing, names};
use cairndb_formats::format::FileFormat;
use cairndb_formats::parse::{Parser, cells};
use cairndb_formats::split::Splitter;
use proptest::prelude::*;

const FORMATS: [FileFormat; 5] =
    [FileFormat::Lines, FileFormat::Json, FileFormat::Csv, FileFormat::Tsv, FileFormat::Bson];

fn read_all(format: FileFormat, options: &ColumnOptions, bytes: &[u8]) {
    let _ = FileFormat::of_bytes(bytes);
    let mut splitter = Splitter::new(bytes, format);
    let mut next = splitter.next_chunk().expect("bytes in memory are read without an error");
    let mut parser = match format {
        FileFormat::Lines | FileFormat::Json => Parser::json(),
        FileFormat::Bson => Parser::bson(),
        FileFormat::Csv | FileFormat::Tsv => {
            let Some(header) = next.as_ref().and_then(|chunk| Some(chunk.content(chunk.records.first()?)))
            else {
                return;
            };
            let Ok(header) = cells(format, header) else { return };
            let Ok(columns) = Columns::new(names(&header.join(",")), options) else { return };
            Parser::table(format, Arc::new(columns))
        }
    };
    let (mut offset, mut number) = (0, 0);
    let mut document = Vec::new();
    while let Some(chunk) = next {
        for record in &chunk.records {
            assert!(record.offset >= offset && record.end >= record.offset && record.number == number + 1);
            assert!(record.end <= bytes.len() as u64);
            (offset, number) = (record.end, record.number);
            document.clear();
            match parser.parse(chunk.content(record), &mut document) {
                Ok(()) => assert!(index::validate::validate(&document).is_ok()),
                Err(refusal) => assert!(document.is_empty() && refusal.reason.len() < 2_000, "{refusal}"),
            }
        }
        next = splitter.next_chunk().expect("bytes in memory are read without an error");
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: [&str; 38] = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "\n",
        "\r\n",
        "\t",
        ".",
        "0",
        "1",
        "-7",
        "1e400",
        "1.5",
        "true",
        "null",
        "\\u0000",
        "\\ud800",
        "\"a\":",
        "\"$oid\":",
        "\"$date\":",
        "\"$binary\":",
        "\"base64\":",
        "\"$code\":",
        "\"$scope\":",
        "\"$numberInt\":",
        "\"507f1f77bcf86cd799439011\"",
        "2024-02-29T12:00:00Z",
        ".date(%Y-%m-%d)",
        ".int32",
        ".binary(hex)",
        ".date_go(2006)",
        "\"\"",
        "a.0",
        "\u{feff}",
        "ü",
    ];
    prop_oneof![
        4 => proptest::sample::select(&WORDS[..]).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..9),
        1 => Just(vec![5, 0, 0, 0, 0]),
        1 => Just(b"\x0c\0\0\0\x10a\0\x01\0\0\0\0".to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_read_to_their_end(
        pieces in proptest::collection::vec(piece(), 0..60),
        bits in any::<u8>(),
    ) {
        let bytes = pieces.concat();
        let options = ColumnOptions {
            is_flat: bits & 1 > 0,
            has_arrays: bits & 2 > 0,
            typing: if bits & 4 > 0 { Typing::Typed } else if bits & 8 > 0 { Typing::Text } else { Typing::Auto },
            null: (bits & 16 > 0).then(|| "null".to_owned()),
            ignores_blanks: bits & 32 > 0,
        };
        for format in FORMATS {
            read_all(format, &options, &bytes);
        }
    }
}
