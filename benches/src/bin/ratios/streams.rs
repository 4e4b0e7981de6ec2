//! The log of changes, and streams of it.

use std::time::Duration;

use cairndb::bson::{Document, RawDocument, RawDocumentBuf, cstr, doc};
use cairndb::{ChangeStream, ChangeStreamPreAndPostImages, Collection, WriteConcern};
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::Raw;

use crate::rounds::{DOCUMENTS, insert_all, insert_batches, raw_orders, side_by_side};

/// Events of one round of a figure that reads.
const EVENTS: u64 = 200_000;
const DRAINED: u64 = 1_000_000;
/// Of so many events one is of the collection that `stream_skip` watches.
const SKIPPED: u64 = 100;
/// The bytes of an event before its document: the head, and the name `bench.orders`.
const HEAD_BYTES: usize = 29;

/// A new store whose collection is logged, without a stream.
fn logged() -> Ours {
    let ours = Ours::create();
    ours.client().database("bench").modify_collection("orders").change_log(true).run().expect("switched on");
    ours
}

/// `insert_one` with the log on against off.
pub(crate) fn insert_logged() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let insert = |ours: Ours| time(|| insert_all(&ours.orders(), &documents));
    speed_ratio(|| insert(logged()), || insert(Ours::create()))
}

/// The same with `insert_many`.
pub(crate) fn insert_many_logged() -> f64 {
    let documents = raw_orders(4 * DOCUMENTS);
    let insert = |ours: Ours| time(|| insert_batches(&ours.orders(), &documents));
    speed_ratio(|| insert(logged()), || insert(Ours::create()))
}

/// One update of each document, by its id, with the log on against off.
pub(crate) fn update_logged() -> f64 {
    let documents = numbered(DOCUMENTS);
    speed_ratio(|| update(&logged(), &documents), || update(&Ours::create(), &documents))
}

/// The same with documents before and after their changes in the log.
pub(crate) fn update_logged_images() -> f64 {
    let documents = numbered(DOCUMENTS);
    let with_images = || {
        let ours = logged();
        let images = ChangeStreamPreAndPostImages { enabled: true };
        let bench = ours.client().database("bench");
        let modify = bench.modify_collection("orders");
        modify.change_stream_pre_and_post_images(images).run().expect("kept from now on");
        update(&ours, &documents)
    };
    speed_ratio(with_images, || update(&Ours::create(), &documents))
}

/// `insert_one` into a collection that is not logged while another one is logged and watched, against no log at all.
pub(crate) fn insert_beside_logged() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let beside = || {
        let ours = Ours::create();
        let others = ours.client().database("bench").collection::<Document>("others");
        let _stream = others.watch().run().expect("opened");
        time(|| insert_all(&ours.orders(), &documents))
    };
    speed_ratio(beside, || {
        let ours = Ours::create();
        time(|| insert_all(&ours.orders(), &documents))
    })
}

/// `insert_one` into a logged collection with a stream that was read once and never again, against no stream.
pub(crate) fn insert_beside_stopped() -> f64 {
    let documents = raw_orders(4 * DOCUMENTS);
    let beside = || {
        let ours = logged();
        let mut stopped = ours.orders().watch().run().expect("opened").with_type();
        insert_synced(&ours.orders(), &numbered(1));
        take(&mut stopped, 1);
        time(|| insert_all(&ours.orders(), &documents))
    };
    speed_ratio(beside, || {
        let ours = logged();
        insert_synced(&ours.orders(), &numbered(1));
        time(|| insert_all(&ours.orders(), &documents))
    })
}

/// Events that are there, read as raw documents, against a raw scan of the same bytes.
pub(crate) fn stream_drain() -> f64 {
    let documents = numbered(DRAINED);
    let ours = Ours::create();
    let token = ours.orders().watch().run().expect("opened").resume_token();
    insert_synced(&ours.orders(), &documents);
    let raw = Raw::create();
    let family = raw.records();
    for (position, document) in (0_u64..).zip(&documents) {
        let key = [&position.to_be_bytes()[..], &[0; 4]].concat();
        let value = [&[0; HEAD_BYTES][..], document.as_bytes()].concat();
        raw.db().put_cf_opt(family, key, value, &raw.writes).expect("written");
    }
    let drain = || {
        let mut stream = ours.orders().watch().resume_after(token.clone()).run().expect("opened").with_type();
        time(|| take(&mut stream, DRAINED))
    };
    let scan = || {
        time(|| {
            let mut read = 0;
            for entry in raw.db().iterator_cf(family, rocksdb::IteratorMode::Start) {
                let (_, value) = entry.expect("read");
                let document = value.get(HEAD_BYTES..).expect("a document follows the head");
                read += RawDocument::from_bytes(document).expect("it is whole").iter().count().min(1) as u64;
            }
            assert_eq!(read, DRAINED);
        })
    };
    speed_ratio(drain, scan)
}

/// Inserts that a stream follows until it has shown all of them, against the same inserts alone.
pub(crate) fn stream_follow() -> f64 {
    let documents = raw_orders(4 * DOCUMENTS);
    let count = 4 * DOCUMENTS;
    let followed = || {
        let ours = logged();
        let mut stream = ours.orders().watch().run().expect("opened").with_type();
        let orders = ours.orders();
        time(|| side_by_side(|| insert_all(&orders, &documents), move || take(&mut stream, count)))
    };
    speed_ratio(followed, || {
        let ours = logged();
        time(|| insert_all(&ours.orders(), &documents))
    })
}

/// The events of one collection among many more of another one, against a stream of all of them.
pub(crate) fn stream_skip() -> f64 {
    let ours = Ours::create();
    let bench = ours.client().database("bench");
    let token = bench.watch().run().expect("opened").resume_token();
    let (orders, others) = (ours.orders(), bench.collection::<RawDocumentBuf>("others"));
    let documents = numbered(EVENTS);
    let (few, many): (Vec<_>, Vec<_>) =
        (0_u64..).zip(documents).partition(|(number, _)| number.is_multiple_of(SKIPPED));
    let [few, many] = [few, many].map(|part| part.into_iter().map(|(_, one)| one).collect::<Vec<_>>());
    let shares = many.chunks(usize::try_from(SKIPPED - 1).expect("small"));
    for (one, share) in few.iter().zip(shares) {
        orders.insert_one(one).run().expect("stored");
        others.insert_many(share).run().expect("stored");
    }
    ours.client().sync().expect("synced");
    let read = |mut stream: ChangeStream<RawDocumentBuf>, count| time(|| take(&mut stream, count));
    let skip = || {
        let stream = orders.watch().resume_after(token.clone()).run().expect("opened").with_type();
        read(stream, few.len() as u64)
    };
    speed_ratio(skip, || {
        let stream = bench.watch().resume_after(token.clone()).run().expect("opened").with_type();
        // All collections that are made are events too, which are not shown.
        read(stream, EVENTS)
    })
}

fn take(stream: &mut ChangeStream<RawDocumentBuf>, count: u64) {
    for _ in 0..count {
        stream.next().expect("it waits").expect("an event");
    }
}

fn numbered(count: u64) -> Vec<RawDocumentBuf> {
    let mut documents = raw_orders(count);
    for (id, document) in (0_i64..).zip(&mut documents) {
        document.append(cstr!("_id"), id);
    }
    documents
}

fn insert_synced(orders: &Collection<RawDocumentBuf>, documents: &[RawDocumentBuf]) {
    insert_batches(orders, documents);
    orders.delete_one(doc! { "_id": "none" }).write_concern(WriteConcern::journaled()).run().expect("synced");
}

fn update(ours: &Ours, documents: &[RawDocumentBuf]) -> Duration {
    let orders = ours.orders();
    insert_batches(&orders, documents);
    // The caller has his filters; making them is not the work.
    let filters: Vec<Document> = (0_i64..).take(documents.len()).map(|id| doc! { "_id": id }).collect();
    time(|| {
        for filter in filters {
            let updated = orders.update_one(filter, doc! { "$inc": { "number": 1 } }).run();
            assert_eq!(updated.expect("updated").matched_count, 1);
        }
    })
}
