//! Ids from a collection of counters: each counter is a document, and `find_one_and_update` takes its next number.
//!
//! Finding the counter, incrementing it and returning its new state are one step. So any number of threads can take
//! numbers, and each number is taken once. The first call creates the counter. If the numbers are for the documents of one
//! collection, an auto-increment field does the same without a second write: see the example `numbering`.
//!
//! Run it with `cargo run --release -p cairndb --example counters`.

use std::collections::BTreeSet;
use std::io::Write;
use std::thread;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, Result, ReturnDocument};

const THREADS: i64 = 8;
const EACH: i64 = 500;

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(folder.path().join("shop"))?;
    let db = client.database("shop");
    let (counters, users) = (db.collection("counters"), db.collection("users"));

    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move_in(&counters, &users, thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    let ids: BTreeSet<i64> = users.find(doc! {}).run()?.map(id).collect::<Result<_>>()?;
    assert_eq!(ids, (1..=THREADS * EACH).collect(), "every number is taken once, and none is left out");
    let counter = counters.find_one(doc! { "_id": "user" }).run()?.expect("the first call created it");
    assert_eq!(counter, doc! { "_id": "user", "seq": THREADS * EACH });
    writeln!(std::io::stdout().lock(), "{} users by {THREADS} threads, ids 1 to {0}", ids.len())?;
    assert!(client.verify()?.is_clean(), "everything stored agrees");
    client.close()
}

/// The next number of a counter.
fn next_number(counters: &Collection<Document>, name: &str) -> Result<i64> {
    let counter = counters
        .find_one_and_update(doc! { "_id": name }, doc! { "$inc": { "seq": 1_i64 } })
        .upsert(true)
        .return_document(ReturnDocument::After)
        .run()?
        .expect("an upsert leaves a document");
    Ok(counter.get_i64("seq").expect("only 64-bit numbers are added"))
}

fn move_in<'a>(
    counters: &'a Collection<Document>,
    users: &'a Collection<Document>,
    thread: i64,
) -> impl FnOnce() -> Result<()> + 'a {
    move || {
        for _ in 0..EACH {
            users.insert_one(doc! { "_id": next_number(counters, "user")?, "thread": thread }).run()?;
        }
        Ok(())
    }
}

fn id(user: Result<Document>) -> Result<i64> {
    Ok(user?.get_i64("_id").expect("every user has a number"))
}
