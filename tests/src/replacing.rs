//! The collections of the crash suite for pipelines that write. Each run of a pipeline is a generation, and what it writes
//! says of which one it is.

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, Error, IndexModel, IndexOptions};

/// The number of generations that one life may have. Generations ascend through all lives.
pub const GENERATIONS_PER_LIFE: u64 = 100_000;
/// The collection that `$out` replaces, as a tag of the journal.
pub const PLACED: u64 = 0;
/// The collection that `$merge` merges into.
pub const MERGED: u64 = 1;
/// The number of documents that are merged.
const MERGED_DOCUMENTS: i64 = 40;
const SOURCE_DOCUMENTS: i64 = 400;

fn collection(client: &Client, name: &str) -> Collection<Document> {
    client.database("crash").collection(name)
}

/// Makes the documents that the pipelines read, and the indexes of what they write to, unless they are there.
pub fn source(client: &Client) -> Result<(), Error> {
    let source = collection(client, "source");
    if source.count_documents(doc! {}).run()? == 0 {
        // So large that `$out` gathers the most documents in several inserts.
        let text = "x".repeat(14_000);
        source.insert_many((0..SOURCE_DOCUMENTS).map(|n| doc! { "_id": n, "n": n, "text": &text })).run()?;
    }
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build();
    for name in ["placed", "merged"] {
        collection(client, name).create_index(index.clone()).run()?;
    }
    Ok(())
}

/// The number of documents that `$out` writes in a generation.
pub fn placed_documents(generation: u64) -> u64 {
    40 + generation % 7 * 60
}

/// Replaces the documents of one collection by those of a generation.
pub fn place(client: &Client, generation: u64) -> Result<(), Error> {
    let count = placed_documents(generation).cast_signed();
    let stages = [
        doc! { "$match": { "n": { "$lt": count } } },
        doc! { "$set": { "generation": generation.cast_signed() } },
        doc! { "$out": "placed" },
    ];
    collection(client, "source").aggregate(stages).run().map(drop)
}

/// Merges the documents of a generation into another collection, by another field than the `_id`.
pub fn merge(client: &Client, generation: u64) -> Result<(), Error> {
    let stages = [
        doc! { "$match": { "n": { "$lt": MERGED_DOCUMENTS } } },
        doc! { "$project": { "_id": 0, "n": 1, "generation": { "$literal": generation.cast_signed() } } },
        doc! { "$merge": { "into": "merged", "on": "n" } },
    ];
    collection(client, "source").aggregate(stages).run().map(drop)
}

/// The generation whose documents are there, or `None` if there are none. Says what is wrong with a mixture.
pub fn placed(client: &Client) -> Result<Option<u64>, String> {
    let found = generations(client, "placed")?;
    match found.as_slice() {
        [] => Ok(None),
        [first, ..] if found.iter().all(|other| other == first) => {
            let wanted = placed_documents(*first);
            if found.len() as u64 == wanted {
                Ok(Some(*first))
            } else {
                Err(format!("{} documents of {wanted}", found.len()))
            }
        }
        [first, ..] => {
            let other = found.iter().find(|other| *other != first);
            Err(format!("documents of the generations {first} and {other:?}"))
        }
    }
}

/// The lowest and the highest generation of the merged documents, if there are any. After a whole run all documents are
/// there: says how many are missing.
pub fn merged(client: &Client, is_whole: bool) -> Result<Option<(u64, u64)>, String> {
    let found = generations(client, "merged")?;
    if is_whole && found.len() as u64 != MERGED_DOCUMENTS.cast_unsigned() {
        return Err(format!(
            "{} merged documents of {MERGED_DOCUMENTS}, and all of them were acknowledged",
            found.len()
        ));
    }
    Ok(found.iter().min().copied().zip(found.iter().max().copied()))
}

fn generations(client: &Client, name: &str) -> Result<Vec<u64>, String> {
    let cursor = collection(client, name).find(doc! {}).run().map_err(|error| error.to_string())?;
    let generation = |found: Result<Document, Error>| {
        let found = found.map_err(|error| error.to_string())?;
        found.get_i64("generation").map(i64::cast_unsigned).map_err(|error| format!("{found}: {error}"))
    };
    cursor.map(generation).collect()
}
