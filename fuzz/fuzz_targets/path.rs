//! Values that a path offers a filter are found under a key of the index on that path; keys ascend, are distinct and
//! decode; and malformed documents are walked without a panic.

#![no_main]

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, RawBson, doc};
use cairndb_fuzz::Input;
use index::error::Error;
use index::extract::{ExtractedKeys, extract};
use index::key::{Direction, decode, encode};
use index::path::{FieldPath, array_index, leaves, value_at};
use index::spec::{IndexSpec, SpecOptions};
use libfuzzer_sys::fuzz_target;

/// Few names, so that paths meet fields; two of them are positions.
const NAMES: [&str; 4] = ["a", "b", "0", "1"];
const DEPTH_MAX: u32 = 12;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let paths = [path(&mut input), path(&mut input)];
    if input.byte() == 0xff {
        check_malformed(input.rest(), &paths);
        return;
    }
    let document = RawDocumentBuf::try_from(&document(&mut input, 0)).expect("small documents are stored");
    check_offered(&document, &paths[0]);
    if paths[0] != paths[1] {
        check_keys(&document, &doc! { &paths[0]: 1, &paths[1]: -1 });
    }
});

fn path(input: &mut Input<'_>) -> String {
    let count = 1 + input.byte() % 4;
    (0..count).map(|_| name(input)).collect::<Vec<_>>().join(".")
}

fn name(input: &mut Input<'_>) -> &'static str {
    NAMES.get(usize::from(input.byte()) % NAMES.len()).copied().unwrap_or_default()
}

fn document(input: &mut Input<'_>, depth: u32) -> Document {
    let count = input.byte() % 4;
    (0..count).map(|_| (name(input).to_owned(), value(input, depth))).collect()
}

fn value(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 8 {
        0 => Bson::Null,
        1 => Bson::Undefined,
        2..=4 if depth < DEPTH_MAX => {
            let count = input.byte() % 4;
            Bson::Array((0..count).map(|_| value(input, depth + 1)).collect())
        }
        5 | 6 if depth < DEPTH_MAX => Bson::Document(document(input, depth + 1)),
        _ => Bson::Int32(i32::from(input.byte() % 4)),
    }
}

fn spec(keys: &Document) -> IndexSpec {
    let keys = RawDocumentBuf::try_from(keys).expect("a key pattern is stored");
    IndexSpec::parse(&keys, SpecOptions::default()).expect("a key pattern of plain names")
}

fn extracted(document: &RawDocument, keys: &Document) -> Option<ExtractedKeys> {
    let mut found = ExtractedKeys::default();
    match extract(&spec(keys), document, &mut found) {
        Ok(()) => Some(found),
        Err(Error::ParallelArrays { .. } | Error::AmbiguousPosition { .. } | Error::TooManyKeys { .. }) => {
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn check_offered(document: &RawDocument, path: &str) {
    let Some(found) = extracted(document, &doc! { path: 1 }) else { return };
    let keys: BTreeSet<&[u8]> = found.iter().map(|(bytes, _)| bytes).collect();
    let has_position = path.split('.').any(|name| array_index(name).is_some());
    let path = FieldPath::parse(path).expect("plain names");
    let _ = leaves(document, &path, &mut |leaf| {
        let value = leaf.value.map(|value| Bson::try_from(value).expect("well-formed"));
        let offered = match value {
            Some(Bson::Array(elements)) if elements.is_empty() => vec![Bson::Undefined],
            Some(Bson::Array(elements)) if leaf.expand => elements,
            Some(value) => vec![value],
            None if has_position => vec![],
            None => vec![Bson::Null],
        };
        for value in offered {
            let value = RawBson::try_from(value).expect("a small value is stored");
            let mut key = Vec::new();
            encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
            assert!(keys.contains(key.as_slice()), "{value:?}");
        }
        ControlFlow::Continue(())
    });
    if let Some(value) = value_at(document, &path) {
        let mut is_visited = false;
        let _ = leaves(document, &path, &mut |leaf| {
            is_visited |= leaf.value == Some(value);
            ControlFlow::Continue(())
        });
        assert!(is_visited);
    }
}

fn check_keys(document: &RawDocument, keys: &Document) {
    let Some(found) = extracted(document, keys) else { return };
    assert!(!found.is_empty());
    assert!(found.is_multikey() || found.len() == 1);
    assert!(found.iter().map(|(bytes, _)| bytes).is_sorted_by(|left, right| left < right));
    for (mut bytes, mut types) in found.iter() {
        decode(&mut bytes, Direction::Ascending, &mut types).expect("the first field decodes");
        decode(&mut bytes, Direction::Descending, &mut types).expect("the second field decodes");
        assert!(bytes.is_empty() && types.is_empty());
    }
}

/// The bytes after a length that fits them, as a document.
fn check_malformed(elements: &[u8], paths: &[String; 2]) {
    let len = i32::try_from(elements.len() + 5).expect("the fuzzer's inputs are short");
    let bytes = [&len.to_le_bytes(), elements, &[0]].concat();
    let document = RawDocument::from_bytes(&bytes).expect("length and terminator fit");
    for text in paths {
        let path = FieldPath::parse(text).expect("plain names");
        let _ = value_at(document, &path);
        let _ = leaves(document, &path, &mut |_| ControlFlow::Continue(()));
        let _ = extract(&spec(&doc! { text: 1 }), document, &mut ExtractedKeys::default());
    }
}
