//! Inserts, each beside raw RocksDB that is given the same bytes with the same options.
//!
//! Every sample writes into a database of its own, made before its clock starts and dropped after it stops, so that
//! no sample pays for what an earlier one left behind.

use std::time::{Duration, Instant};

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{RawDocumentBuf, doc};
use cairndb::{Collection, IndexModel, IndexOptions, WriteConcern};
use cairndb_benches::documents::{self, Order, mix, raw_order, raw_order_with_code};
use cairndb_benches::measure::time;
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Raw, Record, record, record_with_id, unique_entry};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use rocksdb::{WriteBatch, WriteOptions};
use serde::Serialize;

/// Documents of a call of `insert_many`.
const BATCH: usize = 1000;
/// Documents without `_id` that are inserted again and again, each time as new ones.
const POOL: u64 = 10_000;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    single(&mut criterion);
    explicit_ids(&mut criterion);
    many(&mut criterion);
    unique_index(&mut criterion);
    journaled(&mut criterion);
    threads(&mut criterion);
    criterion.final_summary();
}

fn single(criterion: &mut Criterion) {
    let mut group = insert_group(criterion, "insert_one");
    let pool: Vec<RawDocumentBuf> = (0..POOL).map(raw_order).collect();
    group.bench_function("cairndb_raw", |bencher| {
        bencher.iter_custom(|count| in_ours(|orders| insert_each(orders, pool.iter().cycle(), count)));
    });
    let typed: Vec<Order> = (0..POOL).map(documents::order).collect();
    group.bench_function("cairndb_typed", |bencher| {
        bencher.iter_custom(|count| {
            in_ours(|orders| insert_each(&orders.clone_with_type::<Order>(), typed.iter().cycle(), count))
        });
    });
    group.bench_function("rocksdb", |bencher| {
        bencher.iter_custom(|count| put_each(&pool_records(&pool, count), &WriteOptions::default()));
    });
    group.finish();
}

/// Ids of the caller's, in random order, so that uniqueness has to be looked up.
fn explicit_ids(criterion: &mut Criterion) {
    let mut group = insert_group(criterion, "insert_one_random_ids");
    group.bench_function("cairndb", |bencher| {
        bencher.iter_custom(|count| {
            let documents: Vec<RawDocumentBuf> = (0..count)
                .map(|number| random_record(number).1)
                .map(|bytes| RawDocumentBuf::from_bytes(bytes).expect("a document"))
                .collect();
            in_ours(|orders| insert_each(orders, documents.iter(), count))
        });
    });
    group.bench_function("rocksdb", |bencher| {
        bencher.iter_custom(|count| {
            let records: Vec<Record> = (0..count).map(random_record).collect();
            put_each(&records, &WriteOptions::default())
        });
    });
    group.finish();
}

fn many(criterion: &mut Criterion) {
    let mut group = insert_group(criterion, "insert_many_1000");
    group.throughput(Throughput::Elements(BATCH as u64));
    let batch: Vec<RawDocumentBuf> = (0..BATCH as u64).map(raw_order).collect();
    group.bench_function("cairndb", |bencher| {
        bencher.iter_custom(|count| in_ours(|orders| insert_batches(orders, &batch, count)));
    });
    group.bench_function("rocksdb", |bencher| {
        bencher.iter_custom(|count| {
            let raw = Raw::create();
            let mut taken = Duration::ZERO;
            for _ in 0..count {
                // Made here, because the records of a whole sample would not fit in memory.
                let records: Vec<Record> = batch.iter().map(record).collect();
                let start = Instant::now();
                let mut writes = WriteBatch::default();
                for (key, value) in &records {
                    writes.put_cf(raw.records(), key, value);
                }
                raw.db().write_opt(writes, &raw.writes).expect("written");
                taken += start.elapsed();
            }
            taken
        });
    });
    group.finish();
}

fn unique_index(criterion: &mut Criterion) {
    let mut group = insert_group(criterion, "insert_one_unique_index");
    group.bench_function("cairndb", |bencher| {
        bencher.iter_custom(|count| {
            let documents: Vec<RawDocumentBuf> = (0..count).map(raw_order_with_code).collect();
            in_ours(|orders| {
                let unique = IndexOptions::builder().unique(true).build();
                let by_code = IndexModel::builder().keys(doc! { "code": 1 }).options(unique).build();
                orders.create_index(by_code).run().expect("an index");
                insert_each(orders, documents.iter(), count)
            })
        });
    });
    group.bench_function("rocksdb", |bencher| {
        bencher.iter_custom(|count| {
            let pairs: Vec<(Record, Record)> = (0..count)
                .map(|number| {
                    let record = record(&raw_order_with_code(number));
                    let entry = unique_entry(mix(number).cast_signed(), &record.0);
                    (record, entry)
                })
                .collect();
            let raw = Raw::create();
            time(|| {
                for (record, entry) in &pairs {
                    let mut writes = WriteBatch::default();
                    writes.put_cf(raw.records(), &record.0, &record.1);
                    writes.put_cf(raw.entries(), &entry.0, &entry.1);
                    raw.db().write_opt(writes, &raw.writes).expect("written");
                }
            })
        });
    });
    group.finish();
}

/// Every insert waits for stable storage.
fn journaled(criterion: &mut Criterion) {
    let mut group = insert_group(criterion, "insert_one_journaled");
    let pool: Vec<RawDocumentBuf> = (0..POOL).map(raw_order).collect();
    group.bench_function("cairndb", |bencher| {
        bencher.iter_custom(|count| in_ours(|orders| insert_each_journaled(orders, &pool, count)));
    });
    group.bench_function("rocksdb", |bencher| {
        bencher.iter_custom(|count| {
            let mut synced = WriteOptions::default();
            synced.set_sync(true);
            put_each(&pool_records(&pool, count), &synced)
        });
    });
    group.finish();
}

/// The documents are divided among threads; the time is until the last of them is in.
fn threads(criterion: &mut Criterion) {
    let mut group = insert_group(criterion, "insert_one_threads");
    let pool: Vec<RawDocumentBuf> = (0..POOL).map(raw_order).collect();
    for threads in [1_u64, 2, 4] {
        group.bench_function(BenchmarkId::new("cairndb", threads), |bencher| {
            bencher.iter_custom(|count| in_ours(|orders| insert_in_threads(orders, &pool, count, threads)));
        });
        group.bench_function(BenchmarkId::new("rocksdb", threads), |bencher| {
            bencher.iter_custom(|count| put_in_threads(pool_records(&pool, count), threads));
        });
    }
    group.finish();
}

fn insert_group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    group
}

/// Runs `insert` on a new database, and drops that after the clock of `insert` has stopped.
fn in_ours(insert: impl FnOnce(&Collection<RawDocumentBuf>) -> Duration) -> Duration {
    let ours = Ours::create();
    insert(&ours.orders())
}

fn insert_batches(orders: &Collection<RawDocumentBuf>, batch: &[RawDocumentBuf], count: u64) -> Duration {
    time(|| {
        for _ in 0..count {
            orders.insert_many(batch).run().expect("inserted");
        }
    })
}

fn insert_each_journaled(
    orders: &Collection<RawDocumentBuf>,
    pool: &[RawDocumentBuf],
    count: u64,
) -> Duration {
    time(|| {
        for document in pool.iter().cycle().take(length(count)) {
            let insert = orders.insert_one(document).write_concern(WriteConcern::journaled());
            insert.run().expect("inserted");
        }
    })
}

fn insert_in_threads(
    orders: &Collection<RawDocumentBuf>,
    pool: &[RawDocumentBuf],
    count: u64,
    threads: u64,
) -> Duration {
    time(|| {
        std::thread::scope(|scope| {
            for share in shares(count, threads) {
                scope.spawn(move || insert_each(orders, pool.iter().cycle(), share));
            }
        });
    })
}

/// Ids are made in the order of time by all threads, so each thread's interleave with the others'.
fn put_in_threads(records: Vec<Record>, threads: u64) -> Duration {
    let mut parts: Vec<Vec<Record>> = shares(0, threads).map(|_| Vec::new()).collect();
    let turns = (0..parts.len()).cycle();
    for (turn, record) in turns.zip(records) {
        parts.get_mut(turn).expect("a part for each turn").push(record);
    }
    let raw = &Raw::create();
    time(|| {
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(move || put_records(raw, part, &raw.writes));
            }
        });
    })
}

fn insert_each<'a, T: Serialize + 'a>(
    orders: &Collection<T>,
    documents: impl Iterator<Item = &'a T>,
    count: u64,
) -> Duration {
    time(|| {
        for document in documents.take(length(count)) {
            orders.insert_one(document).run().expect("inserted");
        }
    })
}

fn put_each(records: &[Record], writes: &WriteOptions) -> Duration {
    let raw = Raw::create();
    time(|| put_records(&raw, records, writes))
}

fn put_records(raw: &Raw, records: &[Record], writes: &WriteOptions) {
    let family = raw.records();
    for (key, value) in records {
        raw.db().put_cf_opt(family, key, value, writes).expect("written");
    }
}

/// So many records of the pool's documents, each with an id of its own.
fn pool_records(pool: &[RawDocumentBuf], count: u64) -> Vec<Record> {
    pool.iter().cycle().take(length(count)).map(record).collect()
}

fn random_record(number: u64) -> Record {
    let mut bytes = [0; 12];
    if let Some(front) = bytes.first_chunk_mut::<8>() {
        *front = mix(number).to_be_bytes();
    }
    record_with_id(&raw_order(number), ObjectId::from_bytes(bytes))
}

/// The part of `count` that each thread inserts; all of them together.
fn shares(count: u64, threads: u64) -> impl Iterator<Item = u64> {
    (0..threads).map(move |thread| count / threads + u64::from(thread < count % threads))
}

fn length(count: u64) -> usize {
    usize::try_from(count).expect("a count of documents in memory")
}
