//! What the child and the judge of the power suite agree on, besides the documents of [`workload`].

use std::collections::BTreeMap;

use cairndb::bson::{Bson, Document, deserialize_from_document, doc, serialize_to_document};
use cairndb::{
    AutoIncrement, Client, ClientSession, Collection, Contract, Error, PlantedFault, ResumeToken,
    WriteConcern,
};

use crate::choices::mix;
use crate::workload;

/// The database of the numbered collection and of the sequence.
pub const DATABASE: &str = "power";
/// The collection with the auto-increment field `n`.
pub const NUMBERED: &str = "numbered";
/// The collection with the gapless field `n`, into which transactions write.
pub const INVOICES: &str = "invoices";
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

/// The token of the call that inserts a document, or several of which this is the first. Half of these calls have one.
pub fn token(tag: u64) -> Option<String> {
    mix(mix(tag) ^ 5).is_multiple_of(2).then(|| format!("power {tag}"))
}

/// The answer of a call that inserts several documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The `_id`s, in order.
    pub ids: Vec<Bson>,
    /// The number of a document of [`NUMBERED`], if one was inserted.
    pub value: Option<i64>,
    /// The number of a document of [`INVOICES`], if one was inserted.
    pub invoice: Option<i64>,
    /// Whether the call had happened before. Absent where results do not say.
    pub was_replayed: Option<bool>,
}

/// Makes the numbered collections, unless they are there.
///
/// # Errors
/// What the engine answers.
pub fn make(client: &Client) -> Result<(), Error> {
    let database = client.database(DATABASE);
    let names = database.list_collection_names().run()?;
    let is_missing = |wanted: &str| !names.iter().any(|name| name == wanted);
    if is_missing(NUMBERED) {
        let field = AutoIncrement::builder()
            .field("n")
            .contract(Contract::Fast)
            .cache_size(10)
            .acquire_size(3)
            .build();
        database.create_collection(NUMBERED).auto_increment(field).run()?;
    }
    if is_missing(INVOICES) {
        let field = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        database.create_collection(INVOICES).auto_increment(field).run()?;
    }
    Ok(())
}

/// Inserts the documents of several tags by one call, or in one transaction with a document that gets a number. Which of these,
/// and whether with a token, follows from the first tag.
///
/// # Errors
/// What the engine answers.
pub fn insert_many(client: &Client, first: u64, count: u64, concern: WriteConcern) -> Result<Made, Error> {
    let (form, token) = (mix(mix(first) ^ 9) % 4, token(first));
    if form == 0 {
        let tagged = workload::tagged(client);
        let documents = (first..first + count).map(|tag| workload::document(tag, 1));
        let insert = tagged.insert_many(documents).write_concern(concern);
        let insert = match token {
            Some(token) => insert.exactly_once(token),
            None => insert,
        };
        let done = insert.run()?;
        let was_replayed = Some(done.was_replayed);
        // They ascend by the places of the documents.
        let ids: BTreeMap<usize, Bson> = done.inserted_ids.into_iter().collect();
        return Ok(Made { ids: ids.into_values().collect(), value: None, invoice: None, was_replayed });
    }
    let stage = |session: &mut ClientSession| stage(client, session, first, count, form);
    let mut session = client.start_session().run()?;
    let start = session.start_transaction().write_concern(concern);
    let (ids, value, invoice) = match token {
        Some(token) => start.exactly_once(token).and_run(stage)?,
        None => start.and_run(stage)?,
    };
    Ok(Made { ids, value, invoice, was_replayed: None })
}

type Staged = (Vec<Bson>, Option<i64>, Option<i64>);

/// The statements of a transaction, which gets a number of the field, an invoice's, or none.
fn stage(
    client: &Client,
    session: &mut ClientSession,
    first: u64,
    count: u64,
    form: u64,
) -> Result<Staged, Error> {
    let tagged = workload::tagged(client);
    let mut ids = Vec::new();
    for tag in first..first + count {
        let insert = tagged.insert_one(workload::document(tag, 1));
        ids.push(insert.session(&mut *session).run()?.inserted_id);
    }
    let mut number = |name: &str| -> Result<Option<i64>, Error> {
        let into = client.database(DATABASE).collection::<Document>(name);
        let insert = into.insert_one(doc! { "first": first.cast_signed(), "pad": "p".repeat(40) });
        Ok(insert.session(&mut *session).run()?.last_generate_id)
    };
    Ok(match form {
        1 => (ids, number(NUMBERED)?, None),
        2 => (ids, None, number(INVOICES)?),
        _ => (ids, None, None),
    })
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
