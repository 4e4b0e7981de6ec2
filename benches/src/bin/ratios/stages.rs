//! Figures of stages that see all documents: a `$group` against the same written by hand over the same bytes in raw RocksDB, and a
//! sort that goes on in files against one in memory.

use std::collections::HashMap;

use cairndb::Collection;
use cairndb::bson::oid::ObjectId;
use cairndb::bson::{RawDocument, RawDocumentBuf, doc};
use cairndb_benches::measure::{speed_ratio, speed_ratio_of, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::record_with_id;

use crate::queries::{filled, measured};

/// Documents that are grouped.
const GROUPED: u64 = 1_000_000;
/// Documents that are sorted: so many that they fit the memory of a sort.
const SORTED: u64 = 300_000;
/// The size of the documents that are sorted in files, in memories of a sort.
const TIMES: usize = 10;
/// Rounds of the sort, each of which lasts seconds.
const SORT_ROUNDS: usize = 5;

pub(crate) fn group_scan() -> f64 {
    let (ours, raw) = filled(GROUPED);
    let orders = ours.orders();
    let (mut found, mut expected) = (HashMap::new(), HashMap::new());
    let ratio = speed_ratio(
        || {
            time(|| {
                let group = doc! { "$group": { "_id": "$a", "total": { "$sum": "$b.c" } } };
                let mut cursor = orders.aggregate([group]).run().expect("a cursor");
                found.clear();
                while cursor.advance().expect("read") {
                    let group = cursor.current();
                    let total = group.get_i32("total").expect("a sum that fits");
                    found.insert(group.get_i32("_id").expect("a number"), i64::from(total));
                }
            })
        },
        || {
            time(|| {
                let mut iterator = raw.db().raw_iterator_cf(raw.records());
                iterator.seek_to_first();
                expected.clear();
                while let Some((_, value)) = iterator.item() {
                    let (key, addend) = by_hand(value).expect("a document with both fields");
                    *expected.entry(key).or_default() += i64::from(addend);
                    iterator.next();
                }
            })
        },
    );
    assert_eq!(found, expected);
    ratio
}

/// The key by which a document is grouped, and the number that is added up.
fn by_hand(value: &[u8]) -> Option<(i32, i32)> {
    let document = RawDocument::from_bytes(value).ok()?;
    Some((document.get_i32("a").ok()?, document.get_document("b").ok()?.get_i32("c").ok()?))
}

pub(crate) fn spill_sort() -> f64 {
    let documents = (0..SORTED).map(|number| record_with_id(&measured(number), ObjectId::new()).1);
    let documents = documents.map(|bytes| RawDocumentBuf::from_bytes(bytes).expect("a document"));
    let documents: Vec<RawDocumentBuf> = documents.collect();
    let bytes: usize = documents.iter().map(|document| document.as_bytes().len()).sum();
    let [in_files, in_memory] = [Ours::with_stage_memory(bytes / TIMES), Ours::create()];
    for ours in [&in_files, &in_memory] {
        for documents in documents.chunks(1000) {
            ours.orders().insert_many(documents).run().expect("inserted");
        }
        ours.client().flush().expect("flushed");
    }
    // Only one of them needs files.
    let fits = |orders: &Collection<RawDocumentBuf>| {
        let sorted = orders.aggregate([doc! { "$sort": { "rank": 1 } }]).allow_disk_use(false).run();
        sorted.and_then(|mut sorted| sorted.advance()).is_ok()
    };
    assert!(!fits(&in_files.orders()) && fits(&in_memory.orders()), "{bytes} bytes");
    speed_ratio_of(SORT_ROUNDS, || sort(&in_files), || sort(&in_memory))
}

fn sort(ours: &Ours) -> std::time::Duration {
    let orders = ours.orders();
    time(|| {
        let mut cursor = orders.aggregate([doc! { "$sort": { "rank": 1 } }]).run().expect("a cursor");
        let (mut seen, mut last) = (0, f64::NEG_INFINITY);
        while cursor.advance().expect("read") {
            let rank = cursor.current().get_f64("rank").expect("a rank");
            assert!(rank >= last, "{rank} after {last}");
            (seen, last) = (seen + 1, rank);
        }
        assert_eq!(seen, SORTED);
    })
}
