//! Stores and reads documents whose `_id` or whose indexed value has megabytes, and prints the most memory that it had.

use std::io::{self, Write};
use std::path::Path;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, IndexModel};

use crate::Outcome;
use crate::load::resident_bytes_max;

const DOCUMENTS: usize = 60;
const VALUE_BYTES: usize = 8 << 20;

pub(crate) fn run(folder: &Path, field: &str) -> Outcome<()> {
    let client = Client::builder().memory_budget(64 << 20).open(folder)?;
    let things = client.database("test").collection::<Document>("things");
    // Any other field has no index, and shows what the documents themselves use.
    if field == "text" {
        things.create_index(IndexModel::builder().keys(doc! { field: 1 }).build()).run()?;
    }
    // They differ at their ends only.
    let value = |n: usize| format!("{}{n:02}", "x".repeat(VALUE_BYTES - 2));
    for n in 0..DOCUMENTS {
        let mut document = doc! { "n": Bson::Int64(i64::try_from(n)?) };
        document.insert(field, value(n));
        things.insert_one(document).run()?;
    }
    for n in [0, 31, DOCUMENTS - 1] {
        let found = things.find_one(doc! { field: value(n) }).projection(doc! { "n": 1 }).run()?;
        let found = found.ok_or("a document is missing")?.get_i64("n")?;
        if found != i64::try_from(n)? {
            return Err(format!("{found} was found and not {n}").into());
        }
    }
    if things.count_documents(doc! { field: { "$gt": "w" } }).run()? != DOCUMENTS as u64 {
        return Err("documents are missing".into());
    }
    client.flush()?;
    writeln!(io::stdout(), "{}", resident_bytes_max()?)?;
    client.close()?;
    Ok(())
}
