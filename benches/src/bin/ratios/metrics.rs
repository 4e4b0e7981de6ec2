//! The cost of counting and timing operations: a client with metrics and a log of slow operations against one without both.

use cairndb::bson::{RawDocumentBuf, doc};
use cairndb::{Client, ClientBuilder, Collection};
use cairndb_benches::measure::{speed_ratio, time};

use crate::rounds::{DOCUMENTS, insert_all, raw_orders};

fn with_metrics() -> ClientBuilder {
    Client::builder()
}

fn without() -> ClientBuilder {
    Client::builder().metrics(false).slow_threshold(None)
}

/// Runs `work` on a collection of a new client, and returns how long it says that it lasted.
fn on_new<R>(builder: ClientBuilder, work: impl FnOnce(&Collection<RawDocumentBuf>) -> R) -> R {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let client = builder.open(folder.path().join("db")).expect("a new database");
    client.database("bench").create_collection("orders").run().expect("a new collection");
    work(&client.database("bench").collection("orders"))
}

pub(crate) fn metrics_insert_one() -> f64 {
    let documents = raw_orders(DOCUMENTS);
    let insert = |orders: &Collection<RawDocumentBuf>| time(|| insert_all(orders, &documents));
    speed_ratio(|| on_new(with_metrics(), insert), || on_new(without(), insert))
}

pub(crate) fn metrics_find_one() -> f64 {
    let find = |orders: &Collection<RawDocumentBuf>| {
        let ids = orders.insert_many(raw_orders(DOCUMENTS / 4)).run().expect("inserted").inserted_ids;
        time(|| {
            for id in ids.values() {
                assert!(orders.find_one(doc! { "_id": id.clone() }).run().expect("read").is_some());
            }
        })
    };
    speed_ratio(|| on_new(with_metrics(), find), || on_new(without(), find))
}
