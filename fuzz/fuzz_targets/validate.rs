//! Any bytes are rejected or read by `bson` from end to end; and every document that is well-formed is
//! accepted.

#![no_main]

use bson::{Document, RawBsonRef, RawDocument, rawdoc};
use cairndb_fuzz::Input;
use index::error::Error;
use index::validate::validate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    match input.byte() % 4 {
        0 => check(input.rest()),
        1 => check(&framed(input.rest())),
        2 => {
            let document = input.document();
            match validate(document.as_bytes()) {
                Ok(valid) => {
                    let expected = document.get("_id").expect("well-formed");
                    assert_eq!(valid.id().map(alone), expected.map(alone));
                }
                Err(error) => assert!(matches!(error, Error::DuplicateId { .. }), "{error}"),
            }
            check(document.as_bytes());
        }
        _ => {
            let changes: [u8; 8] = input.array();
            let mut changed = input.document().into_bytes();
            for [place, byte] in changes.as_chunks().0 {
                let place = usize::from(*place) % changed.len();
                if let Some(target) = changed.get_mut(place) {
                    *target = *byte;
                }
            }
            check(&changed);
        }
    }
});

/// The bytes as elements of a document whose length fits.
fn framed(elements: &[u8]) -> Vec<u8> {
    let len = i32::try_from(elements.len() + 5).expect("the fuzzer's inputs are short");
    [&len.to_le_bytes(), elements, &[0]].concat()
}

/// The value as bytes: a NaN is equal to itself there.
fn alone(value: RawBsonRef<'_>) -> Vec<u8> {
    rawdoc! { "_id": value }.into_bytes()
}

fn check(bytes: &[u8]) {
    match validate(bytes) {
        Ok(valid) => {
            assert_eq!(valid.as_bytes(), bytes);
            read(valid.as_raw());
            Document::try_from(valid.as_raw()).expect("what is accepted decodes");
            let element = valid.id_element().map(|span| bytes.get(span).expect("the span lies within"));
            assert_eq!(element.is_some(), valid.id().is_some());
        }
        // A message is made of any bytes.
        Err(error) => assert!(error.to_string().len() < 100_000),
    }
}

fn read(document: &RawDocument) {
    let mut open = vec![document];
    while let Some(document) = open.pop() {
        for element in document.iter() {
            match element.expect("what is accepted is read").1 {
                RawBsonRef::Document(inner) => open.push(inner),
                RawBsonRef::Array(array) => {
                    let values = array.into_iter().map(|value| value.expect("what is accepted is read"));
                    open.extend(values.filter_map(RawBsonRef::as_document));
                }
                RawBsonRef::JavaScriptCodeWithScope(code) => open.push(code.scope),
                _ => {}
            }
        }
    }
}
