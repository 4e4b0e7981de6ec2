//! A copy of a database that a change stream keeps up to date, through kills and openings: it must become what the original is.

use std::collections::BTreeMap;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    ChangeStream, ChangeStreamEvent, Client, Database, Error, OperationType, ResumeToken, WriteConcern,
};

/// The fields that each update of the workloads makes larger, and by how much if it is always the same.
const COUNTED: [(&str, Option<i64>); 4] =
    [("n", Some(1)), ("transactions", Some(1)), ("commands", Some(1)), ("version", None)];
/// The collection whose documents show a follower how far it is to read.
const MARKS: &str = "marks";

/// A copy of the collections of a database, by their names and the `_id`s of their documents.
pub type Copy = BTreeMap<String, BTreeMap<String, Document>>;

/// A copy, and the token after which its stream goes on.
#[derive(Debug)]
pub struct Follower {
    database: String,
    token: ResumeToken,
    copy: Copy,
    marks: i64,
    /// The number of events that it has applied.
    pub applied: u64,
}

impl Follower {
    /// Begins with what there is. Nothing else may write.
    ///
    /// # Errors
    /// What the engine answers.
    pub fn begin(client: &Client, name: &str) -> Result<Self, String> {
        let database = client.database(name);
        let stream = database.watch().run().map_err(failed)?;
        let token = stream.resume_token().ok_or("a stream without a token")?;
        let copy = contents(&database).map_err(failed)?;
        Ok(Self { database: name.to_owned(), token, copy, marks: 0, applied: 0 })
    }

    /// Applies what has happened since. Nothing else may write. `check` looks at the copy between the events of one moment and those of
    /// the next: all events of a transaction are of one.
    ///
    /// # Errors
    /// Where the copy is not what the database is then, and where an event makes no sense.
    pub fn follow(
        &mut self,
        client: &Client,
        check: impl Fn(&Copy) -> Result<(), String>,
    ) -> Result<(), String> {
        let database = client.database(&self.database);
        self.marks += 1;
        let mark = doc! { "_id": self.marks };
        // The end that the follower waits for, whatever became of those of earlier lives.
        let marks = database.collection::<Document>(MARKS);
        marks
            .replace_one(mark.clone(), mark.clone())
            .upsert(true)
            .write_concern(WriteConcern::journaled())
            .run()
            .map_err(failed)?;
        let mut stream = database.watch().resume_after(self.token.clone()).run().map_err(failed)?;
        let mut last = None;
        loop {
            let event = next(&mut stream)?;
            let is_end = event.document_key.as_ref() == Some(&mark) && is_of(&event, MARKS);
            if last.is_some_and(|last| event.cluster_time < last) {
                return Err(format!("an event at {:?} after {last:?}", event.cluster_time));
            }
            if last != Some(event.cluster_time) {
                check(&self.copy).map_err(|fault| format!("before {:?}: {fault}", event.cluster_time))?;
            }
            last = Some(event.cluster_time);
            self.token = event.id.clone();
            self.apply(&event)?;
            if is_end {
                break;
            }
        }
        let original = contents(&database).map_err(failed)?;
        self.copy.retain(|_, documents| !documents.is_empty());
        if self.copy == original { Ok(()) } else { Err(difference(&self.copy, &original)) }
    }

    fn apply(&mut self, event: &ChangeStreamEvent<Document>) -> Result<(), String> {
        self.applied += 1;
        let shown = || format!("{:?} of {:?}", event.operation_type, event.document_key);
        let coll = event.ns.as_ref().and_then(|ns| ns.coll.clone()).ok_or_else(shown)?;
        let id = event.document_key.as_ref().map(Document::to_string).ok_or_else(shown)?;
        let collection = self.copy.entry(coll).or_default();
        let kind = &event.operation_type;
        let is_right = if *kind == OperationType::Delete {
            collection.remove(&id).is_some()
        } else if *kind == OperationType::Update {
            let (Some(update), Some(document)) = (&event.update_description, collection.get_mut(&id)) else {
                return Err(shown());
            };
            let continues = COUNTED.iter().all(|(field, step)| {
                let Ok(after) = update.updated_fields.get_i64(field) else { return true };
                let before = document.get_i64(field).unwrap_or_default();
                step.map_or(after > before, |step| after == before + step)
            });
            // The workloads set fields at the top level, and nothing else.
            document.extend(update.updated_fields.clone());
            update.removed_fields.is_empty() && continues
        } else {
            let full = event.full_document.clone().ok_or_else(shown)?;
            let was_there = collection.insert(id, full).is_some();
            let expected = if was_there { OperationType::Replace } else { OperationType::Insert };
            *kind == expected
        };
        if is_right { Ok(()) } else { Err(format!("{} does not follow from what was before", shown())) }
    }
}

fn next(
    stream: &mut ChangeStream<ChangeStreamEvent<Document>>,
) -> Result<ChangeStreamEvent<Document>, String> {
    stream.next().ok_or("the stream has ended")?.map_err(failed)
}

fn is_of(event: &ChangeStreamEvent<Document>, coll: &str) -> bool {
    event.ns.as_ref().and_then(|ns| ns.coll.as_deref()) == Some(coll)
}

fn contents(database: &Database) -> Result<Copy, Error> {
    let mut copy = Copy::new();
    for name in database.list_collection_names().run()? {
        for found in database.collection::<Document>(&name).find(doc! {}).run()? {
            let found = found?;
            let id = doc! { "_id": found.get("_id").cloned().unwrap_or(Bson::Null) }.to_string();
            copy.entry(name.clone()).or_default().insert(id, found);
        }
    }
    copy.retain(|_, documents| !documents.is_empty());
    Ok(copy)
}

fn difference(copy: &Copy, original: &Copy) -> String {
    let all = |from: &Copy| -> Vec<String> {
        let of = |(name, documents): (&String, &BTreeMap<String, Document>)| {
            documents.values().map(|document| format!("{name}: {document}")).collect::<Vec<_>>()
        };
        from.iter().flat_map(of).collect()
    };
    let (copied, stored) = (all(copy), all(original));
    let missing = stored.iter().find(|document| !copied.contains(document));
    let invented = copied.iter().find(|document| !stored.contains(document));
    format!("the copy lacks {missing:?} and has {invented:?} that is not there")
}

#[expect(clippy::needless_pass_by_value, reason = "made for errors that are mapped")]
fn failed(error: Error) -> String {
    format!("{error:?}")
}
