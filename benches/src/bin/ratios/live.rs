//! Live queries, against change streams; and many writes that one wait makes durable.

use std::thread;
use std::time::Duration;

use cairndb::bson::{Document, RawDocumentBuf, cstr, doc};
use cairndb::{ChangeStream, Collection, LiveChange};
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Raw, record};

use crate::insert_into;
use crate::rounds::raw_orders;

/// The documents of the result, and the changes that are followed.
const RESULT: u64 = 10_000;
const CHANGES: i32 = 50_000;
/// The inserts that one wait makes durable.
const WRITES: u64 = 1000;

/// One thread changes documents of a result, and another one follows the result; against one that follows the changes.
pub(crate) fn live_follow() -> f64 {
    let mut documents = raw_orders(RESULT);
    for (id, document) in (0_i32..).zip(&mut documents) {
        document.append(cstr!("_id"), id);
    }
    let filled = || {
        let ours = Ours::create();
        insert_into(&ours, &documents);
        let orders = ours.orders();
        (ours, orders)
    };
    speed_ratio(
        || {
            let (_ours, orders) = filled();
            let mut live = orders.find(doc! { "number": { "$exists": true } }).live().expect("opened");
            assert_eq!(live.next().expect("the result").expect("read").len() as u64, RESULT);
            beside_changes(&orders, || {
                let is_last = |change: &LiveChange<RawDocumentBuf>| match change {
                    LiveChange::Entered(document) | LiveChange::Changed(document) => {
                        document.get_i32("last").is_ok()
                    }
                    LiveChange::Left(_) | LiveChange::Invalidated => false,
                };
                while !live.next().expect("it waits").expect("read").iter().any(is_last) {}
            })
        },
        || {
            let (_ours, orders) = filled();
            let mut stream: ChangeStream<RawDocumentBuf> = orders.watch().run().expect("opened").with_type();
            beside_changes(&orders, || {
                let mut left = CHANGES;
                while left > 0 {
                    stream.next().expect("it waits").expect("an event");
                    left -= 1;
                }
            })
        },
    )
}

/// The time until all changes were made by one thread and followed by this one. The last change sets the field `last`.
fn beside_changes(orders: &Collection<RawDocumentBuf>, follow: impl FnOnce()) -> Duration {
    // The caller has his filters; making them is not the work.
    let count = i32::try_from(RESULT).expect("a small number");
    let mut updates: Vec<(Document, Document)> = (1..CHANGES)
        .map(|change| (doc! { "_id": change % count }, doc! { "$inc": { "number": 1 } }))
        .collect();
    updates.push((doc! { "_id": 0 }, doc! { "$set": { "last": 1 } }));
    time(|| {
        thread::scope(|scope| {
            scope.spawn(|| {
                for (filter, update) in updates {
                    assert_eq!(orders.update_one(filter, update).run().expect("updated").modified_count, 1);
                }
            });
            follow();
        });
    })
}

/// Single inserts and one wait until they are durable, against as many puts and one sync of the log.
pub(crate) fn ticket_pipeline() -> f64 {
    let documents = raw_orders(WRITES);
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            time(|| {
                for document in &documents {
                    orders.insert_one(document).run().expect("stored");
                }
                ours.client().durability_ticket().expect("a ticket").wait().expect("durable");
            })
        },
        || {
            let raw = Raw::create();
            let records: Vec<_> = documents.iter().map(record).collect();
            time(|| {
                for (key, value) in &records {
                    raw.db().put_cf(raw.records(), key, value).expect("stored");
                }
                raw.db().flush_wal(true).expect("synced");
            })
        },
    )
}
