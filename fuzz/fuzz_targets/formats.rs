//! Any bytes in any format of files: reading ends, and what is accepted is a document that the store takes.

#![no_main]

use std::sync::Arc;

use cairndb_formats::columns::{ColumnOptions, Columns, Typing, names};
use cairndb_formats::format::FileFormat;
use cairndb_formats::parse::{Parser, cells};
use cairndb_formats::split::Splitter;
use libfuzzer_sys::fuzz_target;

const FORMATS: [FileFormat; 5] =
    [FileFormat::Lines, FileFormat::Json, FileFormat::Csv, FileFormat::Tsv, FileFormat::Bson];

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (format, options, bytes) = input;
    let format = FORMATS[usize::from(format) % FORMATS.len()];
    let _ = FileFormat::of_bytes(bytes);
    let mut splitter = Splitter::new(bytes, format);
    let Ok(mut next) = splitter.next_chunk() else { return };
    let mut parser = match format {
        FileFormat::Lines | FileFormat::Json => Parser::json(),
        FileFormat::Bson => Parser::bson(),
        FileFormat::Csv | FileFormat::Tsv => {
            // The first row names the columns, as of a file.
            let Some(chunk) = &next else { return };
            let Ok(header) = cells(format, chunk.content(&chunk.records[0])) else { return };
            let list = header.join(",");
            let options = ColumnOptions {
                is_flat: options & 1 > 0,
                has_arrays: options & 2 > 0,
                typing: [Typing::Auto, Typing::Text, Typing::Typed][usize::from(options >> 2) % 3],
                null: (options & 16 > 0).then(|| "NA".to_owned()),
                ignores_blanks: options & 32 > 0,
            };
            let Ok(columns) = Columns::new(names(&list), &options) else { return };
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
                Err(refusal) => assert!(document.is_empty() && refusal.reason.len() < 2_000),
            }
        }
        next = splitter.next_chunk().expect("bytes in memory are read without an error");
    }
});
