//! Writers in a process that ends for want of memory while they write: what was acknowledged by then is on standard output, a line
//! for each document.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use cairndb::Collection;
use cairndb::bson::{Document, doc};
use cairndb_tests::scratch;

use crate::Outcome;
use crate::bounded::{confined, hog};

/// The first `_id` of each writer beside the one that ends the process.
const FIRST: [i64; 2] = [1_000_000, 2_000_000];
/// More than any of them inserts until then.
const INSERTS_MAX: i64 = 100_000;
/// Inserts of all of them before more memory is used than there is.
const BEFORE_THE_END: u64 = 500;

/// `child starve FOLDER`, without the first word.
pub(crate) fn run(folder: &str) -> Outcome<()> {
    let client = scratch::small().open(folder)?;
    confined(move || {
        let collection = client.database("test").collection::<Document>("starved");
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let insert = |id| insert(&collection, id, &acknowledged);
            for first in FIRST {
                scope.spawn(move || (first..first + INSERTS_MAX).try_for_each(insert));
            }
            let before = |_: &i64| acknowledged.load(Ordering::Relaxed) < BEFORE_THE_END;
            (0..INSERTS_MAX).take_while(before).try_for_each(insert)?;
            hog()
        })
    })
}

fn insert(collection: &Collection<Document>, id: i64, acknowledged: &AtomicU64) -> Outcome<()> {
    collection.insert_one(doc! { "_id": id, "text": "s".repeat(200) }).run()?;
    acknowledged.fetch_add(1, Ordering::Relaxed);
    // By one write, so that a line is there as a whole or not at all.
    io::stdout().lock().write_all(format!("{id}\n").as_bytes())?;
    Ok(io::stdout().flush()?)
}
