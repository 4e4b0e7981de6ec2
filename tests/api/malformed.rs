//! Bytes that are not a document: each is rejected with an error that says where, and nothing is stored.
//!
//! `RawDocumentBuf` looks at the outermost length only, so everything else reaches the engine as it is.

use cairndb::bson::{RawDocumentBuf, doc};
use cairndb_tests::scratch::Scratch;

use crate::{Fixture, refused};

const STRING: u8 = 2;
const DOCUMENT: u8 = 3;
const ARRAY: u8 = 4;
const BINARY: u8 = 5;
const BOOLEAN: u8 = 8;
const CODE_WITH_SCOPE: u8 = 15;
const INT32: u8 = 16;
const LEVELS: usize = 100_000;

/// A document around the elements, with a length that fits.
fn framed(elements: &[u8]) -> RawDocumentBuf {
    let len = i32::try_from(elements.len() + 5).expect("small");
    let bytes = [&len.to_le_bytes(), elements, &[0]].concat();
    RawDocumentBuf::from_bytes(bytes).expect("the outer length fits")
}

fn element(element_type: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[element_type], name, &[0], value].concat()
}

/// As many documents, or arrays, within each other.
fn nested(element_type: u8, levels: usize) -> RawDocumentBuf {
    let mut bytes = Vec::with_capacity(levels * 8);
    for level in 0..levels {
        let len = (levels - level) * 8 - 3;
        bytes.extend_from_slice(&i32::try_from(len).expect("small").to_le_bytes());
        if level + 1 < levels {
            bytes.extend_from_slice(&[element_type, b'0', 0]);
        }
    }
    bytes.extend(std::iter::repeat_n(0, levels));
    RawDocumentBuf::from_bytes(bytes).expect("the outer length fits")
}

/// Every verb that accepts a document rejects it, and nothing changes.
#[track_caller]
fn check(document: &RawDocumentBuf, code: i32) {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1 }]);
    let raw = fixture.things.clone_with_type::<RawDocumentBuf>();
    refused(raw.insert_one(document).run(), code, "");
    refused(raw.insert_many([document]).run(), code, "");
    refused(raw.insert_many([document]).ordered(false).run(), code, "");
    refused(raw.replace_one(doc! { "_id": 1 }, document).run(), code, "");
    refused(raw.replace_one(doc! { "_id": 2 }, document).upsert(true).run(), code, "");
    assert_eq!(fixture.stored(), [doc! { "_id": 1, "a": 1 }]);
    fixture.verify_clean();
}

#[track_caller]
fn malformed(elements: &[u8]) {
    check(&framed(elements), 22);
}

#[test]
fn lengths_of_strings_must_fit() {
    for len in [0, -1, i32::MIN, 1, 3, 100, i32::MAX] {
        malformed(&element(STRING, b"a", &[&len.to_le_bytes()[..], b"x\0"].concat()));
    }
    malformed(&element(STRING, b"a", b"\x02\0\0\0xy"));
    malformed(&element(STRING, b"a", b"\x02\0"));
}

#[test]
fn lengths_of_nested_documents_must_fit() {
    for len in [0, -1, 4, 6, 12, 1000, i32::MIN, i32::MAX] {
        malformed(&element(DOCUMENT, b"a", &[&len.to_le_bytes()[..], &[0]].concat()));
        malformed(&element(ARRAY, b"a", &[&len.to_le_bytes()[..], &[0]].concat()));
    }
    malformed(&element(DOCUMENT, b"a", b"\x05\0\0\0\x01"));
    malformed(&element(DOCUMENT, b"a", b"\x05\0"));
}

#[test]
fn lengths_of_binary_data_must_fit() {
    for len in [-1, 2, 1000, i32::MIN, i32::MAX] {
        malformed(&element(BINARY, b"a", &[&len.to_le_bytes()[..], &[0, 7]].concat()));
    }
    malformed(&element(BINARY, b"a", &[5, 0, 0, 0, 2, 9, 0, 0, 0, 7]));
}

#[test]
fn lengths_of_code_with_scope_must_fit() {
    let scoped = |len: i32| {
        element(CODE_WITH_SCOPE, b"a", &[&len.to_le_bytes()[..], b"\x02\0\0\0f\0", b"\x05\0\0\0\0"].concat())
    };
    for len in [0, -1, 14, 16, i32::MAX] {
        malformed(&scoped(len));
    }
}

#[test]
fn elements_must_be_whole() {
    malformed(&element(INT32, b"a", b"\x01\0\0"));
    malformed(b"\x10");
    malformed(b"\x10name without end");
    malformed(&element(BOOLEAN, b"a", b"\x02"));
    malformed(&element(0x42, b"a", b""));
    malformed(b"\0");
    malformed(&[element(INT32, b"a", b"\x01\0\0\0"), vec![0]].concat());
}

#[test]
fn text_must_be_utf8() {
    malformed(&element(STRING, b"a", b"\x02\0\0\0\xff\0"));
    malformed(&element(STRING, b"a", b"\x04\0\0\0\xed\xa0\x80\0"));
    malformed(&element(INT32, b"\xff", b"\x01\0\0\0"));
    malformed(&element(DOCUMENT, b"a", &framed(&element(INT32, b"\xc0\x80", b"\x01\0\0\0")).into_bytes()));
}

#[test]
fn a_second_id_is_refused_wherever_it_stands() {
    let id = element(INT32, b"_id", b"\x01\0\0\0");
    let other = element(INT32, b"a", b"\x01\0\0\0");
    check(&framed(&[id.clone(), id.clone()].concat()), 2);
    check(&framed(&[other.clone(), id.clone(), other, id].concat()), 2);
}

#[test]
fn a_hundred_thousand_levels_need_little_stack() {
    let small_stack = std::thread::Builder::new().stack_size(256 << 10);
    let refused_everywhere = || {
        let scratch = Scratch::new();
        let client = scratch.open();
        let raw = client.database("test").collection::<RawDocumentBuf>("things");
        for element_type in [DOCUMENT, ARRAY] {
            let deep = nested(element_type, LEVELS);
            refused(raw.insert_one(&deep).run(), 15, "180");
            refused(raw.insert_many([&deep]).run(), 15, "180");
            refused(raw.replace_one(doc! {}, &deep).upsert(true).run(), 15, "180");
        }
        assert_eq!(raw.count_documents(doc! {}).run().expect("a count"), 0);
        let deepest = nested(DOCUMENT, 180);
        raw.insert_one(&deepest).run().expect("180 levels are accepted");
        raw.replace_one(doc! {}, nested(ARRAY, 180)).run().expect("180 levels are accepted");
        crate::verify_clean(&client);
        client.close().expect("closed");
    };
    small_stack.spawn(refused_everywhere).unwrap().join().expect("256 KiB are enough");
}

#[test]
fn every_truncation_and_every_changed_byte_is_survived() {
    let fixture = Fixture::new();
    let raw = fixture.things.clone_with_type::<RawDocumentBuf>();
    let whole = cairndb::bson::rawdoc! { "_id": 1, "s": "text", "d": { "a": [1, { "b": true }] }, "n": 2.5 };
    let elements = &whole.as_bytes()[4..whole.as_bytes().len() - 1];
    for end in 0..elements.len() {
        // Some cuts fall between two elements and leave a document.
        let _ = raw.insert_one(framed(&elements[..end])).run();
    }
    for place in 0..elements.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = elements.to_vec();
            changed[place] ^= change;
            let _ = raw.insert_one(framed(&changed)).run();
        }
    }
    fixture.verify_clean();
    for stored in fixture.things.find(doc! {}).run().unwrap() {
        stored.expect("whatever was accepted is read");
    }
}
