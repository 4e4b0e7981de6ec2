//! Inserts until the storage rejects one, then looks at what still works.
//!
//! It prints one word and a value a line: the parent, which set a limit on the size of files, holds them against what it
//! finds after opening the folder again.

use std::io::Write;

use cairndb::bson::doc;
use cairndb::{Error, ErrorKind};
use cairndb_tests::scratch;

use crate::Outcome;

/// Far more than fits under any limit that a test sets.
const DOCUMENTS_MAX: i32 = 1_000_000;
/// The length of each file.
const FILE_BYTES: usize = 100_000;

pub(crate) fn run(folder: &str) -> Outcome<()> {
    let client = scratch::small().open(folder)?;
    let things = scratch::things(&client);
    let padding = "x".repeat(1000);
    let insert = |number: i32| things.insert_one(doc! { "_id": number, "padding": &padding }).run();
    let (acknowledged, first) = (0..DOCUMENTS_MAX)
        .find_map(|number| insert(number).err().map(|error| (number, error)))
        .ok_or("the storage never refused a write")?;
    let second = insert(DOCUMENTS_MAX).err().ok_or("a write was accepted after one had failed")?;
    let mut out = std::io::stdout();
    writeln!(out, "acknowledged {acknowledged}")?;
    writeln!(out, "first {}", name(&first))?;
    writeln!(out, "unknown {}", first.is_commit_unknown())?;
    writeln!(out, "second {}", name(&second))?;
    writeln!(out, "state {:?}", client.metrics()?.state)?;
    writeln!(out, "readable {}", things.count_documents(doc! { "padding": &padding }).run()?)?;
    writeln!(out, "close {}", client.close().map_or_else(|error| name(&error), |()| "succeeded"))?;
    Ok(())
}

/// The same with files: uploads until the storage rejects one, in one of the ways in which it can.
pub(crate) fn run_files(folder: &str, chunk_size: &str) -> Outcome<()> {
    let client = scratch::small().open(folder)?;
    let bucket = client.database("test").gridfs_bucket(None);
    let upload = |number: i32| {
        let open = bucket.open_upload_stream("file").id(number.into());
        let mut upload = open.chunk_size_bytes(chunk_size.parse().unwrap_or(1)).run()?;
        upload.write_all(&vec![7; FILE_BYTES])?;
        upload.close()
    };
    let (acknowledged, first) = (0..DOCUMENTS_MAX)
        .find_map(|number| upload(number).err().map(|error| (number, error)))
        .ok_or("the storage never refused an upload")?;
    let second = upload(DOCUMENTS_MAX).err().ok_or("an upload was accepted after one had failed")?;
    let mut out = std::io::stdout();
    writeln!(out, "acknowledged {acknowledged}")?;
    writeln!(out, "first {}", name(&first))?;
    writeln!(out, "second {}", name(&second))?;
    Ok(())
}

/// The same with calls that have tokens, of one document each or of several.
pub(crate) fn run_tokens(folder: &str, documents: &str) -> Outcome<()> {
    let client = scratch::small().open(folder)?;
    let things = scratch::things(&client);
    let documents: i32 = documents.parse()?;
    let call = |number: i32| -> Result<(), Error> {
        let padding = "x".repeat(1000);
        let new = (0..documents).map(|place| doc! { "call": number, "place": place, "padding": &padding });
        things.insert_many(new).exactly_once(format!("call {number}")).run().map(drop)
    };
    let (acknowledged, first) = (0..DOCUMENTS_MAX)
        .find_map(|number| call(number).err().map(|error| (number, error)))
        .ok_or("the storage never refused a call")?;
    // Whether it was done is not known, and so it is not run again before the next open.
    let again = call(acknowledged).err().ok_or("a call was answered after it had failed")?;
    let mut out = std::io::stdout();
    writeln!(out, "acknowledged {acknowledged}")?;
    writeln!(out, "first {}", name(&first))?;
    writeln!(out, "again {}", name(&again))?;
    Ok(())
}

fn name(error: &Error) -> &'static str {
    if matches!(error.kind(), ErrorKind::CommitUnknown { .. }) {
        "CommitUnknown"
    } else if matches!(error.kind(), ErrorKind::Poisoned { .. }) {
        "Poisoned"
    } else {
        "another"
    }
}
