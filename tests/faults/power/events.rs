//! A copy of the tagged documents by the events of all lives: each surviving write has one, and no event has none.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{ChangeStreamEvent, Client, OperationType, WriteConcern};
use cairndb_tests::{power, workload};

/// The time that an event may last.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tags and versions by their `_id`s.
type Copy = HashMap<String, (u64, u64)>;

/// Compares what is stored with a copy by events, if there is a token from before the first write.
pub(crate) fn audit(client: &Client, stored: &BTreeMap<u64, u64>) -> Result<(), String> {
    let failed = |error: cairndb::Error| format!("a stream from the first event on: {error:?}");
    let Some(token) = power::first_token(client).map_err(failed)? else { return Ok(()) };
    let tagged = workload::tagged(client);
    // The end. What was written when the store was opened may not be synced yet, and streams wait for that.
    let end = doc! { "_id": "end" };
    let insert = tagged.insert_one(end.clone()).write_concern(WriteConcern::journaled());
    insert.run().map_err(failed)?;
    let watch = tagged.watch().resume_after(token).max_await_time(PATIENCE);
    let mut stream = watch.run().map_err(failed)?;
    let mut copy = Copy::new();
    loop {
        let event = stream.next_if_any().map_err(failed)?.ok_or("a stream does not come to its end")?;
        if event.document_key.as_ref() == Some(&end) {
            break;
        }
        apply(&mut copy, &event)?;
    }
    let copied: BTreeMap<u64, u64> = copy.into_values().collect();
    if copied == *stored {
        return Ok(());
    }
    let missing = stored.iter().find(|(tag, version)| copied.get(tag) != Some(version));
    let invented = copied.iter().find(|(tag, version)| stored.get(tag) != Some(version));
    Err(format!("by their events {missing:?} is not there, and {invented:?} is"))
}

fn apply(copy: &mut Copy, event: &ChangeStreamEvent<Document>) -> Result<(), String> {
    let told = || format!("{:?} of {:?}", event.operation_type, event.document_key);
    let id = event.document_key.as_ref().map(Document::to_string).ok_or_else(told)?;
    let is_right = if event.operation_type == OperationType::Delete {
        copy.remove(&id).is_some()
    } else {
        let is_new = event.operation_type == OperationType::Insert;
        let full = event.full_document.as_ref().ok_or_else(told)?;
        let (tag, version) = workload::recognize(full)?;
        let before = copy.insert(id, (tag, version));
        // Each version is written by one call, which replaces the one before.
        before.is_none() == is_new && before.is_none_or(|before| before == (tag, version.saturating_sub(1)))
    };
    if is_right { Ok(()) } else { Err(format!("{} does not follow from the events before", told())) }
}
