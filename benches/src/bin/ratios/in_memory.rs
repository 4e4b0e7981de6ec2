//! Figures of databases in memory, against the same in a folder.

use cairndb::bson::RawDocumentBuf;
use cairndb::{Client, Collection};
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;

use crate::rounds::{DOCUMENTS, insert_all, insert_batches, raw_orders};

/// Databases that are opened in a round.
const OPENED: usize = 20;

/// Inserts the documents of a round.
type Insert = fn(&Collection<RawDocumentBuf>, &[RawDocumentBuf]);

pub(crate) fn memory_insert_one() -> f64 {
    inserting(insert_all)
}

pub(crate) fn memory_insert_many() -> f64 {
    inserting(insert_batches)
}

fn inserting(insert: Insert) -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || {
            let client = Client::in_memory().expect("made");
            let orders = client.database("bench").collection("orders");
            time(|| insert(&orders, &documents))
        },
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            time(|| insert(&orders, &documents))
        },
    )
}

pub(crate) fn open_in_memory() -> f64 {
    speed_ratio(
        || time(|| (0..OPENED).for_each(|_| drop(Client::in_memory().expect("made")))),
        || {
            let folder = tempfile::tempdir().expect("a temporary folder");
            time(|| {
                for number in 0..OPENED {
                    drop(Client::open(folder.path().join(number.to_string())).expect("a new database"));
                }
            })
        },
    )
}
