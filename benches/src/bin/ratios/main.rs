//! Prints one line a figure, `name ratio`: CairnDB's speed against raw RocksDB's with the same options and the
//! same bytes, both measured in turns in this run. Above 1 CairnDB is faster. In figures that end with `best` RocksDB has
//! the options and keys that are best for it. Figures of sequences are in `numbering`,
//! of filters, sorts and updates in `queries`, of groups and of sorts in files in `stages`, of windows in `windows`, of joins in `joins`, of reads by an index in
//! `indexed`, of index builds in `builds`, of files in `files`, of databases in memory, against folders, in `in_memory`,
//! of opening after a crash in `recovery`, of transactions in `transactions`, of calls with tokens in `tokens`, of the log of changes in `streams`, of the witness in `witness`, of the server in `server`, of the tool `cairn` in `tool`.
//!
//! `ratios` prints all figures but `insert_growth`, each measured in a process of its own, so that none inherits the
//! heap of another. `ratios large` prints that one, and names given as arguments print just those.

mod builds;
mod files;
mod in_memory;
mod indexed;
mod joins;
mod live;
mod metrics;
mod numbering;
mod queries;
mod recovery;
mod rounds;
mod server;
mod stages;
mod streams;
mod tokens;
mod tool;
mod transactions;
mod windows;
mod witness;

use std::ops::Range;
use std::process::Command;
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{IndexModel, IndexOptions, WriteConcern};
use cairndb_benches::documents::{self, Order, mix};
use cairndb_benches::measure::{median_of_rounds, speed_in_turns, speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Opponent, Raw, Record, record, record_with_id, unique_entry};
use rocksdb::WriteBatch;
use sequence::generator::Generator;
use sequence::object_id::Layout;

use crate::rounds::{BATCH, DOCUMENTS, in_parallel, insert_all, insert_batches, raw_orders};

/// Reads of one round.
const READS: u64 = 100_000;
/// Documents of one round that are synced one by one.
const JOURNALED: u64 = 800;
/// Ids of one round.
const IDS: u32 = 3_000_000;
/// Documents of the small and of the large collection of `insert_growth`.
const GROWTH: (u64, u64) = (100_000, 10_000_000);
/// Documents that a side of `insert_growth` inserts before it is the other's turn.
const TURN: usize = 5000;

type Figure = (&'static str, fn() -> f64);

/// A document's id, and the key of its record on the other side.
type Loaded = (ObjectId, Vec<u8>);

const FIGURES: [Figure; 97] = [
    ("insert_one_raw", || insert_one_raw(Opponent::Alike)),
    ("insert_one_best", || insert_one_raw(Opponent::Best)),
    ("insert_one_typed", insert_one_typed),
    ("insert_one_delayed", insert_one_delayed),
    ("delayed_insert_one", delayed_insert_one),
    ("insert_many_raw", || insert_many_raw(Opponent::Alike)),
    ("insert_many_best", || insert_many_raw(Opponent::Best)),
    ("insert_threads_2", || insert_threads(2)),
    ("insert_threads_4", || insert_threads(4)),
    ("insert_threads_8", || insert_threads(8)),
    ("insert_journaled", || insert_journaled(1)),
    ("insert_journaled_2", || insert_journaled(2)),
    ("insert_journaled_4", || insert_journaled(4)),
    ("insert_journaled_8", || insert_journaled(8)),
    ("insert_unique_index", insert_unique_index),
    ("find_by_id", || find_by_id(Opponent::Alike, shuffled)),
    ("find_by_id_best", || find_by_id(Opponent::Best, shuffled)),
    ("find_by_id_skewed", || find_by_id(Opponent::Alike, skewed)),
    ("scan", || scan(Opponent::Alike)),
    ("scan_best", || scan(Opponent::Best)),
    ("object_id", object_id),
    ("insert_auto_increment", numbering::insert_auto_increment),
    ("insert_auto_increment_id", numbering::insert_auto_increment_id),
    ("sequence_next", numbering::sequence_next),
    ("sequence_reserves", numbering::sequence_reserves),
    ("sequence_threads_2", numbering::sequence_threads_2),
    ("insert_gapless", numbering::insert_gapless),
    ("insert_ordered_threads_4", numbering::insert_ordered_threads_4),
    ("scan_filter", queries::scan_filter),
    ("sort_top_k", queries::sort_top_k),
    ("queue", queries::queue),
    ("update_inc", || queries::update_inc(Opponent::Alike)),
    ("update_best", || queries::update_inc(Opponent::Best)),
    ("update_3_indexes", queries::update_3_indexes),
    ("window_moving", windows::window_moving),
    ("group_scan", stages::group_scan),
    ("spill_sort", stages::spill_sort),
    ("lookup_indexed", joins::lookup_indexed),
    ("lookup_hash", joins::lookup_hash),
    ("find_by_index", indexed::find_by_index),
    ("range_by_index", indexed::range_by_index),
    ("covered", indexed::covered),
    ("sort_by_index", indexed::sort_by_index),
    ("insert_3_indexes", indexed::insert_3_indexes),
    ("index_build", builds::index_build),
    ("insert_during_build", builds::insert_during_build),
    ("metrics_insert_one", metrics::metrics_insert_one),
    ("metrics_find_one", metrics::metrics_find_one),
    ("witness_insert_one", witness::witness_insert_one),
    ("witness_insert_journaled", witness::witness_insert_journaled),
    ("memory_insert_one", in_memory::memory_insert_one),
    ("memory_insert_many", in_memory::memory_insert_many),
    ("open_in_memory", in_memory::open_in_memory),
    ("gridfs_upload", files::gridfs_upload),
    ("open_after_crash", recovery::open_after_crash),
    ("insert_beside_transaction", transactions::insert_beside_transaction),
    ("insert_beside_old_transaction", transactions::insert_beside_old_transaction),
    ("transaction_one", transactions::transaction_one),
    ("transaction_ten_inserts", transactions::transaction_ten_inserts),
    ("transaction_ten_updates", transactions::transaction_ten_updates),
    ("transaction_first", transactions::transaction_first),
    ("find_in_transaction", transactions::find_in_transaction),
    ("scan_in_transaction", transactions::scan_in_transaction),
    ("scan_over_staged", transactions::scan_over_staged),
    ("transaction_threads_4", transactions::transaction_threads_4),
    ("transaction_journaled_4", transactions::transaction_journaled_4),
    ("insert_exactly_once", tokens::insert_exactly_once),
    ("insert_exactly_once_random", tokens::insert_exactly_once_random),
    ("update_exactly_once", tokens::update_exactly_once),
    ("live_follow", live::live_follow),
    ("ticket_pipeline", live::ticket_pipeline),
    ("insert_logged", streams::insert_logged),
    ("insert_many_logged", streams::insert_many_logged),
    ("update_logged", streams::update_logged),
    ("update_logged_images", streams::update_logged_images),
    ("insert_beside_logged", streams::insert_beside_logged),
    ("insert_beside_stopped", streams::insert_beside_stopped),
    ("stream_drain", streams::stream_drain),
    ("stream_follow", streams::stream_follow),
    ("stream_skip", streams::stream_skip),
    ("server_stream", server::server_stream),
    ("server_ping", server::server_ping),
    ("server_insert_batch", server::server_insert_batch),
    ("server_insert_driver_alone", server::server_insert_driver_alone),
    ("server_insert_batch_raw", server::server_insert_batch_raw),
    ("server_insert_message", server::server_insert_message),
    ("server_retryable", server::server_retryable),
    ("server_retryable_batch", server::server_retryable_batch),
    ("server_transaction", server::server_transaction),
    ("import_bson", tool::import_bson),
    ("import_ndjson", tool::import_ndjson),
    ("import_remote", tool::import_remote),
    ("dump", tool::dump),
    ("restore", tool::restore),
    ("export_ndjson", tool::export_ndjson),
    ("shell_find", tool::shell_find),
    ("query_start", tool::query_start),
];

#[expect(clippy::print_stdout, reason = "printing figures is what this program is for")]
fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.iter().any(|name| name == "large") {
        println!("insert_growth {:.3}", insert_growth());
        return;
    }
    if let [kind @ (server::SERVE | server::SERVE_SET | server::PRETEND)] =
        &*wanted.iter().map(String::as_str).collect::<Vec<_>>()
    {
        return server::be_server(kind);
    }
    let own_program = std::env::current_exe().expect("a program knows where it is");
    for (name, figure) in FIGURES {
        if wanted.is_empty() {
            let done = Command::new(&own_program).arg(name).status().expect("the program starts again");
            assert!(done.success(), "{name} failed");
        } else if wanted.iter().any(|wanted| wanted == name) {
            println!("{name} {:.3}", figure());
        }
    }
}

fn put_all(raw: &Raw, records: &[Record]) {
    let family = raw.records();
    for (key, value) in records {
        raw.db().put_cf_opt(family, key, value, &raw.writes).expect("written");
    }
}

fn insert_into(ours: &Ours, documents: &[RawDocumentBuf]) -> Duration {
    let orders = ours.orders();
    time(|| insert_all(&orders, documents))
}

fn insert_one_raw(opponent: Opponent) -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || insert_into(&Ours::create(), &documents),
        || {
            let raw = Raw::of(opponent);
            let records: Vec<Record> = documents.iter().map(|document| raw.record(document)).collect();
            time(|| put_all(&raw, &records))
        },
    )
}

/// Against RocksDB that keeps the end of its log in memory too.
fn insert_one_delayed() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || insert_into(&Ours::delayed(), &documents),
        || {
            let raw = Raw::delayed();
            let records: Vec<Record> = documents.iter().map(record).collect();
            time(|| put_all(&raw, &records))
        },
    )
}

/// Against the default durability.
fn delayed_insert_one() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(|| insert_into(&Ours::delayed(), &documents), || insert_into(&Ours::create(), &documents))
}

fn insert_one_typed() -> f64 {
    let typed: Vec<Order> = (0..DOCUMENTS).map(documents::order).collect();
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders().clone_with_type::<Order>();
            time(|| {
                for document in &typed {
                    orders.insert_one(document).run().expect("inserted");
                }
            })
        },
        || {
            let raw = Raw::create();
            let records: Vec<Record> = documents.iter().map(record).collect();
            time(|| put_all(&raw, &records))
        },
    )
}

fn insert_many_raw(opponent: Opponent) -> f64 {
    let documents = raw_orders(DOCUMENTS * 5);
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            time(|| insert_batches(&orders, &documents))
        },
        || {
            let raw = Raw::of(opponent);
            let records: Vec<Record> = documents.iter().map(|document| raw.record(document)).collect();
            time(|| {
                for records in records.chunks(BATCH) {
                    let mut batch = WriteBatch::default();
                    for (key, value) in records {
                        batch.put_cf(raw.records(), key, value);
                    }
                    raw.db().write_opt(batch, &raw.writes).expect("written");
                }
            })
        },
    )
}

/// Inserts from several threads against `put` from as many.
fn insert_threads(threads: usize) -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let per_thread = documents.len().div_ceil(threads);
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            time(|| in_parallel(documents.chunks(per_thread), |documents| insert_all(&orders, documents)))
        },
        || {
            let raw = Raw::create();
            // Ids are made in the order of time by all threads, so each thread's ids interleave with the others'.
            let records: Vec<Record> = documents.iter().map(record).collect();
            let parts: Vec<Vec<Record>> = (0..threads)
                .map(|first| records.iter().skip(first).step_by(threads).cloned().collect())
                .collect();
            time(|| in_parallel(parts.iter(), |part| put_all(&raw, part)))
        },
    )
}

/// Inserts that return once they are on stable storage, from several threads, against `put` with `sync` from as many.
fn insert_journaled(threads: usize) -> f64 {
    let documents = raw_orders(JOURNALED);
    let per_thread = documents.len() / threads;
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            let insert = |document: &RawDocumentBuf| {
                orders.insert_one(document).write_concern(WriteConcern::journaled()).run().expect("inserted");
            };
            time(|| in_parallel(documents.chunks(per_thread), |documents| documents.iter().for_each(insert)))
        },
        || {
            let mut raw = Raw::create();
            raw.writes.set_sync(true);
            let records: Vec<Record> = documents.iter().map(record).collect();
            time(|| in_parallel(records.chunks(per_thread), |records| put_all(&raw, records)))
        },
    )
}

fn insert_unique_index() -> f64 {
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS).map(documents::raw_order_with_code).collect();
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            let unique = IndexOptions::builder().unique(true).build();
            let by_code = IndexModel::builder().keys(doc! { "code": 1 }).options(unique).build();
            orders.create_index(by_code).run().expect("an index");
            time(|| insert_all(&orders, &documents))
        },
        || {
            let raw = Raw::create();
            let pairs: Vec<(Record, Record)> = (0..DOCUMENTS)
                .zip(&documents)
                .map(|(number, document)| {
                    let record = record(document);
                    let entry = unique_entry(mix(number).cast_signed(), &record.0);
                    (record, entry)
                })
                .collect();
            time(|| {
                for (record, entry) in &pairs {
                    let mut batch = WriteBatch::default();
                    batch.put_cf(raw.records(), &record.0, &record.1);
                    batch.put_cf(raw.entries(), &entry.0, &entry.1);
                    raw.db().write_opt(batch, &raw.writes).expect("written");
                }
            })
        },
    )
}

/// Both sides with the same documents, written out to table files.
fn loaded(opponent: Opponent) -> (Ours, Raw, Vec<Loaded>) {
    let (ours, raw) = (Ours::create(), Raw::of(opponent));
    let orders = ours.orders();
    let mut keys = Vec::new();
    for number in 0..READS {
        let id = ObjectId::new();
        let (key, value) = raw.record_with_id(&documents::raw_order(number), id);
        let document = RawDocumentBuf::from_bytes(value.clone()).expect("a document");
        orders.insert_one(&document).run().expect("inserted");
        raw.db().put_cf(raw.records(), &key, &value).expect("written");
        keys.push((id, key));
    }
    ours.client().flush().expect("flushed");
    raw.db().flush_cf(raw.records()).expect("flushed");
    (ours, raw, keys)
}

/// Looks up documents by their ids, in the order that `asked` makes of all of them.
fn find_by_id(opponent: Opponent, asked: fn(Vec<Loaded>) -> Vec<Loaded>) -> f64 {
    let (ours, raw, keys) = loaded(opponent);
    let keys = asked(keys);
    let orders = ours.orders();
    speed_ratio(
        || {
            // The caller has his filter; making it is not the search.
            let filters: Vec<Document> = keys.iter().map(|(id, _)| doc! { "_id": *id }).collect();
            time(|| {
                for filter in filters {
                    let found = orders.find_one(filter).run().expect("read");
                    assert!(found.is_some());
                }
            })
        },
        || {
            time(|| {
                let family = raw.records();
                for (_, key) in &keys {
                    let found = raw.db().get_cf(family, key).expect("read");
                    assert!(found.is_some());
                }
            })
        },
    )
}

/// Each once, in no order.
fn shuffled(mut keys: Vec<Loaded>) -> Vec<Loaded> {
    keys.sort_unstable_by_key(|(_, key)| {
        mix(key.iter().fold(0, |sum: u64, &byte| sum.wrapping_mul(31) ^ u64::from(byte)))
    });
    keys
}

/// As many, but few of them often: the one at rank n as often as n to the power of -0.99 (Zipf's law, as in the benchmark YCSB).
fn skewed(keys: Vec<Loaded>) -> Vec<Loaded> {
    let keys = shuffled(keys);
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..)
        .zip(&keys)
        .map(|(rank, _)| {
            sum += f64::from(rank).powf(-0.99);
            sum
        })
        .collect();
    let drawn =
        (0..keys.len() as u64).map(|read| f64::from((mix(read) >> 32) as u32) / f64::from(u32::MAX) * sum);
    drawn.filter_map(|at| keys.get(sums.partition_point(|upto| *upto < at)).cloned()).collect()
}

fn scan(opponent: Opponent) -> f64 {
    let (ours, raw, keys) = loaded(opponent);
    let orders = ours.orders();
    speed_ratio(
        || {
            time(|| {
                let mut cursor = orders.find(doc! {}).run().expect("a cursor");
                let (mut seen, mut bytes) = (0, 0);
                while cursor.advance().expect("read") {
                    seen += 1;
                    bytes += cursor.current().as_bytes().len();
                }
                assert!(seen == keys.len() && bytes > seen);
            })
        },
        || {
            time(|| {
                let mut iterator = raw.db().raw_iterator_cf(raw.records());
                iterator.seek_to_first();
                let (mut seen, mut bytes) = (0, 0);
                while let Some((_, value)) = iterator.item() {
                    seen += 1;
                    bytes += value.len();
                    iterator.next();
                }
                assert!(seen == keys.len() && bytes > seen);
            })
        },
    )
}

fn object_id() -> f64 {
    let generator = Generator::new(Layout::MachineProcess);
    speed_ratio(
        || {
            time(|| {
                for _ in 0..IDS {
                    std::hint::black_box(generator.generate());
                }
            })
        },
        || {
            time(|| {
                for _ in 0..IDS {
                    std::hint::black_box(ObjectId::new());
                }
            })
        },
    )
}

/// The slowdown of CairnDB from the small to the large collection, against that of raw RocksDB: 1 is the same, above
/// 1 CairnDB slows down more.
fn insert_growth() -> f64 {
    let (small, large) = GROWTH;
    let early = median_of_rounds(|| {
        let (ours, raw) = (Ours::create(), Raw::create());
        insert_random(&ours, &raw, 0..small / 2);
        insert_random(&ours, &raw, small / 2..small)
    });
    let (ours, raw) = (Ours::create(), Raw::create());
    insert_random(&ours, &raw, 0..large - large / 10);
    early / insert_random(&ours, &raw, large - large / 10..large)
}

/// Inserts the documents of these numbers into both sides in turns; gives our speed over theirs.
fn insert_random(ours: &Ours, raw: &Raw, numbers: Range<u64>) -> f64 {
    let orders = ours.orders();
    let turns = numbers.clone().step_by(TURN).map(|start| {
        let turn = start..numbers.end.min(start + TURN as u64);
        let records: Vec<Record> =
            turn.map(|number| record_with_id(&documents::raw_order(number), random_id(number))).collect();
        let documents: Vec<RawDocumentBuf> = records
            .iter()
            .map(|(_, value)| RawDocumentBuf::from_bytes(value.clone()).expect("a document"))
            .collect();
        (documents, records)
    });
    speed_in_turns(
        turns,
        |(documents, _)| insert_all(&orders, documents),
        |(_, records)| put_all(raw, records),
    )
}

fn random_id(number: u64) -> ObjectId {
    let mut bytes = [0; 12];
    if let Some(front) = bytes.first_chunk_mut::<8>() {
        *front = mix(number).to_be_bytes();
    }
    ObjectId::from_bytes(bytes)
}
