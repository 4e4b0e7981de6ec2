//! Counting exactly once although replies can get lost. A write without a reply may or may not have been done, so it must
//! be repeated; but an increment must not be done twice.
//!
//! So each count takes two writes that can be repeated. The first adds a token to the pending ones, which `$addToSet` does
//! once however often it is called. The second removes the token and increments, in one update: when it is repeated the
//! token is gone, and nothing matches. A thread that dies between the two writes leaves its token, and a later cleanup does
//! the second write.
//!
//! So it is done in any document store, and by clients that may be connected to any. CairnDB does it in one call, for every write and for
//! transactions: `update_one(...).exactly_once(token)`, which the guide's page "Exactly once" shows.
//!
//! Run it with `cargo run --release -p cairndb --example resilient`.

use std::io::Write;
use std::thread;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Result};

const THREADS: u64 = 4;
const EACH: u64 = 250;
/// Every tenth count ends between its two writes, as if its thread had died.
const DYING: u64 = 10;

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(folder.path().join("site"))?;
    let pages = client.database("site").collection("pages");
    pages.insert_one(doc! { "_id": "home", "visits": 0_i64 }).run()?;

    let died = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(visits(&pages, thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<Result<u64>>()
    })?;

    let home = home(&pages)?;
    let pending = home.get_array("pending").map_or(0, Vec::len) as u64;
    assert_eq!(pending, died, "each count that died left a token");
    clean_up(&pages)?;
    let home = self::home(&pages)?;
    assert_eq!(home.get_i64("visits")?.unsigned_abs(), THREADS * EACH, "every visit is counted once");
    assert!(home.get_array("pending")?.is_empty(), "nothing is pending");
    writeln!(
        std::io::stdout().lock(),
        "{} visits counted once each, {died} of them by cleaning up",
        THREADS * EACH
    )?;
    assert!(client.verify()?.is_clean(), "everything stored agrees");
    client.close()
}

/// Counts visits, of which many replies get lost. Returns how many counts died between their writes.
fn visits(pages: &Collection<Document>, thread: u64) -> impl FnOnce() -> Result<u64> + '_ {
    move || {
        let mut died = 0;
        for visit in 0..EACH {
            let token = ObjectId::new();
            retry_once(visit + thread, || note(pages, token))?;
            if visit % DYING == 0 {
                died += 1;
                continue;
            }
            retry_once(visit / 2 + thread, || count(pages, &token.into()))?;
        }
        Ok(died)
    }
}

/// Adds a token to the pending ones. Repeating it changes nothing.
fn note(pages: &Collection<Document>, token: ObjectId) -> Result<()> {
    pages.update_one(doc! { "_id": "home" }, doc! { "$addToSet": { "pending": token } }).run().map(drop)
}

/// Removes the token and increments, both or neither. Repeating it finds no token and changes nothing.
fn count(pages: &Collection<Document>, token: &Bson) -> Result<()> {
    let change = doc! { "$pull": { "pending": token.clone() }, "$inc": { "visits": 1_i64 } };
    pages.update_one(doc! { "_id": "home", "pending": token.clone() }, change).run().map(drop)
}

/// Does the second write for all pending tokens.
fn clean_up(pages: &Collection<Document>) -> Result<()> {
    let home = home(pages)?;
    home.get_array("pending")?.iter().try_for_each(|token| count(pages, token))
}

/// Does a write, and repeats it if its reply is lost, which happens to every third.
fn retry_once(number: u64, write: impl Fn() -> Result<()>) -> Result<()> {
    write()?;
    if number.is_multiple_of(3) {
        return write();
    }
    Ok(())
}

fn home(pages: &Collection<Document>) -> Result<Document> {
    Ok(pages.find_one(doc! { "_id": "home" }).run()?.expect("it was inserted"))
}
