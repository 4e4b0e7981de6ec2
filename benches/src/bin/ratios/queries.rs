//! Figures of filters, sorts and updates: against code written by hand for the one case, over the same bytes in raw
//! RocksDB, and of the sort against CairnDB's own scan.

use cairndb::IndexModel;
use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, RawDocument, RawDocumentBuf, doc, rawdoc};
use cairndb_benches::documents::mix;
use cairndb_benches::measure::{median_of, speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Opponent, Raw, Record, record_with_id};

use crate::loaded;

/// Documents that are filtered.
const FILTERED: u64 = 200_000;
/// Documents that are sorted.
const SORTED: u64 = 1_000_000;
/// The number of them that are asked for.
const TOP: usize = 100;
/// Every tenth document has more than this in `a`.
const LEAST: i32 = 899;
/// Every tenth document has this in `b.c`.
const PART: i32 = 3;

/// A document of 150 bytes, one in a hundred of which matches.
pub(crate) fn measured(number: u64) -> RawDocumentBuf {
    let mixed = mix(number);
    let small = |divisor: u64| i32::try_from(mixed % divisor).unwrap_or_default();
    rawdoc! {
        "name": format!("customer-{:08x}", mixed >> 32),
        "a": small(1000),
        "b": { "street": format!("{} Canal Street", small(997)), "c": i32::try_from((mixed >> 16) % 10).unwrap_or_default() },
        "rank": f64::from(small(1 << 30)),
        "paid": small(3) == 0,
    }
}

/// Both sides with the same documents, written out to table files.
pub(crate) fn filled(count: u64) -> (Ours, Raw) {
    let (ours, raw) = (Ours::create(), Raw::create());
    let orders = ours.orders();
    let records: Vec<Record> =
        (0..count).map(|number| record_with_id(&measured(number), ObjectId::new())).collect();
    for records in records.chunks(1000) {
        let documents = records.iter().map(|(_, value)| RawDocumentBuf::from_bytes(value.clone()));
        let documents: Vec<RawDocumentBuf> = documents.collect::<Result<_, _>>().expect("documents");
        orders.insert_many(&documents).run().expect("inserted");
        for (key, value) in records {
            raw.db().put_cf(raw.records(), key, value).expect("written");
        }
    }
    ours.client().flush().expect("flushed");
    raw.db().flush_cf(raw.records()).expect("flushed");
    (ours, raw)
}

pub(crate) fn scan_filter() -> f64 {
    let (ours, raw) = filled(FILTERED);
    let orders = ours.orders();
    let (mut found, mut expected) = (0, 0);
    let ratio = speed_ratio(
        || {
            time(|| {
                let filter = doc! { "a": { "$gt": LEAST }, "b.c": PART };
                let mut cursor = orders.find(filter).run().expect("a cursor");
                found = 0;
                while cursor.advance().expect("read") {
                    found += 1;
                }
            })
        },
        || {
            time(|| {
                let mut iterator = raw.db().raw_iterator_cf(raw.records());
                iterator.seek_to_first();
                expected = 0;
                while let Some((_, value)) = iterator.item() {
                    expected += usize::from(matches_by_hand(value));
                    iterator.next();
                }
            })
        },
    );
    assert!(found == expected && found > 0, "{found} documents instead of {expected}");
    ratio
}

fn matches_by_hand(value: &[u8]) -> bool {
    let Ok(document) = RawDocument::from_bytes(value) else { return false };
    document.get_i32("a").is_ok_and(|a| a > LEAST)
        && document.get_document("b").is_ok_and(|b| b.get_i32("c").is_ok_and(|c| c == PART))
}

pub(crate) fn sort_top_k() -> f64 {
    let (ours, _raw) = filled(SORTED);
    let orders = ours.orders();
    speed_ratio(
        || {
            time(|| {
                let top = orders.find(doc! {}).sort(doc! { "rank": -1 }).limit(100);
                assert_eq!(top.run().expect("a cursor").count(), TOP);
            })
        },
        || {
            time(|| {
                let mut cursor = orders.find(doc! {}).run().expect("a cursor");
                let mut seen = 0;
                while cursor.advance().expect("read") {
                    seen += 1;
                }
                assert_eq!(seen, SORTED);
            })
        },
    )
}

/// Documents in a queue, and how many of them are removed at its beginning and at its end.
const QUEUED: u64 = 100_000;
const TAKEN: u64 = 1000;

/// The speed of removing the last documents of a queue against that of the first ones.
pub(crate) fn queue() -> f64 {
    median_of(5, || {
        let ours = Ours::create();
        let orders = ours.orders();
        let documents: Vec<RawDocumentBuf> = (0..QUEUED).map(measured).collect();
        orders.insert_many(&documents).run().expect("inserted");
        let take = |count| {
            time(|| {
                for _ in 0..count {
                    let taken =
                        orders.find_one_and_delete(doc! {}).sort(doc! { "_id": 1 }).run().expect("taken");
                    assert!(taken.is_some());
                }
            })
        };
        let first = take(TAKEN);
        take(QUEUED - 2 * TAKEN);
        first.as_secs_f64() / take(TAKEN).as_secs_f64()
    })
}

pub(crate) fn update_inc(opponent: Opponent) -> f64 {
    let (ours, raw, keys) = loaded(opponent);
    incremented(&ours, &raw, &keys)
}

/// As [`update_inc`], with three indexes on other fields.
pub(crate) fn update_3_indexes() -> f64 {
    let (ours, raw, keys) = loaded(Opponent::Alike);
    for field in ["customer", "price", "address.city"] {
        let model = IndexModel::builder().keys(doc! { field: 1 }).build();
        ours.orders().create_index(model).run().expect("an index");
    }
    incremented(&ours, &raw, &keys)
}

/// One update of each document, by its id, against reading and writing it.
fn incremented(ours: &Ours, raw: &Raw, keys: &[(ObjectId, Vec<u8>)]) -> f64 {
    let orders = ours.orders();
    speed_ratio(
        || {
            // The caller has his filter and his update; making them is not the work.
            let updates: Vec<(Document, Document)> =
                keys.iter().map(|(id, _)| (doc! { "_id": *id }, doc! { "$inc": { "number": 1 } })).collect();
            time(|| {
                for (filter, update) in updates {
                    let result = orders.update_one(filter, update).run().expect("updated");
                    assert_eq!(result.modified_count, 1);
                }
            })
        },
        || {
            time(|| {
                let family = raw.records();
                for (_, key) in keys {
                    let value = raw.db().get_cf(family, key).expect("read").expect("a record");
                    raw.db().put_cf_opt(family, key, value, &raw.writes).expect("written");
                }
            })
        },
    )
}
