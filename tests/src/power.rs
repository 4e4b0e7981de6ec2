//! What the child and the judge of the power suite agree on, besides the documents of [`workload`](crate::workload).

use cairndb::bson::{Document, deserialize_from_document, doc, serialize_to_document};
use cairndb::{Client, Collection, Error, PlantedFault, ResumeToken, WriteConcern};

use crate::choices::mix;

/// The database of the numbered collection and of the sequence.
pub const DATABASE: &str = "power";
/// The collection with the auto-increment field `n`.
pub const NUMBERED: &str = "numbered";
/// The sequence beside it.
pub const SEQUENCE: &str = "loose";
/// The course of values of the field, in documents that may be lost.
pub const FIELD: u64 = 0;
/// The course of values of the field, in documents that were acknowledged as durable.
pub const FIELD_JOURNALED: u64 = 1;
/// The course of values of the sequence.
pub const LOOSE: u64 = 2;

/// Whether the write that makes a document this version asks for a journaled acknowledgement. It follows from the two, so
/// that no record has to contain it.
pub fn is_journaled(tag: u64, version: u64) -> bool {
    mix(mix(tag) ^ version).is_multiple_of(8)
}

/// The token of the call that inserts a document alone. Half of these calls have one.
pub fn token(tag: u64) -> Option<String> {
    mix(mix(tag) ^ 5).is_multiple_of(2).then(|| format!("power {tag}"))
}

fn tokens(client: &Client) -> Collection<Document> {
    client.database(DATABASE).collection("tokens")
}

/// The token of a stream from before the first write of a tagged document. Absent if none was stored.
///
/// # Errors
/// What the engine answers.
pub fn first_token(client: &Client) -> Result<Option<ResumeToken>, Error> {
    let stored = tokens(client).find_one(doc! {}).run()?;
    Ok(stored.and_then(|mut stored| {
        stored.remove("_id");
        deserialize_from_document(stored).ok()
    }))
}

/// Stores the token of a stream, before the first write of a tagged document.
///
/// # Errors
/// What the engine answers.
pub fn keep_first_token(client: &Client, token: &ResumeToken) -> Result<(), Error> {
    let mut stored = doc! { "_id": "first" };
    stored.extend(serialize_to_document(token).unwrap_or_default());
    let tokens = tokens(client);
    let replace = tokens.replace_one(doc! { "_id": "first" }, stored).upsert(true);
    replace.write_concern(WriteConcern::journaled()).run().map(drop)
}

/// The fault of that name.
pub fn planted(name: &str) -> Option<PlantedFault> {
    Some(match name {
        "none" => PlantedFault::None,
        "witness-not-raised" => PlantedFault::WitnessNotRaised,
        "commits-not-synced" => PlantedFault::CommitsNotSynced,
        "mark-not-synced" => PlantedFault::MarkNotSynced,
        "reserve-not-synced" => PlantedFault::ReserveNotSynced,
        "entries-apart" => PlantedFault::EntriesApart,
        "folder-not-synced" => PlantedFault::FolderNotSynced,
        "tokens-apart" => PlantedFault::TokensApart,
        "events-shown-early" => PlantedFault::EventsShownEarly,
        "writes-not-handed-over" => PlantedFault::WritesNotHandedOver,
        _ => return None,
    })
}
