//! The pure steps of an insert and of a read, one by one: what the engine does to bytes before and after storage.
//!
//! Nothing here opens a database. RocksDB has no counterpart to these; the `ObjectId` generator is beside the
//! driver's.

use std::hint::black_box;
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use cairndb_benches::documents::{self, raw_order, raw_order_with_code};
use criterion::{Criterion, Throughput};
use index::extract::{ExtractedKeys, extract};
use index::key::{self, Direction};
use index::spec::{IndexSpec, SpecOptions};
use index::validate::validate;
use query::filter::Filter;
use sequence::generator::Generator;
use sequence::object_id::Layout;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    documents_to_bytes(&mut criterion);
    keys(&mut criterion);
    extraction(&mut criterion);
    object_ids(&mut criterion);
    filters(&mut criterion);
    criterion.final_summary();
}

/// A document as it is stored, with an `_id`.
fn stored() -> RawDocumentBuf {
    let mut document = rawdoc! { "_id": ObjectId::new() };
    for element in raw_order_with_code(1).iter_elements().flatten() {
        document.append(element.key(), element.value().expect("the document was just made"));
    }
    document
}

fn documents_to_bytes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("document");
    let document = stored();
    group.throughput(Throughput::Bytes(document.as_bytes().len() as u64));
    group.bench_function("validate", |bencher| {
        bencher.iter(|| validate(black_box(document.as_bytes())).expect("the document was just made"));
    });
    let order = documents::order(1);
    let mut bytes = Vec::new();
    group.bench_function("serialize_typed", |bencher| {
        bencher.iter(|| {
            bytes.clear();
            cairndb::bson::serialize_to_buffer(black_box(&order), &mut bytes)
                .expect("an order is a document");
            bytes.len()
        });
    });
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("key");
    let values = [
        ("object_id", RawBsonRef::ObjectId(ObjectId::new())),
        ("int32", RawBsonRef::Int32(-7)),
        ("int64", RawBsonRef::Int64(1 << 40)),
        ("double", RawBsonRef::Double(19.99)),
        ("string_16_bytes", RawBsonRef::String("customer-0badf00")),
    ];
    let (mut bytes, mut types) = (Vec::new(), Vec::new());
    for (name, value) in values {
        group.bench_function(format!("encode/{name}"), |bencher| {
            bencher.iter(|| {
                bytes.clear();
                types.clear();
                key::encode_with_types(black_box(value), Direction::Ascending, &mut bytes, &mut types);
                bytes.len()
            });
        });
        bytes.clear();
        types.clear();
        key::encode_with_types(value, Direction::Ascending, &mut bytes, &mut types);
        group.bench_function(format!("decode/{name}"), |bencher| {
            bencher.iter(|| {
                let (mut bytes, mut types) = (black_box(bytes.as_slice()), types.as_slice());
                key::decode(&mut bytes, Direction::Ascending, &mut types).expect("encoded above")
            });
        });
    }
    group.finish();
}

fn extraction(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("extract");
    let mut with_array = raw_order(1);
    with_array.append(cairndb::bson::cstr!("tags"), rawdoc_array());
    let specs = [
        ("one_field", rawdoc! { "number": 1 }),
        ("nested_field", rawdoc! { "address.city": 1 }),
        ("three_fields", rawdoc! { "address.city": 1, "price": -1, "customer": 1 }),
        ("array_of_8", rawdoc! { "tags": 1 }),
    ];
    let mut keys = ExtractedKeys::default();
    for (name, pattern) in specs {
        let spec = IndexSpec::parse(&pattern, SpecOptions::default()).expect("a pattern");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                keys.clear();
                extract(&spec, black_box(&with_array), &mut keys).expect("few keys");
                keys.len()
            });
        });
    }
    group.finish();
}

fn rawdoc_array() -> cairndb::bson::RawArrayBuf {
    ["red", "green", "blue", "cyan", "plain", "dotted", "large", "small"].into_iter().collect()
}

fn object_ids(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("object_id");
    let ours = Generator::new(Layout::MachineProcess);
    let random = Generator::new(Layout::Random);
    group.bench_function("cairndb", |bencher| bencher.iter(|| ours.generate()));
    group.bench_function("cairndb_random_layout", |bencher| bencher.iter(|| random.generate()));
    group.bench_function("bson", |bencher| bencher.iter(ObjectId::new));
    group.finish();
}

fn filters(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("filter");
    let document = stored();
    let filters = [
        ("equality", rawdoc! { "number": 1_i64 }),
        ("nested_equality", rawdoc! { "address.city": "Rotterdam" }),
        ("range", rawdoc! { "price": { "$gte": 0.0, "$lt": 5000.0 } }),
        ("in_of_4", rawdoc! { "address.city": { "$in": ["Delft", "Leiden", "Rotterdam", "Utrecht"] } }),
        (
            "or_of_2",
            rawdoc! { "$or": [{ "number": -1 }, { "customer": { "$exists": true }, "price": { "$gt": -1 } }] },
        ),
        ("regex", rawdoc! { "customer": { "$regex": "^customer-[0-9a-f]+$" } }),
    ];
    for (name, filter) in filters {
        group.bench_function(format!("parse/{name}"), |bencher| {
            bencher.iter(|| Filter::parse(black_box(&filter)).expect("a filter"));
        });
        let parsed = Filter::parse(&filter).expect("a filter");
        assert!(parsed.matches(&document), "{name} is measured on a document that it matches");
        group.bench_function(format!("match/{name}"), |bencher| {
            bencher.iter(|| parsed.matches(black_box(&document)));
        });
    }
    group.finish();
}
