//! Figures of reads by an index, and of inserts into a collection with indexes: against the same walk over the same entries
//! and records in raw RocksDB, written by hand.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, RawBsonRef, RawDocumentBuf, doc};
use cairndb::{IndexModel, IndexOptions};
use cairndb_benches::documents::mix;
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Raw, Record, record_with_id, unique_entry};
use index::key::{self, Direction};
use rocksdb::{IteratorMode, ReadOptions, WriteBatch};

use crate::queries::measured;
use crate::rounds::insert_all;

/// Documents of a collection that is read.
const DOCUMENTS: u64 = 100_000;
/// Point queries of a round.
const POINTS: u64 = 20_000;
/// Ranges of a round.
const RANGES: i32 = 90;
/// Each range has about this many documents: values of `a`, each of which a hundred documents have.
const RANGE_VALUES: i32 = 10;
/// Sorted searches of a round, and how many documents each asks for.
const SORTED: usize = 200;
const FIRST: i64 = 100;
/// Documents that are inserted beside three indexes.
const INSERTED: u64 = 50_000;
/// The ids of the entries by hand; that of `code` is in `unique_entry`.
const BY_A: u32 = 3;
const BY_RANK: u32 = 4;
const BY_NAME: u32 = 5;

/// A document with a code that no other one has.
fn coded(number: u64) -> RawDocumentBuf {
    let mut document = measured(number);
    document.append(cairndb::bson::cstr!("code"), code(number));
    document
}

fn code(number: u64) -> i64 {
    mix(number).cast_signed()
}

/// The entry of a plain index for a field of a document.
fn entry(id: u32, document: &RawDocumentBuf, field: &str, record_key: &[u8]) -> Record {
    let value: RawBsonRef<'_> = document.get(field).expect("readable").expect("every document has it");
    let (mut key, mut types) = (id.to_be_bytes().to_vec(), Vec::new());
    key::encode_with_types(value, Direction::Ascending, &mut key, &mut types);
    key.extend_from_slice(record_key.get(4..).expect("a record key"));
    (key, types)
}

/// The key of a record that an entry of an index on one number names.
fn record_key(entry: &[u8]) -> Vec<u8> {
    let fields = entry.get(4..).expect("an entry");
    let length = key::skip(fields, Direction::Ascending).expect("an entry");
    [&1_u32.to_be_bytes()[..], fields.get(length..).expect("an entry")].concat()
}

fn index(ours: &Ours, field: &str, unique: bool) {
    let options = IndexOptions::builder().unique(unique).build();
    let model = IndexModel::builder().keys(doc! { field: 1 }).options(options).build();
    ours.orders().create_index(model).run().expect("an index");
}

/// Both sides with the same documents and entries, written out to table files.
fn indexed() -> (Ours, Raw) {
    let (ours, raw) = (Ours::create(), Raw::create());
    index(&ours, "code", true);
    index(&ours, "a", false);
    index(&ours, "rank", false);
    let orders = ours.orders();
    for number in 0..DOCUMENTS {
        let (key, value) = record_with_id(&coded(number), ObjectId::new());
        let document = RawDocumentBuf::from_bytes(value.clone()).expect("a document");
        orders.insert_one(&document).run().expect("inserted");
        raw.db().put_cf(raw.records(), &key, &value).expect("written");
        let plain = [(BY_A, "a"), (BY_RANK, "rank")].map(|(id, field)| entry(id, &document, field, &key));
        for (entry_key, types) in plain.into_iter().chain([unique_entry(code(number), &key)]) {
            raw.db().put_cf(raw.entries(), entry_key, types).expect("written");
        }
    }
    ours.client().flush().expect("flushed");
    raw.db().flush_cf(raw.records()).expect("flushed");
    raw.db().flush_cf(raw.entries()).expect("flushed");
    (ours, raw)
}

pub(crate) fn find_by_index() -> f64 {
    let (ours, raw) = indexed();
    let orders = ours.orders();
    let numbers = || (0..POINTS).map(|at| mix(at) % DOCUMENTS);
    speed_ratio(
        || {
            let filters: Vec<Document> = numbers().map(|number| doc! { "code": code(number) }).collect();
            time(|| {
                for filter in filters {
                    assert!(orders.find_one(filter).run().expect("read").is_some());
                }
            })
        },
        || {
            let keys: Vec<Vec<u8>> = numbers().map(|number| unique_entry(code(number), &[0; 4]).0).collect();
            time(|| {
                for key in &keys {
                    let entry = raw.db().get_cf(raw.entries(), key).expect("read").expect("an entry");
                    let id = key::skip(&entry, Direction::Ascending).expect("an entry");
                    let key = [&1_u32.to_be_bytes()[..], entry.get(..id).expect("an entry")].concat();
                    assert!(raw.db().get_cf(raw.records(), key).expect("read").is_some());
                }
            })
        },
    )
}

/// The lowest values of the ranges of a round.
fn ranges() -> impl Iterator<Item = i32> {
    (0..RANGES).map(|at| at * RANGE_VALUES)
}

/// The filters of a round, one for each range.
fn range_filters() -> Vec<Document> {
    ranges().map(|least| doc! { "a": { "$gte": least, "$lt": least + RANGE_VALUES } }).collect()
}

/// A raw iterator over the entries by `a` from `least` on, up to the end of a range.
fn raw_range(raw: &Raw, least: i32) -> rocksdb::DBRawIterator<'_> {
    let bound = |value: i32| {
        let mut key = BY_A.to_be_bytes().to_vec();
        key::encode(RawBsonRef::Int32(value), Direction::Ascending, &mut key);
        key
    };
    let mut reads = ReadOptions::default();
    reads.set_iterate_upper_bound(bound(least + RANGE_VALUES));
    let mut iterator = raw.db().raw_iterator_cf_opt(raw.entries(), reads);
    iterator.seek(bound(least));
    iterator
}

/// The number of documents that a search returns.
fn rows(cursor: cairndb::Result<cairndb::Cursor<RawDocumentBuf>>) -> usize {
    let mut cursor = cursor.expect("a cursor");
    let (mut rows, mut bytes) = (0, 0);
    while cursor.advance().expect("read") {
        rows += 1;
        bytes += cursor.current().as_bytes().len();
    }
    assert!(bytes > rows);
    rows
}

pub(crate) fn range_by_index() -> f64 {
    let (ours, raw) = indexed();
    let orders = ours.orders();
    speed_ratio(
        || {
            let filters = range_filters();
            time(|| {
                let found: usize = filters.into_iter().map(|filter| rows(orders.find(filter).run())).sum();
                assert!(found > 80_000);
            })
        },
        || {
            time(|| {
                let mut found = 0;
                for least in ranges() {
                    let mut iterator = raw_range(&raw, least);
                    let mut keys = Vec::new();
                    while let Some(key) = iterator.key() {
                        keys.push(record_key(key));
                        iterator.next();
                    }
                    let read = raw.db().batched_multi_get_cf(raw.records(), &keys, false);
                    found += read.into_iter().filter(|value| matches!(value, Ok(Some(_)))).count();
                }
                assert!(found > 80_000);
            })
        },
    )
}

pub(crate) fn covered() -> f64 {
    let (ours, raw) = indexed();
    let orders = ours.orders();
    speed_ratio(
        || {
            let filters = range_filters();
            time(|| {
                let shown = || doc! { "a": 1, "_id": 0 };
                let searches =
                    filters.into_iter().map(|filter| orders.find(filter).projection(shown()).run());
                assert!(searches.map(rows).sum::<usize>() > 80_000);
            })
        },
        || {
            time(|| {
                let (mut found, mut bytes) = (0, 0);
                for least in ranges() {
                    let mut iterator = raw_range(&raw, least);
                    while let Some((key, value)) = iterator.item() {
                        found += 1;
                        bytes += key.len() + value.len();
                        iterator.next();
                    }
                }
                assert!(found > 80_000 && bytes > found);
            })
        },
    )
}

pub(crate) fn sort_by_index() -> f64 {
    let (ours, raw) = indexed();
    let orders = ours.orders();
    let count = usize::try_from(FIRST).expect("few");
    speed_ratio(
        || {
            time(|| {
                for _ in 0..SORTED {
                    let search = orders.find(doc! {}).sort(doc! { "rank": -1 }).limit(FIRST);
                    assert_eq!(rows(search.run()), count);
                }
            })
        },
        || {
            time(|| {
                for _ in 0..SORTED {
                    let end = (BY_RANK + 1).to_be_bytes();
                    let mode = IteratorMode::From(&end, rocksdb::Direction::Reverse);
                    let entries = raw.db().iterator_cf(raw.entries(), mode).take(count);
                    let read = entries.map(|entry| {
                        let (key, _) = entry.expect("read");
                        raw.db().get_pinned_cf(raw.records(), record_key(&key)).expect("read")
                    });
                    assert_eq!(read.flatten().count(), count);
                }
            })
        },
    )
}

pub(crate) fn insert_3_indexes() -> f64 {
    let documents: Vec<RawDocumentBuf> = (0..INSERTED).map(measured).collect();
    speed_ratio(
        || {
            let ours = Ours::create();
            for field in ["a", "rank", "name"] {
                index(&ours, field, false);
            }
            let orders = ours.orders();
            time(|| insert_all(&orders, &documents))
        },
        || {
            let raw = Raw::create();
            let records: Vec<[Record; 4]> = documents
                .iter()
                .map(|document| {
                    let (key, value) = record_with_id(document, ObjectId::new());
                    let of = |id, field| entry(id, document, field, &key);
                    [of(BY_A, "a"), of(BY_RANK, "rank"), of(BY_NAME, "name"), (key.clone(), value)]
                })
                .collect();
            time(|| {
                for [a, rank, name, record] in &records {
                    let mut batch = WriteBatch::default();
                    batch.put_cf(raw.records(), &record.0, &record.1);
                    for (key, value) in [a, rank, name] {
                        batch.put_cf(raw.entries(), key, value);
                    }
                    raw.db().write_opt(batch, &raw.writes).expect("written");
                }
            })
        },
    )
}
