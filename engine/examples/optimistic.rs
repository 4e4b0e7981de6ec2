//! Numbering without a counter: find the highest number, insert the next one, and try again if another thread was faster.
//!
//! The unique `_id` makes it safe: of all threads that try a number one succeeds, and the others fail with a duplicate key
//! (code 11000). The search reads one document, because it walks from the largest `_id` down. No number is left out. The
//! price is lost attempts when many threads insert at the same time.
//!
//! Run it with `cargo run --release -p cairndb --example optimistic`.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, Result};

const THREADS: i64 = 8;
const EACH: i64 = 250;

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(folder.path().join("shop"))?;
    let users = client.database("shop").collection("users");
    let lost = AtomicU64::new(0);

    thread::scope(|scope| {
        let insert_some = |thread: i64| {
            let (users, lost) = (&users, &lost);
            scope.spawn(move || {
                (0..EACH).try_for_each(|_| insert_next(users, &doc! { "thread": thread }, lost))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(insert_some).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    let ids = users.find(doc! {}).run()?.map(|user| id(&user?)).collect::<Result<Vec<i64>>>()?;
    assert_eq!(
        ids,
        (1..=THREADS * EACH).collect::<Vec<_>>(),
        "every number is taken once, and none is left out"
    );
    let lost = lost.into_inner();
    writeln!(
        std::io::stdout().lock(),
        "{} users by {THREADS} threads, {lost} attempts were lost",
        ids.len()
    )?;
    assert!(client.verify()?.is_clean(), "everything stored agrees");
    client.close()
}

/// Inserts the document with the number after the highest one.
fn insert_next(users: &Collection<Document>, user: &Document, lost: &AtomicU64) -> Result<()> {
    loop {
        let highest = users.find(doc! {}).sort(doc! { "_id": -1 }).limit(1).run()?.next().transpose()?;
        let next = highest.as_ref().map_or(Ok(0), id)? + 1;
        let mut numbered = doc! { "_id": next };
        numbered.extend(user.clone());
        // Only a duplicate key means that another thread took the number.
        match users.insert_one(numbered).run() {
            Ok(_) => return Ok(()),
            Err(error) if error.is_duplicate_key() => lost.fetch_add(1, Ordering::Relaxed),
            Err(error) => return Err(error),
        };
    }
}

fn id(user: &Document) -> Result<i64> {
    Ok(user.get_i64("_id")?)
}
