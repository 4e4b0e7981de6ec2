//! Which document comes first, which sorts are rejected, and what a sorter keeps.

use bson::{Bson, Document, RawDocumentBuf, bson, doc};

use super::collect::Sorter;
use super::spilling::StoredPayload;
use super::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn parse(sort: &Document) -> Sort {
    Sort::parse(&raw(sort)).unwrap()
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

/// Checks that each document comes before all that follow.
#[track_caller]
fn check(sort: &Document, ascending: &[Document]) {
    let keys: Vec<_> = ascending.iter().map(|document| parse(sort).key(&raw(document)).unwrap()).collect();
    for (at, pair) in keys.windows(2).enumerate() {
        assert!(pair[0] < pair[1], "{} and {} by {sort}", ascending[at], ascending[at + 1]);
    }
}

#[track_caller]
fn check_equal(sort: &Document, left: &Document, right: &Document) {
    let [left, right] = [left, right].map(|document| parse(sort).key(&raw(document)).unwrap());
    assert_eq!(left, right);
}

#[track_caller]
fn check_refused(sort: &Document, code: i32, stage_code: i32) {
    let error = Sort::parse(&raw(sort)).unwrap_err();
    assert_eq!((error.code().number(), error.stage_code().number()), (code, stage_code), "{error}");
}

#[test]
fn values_sort_by_their_order() {
    let values = [
        Bson::MinKey,
        bson!([]),
        Bson::Null,
        bson!(-1.5),
        bson!(2_i64),
        decimal("2.5"),
        bson!(3),
        bson!("a"),
        bson!({ "a": 1 }),
        bson!([[1]]),
        bson!(true),
        Bson::MaxKey,
    ];
    let mut documents: Vec<Document> = values.into_iter().map(|value| doc! { "a": value }).collect();
    check(&doc! { "a": 1 }, &documents);
    documents.reverse();
    check(&doc! { "a": -1 }, &documents);
}

#[test]
fn missing_is_null_and_an_empty_array_is_below() {
    check_equal(&doc! { "a": 1 }, &doc! {}, &doc! { "a": Bson::Null });
    check_equal(&doc! { "a.b": 1 }, &doc! { "a": 5 }, &doc! {});
    check_equal(&doc! { "a.b": 1 }, &doc! { "a": [5] }, &doc! {});
    check_equal(&doc! { "a": 1 }, &doc! { "a": [] }, &doc! { "a": Bson::Undefined });
    check(&doc! { "a": 1 }, &[doc! { "a": [] }, doc! {}]);
    check(&doc! { "a": -1 }, &[doc! {}, doc! { "a": [] }]);
}

#[test]
fn arrays_count_by_the_element_that_comes_first() {
    check_equal(&doc! { "a": 1 }, &doc! { "a": [3, 1, 2] }, &doc! { "a": 1 });
    check_equal(&doc! { "a": -1 }, &doc! { "a": [1, 3, 2] }, &doc! { "a": 3 });
    check_equal(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": 2 }, { "b": [4, 1] }] }, &doc! { "a": { "b": 1 } });
    check_equal(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": 2 }, 7] }, &doc! {});
    check_equal(&doc! { "a.1": 1 }, &doc! { "a": [9, 5] }, &doc! { "a": [0, 5] });
    check_equal(&doc! { "b": -1, "a": 1 }, &doc! { "b": 1, "a": [3, 2] }, &doc! { "b": 1, "a": 2 });
}

#[test]
fn fields_through_one_array_come_from_one_element() {
    let array = doc! { "a": [{ "b": 1, "c": 9 }, { "b": 2, "c": 3 }, { "b": 1, "c": 7 }] };
    check_equal(&doc! { "a.b": 1, "a.c": 1 }, &array, &doc! { "a": { "b": 1, "c": 7 } });
    check_equal(&doc! { "a.b": 1, "a.c": -1 }, &array, &doc! { "a": { "b": 1, "c": 9 } });
    check_equal(&doc! { "a.b": -1, "a.c": 1 }, &array, &doc! { "a": { "b": 2, "c": 3 } });
}

#[test]
fn later_fields_decide_between_equal_ones() {
    check(
        &doc! { "a": 1, "b": -1 },
        &[doc! { "a": 1, "b": 2 }, doc! { "a": 1.0, "b": 1 }, doc! { "a": 2, "b": 9 }],
    );
    check(
        &doc! { "a": -1, "b.c": 1 },
        &[doc! { "a": "ab" }, doc! { "a": "a" }, doc! { "a": "a", "b": { "c": 1 } }],
    );
}

#[test]
fn parallel_arrays_cannot_be_sorted_by() {
    let error = parse(&doc! { "a": 1, "b": 1 }).key(&raw(&doc! { "a": [1], "b": [1] })).unwrap_err();
    assert_eq!(error.code(), 2);
    assert_eq!(error.to_string(), "cannot sort with keys that are parallel arrays: [b] [a]");
    let error = parse(&doc! { "a.0": 1 }).key(&raw(&doc! { "a": [{ "0": 1 }] })).unwrap_err();
    assert_eq!(error.code(), 16_746);
}

#[test]
fn directions_are_one_in_any_type_of_number() {
    for one in [bson!(1), bson!(1_i64), bson!(1.0), decimal("1.0")] {
        assert_eq!(parse(&doc! { "a": one }).fields().next().unwrap().1, Direction::Ascending);
    }
    let sort = parse(&doc! { "a.b": -1, "c": 1 });
    let fields: Vec<_> = sort.fields().map(|(path, direction)| (path.as_str(), direction)).collect();
    assert_eq!(fields, [("a.b", Direction::Descending), ("c", Direction::Ascending)]);
}

#[test]
fn malformed_sorts_are_refused_by_number() {
    for value in [bson!(0), bson!(2), bson!(-1.5), bson!(f64::NAN)] {
        check_refused(&doc! { "a": value }, 2, 15_975);
    }
    for value in [bson!("asc"), bson!(true), Bson::Null, bson!([1])] {
        check_refused(&doc! { "a": value }, 2, 15_974);
    }
    check_refused(&doc! { "a": { "$meta": "textScore" } }, 238, 238);
    check_refused(&doc! { "a": { "$add": 1 } }, 17_312, 17_312);
    check_refused(&doc! { "a": {} }, 17_312, 17_312);
    check_refused(&doc! { "": 1 }, 40_352, 40_352);
    check_refused(&doc! { "a.": 1 }, 40_353, 40_353);
    check_refused(&doc! { "a..b": 1 }, 15_998, 15_998);
    check_refused(&doc! { "$a": 1 }, 16_410, 16_410);
    let many = |count: usize| (0..count).map(|at| (format!("f{at}"), bson!(1))).collect::<Document>();
    check_refused(&many(SORT_FIELDS_MAX + 1), 2, 2);
    assert_eq!(parse(&many(SORT_FIELDS_MAX)).fields().len(), SORT_FIELDS_MAX);
    let mut twice = raw(&doc! { "a": 1 });
    twice.append(bson::raw::cstr!("a"), -1);
    assert_eq!(Sort::parse(&twice).unwrap_err().code(), 7_472_500);
}

#[test]
fn natural_order_stands_alone() {
    assert_eq!(parse(&doc! { "$natural": -1 }).natural(), Some(Direction::Descending));
    assert_eq!(parse(&doc! { "$natural": 1.0 }).natural(), Some(Direction::Ascending));
    assert!(parse(&doc! { "a": 1 }).natural().is_none());
    check_refused(&doc! { "$natural": 1, "a": 1 }, 2, 2);
    check_refused(&doc! { "$natural": 0 }, 2, 2);
    assert!(parse(&doc! {}).is_empty());
}

#[track_caller]
fn check_sorted(sort: &Document, limit: Option<usize>, numbers: &[i32], expected: &[i32]) {
    let mut sorter = Sorter::new(parse(sort), limit, 1 << 20);
    for (at, number) in (0_i32..).zip(numbers) {
        let document = raw(&doc! { "a": *number / 10, "at": at, "number": *number });
        sorter.push(&document, || document.clone()).unwrap();
    }
    assert_eq!(sorter.len(), expected.len());
    let found: Vec<_> =
        sorter.into_sorted_iter().map(|document| document.get_i32("number").unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn sorters_are_stable_with_and_without_limit() {
    // Sorted by tens only: the digit says which of two equal ones came first.
    let numbers = [31, 12, 32, 11, 21, 13, 33];
    check_sorted(&doc! { "a": 1 }, None, &numbers, &[12, 11, 13, 21, 31, 32, 33]);
    check_sorted(&doc! { "a": -1 }, None, &numbers, &[31, 32, 33, 21, 12, 11, 13]);
    check_sorted(&doc! { "a": 1 }, Some(5), &numbers, &[12, 11, 13, 21, 31]);
    check_sorted(&doc! { "a": -1 }, Some(2), &numbers, &[31, 32]);
    check_sorted(&doc! { "a": 1 }, Some(100), &numbers, &[12, 11, 13, 21, 31, 32, 33]);
    check_sorted(&doc! { "a": 1 }, Some(0), &numbers, &[]);
    check_sorted(&doc! { "$natural": 1 }, None, &numbers, &numbers);
    check_sorted(&doc! {}, Some(3), &numbers, &numbers[..3]);
}

#[test]
fn memory_is_bounded_by_what_is_kept() {
    let document = |number: i32| raw(&doc! { "a": number, "text": "x".repeat(1_000) });
    let mut all = Sorter::new(parse(&doc! { "a": 1 }), None, 10_000);
    let outcome = (0..20).try_for_each(|number| all.push(&document(number), || document(number)));
    assert_eq!(outcome.unwrap_err().code(), 292);
    let mut first = Sorter::new(parse(&doc! { "a": -1 }), Some(5), 10_000);
    for number in 0..1_000 {
        first.push(&document(number), || document(number)).unwrap();
    }
    assert!(first.memory_bytes() <= 10_000);
}

#[test]
fn payloads_of_documents_that_come_too_late_are_never_made() {
    let mut sorter = Sorter::new(parse(&doc! { "a": 1 }), Some(1), 1 << 20);
    let mut made = 0;
    for number in [3, 5, 3, 4, 1, 2] {
        let document = raw(&doc! { "a": number });
        sorter
            .push(&document, || {
                made += 1;
                document.clone()
            })
            .unwrap();
    }
    assert_eq!(made, 2);
}

#[test]
fn fields_after_a_unique_one_are_left_out() {
    let sort = parse(&doc! { "_id": 1, "tags": 1, "scores": 1 });
    let parallel = raw(&doc! { "_id": 7, "tags": [1], "scores": [2] });
    assert!(sort.key(&parallel).is_err());
    let shorter = sort.up_to("_id");
    assert_eq!(shorter.fields().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["_id"]);
    assert!(shorter.key(&parallel).is_ok());
}

#[test]
fn the_values_of_a_sort_are_told_in_its_order() {
    let sort = parse(&doc! { "a": -1, "b": 1 });
    let values = sort.values(&raw(&doc! { "a": [1, 3.5] })).unwrap().expect("it has fields");
    assert_eq!(bson::rawdoc! { "key": values }, raw(&doc! { "key": [3.5, Bson::Null] }));
    assert!(parse(&doc! { "$natural": 1 }).values(&raw(&doc! { "a": 1 })).unwrap().is_none());
}

#[test]
fn a_document_comes_back_from_a_file() {
    let document = raw(&doc! { "a": 1 });
    assert_eq!(RawDocumentBuf::restore(document.stored()), Some(document));
}
