//! Uploads files until the process is killed, gives some up, and removes some: each thread files of its own.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use cairndb::{Client, GridFsBucket};
use cairndb_tests::choices::{Choices, part};
use cairndb_tests::journal::Record;
use cairndb_tests::uploading;
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, Flaw, told};

/// Tags that one life, and one thread of it, may use.
const TAGS_PER_LIFE: u64 = 1_000_000;
const TAGS_PER_THREAD: u64 = 100_000;
const THREADS: u64 = 3;
/// Versions of a file in the journal. 0 is absent.
const WHOLE: u64 = 1;

pub(crate) fn run(folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    let client = workload::options(&mut choices).open(folder)?;
    let journal = journal::open()?;
    Record::Opened.write_to(&journal)?;
    let (client, journal) = (&client, &journal);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let first = life * TAGS_PER_LIFE + thread * TAGS_PER_THREAD;
            let choices = Choices::seeded(part(seed, thread));
            scope.spawn(move || told(journal, upload(client, journal, (first, choices), flaw)));
        }
        // Beside the uploads all the time: what earlier lives left goes, and nothing else.
        scope.spawn(|| told(journal, remove_orphans(client)));
    });
    Err("every thread met a fault".into())
}

fn remove_orphans(client: &Client) -> Outcome<()> {
    loop {
        uploading::bucket(client).remove_orphans(Duration::ZERO).run()?;
    }
}

fn upload(client: &Client, journal: &File, (first, mut choices): (u64, Choices), flaw: Flaw) -> Outcome<()> {
    let bucket = uploading::bucket(client);
    for tag in first.. {
        Record::Begun { tag, version: WHOLE }.write_to(journal)?;
        if flaw == Flaw::AcknowledgeFirst {
            Record::Done { tag, version: WHOLE }.write_to(journal)?;
        }
        let is_whole = upload_one(&bucket, tag, &mut choices)?;
        Record::Done { tag, version: u64::from(is_whole) }.write_to(journal)?;
        if is_whole && choices.one_in(3) {
            Record::Begun { tag, version: 0 }.write_to(journal)?;
            bucket.delete(tag.cast_signed().into()).run()?;
            Record::Done { tag, version: 0 }.write_to(journal)?;
        }
    }
    Ok(())
}

/// Uploads a file, or gives it up. Returns whether it is there.
fn upload_one(bucket: &GridFsBucket, tag: u64, choices: &mut Choices) -> Outcome<bool> {
    let id = tag.cast_signed().into();
    let open = bucket.open_upload_stream("file").id(id).chunk_size_bytes(uploading::chunk_size(tag));
    let mut stream = open.run()?;
    for piece in uploading::content(tag).chunks(25_000) {
        stream.write_all(piece)?;
        // Most pieces are stored by themselves, so that a kill finds some of them.
        if !choices.one_in(4) {
            stream.flush()?;
        }
    }
    if choices.one_in(4) {
        stream.abort()?;
        return Ok(false);
    }
    stream.close()?;
    Ok(true)
}
