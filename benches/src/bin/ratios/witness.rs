//! The cost of the witness: a client that keeps it against one that does not. It is raised once a second in the
//! background, so a round lasts longer than that where it can.

use cairndb::bson::RawDocumentBuf;
use cairndb::{Client, WriteConcern};
use cairndb_benches::measure::{speed_ratio, time};

use crate::rounds::{DOCUMENTS, raw_orders};

/// Documents of a round for each of the other figures' documents.
const LONGER: u64 = 4;
/// Documents of one round that are synced one by one.
const JOURNALED: u64 = 2000;

fn insert(keeps_witness: bool, documents: &[RawDocumentBuf], concern: &WriteConcern) -> std::time::Duration {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let client = Client::builder().witness(keeps_witness).open(folder.path().join("db"));
    let client = client.expect("a new database");
    client.database("bench").create_collection("orders").run().expect("a new collection");
    let orders = client.database("bench").collection::<RawDocumentBuf>("orders");
    time(|| {
        for document in documents {
            orders.insert_one(document).write_concern(concern.clone()).run().expect("inserted");
        }
    })
}

fn ratio(count: u64, concern: &WriteConcern) -> f64 {
    let documents = raw_orders(count);
    speed_ratio(|| insert(true, &documents, concern), || insert(false, &documents, concern))
}

pub(crate) fn witness_insert_one() -> f64 {
    ratio(LONGER * DOCUMENTS, &WriteConcern::buffered())
}

pub(crate) fn witness_insert_journaled() -> f64 {
    ratio(JOURNALED, &WriteConcern::journaled())
}
