//! Counting exactly once although replies get lost: a write that failed may have been done, and adding one again is not
//! the same as adding one.
//!
//! So the counting is cut in two writes, each of which may be repeated. The first notes a token as pending, which
//! `$addToSet` does once however often it is asked to. The second takes the token out and counts, in one update; a
//! repetition finds the token gone and matches nothing. A counter that dies between the two leaves its token, and
//! whoever cleans up does the second write for it.
//!
//! Run it with `cargo run --release -p cairndb --example resilient`.

use std::io::Write;
use std::thread;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Result};

const THREADS: u64 = 4;
const EACH: u64 = 250;
/// One counting of so many dies between its two writes.
const DYING: u64 = 10;

fn main() -> Result<()> {
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
    assert_eq!(pending, died, "who died left a token");
    clean_up(&pages)?;
    let home = self::home(&pages)?;
    assert_eq!(home.get_i64("visits")?.unsigned_abs(), THREADS * EACH, "every visit once");
    assert!(home.get_array("pending")?.is_empty(), "nothing is pending");
    writeln!(
        std::io::stdout().lock(),
        "{} visits counted once each, {died} of them by cleaning up",
        THREADS * EACH
    )?;
    assert!(client.verify()?.is_clean(), "everything stored agrees");
    client.close()
}

/// Counts visits, many of whose replies get lost; says how many countings died halfway.
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

/// Notes a token as pending. Repeating it changes nothing.
fn note(pages: &Collection<Document>, token: ObjectId) -> Result<()> {
    pages.update_one(doc! { "_id": "home" }, doc! { "$addToSet": { "pending": token } }).run().map(drop)
}

/// Takes the token out and counts, both or neither. Repeating it finds no token and does nothing.
fn count(pages: &Collection<Document>, token: &Bson) -> Result<()> {
    let change = doc! { "$pull": { "pending": token.clone() }, "$inc": { "visits": 1_i64 } };
    pages.update_one(doc! { "_id": "home", "pending": token.clone() }, change).run().map(drop)
}

/// Finishes what others began.
fn clean_up(pages: &Collection<Document>) -> Result<()> {
    let home = home(pages)?;
    home.get_array("pending")?.iter().try_for_each(|token| count(pages, token))
}

/// Does a write, and once more if its reply got lost, which happens to every third.
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
