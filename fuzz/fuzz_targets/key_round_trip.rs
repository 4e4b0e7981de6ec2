//! Values come back from their keys and type bytes exactly; and any bytes decode to an error or to
//! a value that has just that key.

#![no_main]

use std::cmp::Ordering;

use bson::raw::{RawDocument, cstr};
use bson::{Bson, RawDocumentBuf};
use cairndb_fuzz::Input;
use index::key::{Direction, decode, decode_bytes, decode_canonical, encode, encode_with_types, skip};
use index::order::compare;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let direction = if input.byte() & 1 == 0 { Direction::Ascending } else { Direction::Descending };
    if input.byte() & 1 == 0 {
        check_value(&mut input, direction);
    } else {
        check_bytes(input.rest(), direction);
    }
});

fn check_value(input: &mut Input<'_>, direction: Direction) {
    let value = input.value();
    let (mut key, mut types) = (Vec::new(), Vec::new());
    encode_with_types(value.get(), direction, &mut key, &mut types);
    assert_eq!(skip(&key, direction), Ok(key.len()));

    let document = decoded(&key, direction, &types).expect("what was encoded decodes");
    assert_eq!(document, value.document().as_bytes());

    let mut canonical = RawDocumentBuf::new();
    match decode_canonical(&mut &key[..], direction).expect("what was encoded decodes") {
        // A tree keeps one of two fields with one name.
        Bson::Document(_) | Bson::Array(_) | Bson::JavaScriptCodeWithScope(_) => return,
        scalar => {
            canonical.append(cstr!(""), bson::RawBson::try_from(scalar).expect("a scalar has a stored form"))
        }
    }
    let canonical = canonical.iter().next().expect("one field").expect("a valid field").1;
    assert_eq!(compare(canonical, value.get()), Ordering::Equal);
}

fn check_bytes(bytes: &[u8], direction: Direction) {
    let (key, types) = bytes.split_at(bytes.len() / 2);
    let _ = decode(&mut &key[..], direction, &mut &types[..]);
    let _ = decode_canonical(&mut &key[..], direction);
    let Some(document) = decoded(key, direction, types) else { return };
    let len = skip(key, direction).expect("what decodes can be skipped");
    let document = RawDocument::from_bytes(&document).expect("what decodes is a document");
    let value = document.iter().next().expect("one field").expect("a valid field").1;
    let mut again = Vec::new();
    encode(value, direction, &mut again);
    assert_eq!(again, key[..len]);
}

/// The document of one field, with the empty name, that holds the decoded value.
fn decoded(mut key: &[u8], direction: Direction, mut types: &[u8]) -> Option<Vec<u8>> {
    let mut document = vec![0; 6];
    let element_type = decode_bytes(&mut key, direction, &mut types, &mut document).ok()?;
    document.push(0);
    document[4] = element_type as u8;
    let len = i32::try_from(document.len()).expect("the fuzzer's inputs are short");
    document[..4].copy_from_slice(&len.to_le_bytes());
    Some(document)
}
