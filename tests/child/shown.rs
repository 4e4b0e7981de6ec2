//! Journals what a change stream shows of the tagged documents, beside those that write them.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{ChangeStream, ChangeStreamEvent, Client, OperationType};
use cairndb_tests::journal::Record;
use cairndb_tests::{power, workload};

use crate::Outcome;
use crate::power::is_refusal;

/// How long it waits for an event before it looks whether the writers are done.
const AWAIT_TIME: Duration = Duration::from_millis(5);

/// A stream, and the tags of documents by their `_id`s.
pub(crate) struct Shown {
    stream: ChangeStream<ChangeStreamEvent<Document>>,
    tags: HashMap<String, u64>,
}

impl Shown {
    /// Opens the stream, before the writers begin.
    pub(crate) fn open(client: &Client) -> Outcome<Self> {
        let tagged = workload::tagged(client);
        let stream = tagged.watch().max_await_time(AWAIT_TIME).run()?;
        let mut tags = HashMap::new();
        for stored in tagged.find(doc! {}).run()? {
            let stored = stored?;
            tags.insert(id_of(&stored), workload::recognize(&stored)?.0);
        }
        if tags.is_empty()
            && power::first_token(client)?.is_none()
            && let Some(token) = stream.resume_token()
        {
            power::keep_first_token(client, &token)?;
        }
        Ok(Self { stream, tags })
    }

    /// Journals what is shown, until the writers are done and nothing is left.
    pub(crate) fn follow(mut self, journal: &File, are_done: &AtomicBool) -> Outcome<()> {
        loop {
            let is_last = are_done.load(Ordering::Acquire);
            match self.stream.next_if_any() {
                Ok(Some(event)) => self.tell(&event, journal)?,
                Ok(None) if is_last => return Ok(()),
                Ok(None) => {}
                Err(error) if is_refusal(&error) => return Ok(()),
                Err(error) => return Err(format!("a stream: {error:?}").into()),
            }
        }
    }

    fn tell(&mut self, event: &ChangeStreamEvent<Document>, journal: &File) -> Outcome<()> {
        let key = event.document_key.as_ref().ok_or("an event without a key")?;
        let (tag, version) = match &event.full_document {
            Some(full) => workload::recognize(full)?,
            None if event.operation_type == OperationType::Delete => {
                (self.tags.get(&id_of(key)).copied().ok_or("a delete of what was never there")?, 0)
            }
            None => return Err(format!("an event without a document: {event:?}").into()),
        };
        self.tags.insert(id_of(key), tag);
        Ok(Record::Shown { tag, version }.write_to(journal)?)
    }
}

fn id_of(document: &Document) -> String {
    document.get("_id").map(ToString::to_string).unwrap_or_default()
}
