//! The story, step by step.

use std::path::Path;
use std::time::Duration;

use cairndb::Client;
use cairndb::bson::{Document, RawDocumentBuf, doc};

use crate::load::{self, Loaded};
use crate::outcome::Outcome;
use crate::raw::Raw;
use crate::screen::{Screen, duration, grouped, line, per_second, rate};
use crate::source::Source;
use crate::{duplicates, killed, numbering, object_ids, questions};

const DATABASE: &str = "demo";
const COLLECTION: &str = "documents";

/// Tells it with stores in `folder`.
pub(crate) fn tell(folder: &Path) -> Outcome<()> {
    let source = Source::open()?;
    let mut screen = Screen::new();
    let versions = Client::versions();
    screen.step(&format!("Real documents: {}", source.name))?;
    let (unique_field, question) = (source.unique_field, source.question);
    let path = folder.join("store");
    let client = Client::open(&path)?;
    let documents = client.database(DATABASE).collection::<RawDocumentBuf>(COLLECTION);
    let before = documents.estimated_document_count().run()?;
    if before > 0 {
        return Err(format!("{} has a store of an earlier run: name another folder", folder.display()).into());
    }
    let mut raw = Raw::create(&folder.join("raw"))?;
    let loaded = load::load(&documents, &mut raw, source)?;
    if loaded.stored == 0 {
        return Err(loaded.first_problem.unwrap_or_else(|| "the input holds no document".to_owned()).into());
    }
    intake(&loaded, &raw)?;
    drop(raw);
    let documents = documents.clone_with_type::<Document>();
    let first = duplicates::sample(&documents, doc! {})?;
    line(&format!("the first one, as stored: {}", questions::json(first)?))?;

    // One that is made here, whatever the documents have as their _id.
    let note = client.database(numbering::DATABASE).collection::<Document>("notes");
    let id = note.insert_one(doc! { "text": "who made my _id?" }).run()?.inserted_id;
    object_ids::show(&mut screen, id.as_object_id().ok_or("the engine made an _id that is no ObjectId")?)?;
    numbering::show(&mut screen, &client)?;
    duplicates::show(&mut screen, &documents, unique_field)?;
    // The writer is a process of its own, and a folder has one owner.
    drop(documents);
    drop(note);
    client.close()?;

    let client = killed::show(&mut screen, &path)?;
    let documents = client.database(DATABASE).collection::<Document>(COLLECTION);
    let found = documents.count_documents(doc! {}).run()?;
    if found != loaded.stored {
        return Err(format!("{found} documents are there, of {} that were stored", loaded.stored).into());
    }
    questions::show(&mut screen, &client, &documents, question)?;
    client.close()?;
    screen.step(&format!(
        "That was CairnDB {} with RocksDB {}: docs/guide/first_half_hour.md goes on from here",
        versions.cairndb, versions.rocksdb
    ))
}

/// How fast documents were stored, with RocksDB writing the same bytes.
fn intake(loaded: &Loaded, raw: &Raw) -> Outcome<()> {
    let figures = |name: &str, time: Duration| {
        format!(
            "{name:12} {} documents in {}: {}, {} MB/s",
            grouped(loaded.stored),
            duration(time),
            rate(loaded.stored, time),
            per_second(loaded.bytes, time) / 1_000_000
        )
    };
    line(&figures("CairnDB", loaded.inserting))?;
    line(&figures("raw RocksDB", raw.writing))?;
    if let Some(problem) = &loaded.first_problem {
        line(&format!(
            "{} lines are not stored; the first: {problem}",
            grouped(loaded.refused + loaded.malformed)
        ))?;
    }
    Ok(())
}
