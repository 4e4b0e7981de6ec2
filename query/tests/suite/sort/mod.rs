//! Sorts compared with a naive implementation: a stable sort that compares decoded values.
//!
//! For one field the naive sort takes the lowest or highest element of an array itself. Several fields are
//! tested on documents without arrays, because values from one array would have to come from the same
//! element.

use std::cmp::Ordering;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, bson};
use cairndb_query::sort::Sort;
use cairndb_query::sort::collect::Sorter;
use proptest::prelude::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document that can be written")
}

fn compare(left: &Bson, right: &Bson) -> Ordering {
    let [left, right] =
        [left, right].map(|value| RawBson::try_from(value.clone()).expect("a value that can be written"));
    index::order::compare(left.as_raw_bson_ref(), right.as_raw_bson_ref())
}

/// The value that a document is sorted by. The path goes through objects and may end in an array.
fn sort_value(document: &Document, path: &str, sign: i32) -> Bson {
    let mut reached = Bson::Document(document.clone());
    for name in path.split('.') {
        let Bson::Document(object) = &reached else { return Bson::Null };
        let Some(value) = object.get(name) else { return Bson::Null };
        reached = value.clone();
    }
    let Bson::Array(elements) = reached else { return reached };
    let order =
        |left: &Bson, right: &Bson| if sign > 0 { compare(left, right) } else { compare(right, left) };
    elements.into_iter().min_by(order).unwrap_or(Bson::Undefined)
}

fn naive(sort: &Document, documents: &[Document]) -> Vec<Document> {
    let mut sorted = documents.to_vec();
    sorted.sort_by(|left, right| {
        let by_field = sort.iter().map(|(path, sign)| {
            let sign = sign.as_i32().expect("a direction");
            let ordering = compare(&sort_value(left, path, sign), &sort_value(right, path, sign));
            if sign > 0 { ordering } else { ordering.reverse() }
        });
        by_field.fold(Ordering::Equal, Ordering::then)
    });
    sorted
}

fn scalar() -> impl Strategy<Value = Bson> {
    let values = [
        bson!(0),
        bson!(1.0),
        bson!(1_i64),
        bson!(-2.5),
        bson!(f64::NAN),
        Bson::Decimal128("1.00".parse().expect("a decimal")),
        bson!(""),
        bson!("a"),
        bson!("a\0"),
        Bson::Symbol("a".into()),
        Bson::Null,
        Bson::Undefined,
        bson!(true),
        bson!({ "a": 1 }),
        bson!({ "a": 1, "b": 0 }),
        Bson::MinKey,
        Bson::MaxKey,
    ];
    prop_oneof![
        2 => prop::sample::select(values.to_vec()),
        1 => (-3..3).prop_map(Bson::Int32),
        1 => any::<f64>().prop_map(Bson::Double),
        1 => "[ab]{0,3}".prop_map(Bson::String),
    ]
}

fn value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        3 => scalar(),
        1 => prop::collection::vec(scalar(), 0..4).prop_map(Bson::Array),
        1 => prop::collection::vec(prop_oneof![scalar(), Just(bson!([1]))], 0..3).prop_map(Bson::Array),
    ]
}

/// Documents with a number that is different in each one.
fn documents(value: impl Strategy<Value = Bson>) -> impl Strategy<Value = Vec<Document>> {
    let name = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
    let document = prop::collection::vec((name, value), 0..4).prop_map(Document::from_iter);
    prop::collection::vec(document, 0..30).prop_map(|documents| {
        let numbered = (0_i32..).zip(documents).map(|(number, mut document)| {
            document.insert("number", number);
            document
        });
        numbered.collect()
    })
}

fn direction() -> impl Strategy<Value = i32> {
    prop::sample::select(vec![1, -1])
}

fn sorted(sort: &Document, limit: Option<usize>, documents: &[Document]) -> Vec<RawDocumentBuf> {
    let sort = Sort::parse(&raw(sort)).expect("a sort");
    let mut sorter = Sorter::new(sort, limit, 1 << 24);
    for document in documents {
        let document = raw(document);
        sorter.push(&document, || document.clone()).expect("a document without parallel arrays");
    }
    sorter.into_sorted_iter().collect()
}

fn check(sort: &Document, limit: Option<usize>, documents: &[Document]) -> Result<(), TestCaseError> {
    let expected = naive(sort, documents);
    let count = limit.unwrap_or(usize::MAX);
    let expected: Vec<RawDocumentBuf> = expected.iter().take(count).map(raw).collect();
    prop_assert_eq!(sorted(sort, limit, documents), expected);
    Ok(())
}

fn limit() -> impl Strategy<Value = Option<usize>> {
    prop::option::of(0..12_usize)
}

proptest! {
    #[test]
    fn one_field_sorts_as_a_naive_stable_sort(
        documents in documents(value()),
        path in prop::sample::select(vec!["a", "b", "a.a"]),
        sign in direction(),
        limit in limit(),
    ) {
        // The naive sort reads only an array at the end of a path, and not one before its end.
        let is_plain = |document: &Document| path == "a" || !matches!(document.get("a"), Some(Bson::Array(_)));
        let documents: Vec<_> = documents.into_iter().filter(is_plain).collect();
        check(&Document::from_iter([(path.to_owned(), sign.into())]), limit, &documents)?;
    }

    #[test]
    fn several_fields_sort_as_a_naive_stable_sort(
        documents in documents(scalar()),
        signs in [direction(), direction(), direction()],
        limit in limit(),
    ) {
        let names = ["a", "b.a", "c"].map(str::to_owned);
        let sort = names.into_iter().zip(signs.map(Bson::from)).collect();
        check(&sort, limit, &documents)?;
    }

    #[test]
    fn one_array_and_other_fields_sorts_as_a_naive_stable_sort(
        documents in documents(scalar()),
        array in prop::collection::vec(scalar(), 0..4),
        at in any::<prop::sample::Index>(),
        signs in [direction(), direction()],
    ) {
        let mut documents = documents;
        if !documents.is_empty() {
            let at = at.index(documents.len());
            documents[at].insert("b", array);
        }
        let sort = ["a", "b"].map(str::to_owned).into_iter().zip(signs.map(Bson::from)).collect();
        check(&sort, None, &documents)?;
    }

    #[test]
    fn lowest_keys_of_the_index_are_the_keys_of_the_sort(
        documents in documents(value()),
        path in prop::sample::select(vec!["a", "a.a", "a.0", "a.1"]),
        sign in direction(),
    ) {
        let keys = raw(&Document::from_iter([(path.to_owned(), sign.into())]));
        let spec = index::spec::IndexSpec::parse(&keys, index::spec::SpecOptions::default()).expect("a spec");
        let sort = Sort::parse(&keys).expect("a sort");
        for document in documents {
            let mut extracted = index::extract::ExtractedKeys::default();
            index::extract::extract(&spec, &raw(&document), &mut extracted).expect("keys");
            let least = extracted.iter().map(|(key, _)| key.to_vec()).min().expect("a key");
            let key = sort.key(&raw(&document)).expect("a key");
            prop_assert_eq!(key.as_bytes(), least);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), documents in documents(value())) {
        let length = i32::try_from(bytes.len() + 5).expect("short").to_le_bytes();
        let framed = [length.as_slice(), &bytes, &[0]].concat();
        let broken = RawDocument::from_bytes(&framed).expect("the outside is whole");
        let _ = Sort::parse(broken);
        let sort = Sort::parse(&raw(&bson::doc! { "a": 1, "b.a": -1 })).expect("a sort");
        let _ = sort.key(broken);
        for document in documents {
            let _ = Sort::parse(&raw(&document)).map(|sort| sort.key(broken));
        }
    }
}
