//! Keys sort as the values do, in both directions and in compound keys; and malformed documents
//! compare, and encode, without a panic.

#![no_main]

use std::cmp::Ordering;

use bson::RawBsonRef;
use bson::raw::RawDocument;
use cairndb_fuzz::{Input, Value};
use index::key::{Direction, encode};
use index::order::{compare, compare_documents};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() == 0xff {
        check_malformed(input.rest());
        return;
    }
    let [left, right] = [(); 2].map(|()| input.value());
    let [left_next, right_next] = [(); 2].map(|()| input.value());
    assert_eq!(compare(left.get(), left.get()), Ordering::Equal);
    assert_eq!(compare(left.get(), right.get()), compare(right.get(), left.get()).reverse());
    for first in [Direction::Ascending, Direction::Descending] {
        for second in [Direction::Ascending, Direction::Descending] {
            check([&left, &left_next], [&right, &right_next], [first, second]);
            check([&left, &left_next], [&left, &right_next], [first, second]);
        }
    }
});

fn check(left: [&Value; 2], right: [&Value; 2], directions: [Direction; 2]) {
    let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
    let mut expected = Ordering::Equal;
    for ((left, right), direction) in left.into_iter().zip(right).zip(directions) {
        let ordering = compare(left.get(), right.get());
        expected = expected.then(match direction {
            Direction::Ascending => ordering,
            Direction::Descending => ordering.reverse(),
        });
        encode(left.get(), direction, &mut left_key);
        encode(right.get(), direction, &mut right_key);
    }
    assert_eq!(left_key.cmp(&right_key), expected, "{left_key:02x?} and {right_key:02x?}");
}

/// The bytes after a length that fits them, as a document.
fn check_malformed(bytes: &[u8]) {
    let (left, right) = bytes.split_at(bytes.len() / 2);
    let [left, right] = [left, right].map(|bytes| {
        let len = i32::try_from(bytes.len() + 5).expect("the fuzzer's inputs are short");
        [&len.to_le_bytes(), bytes, &[0]].concat()
    });
    let (Ok(left), Ok(right)) = (RawDocument::from_bytes(&left), RawDocument::from_bytes(&right)) else {
        return;
    };
    let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
    encode(RawBsonRef::Document(left), Direction::Ascending, &mut left_key);
    encode(RawBsonRef::Document(right), Direction::Ascending, &mut right_key);
    assert_eq!(left_key.cmp(&right_key), compare_documents(left, right));
}
