//! Any bytes in any format: reading ends, nothing panics, and what is accepted is a document that the store accepts. The
//! fuzz target `formats` looks further; this is its short form, which runs with every test.

use std::sync::Arc;

use crate::columns::{ColumnOptions, Columns, Typing, names};
use crate::dump::archive::{Checksum, Declared, Header, TERMINATOR, push_end, push_prelude, push_segment};
use crate::dump::metadata::Metadata;
use crate::dump::names::{FILE_NAME_BYTES_MAX, Named, collection_name, file_name};
use crate::dump::prelude::Prelude;
use crate::dump::reader::ArchiveReader;
use crate::dump::stream::DocumentStream;
use crate::format::FileFormat;
use crate::parse::{Parser, cells};
use crate::split::Splitter;
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

/// An archive with two collections.
fn archive() -> Vec<u8> {
    let declared = ["a", "b"].map(|name| Declared {
        database: "shop".into(),
        collection: name.into(),
        metadata: "{}".into(),
        kind: "collection".into(),
    });
    let mut out = Vec::new();
    push_prelude(&mut out, &Header::default(), &declared).expect("small");
    for one in &declared {
        let document = b"\x0c\0\0\0\x10a\0\x01\0\0\0\0";
        push_segment(&mut out, &one.database, &one.collection);
        out.extend_from_slice(document);
        out.extend_from_slice(&TERMINATOR);
        let mut checksum = Checksum::default();
        checksum.update(document);
        push_end(&mut out, &one.database, &one.collection, &checksum, None).expect("small");
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_archive_with_wrong_bytes_is_read_to_its_end(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut archive = archive();
        for (at, byte) in changes {
            let at = at.index(archive.len());
            archive[at] = byte;
        }
        archive.truncate(cut.index(archive.len()) + 1);
        if let Ok(mut reader) = ArchiveReader::open(&*archive) {
            let mut document = Vec::new();
            while let Ok(Some(_)) = reader.next(&mut document) {
                prop_assert!(index::validate::validate(&document).is_ok() || document.is_empty());
            }
            prop_assert!(reader.offset() <= archive.len() as u64);
        }
    }

    #[test]
    fn any_name_is_the_name_of_a_file(name in "\\PC{0,120}") {
        let escaped = file_name(&name);
        prop_assert!(escaped.len() <= FILE_NAME_BYTES_MAX && !escaped.contains('/') && escaped.is_ascii());
        match collection_name(&escaped) {
            Some(Named::Whole(whole)) => prop_assert_eq!(whole, name),
            Some(Named::Shortened) => prop_assert_eq!(escaped.len(), FILE_NAME_BYTES_MAX),
            None => prop_assert!(false, "{name:?} is {escaped:?}"),
        }
    }

    #[test]
    fn any_text_is_a_description_or_none(pieces in proptest::collection::vec(piece(), 0..40)) {
        let bytes = pieces.concat();
        let _ = (Metadata::parse(&bytes), Prelude::parse(&bytes));
    }
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

#[test]
fn the_checksum_of_an_archive_is_that_of_its_definition() {
    let mut checksum = Checksum::default();
    checksum.update(b"1234");
    checksum.update(b"56789");
    assert_eq!(checksum.value(), 0x995d_c9bb_df19_39fa_u64.cast_signed());
}

#[test]
fn an_archive_begins_with_its_mark() {
    let mut out = Vec::new();
    push_prelude(&mut out, &Header::default(), &[]).expect("it is small");
    assert!(out.starts_with(&[0x6d, 0xe2, 0x99, 0x81]) && out.ends_with(&TERMINATOR));
}

#[test]
fn a_file_that_ends_within_a_document_is_refused_at_its_place() {
    let mut stream = DocumentStream::new(&b"\x05\0\0\0\0\x05\0\0"[..]);
    let mut document = Vec::new();
    assert!(stream.next(&mut document).expect("a document"));
    let refused = stream.next(&mut document).expect_err("it is cut");
    assert_eq!(refused.to_string(), "byte 5: the file ends within a document");
}

#[test]
fn records_that_are_no_documents_are_refused_with_the_reason() {
    let told = |mut parser: Parser, record: &[u8]| {
        parser.parse(record, &mut Vec::new()).expect_err("refused").to_string()
    };
    assert!(told(Parser::bson(), b"\x06\0\0\0\0\0").contains("malformed"));
    assert_eq!(told(Parser::json(), b"{\"a\": 1"), "EOF while parsing an object at column 7");
    assert_eq!(cells(FileFormat::Csv, b"a,\"b,c\"").expect("a row"), ["a", "b,c"]);
    assert_eq!(names("a.date(%d, %Y), b"), ["a.date(%d, %Y)", "b"]);
}
