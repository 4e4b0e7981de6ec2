//! The stored form of one document, with its entries in all indexes.

use std::fmt::Write as _;

use cairndb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use cairndb::{Client, Collection, DocumentInspection, EntryInspection, EntryState};
use data_encoding::HEXLOWER;

use crate::extended_json::{Mode, write_document};
use crate::failure::{Exit, Failure};
use crate::figures::size;
use crate::inspect::options::{Arguments, Looked};
use crate::output::print;
use crate::plain::{json_line, plain};
use crate::signals::Signals;
use crate::store::folder::not_opened;
use crate::store::{namespace, open_folder_for_reading};

pub(super) fn look(
    arguments: &Arguments,
    id: Bson,
    signals: &Signals,
    looked: &mut Looked,
) -> Result<(), Failure> {
    let (database, collection) = namespace(&arguments.scope)?;
    let memory = arguments.access.memory;
    let client: Client = open_folder_for_reading("inspect --id", &arguments.store, memory, &signals.token)?
        .map_err(|error| not_opened(&arguments.store, error))?;
    let found: Collection<Document> = client.database(database).collection(collection);
    let shown = arguments.id.as_deref().unwrap_or_default();
    let Some(found) = found.inspect_document(id).run()? else {
        let names = client.database(database).list_collection_names().run()?;
        let what = if names.iter().any(|name| name == collection) {
            format!("{database}.{collection} has neither a document with the _id {shown} nor an entry of one")
        } else {
            format!("there is no collection {database}.{collection}")
        };
        return Err(Failure::new(Exit::Failed, what));
    };
    report(&found, looked)?;
    if !arguments.talk.json {
        print(text(&found)?.as_bytes())?;
    }
    if found.is_whole() {
        return Ok(());
    }
    Err(Failure::new(Exit::Different, wrong(&found)))
}

/// The flaw of a document, in words.
fn wrong(found: &DocumentInspection) -> String {
    let mut wrong = Vec::new();
    match (&found.problem, found.stored_bytes) {
        (Some(problem), _) => wrong.push(problem.clone()),
        (None, None) => wrong.push("the document is not there".to_owned()),
        (None, Some(_)) => {}
    }
    for state in [EntryState::Missing, EntryState::Different, EntryState::Surplus] {
        let number = count(found, state);
        if number > 0 {
            let noun = if number == 1 { "entry is" } else { "entries are" };
            wrong.push(format!("{number} {noun} {}", state.name()));
        }
    }
    wrong.join(", ")
}

fn count(found: &DocumentInspection, state: EntryState) -> u64 {
    found.indexes.iter().flat_map(|index| &index.entries).filter(|entry| entry.state == state).count() as u64
}

fn text(found: &DocumentInspection) -> Result<String, Failure> {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(out, "record    {}", HEXLOWER.encode(&found.record_key));
    let stored = found.stored_bytes.map_or_else(|| "nothing".to_owned(), size);
    let _ = writeln!(out, "stored    {stored}");
    if let Some(problem) = &found.problem {
        let _ = writeln!(out, "problem   {}", plain(problem));
    }
    if let Some(document) = &found.document {
        // A damaged one is not written, and the problem says why.
        if let Ok(json) = json(document) {
            let _ = writeln!(out, "document  {}", json_line(&json));
        }
    }
    for index in &found.indexes {
        let number = index.entries.len();
        let noun = if number == 1 { "entry" } else { "entries" };
        let _ = writeln!(out, "\nindex {}, {number} {noun}", plain(&index.name));
        for EntryInspection { state, fields, key, value, .. } in &index.entries {
            let fields = match fields {
                Some(fields) => json_line(&json(&raw(fields)?)?),
                None => "unreadable".to_owned(),
            };
            let _ = writeln!(out, "  {:<9} {fields}", state.name());
            let _ = writeln!(out, "            key   {}", HEXLOWER.encode(key));
            let _ = writeln!(out, "            value {}", HEXLOWER.encode(value));
        }
    }
    Ok(out)
}

fn raw(fields: &Document) -> Result<RawDocumentBuf, Failure> {
    fields
        .try_into()
        .map_err(|error: cairndb::bson::error::Error| Failure::new(Exit::Failed, error.to_string()))
}

/// Canonical, because the types are what one comes to see.
fn json(document: &RawDocument) -> Result<String, Failure> {
    let mut line = Vec::new();
    write_document(&mut line, document, Mode::Canonical)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn report(found: &DocumentInspection, looked: &mut Looked) -> Result<(), Failure> {
    let all = found.indexes.iter().map(|index| index.entries.len() as u64).sum();
    looked.counts = vec![
        ("entries", all),
        ("missing", count(found, EntryState::Missing)),
        ("different", count(found, EntryState::Different)),
        ("surplus", count(found, EntryState::Surplus)),
    ];
    looked.names = vec![("recordKey", HEXLOWER.encode(&found.record_key))];
    looked.names.extend(found.problem.clone().map(|problem| ("problem", problem)));
    if let Some(bytes) = found.stored_bytes {
        looked.counts.push(("storedBytes", bytes));
    }
    if let Some(json) = found.document.as_ref().and_then(|document| json(document).ok()) {
        // As text: the report is relaxed, and would not show the types.
        looked.names.push(("document", json));
    }
    let entry = |one: &EntryInspection| {
        let mut entry = doc! { "state": one.state.name() };
        if let Some(fields) = &one.fields {
            entry.insert("fields", json(&raw(fields)?)?);
        }
        entry.insert("key", HEXLOWER.encode(&one.key));
        entry.insert("value", HEXLOWER.encode(&one.value));
        Ok(entry)
    };
    let mut indexes = Vec::new();
    for index in &found.indexes {
        let entries = index.entries.iter().map(entry).collect::<Result<Vec<Document>, Failure>>()?;
        indexes.push(Bson::Document(doc! { "name": index.name.as_str(), "entries": entries }));
    }
    looked.found = vec![("indexes", Bson::Array(indexes))];
    Ok(())
}
