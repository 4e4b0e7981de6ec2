//! Sorts, groups and joins many times the memory that they may have, and prints for each the most memory that it used.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};

use crate::Outcome;

const DOCUMENTS: i32 = 100_000;
/// Documents of one call.
const CALL: i32 = 1000;
const TEXT_BYTES: usize = 2000;

pub(crate) fn run(folder: &Path, stage_memory: usize) -> Outcome<()> {
    let client = Client::builder().memory_budget(16 << 20).stage_memory(stage_memory).open(folder)?;
    let things = client.database("test").collection::<Document>("things");
    let text = "x".repeat(TEXT_BYTES);
    for first in (0..DOCUMENTS).step_by(usize::try_from(CALL)?) {
        let documents =
            (first..first + CALL).map(|n| doc! { "_id": n, "n": scattered(n), "m": moved(n), "text": &text });
        things.insert_many(documents).run()?;
    }
    // Each document asks for another one, in no order.
    let join = [
        doc! { "$project": { "wanted": { "$subtract": [99_999, "$_id"] } } },
        doc! { "$lookup": { "from": "things", "localField": "wanted", "foreignField": "m", "as": "found" } },
        doc! { "$unwind": "$found" },
    ];
    let groups = doc! { "$group": { "_id": { "$mod": ["$n", 10_000] }, "all": { "$push": "$text" } } };
    for (name, work) in [
        ("sort", Box::new(sort) as Box<dyn Fn(&Collection<Document>) -> Outcome<i32>>),
        ("group", Box::new(move |things| count(things, std::slice::from_ref(&groups)))),
        ("join", Box::new(move |things| count(things, &join))),
    ] {
        let before = resident_bytes("VmRSS:")?;
        // The most memory is counted again from here on.
        fs::write("/proc/self/clear_refs", "5")?;
        let rows = work(&things)?;
        let most = resident_bytes("VmHWM:")?.saturating_sub(before);
        let storage = client.metrics()?.storage;
        writeln!(io::stdout(), "{name} {rows} {most} {}", storage.temporary_bytes_written)?;
    }
    Ok(client.close()?)
}

fn sort(things: &Collection<Document>) -> Outcome<i32> {
    let mut sorted = things.find(doc! {}).sort(doc! { "n": 1 }).run()?;
    let (mut rows, mut last) = (0, i32::MIN);
    while sorted.advance()? {
        let next = sorted.current().get_i32("n")?;
        if next < last {
            return Err(format!("{next} comes after {last}").into());
        }
        (rows, last) = (rows + 1, next);
    }
    Ok(rows)
}

fn count(things: &Collection<Document>, stages: &[Document]) -> Outcome<i32> {
    let mut results = things.aggregate(stages.iter().cloned()).run()?;
    let mut rows = 0;
    while results.advance()? {
        rows += 1;
    }
    Ok(rows)
}

/// Numbers in no order.
fn scattered(n: i32) -> i32 {
    n.wrapping_mul(0x1e37_79b9).rotate_left(11) & i32::MAX
}

/// The numbers below `DOCUMENTS`, each once and in no order.
fn moved(n: i32) -> i32 {
    // The factor has no divisor in common with the number of documents.
    i32::try_from(i64::from(n) * 61_803 % i64::from(DOCUMENTS)).unwrap_or_default()
}

fn resident_bytes(name: &str) -> Outcome<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes << 10)
}
