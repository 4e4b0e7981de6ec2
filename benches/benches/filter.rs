//! Matching against the same test written by hand over raw bytes, for documents of which one in a hundred matches.

use std::hint::black_box;

use bson::spec::ElementType;
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId, rawdoc};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use query::filter::Filter;

const DOCUMENTS: i32 = 10_000;

/// About 160 bytes each.
fn documents() -> Vec<RawDocumentBuf> {
    let make = |number: i32| {
        rawdoc! {
            "_id": ObjectId::new(),
            "name": format!("customer number {number}"),
            "a": number,
            "active": number % 3 == 0,
            "b": { "city": "Reykjavik", "c": if number % 5 == 0 { "gold" } else { "plain" }, "zip": 10_000 + number },
            "balance": f64::from(number) * 1.5,
        }
    };
    (0..DOCUMENTS).map(make).collect()
}

/// `{a: {$gt: 9500}, "b.c": "gold"}` as one would write it for these documents, elements checked by `bson`.
fn by_hand(document: &RawDocument) -> bool {
    document.get_i32("a").is_ok_and(|a| a > 9_500)
        && document.get_document("b").is_ok_and(|b| b.get_str("c").is_ok_and(|c| c == "gold"))
}

/// The same over nothing but bytes, for documents known to be well-formed.
fn by_bytes(document: &RawDocument) -> bool {
    let a = find(document.as_bytes(), b"a")
        .and_then(|value| value.first_chunk())
        .copied()
        .map(i32::from_le_bytes);
    a.is_some_and(|a| a > 9_500)
        && find(document.as_bytes(), b"b")
            .and_then(|b| find(b, b"c"))
            .is_some_and(|c| c.get(4..).is_some_and(|text| text.starts_with(b"gold\0")))
}

/// The part after the name of a field.
fn find<'d>(document: &'d [u8], wanted: &[u8]) -> Option<&'d [u8]> {
    let mut rest = document.get(4..)?;
    loop {
        let (kind, after) = rest.split_first()?;
        let kind = ElementType::from(*kind)?;
        let end = after.iter().position(|byte| *byte == 0)?;
        let (name, value) = after.split_at_checked(end)?;
        let value = value.get(1..)?;
        if name == wanted {
            return Some(value);
        }
        let length = || {
            value
                .first_chunk()
                .copied()
                .map(i32::from_le_bytes)
                .and_then(|length| usize::try_from(length).ok())
        };
        let size = match kind {
            ElementType::Boolean => 1,
            ElementType::Int32 => 4,
            ElementType::Double | ElementType::Int64 => 8,
            ElementType::ObjectId => 12,
            ElementType::EmbeddedDocument => length()?,
            ElementType::String => 4 + length()?,
            // These documents hold no others.
            ElementType::Array
            | ElementType::Null
            | ElementType::Binary
            | ElementType::Undefined
            | ElementType::DateTime
            | ElementType::RegularExpression
            | ElementType::DbPointer
            | ElementType::JavaScriptCode
            | ElementType::Symbol
            | ElementType::JavaScriptCodeWithScope
            | ElementType::Timestamp
            | ElementType::Decimal128
            | ElementType::MaxKey
            | ElementType::MinKey => return None,
        };
        rest = value.get(size..)?;
    }
}

fn scan(criterion: &mut Criterion) {
    let documents = documents();
    let query = rawdoc! { "a": { "$gt": 9_500 }, "b.c": "gold" };
    let filter = Filter::parse(&query).expect("a filter");
    let count =
        |test: &dyn Fn(&RawDocument) -> bool| documents.iter().filter(|document| test(document)).count();
    assert_eq!(count(&|document| filter.matches(document)), 99);
    assert_eq!((count(&by_hand), count(&by_bytes)), (99, 99));

    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Elements(10_000));
    group.bench_function("filter", |bencher| {
        bencher.iter(|| documents.iter().filter(|document| filter.matches(black_box(document))).count());
    });
    group.bench_function("by_hand", |bencher| {
        bencher.iter(|| documents.iter().filter(|document| by_hand(black_box(document))).count());
    });
    group.bench_function("by_bytes", |bencher| {
        bencher.iter(|| documents.iter().filter(|document| by_bytes(black_box(document))).count());
    });
    group.finish();
    criterion.bench_function("parse", |bencher| bencher.iter(|| Filter::parse(black_box(&query))));
}

criterion_group!(benches, scan);
criterion_main!(benches);
