//! Writes, scans and looks up far more than its memory budget, and prints the most memory that it had.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{Client, IndexModel};

use crate::Outcome;

const DOCUMENTS: i64 = 150_000;
/// Documents of one call.
const CALL: i64 = 1_000;

pub(crate) fn run(folder: &Path, memory_budget: usize) -> Outcome<()> {
    let client = Client::builder().memory_budget(memory_budget).open(folder)?;
    let things = client.database("test").collection::<Document>("things");
    things.create_index(IndexModel::builder().keys(doc! { "k": 1 }).build()).run()?;
    let pad = "p".repeat(400);
    for first in (0..DOCUMENTS).step_by(usize::try_from(CALL)?) {
        let documents = (first..first + CALL).map(|n| doc! { "_id": scattered(n), "k": n, "pad": &pad });
        things.insert_many(documents).run()?;
    }
    if things.count_documents(doc! { "k": { "$gte": 0 } }).run()? != u64::try_from(DOCUMENTS)? {
        return Err("documents are missing".into());
    }
    for n in (0..DOCUMENTS).step_by(10) {
        things.find_one(doc! { "_id": scattered(n) }).run()?.ok_or("a document is missing")?;
    }
    // Its keys use a multiple of the memory that is left for them by default.
    things.create_index(IndexModel::builder().keys(doc! { "pad": 1, "k": -1 }).build()).run()?;
    writeln!(io::stdout(), "{}", resident_bytes_max()?)?;
    Ok(())
}

/// Numbers in no order.
fn scattered(n: i64) -> i64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed())
}

/// The most that this process had in memory, as Linux counts it.
pub(crate) fn resident_bytes_max() -> Outcome<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes << 10)
}
