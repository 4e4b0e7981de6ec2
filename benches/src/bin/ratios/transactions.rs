//! Transactions, against plain calls and against RocksDB's own batches and snapshots.

use std::time::Duration;

use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{ClientSession, Collection, WriteConcern};
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Opponent, Raw, Record, record};
use rocksdb::WriteBatch;

use crate::rounds::{DOCUMENTS, in_parallel, insert_batches, raw_orders};
use crate::{insert_into, loaded};

/// Documents that a transaction writes.
const TEN: usize = 10;
/// Documents of one round whose commits are synced.
const JOURNALED: u64 = 8000;
/// Documents of the collection that is read with staged changes over it, and how many of them are changed.
const SCANNED: u64 = 1_000_000;
const STAGED: u64 = 1000;
/// More keys than are noted of all writers.
const NOTED: u64 = 600_000;
/// Longer than writers go on making notes after the last transaction.
const QUIET: Duration = Duration::from_millis(1500);

fn session(ours: &Ours) -> ClientSession {
    ours.client().start_session().run().expect("started")
}

fn start(session: &mut ClientSession) {
    session.start_transaction().run().expect("started");
}

/// Inserts documents, some in one transaction.
fn insert_within(ours: &Ours, documents: &[RawDocumentBuf], each: usize) {
    let (orders, mut session) = (ours.orders(), session(ours));
    for documents in documents.chunks(each) {
        start(&mut session);
        for document in documents {
            orders.insert_one(document).session(&mut session).run().expect("staged");
        }
        session.commit_transaction().run().expect("committed");
    }
}

/// A batch for each ten of the records.
fn put_batches(raw: &Raw, records: &[Record]) {
    for records in records.chunks(TEN) {
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put_cf(raw.records(), key, value);
        }
        raw.db().write_opt(batch, &raw.writes).expect("written");
    }
}

/// Plain inserts while a transaction is open that does nothing, against none.
pub(crate) fn insert_beside_transaction() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || {
            let ours = Ours::create();
            let mut session = session(&ours);
            start(&mut session);
            let found = ours.orders().find_one(doc! {}).session(&mut session).run().expect("read");
            assert!(found.is_none());
            insert_into(&ours, &documents)
        },
        || insert_into(&Ours::create(), &documents),
    )
}

/// Plain inserts while a transaction is open that is old: so much was written since it began that the notes are full. Against none.
pub(crate) fn insert_beside_old_transaction() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let earlier = raw_orders(NOTED);
    let filled = || {
        let ours = Ours::create();
        let mut session = session(&ours);
        start(&mut session);
        ours.orders().find_one(doc! {}).session(&mut session).run().expect("read");
        insert_batches(&ours.client().database("bench").collection("earlier"), &earlier);
        (ours, session)
    };
    speed_ratio(
        || {
            let (ours, _session) = filled();
            insert_into(&ours, &documents)
        },
        || {
            let (ours, session) = filled();
            drop(session);
            // Until no writer makes notes any more.
            std::thread::sleep(QUIET);
            insert_into(&ours, &documents)
        },
    )
}

/// Each insert in a transaction of its own, against a plain one.
pub(crate) fn transaction_one() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || {
            let ours = Ours::create();
            time(|| insert_within(&ours, &documents, 1))
        },
        || insert_into(&Ours::create(), &documents),
    )
}

/// Ten inserts, against a look at ten keys and one batch.
pub(crate) fn transaction_ten_inserts() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || {
            let ours = Ours::create();
            time(|| insert_within(&ours, &documents, TEN))
        },
        || {
            let raw = Raw::create();
            let records: Vec<Record> = documents.iter().map(record).collect();
            time(|| {
                for records in records.chunks(TEN) {
                    for (key, _) in records {
                        assert!(raw.db().get_cf(raw.records(), key).expect("read").is_none());
                    }
                    put_batches(&raw, records);
                }
            })
        },
    )
}

/// Ten updates by `_id`, against reading ten values and writing them in one batch.
pub(crate) fn transaction_ten_updates() -> f64 {
    let (ours, raw, keys) = loaded(Opponent::Alike);
    let orders = ours.orders();
    speed_ratio(
        || {
            let mut session = session(&ours);
            // The caller has his filters and his updates; making them is not the work.
            let updates: Vec<(Document, Document)> =
                keys.iter().map(|(id, _)| (doc! { "_id": *id }, doc! { "$inc": { "number": 1 } })).collect();
            time(|| {
                let mut updates = updates.into_iter().peekable();
                while updates.peek().is_some() {
                    start(&mut session);
                    for (filter, update) in updates.by_ref().take(TEN) {
                        let done = orders.update_one(filter, update).session(&mut session).run();
                        assert_eq!(done.expect("staged").modified_count, 1);
                    }
                    session.commit_transaction().run().expect("committed");
                }
            })
        },
        || {
            time(|| {
                for keys in keys.chunks(TEN) {
                    let read = |key: &Vec<u8>| {
                        let value = raw.db().get_cf(raw.records(), key).expect("read").expect("a record");
                        (key.clone(), value)
                    };
                    put_batches(&raw, &keys.iter().map(|loaded| read(&loaded.1)).collect::<Vec<_>>());
                }
            })
        },
    )
}

/// The first transaction after a time without any, of one insert, against ten plain inserts after such a time.
pub(crate) fn transaction_first() -> f64 {
    let documents = raw_orders(20 * TEN as u64);
    let (ours, other) = (Ours::create(), Ours::create());
    let mut session = session(&ours);
    let orders = ours.orders();
    let mut rest = documents.iter().cycle();
    let mut tens = documents.chunks(TEN).cycle();
    speed_ratio(
        || {
            std::thread::sleep(QUIET);
            let document = rest.next().expect("a cycle");
            time(|| {
                start(&mut session);
                orders.insert_one(document).session(&mut session).run().expect("staged");
                session.commit_transaction().run().expect("committed");
            })
        },
        || {
            std::thread::sleep(QUIET);
            insert_into(&other, tens.next().expect("a cycle"))
        },
    )
}

/// Look-ups by `_id` in a transaction, against `get` on a snapshot.
pub(crate) fn find_in_transaction() -> f64 {
    let (ours, raw, keys) = loaded(Opponent::Alike);
    let orders = ours.orders();
    let mut session = session(&ours);
    start(&mut session);
    speed_ratio(
        || {
            let filters: Vec<Document> = keys.iter().map(|(id, _)| doc! { "_id": *id }).collect();
            time(|| {
                for filter in filters {
                    let found = orders.find_one(filter).session(&mut session).run().expect("read");
                    assert!(found.is_some());
                }
            })
        },
        || {
            let snapshot = raw.db().snapshot();
            time(|| {
                for (_, key) in &keys {
                    assert!(snapshot.get_cf(raw.records(), key).expect("read").is_some());
                }
            })
        },
    )
}

/// Reads a whole collection within a session. Returns how many documents it has.
fn scan_within(orders: &Collection<RawDocumentBuf>, session: &mut ClientSession) -> u64 {
    let mut cursor = orders.find(doc! {}).session(&mut *session).run().expect("a cursor");
    let mut count = 0;
    while cursor.advance(session).expect("read") {
        count += 1;
    }
    count
}

fn scan(orders: &Collection<RawDocumentBuf>) -> u64 {
    let mut cursor = orders.find(doc! {}).run().expect("a cursor");
    let mut count = 0;
    while cursor.advance().expect("read") {
        count += 1;
    }
    count
}

/// A scan in a transaction that has staged nothing, against one outside.
pub(crate) fn scan_in_transaction() -> f64 {
    let (ours, _, keys) = loaded(Opponent::Alike);
    let (orders, mut session) = (ours.orders(), session(&ours));
    start(&mut session);
    let count = keys.len() as u64;
    speed_ratio(
        || time(|| assert_eq!(scan_within(&orders, &mut session), count)),
        || time(|| assert_eq!(scan(&orders), count)),
    )
}

/// A scan of a million documents with a thousand staged changes over them, against one outside.
pub(crate) fn scan_over_staged() -> f64 {
    let (ours, documents) = (Ours::create(), raw_orders(SCANNED));
    let (orders, mut session) = (ours.orders(), session(&ours));
    insert_batches(&orders, &documents);
    ours.client().flush().expect("flushed");
    start(&mut session);
    let every = SCANNED / STAGED;
    let staged = doc! { "number": { "$mod": [every.cast_signed(), 0] } };
    orders.update_many(staged, doc! { "$set": { "paid": 1 } }).session(&mut session).run().expect("staged");
    speed_ratio(
        || time(|| assert_eq!(scan_within(&orders, &mut session), SCANNED)),
        || time(|| assert_eq!(scan(&orders), SCANNED)),
    )
}

/// Transactions of ten inserts from four threads, against as many from one.
pub(crate) fn transaction_threads_4() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let each = documents.len() / 4;
    speed_ratio(
        || {
            let ours = Ours::create();
            time(|| in_parallel(documents.chunks(each), |part| insert_within(&ours, part, TEN)))
        },
        || {
            let ours = Ours::create();
            time(|| insert_within(&ours, &documents, TEN))
        },
    )
}

/// Journaled commits of four threads, against synced batches of as many.
pub(crate) fn transaction_journaled_4() -> f64 {
    let documents = raw_orders(JOURNALED);
    let each = documents.len() / 4;
    let commit_all = |ours: &Ours, documents: &[RawDocumentBuf]| {
        let (orders, mut session) = (ours.orders(), session(ours));
        for documents in documents.chunks(TEN) {
            let start = session.start_transaction().write_concern(WriteConcern::journaled());
            start.run().expect("started");
            for document in documents {
                orders.insert_one(document).session(&mut session).run().expect("staged");
            }
            session.commit_transaction().run().expect("committed");
        }
    };
    speed_ratio(
        || {
            let ours = Ours::create();
            time(|| in_parallel(documents.chunks(each), |part| commit_all(&ours, part)))
        },
        || {
            let mut raw = Raw::create();
            raw.writes.set_sync(true);
            let records: Vec<Record> = documents.iter().map(record).collect();
            time(|| in_parallel(records.chunks(each), |part| put_batches(&raw, part)))
        },
    )
}
