//! Reads from table files, each beside raw RocksDB that holds the same bytes: points by `_id`, and whole scans.
//!
//! What a row of raw RocksDB does less is the point of the comparison: it gives bytes, and knows no filter.

use std::hint::black_box;
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, RawBsonRef, RawDocumentBuf, doc};
use cairndb_benches::documents::{Order, mix, raw_order};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Raw, record_with_id};
use criterion::{BenchmarkId, Criterion, Throughput};
use index::key::{self, Direction};

/// Documents in the collection.
const DOCUMENTS: u64 = 50_000;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let sides = Sides::load();
    points(&mut criterion, &sides);
    scans(&mut criterion, &sides);
    filtered(&mut criterion, &sides);
    criterion.final_summary();
}

/// Both databases with the same documents, and their ids in random order.
struct Sides {
    ours: Ours,
    raw: Raw,
    ids: Vec<ObjectId>,
    /// Ids that no document has, each between two that one has.
    absent_ids: Vec<ObjectId>,
}

impl Sides {
    fn load() -> Self {
        let (ours, raw) = (Ours::create(), Raw::create());
        let orders = ours.orders();
        let mut numbered = Vec::new();
        for number in 0..DOCUMENTS {
            let (id, absent) = (ObjectId::new(), ObjectId::new());
            let (key, value) = record_with_id(&raw_order(number), id);
            let document = RawDocumentBuf::from_bytes(value.clone()).expect("a document");
            orders.insert_one(&document).run().expect("inserted");
            raw.db().put_cf(raw.records(), &key, &value).expect("written");
            numbered.push((mix(number), id, absent));
        }
        ours.client().flush().expect("flushed");
        raw.db().flush_cf(raw.records()).expect("flushed");
        numbered.sort_unstable();
        let (ids, absent_ids) = numbered.into_iter().map(|(_, id, absent)| (id, absent)).unzip();
        Self { ours, raw, ids, absent_ids }
    }
}

fn points(criterion: &mut Criterion, sides: &Sides) {
    let mut group = criterion.benchmark_group("find_one_by_id");
    group.throughput(Throughput::Elements(1));
    let orders = sides.ours.orders();
    let typed = orders.clone_with_type::<Order>();
    for (name, ids, is_hit) in [("hit", &sides.ids, true), ("miss", &sides.absent_ids, false)] {
        let mut turn = ids.iter().cycle();
        group.bench_function(BenchmarkId::new("cairndb_raw", name), |bencher| {
            bencher.iter(|| {
                let found = orders
                    .find_one(doc! { "_id": *turn.next().expect("there are ids") })
                    .run()
                    .expect("read");
                assert_eq!(found.is_some(), is_hit);
            });
        });
        group.bench_function(BenchmarkId::new("cairndb_typed", name), |bencher| {
            bencher.iter(|| {
                let found =
                    typed.find_one(doc! { "_id": *turn.next().expect("there are ids") }).run().expect("read");
                assert_eq!(found.is_some(), is_hit);
            });
        });
        let keys: Vec<Vec<u8>> = ids.iter().map(|&id| record_key(id)).collect();
        let mut turn = keys.iter().cycle();
        group.bench_function(BenchmarkId::new("rocksdb", name), |bencher| {
            bencher.iter(|| {
                let key = turn.next().expect("there are keys");
                let found = sides.raw.db().get_cf(sides.raw.records(), key).expect("read");
                assert_eq!(found.is_some(), is_hit);
            });
        });
    }
    group.finish();
}

fn scans(criterion: &mut Criterion, sides: &Sides) {
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Elements(DOCUMENTS));
    let orders = sides.ours.orders();
    group.bench_function("cairndb_raw", |bencher| {
        bencher.iter(|| assert_eq!(walk(&sides.ours, doc! {}), DOCUMENTS));
    });
    let typed = orders.clone_with_type::<Order>();
    group.bench_function("cairndb_typed", |bencher| {
        bencher.iter(|| {
            let cursor = typed.find(doc! {}).run().expect("a cursor");
            let paid = cursor.filter(|order| order.as_ref().expect("an order").paid).count();
            assert!(paid > 0);
        });
    });
    group.bench_function("rocksdb", |bencher| {
        bencher.iter(|| {
            let mut iterator = sides.raw.db().raw_iterator_cf(sides.raw.records());
            iterator.seek_to_first();
            let mut seen = 0;
            while let Some((_, value)) = iterator.item() {
                black_box(value);
                seen += 1;
                iterator.next();
            }
            assert_eq!(seen, DOCUMENTS);
        });
    });
    group.finish();
}

/// Scans that look into every document.
fn filtered(criterion: &mut Criterion, sides: &Sides) {
    let mut group = criterion.benchmark_group("filtered_scan");
    group.throughput(Throughput::Elements(DOCUMENTS));
    let filters = [
        ("none_match", doc! { "number": -1 }),
        ("third_match", doc! { "paid": true }),
        ("nested_and_range", doc! { "address.city": "Rotterdam", "price": { "$lt": 100.0 } }),
    ];
    for (name, filter) in filters {
        group.bench_function(name, |bencher| {
            bencher.iter(|| walk(&sides.ours, filter.clone()));
        });
    }
    group.finish();
}

/// The number of documents that match, each looked at.
fn walk(ours: &Ours, filter: Document) -> u64 {
    let mut cursor = ours.orders().find(filter).run().expect("a cursor");
    let mut seen = 0;
    while cursor.advance().expect("read") {
        black_box(cursor.current());
        seen += 1;
    }
    seen
}

fn record_key(id: ObjectId) -> Vec<u8> {
    let mut key = 1_u32.to_be_bytes().to_vec();
    key::encode(RawBsonRef::ObjectId(id), Direction::Ascending, &mut key);
    key
}
