//! The figure of windows: a moving average against the sort that it needs, over the same documents.

use cairndb::bson::{Document, RawDocumentBuf, doc, rawdoc};
use cairndb_benches::documents::mix;
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;

/// Documents that are averaged.
const AVERAGED: u64 = 1_000_000;

/// A document that is small enough for a million of them to be sorted in memory.
fn measurement(number: u64) -> RawDocumentBuf {
    let mixed = mix(number);
    let small = |divisor: u64| i32::try_from(mixed % divisor).unwrap_or_default();
    rawdoc! { "t": small(1 << 30), "v": f64::from(small(1000)) }
}

/// The average of each document and the nine before it, in the order of `t`.
pub(crate) fn window_moving() -> f64 {
    let ours = Ours::create();
    let orders = ours.orders();
    let numbers: Vec<u64> = (0..AVERAGED).collect();
    for numbers in numbers.chunks(1000) {
        let documents: Vec<RawDocumentBuf> = numbers.iter().map(|&number| measurement(number)).collect();
        orders.insert_many(&documents).run().expect("inserted");
    }
    ours.client().flush().expect("flushed");
    let shown = doc! { "$project": { "_id": 0, "t": 1, "v": 1 } };
    let average = doc! { "$avg": "$v", "window": { "documents": [-9, 0] } };
    let windows = doc! { "$setWindowFields": { "sortBy": { "t": 1 }, "output": { "average": average } } };
    let sorted = doc! { "$sort": { "t": 1 } };
    let run = |stages: &[Document]| {
        time(|| {
            let mut cursor = orders.aggregate(stages.to_vec()).run().expect("a cursor");
            let mut seen = 0;
            while cursor.advance().expect("read") {
                seen += 1;
            }
            assert_eq!(seen, AVERAGED);
        })
    };
    speed_ratio(|| run(&[shown.clone(), windows.clone()]), || run(&[shown.clone(), sorted.clone()]))
}
