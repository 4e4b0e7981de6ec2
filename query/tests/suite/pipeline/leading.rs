//! The part of a pipeline that is left to the reader of the documents.

use bson::{Document, doc};
use cairndb_query::pipeline::Leading;

use crate::pipeline::{parse, raw};

fn leading(stages: &[Document]) -> (Leading, Option<&'static str>) {
    let mut pipeline = parse(stages).expect("a pipeline");
    let leading = pipeline.take_leading();
    (leading, pipeline.first_stage())
}

#[track_caller]
fn check(
    stages: &[Document],
    (filter, sort): (Document, Option<Document>),
    (skip, limit): (u64, Option<u64>),
    rest: Option<&str>,
) {
    let (leading, first) = leading(stages);
    assert_eq!(leading.filter, raw(&filter), "{stages:?}");
    assert_eq!(leading.sort, sort.as_ref().map(raw), "{stages:?}");
    assert_eq!((leading.skip, leading.limit), (skip, limit), "{stages:?}");
    assert_eq!(first, rest, "{stages:?}");
}

#[test]
fn a_search_at_the_front_is_taken() {
    let filter = doc! { "a": 1 };
    let sort = doc! { "b": -1 };
    check(&[], (doc! {}, None), (0, None), None);
    check(&[doc! { "$match": filter.clone() }], (filter.clone(), None), (0, None), None);
    check(
        &[
            doc! { "$match": filter.clone() },
            doc! { "$sort": sort.clone() },
            doc! { "$skip": 2 },
            doc! { "$limit": 3 },
            doc! { "$count": "n" },
        ],
        (filter.clone(), Some(sort.clone())),
        (2, Some(3)),
        Some("$count"),
    );
}

#[test]
fn filters_are_joined_and_go_before_the_sort() {
    let sort = doc! { "b": 1 };
    check(
        &[doc! { "$match": { "a": 1 } }, doc! { "$sort": sort.clone() }, doc! { "$match": { "b": 2 } }],
        (doc! { "$and": [{ "a": 1 }, { "b": 2 }] }, Some(sort)),
        (0, None),
        None,
    );
}

#[test]
fn a_filter_does_not_pass_a_skip_or_a_limit() {
    let filtered = doc! { "$match": { "a": 1 } };
    check(&[doc! { "$limit": 2 }, filtered.clone()], (doc! {}, None), (0, Some(2)), Some("$match"));
    check(&[doc! { "$skip": 2 }, filtered], (doc! {}, None), (2, None), Some("$match"));
    check(
        &[doc! { "$limit": 2 }, doc! { "$sort": { "a": 1 } }],
        (doc! {}, None),
        (0, Some(2)),
        Some("$sort"),
    );
}

#[test]
fn skips_and_limits_become_one_window() {
    let window = |stages: &[Document]| {
        let (leading, _) = leading(stages);
        (leading.skip, leading.limit)
    };
    let (skip, limit) = (|n: i64| doc! { "$skip": n }, |n: i64| doc! { "$limit": n });
    assert_eq!(window(&[limit(5), skip(2)]), (2, Some(3)));
    assert_eq!(window(&[limit(2), skip(5)]), (5, Some(0)));
    assert_eq!(window(&[skip(2), limit(5), skip(1), limit(9)]), (3, Some(4)));
    assert_eq!(window(&[skip(i64::MAX), skip(i64::MAX), skip(i64::MAX)]), (u64::MAX, None));
}

#[test]
fn other_stages_stay() {
    for stage in [
        doc! { "$set": { "a": 1 } },
        doc! { "$group": { "_id": 1 } },
        doc! { "$unwind": "$a" },
        doc! { "$sample": { "size": 1 } },
        doc! { "$facet": { "a": [] } },
    ] {
        let name = stage.keys().next().expect("a name").clone();
        check(&[stage, doc! { "$match": { "a": 1 } }], (doc! {}, None), (0, None), Some(&name));
    }
}
