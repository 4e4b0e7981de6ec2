//! Numbers from CairnDB: a default sequence (`CacheSize` 1000), by `next_value` and by `fetch`, and a collection
//! whose `_id` numbers itself. All threads share one client, one handle and one acquirer.

use std::process::ExitCode;

use bson::{Bson, RawDocumentBuf};
use cairndb::{AutoIncrement, Client, Collection, Database, Sequence};
use workload::numbers::{BATCH_VALUES, Runs, Work, race, run};
use workload::{Durability, Order, Result};

fn perform(work: &Work) -> Result<()> {
    let durability = match work.durability {
        Durability::Synced => cairndb::Durability::Journaled,
        Durability::Unsynced => cairndb::Durability::default(),
        Durability::Delayed => return Err("numbers are measured at two levels".into()),
    };
    let client = Client::builder().durability(durability).open(&work.folder)?;
    let db = client.database("compare");
    next_values(&sequence(&db, "ones")?, work)?;
    fetches(&sequence(&db, "batches")?, work)?;
    inserts(&db, work)
}

fn sequence(db: &Database, name: &str) -> Result<Sequence> {
    db.create_sequence(name).run()?;
    Ok(db.sequence(name))
}

fn next_values(sequence: &Sequence, work: &Work) -> Result<()> {
    let worker = || {
        let mut runs = Runs::default();
        for _ in 0..work.values {
            runs.push(sequence.next_value().run()?);
        }
        Ok(runs)
    };
    race("next_value", work.threads * work.values, (0..work.threads).map(|_| worker).collect())
}

fn fetches(sequence: &Sequence, work: &Work) -> Result<()> {
    let worker = || {
        let mut runs = Runs::default();
        // At the end of a block, a fetch gives fewer than asked for; the rest is asked for again.
        let mut missing = i64::try_from(work.batches * BATCH_VALUES)?;
        while missing > 0 {
            let fetched = sequence.fetch(missing.min(BATCH_VALUES.cast_signed())).run()?;
            let count = i64::from(fetched.return_num);
            runs.push_run(fetched.next_value, fetched.next_value + count - 1);
            missing -= count;
        }
        Ok(runs)
    };
    let expected = work.threads * work.batches * BATCH_VALUES;
    race("fetch", expected, (0..work.threads).map(|_| worker).collect())
}

fn inserts(db: &Database, work: &Work) -> Result<()> {
    db.create_collection("documents").auto_increment(AutoIncrement::builder().field("_id").build()).run()?;
    let documents: Collection<RawDocumentBuf> = db.collection("documents");
    let workers = (0..work.threads)
        .map(|thread| {
            let orders = (thread * work.inserts..(thread + 1) * work.inserts).map(Order::nth);
            let orders = orders
                .map(|order| bson::serialize_to_raw_document_buf(&order))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            let documents = &documents;
            Ok(move || insert(documents, &orders))
        })
        .collect::<Result<Vec<_>>>()?;
    race("insert", work.threads * work.inserts, workers)
}

fn insert(documents: &Collection<RawDocumentBuf>, orders: &[RawDocumentBuf]) -> Result<Runs> {
    let mut runs = Runs::default();
    for order in orders {
        let Bson::Int64(id) = documents.insert_one(order).run()?.inserted_id else {
            return Err("an inserted _id is not a 64-bit integer".into());
        };
        runs.push(id);
    }
    Ok(runs)
}

fn main() -> ExitCode {
    run(perform)
}
