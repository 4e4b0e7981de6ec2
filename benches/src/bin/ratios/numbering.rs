//! Figures of sequences and auto-increment fields. Each is CairnDB against itself without the feature, or against a bare
//! atomic counter.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use cairndb::bson::RawDocumentBuf;
use cairndb::{AutoIncrement, Collection, Contract, Sequence, SequenceOptions};
use cairndb_benches::measure::{median_of_rounds, speed_in_turns, speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::Raw;
use rocksdb::WriteOptions;

use crate::rounds::{DOCUMENTS, insert_all, raw_orders, side_by_side};

/// Values of one round on one thread.
const VALUES: u64 = 2_000_000;
/// Values of one round with a sync for each reserve.
const SYNCED_VALUES: u64 = 200_000;
/// The default `CacheSize`.
const RESERVE: u64 = 1000;
/// Documents that a collection is given before it is the other's turn.
const TURN: usize = 1000;
/// Writers of `insert_ordered_threads_4`.
const WRITERS: usize = 4;

/// A field that the documents lack: one that they brought would be kept, not generated.
const FIELD: &str = "serial";

/// A collection in which `field` numbers itself.
fn numbered(ours: &Ours, field: &str, contract: Contract) -> Collection<RawDocumentBuf> {
    let number = AutoIncrement::builder().field(field).contract(contract).build();
    let db = ours.client().database("bench");
    db.create_collection("numbered").auto_increment(number).run().expect("a new collection");
    db.collection("numbered")
}

/// The speed of inserting into one collection against that of another.
fn insert_ratio(
    ours: impl Fn(&Ours) -> Collection<RawDocumentBuf>,
    other: impl Fn(&Ours) -> Collection<RawDocumentBuf>,
) -> f64 {
    let documents = raw_orders(DOCUMENTS);
    median_of_rounds(|| {
        let folders = (Ours::create(), Ours::create());
        let (ours, other) = (ours(&folders.0), other(&folders.1));
        speed_in_turns(
            documents.chunks(TURN),
            |documents| insert_all(&ours, documents),
            |documents| insert_all(&other, documents),
        )
    })
}

pub(crate) fn insert_auto_increment() -> f64 {
    insert_ratio(|ours| numbered(ours, FIELD, Contract::Fast), Ours::orders)
}

pub(crate) fn insert_auto_increment_id() -> f64 {
    insert_ratio(|ours| numbered(ours, "_id", Contract::Fast), Ours::orders)
}

pub(crate) fn insert_gapless() -> f64 {
    insert_ratio(
        |ours| numbered(ours, FIELD, Contract::Gapless),
        |ours| numbered(ours, FIELD, Contract::Fast),
    )
}

pub(crate) fn insert_ordered_threads_4() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let round = |contract| {
        let ours = Ours::create();
        let collection = numbered(&ours, FIELD, contract);
        let parts: Vec<&[RawDocumentBuf]> = documents.chunks(documents.len() / WRITERS).collect();
        time(|| {
            std::thread::scope(|scope| {
                for part in parts {
                    scope.spawn(|| insert_all(&collection, part));
                }
            });
        })
    };
    speed_ratio(|| round(Contract::Ordered), || round(Contract::Fast))
}

/// Values a second out of blocks in memory: a reserve of as many values as a round uses is synced once.
pub(crate) fn sequence_next() -> f64 {
    let ours = Ours::create();
    let sequence = tickets(&ours, VALUES);
    let counter = AtomicU64::new(0);
    speed_ratio(
        || time(|| take(&sequence, VALUES)),
        || {
            time(|| {
                for _ in 0..VALUES {
                    black_box(counter.fetch_add(1, Ordering::AcqRel));
                }
            })
        },
    )
}

/// Values a second with the default `CacheSize`, each reserve of which is synced before its first value leaves, against
/// raw RocksDB that syncs one record for as many numbers.
pub(crate) fn sequence_reserves() -> f64 {
    let (ours, raw) = (Ours::create(), Raw::create());
    let sequence = tickets(&ours, RESERVE);
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    let counter = AtomicU64::new(0);
    speed_ratio(
        || time(|| take(&sequence, SYNCED_VALUES)),
        || {
            time(|| {
                for _ in 0..SYNCED_VALUES {
                    let number = counter.fetch_add(1, Ordering::AcqRel);
                    if number.is_multiple_of(RESERVE) {
                        let end = (number + RESERVE).to_be_bytes();
                        raw.db().put_opt(b"reserve", end, &synced).expect("a record is written");
                    }
                }
            })
        },
    )
}

/// Values a second of two threads together against those of one.
pub(crate) fn sequence_threads_2() -> f64 {
    let ours = Ours::create();
    let sequence = tickets(&ours, VALUES);
    let half = VALUES / 2;
    speed_ratio(
        || time(|| side_by_side(|| take(&sequence, half), || take(&sequence, half))),
        || time(|| take(&sequence, VALUES)),
    )
}

/// A sequence that reserves values `cache_size` at a time.
fn tickets(ours: &Ours, cache_size: u64) -> Sequence {
    let db = ours.client().database("bench");
    let cache_size = i64::try_from(cache_size).expect("a small number");
    let options = SequenceOptions::builder().cache_size(cache_size).build();
    db.create_sequence("tickets").with_options(options).run().expect("a new sequence");
    db.sequence("tickets")
}

fn take(sequence: &Sequence, values: u64) {
    for _ in 0..values {
        black_box(sequence.next_value().run().expect("a value"));
    }
}
