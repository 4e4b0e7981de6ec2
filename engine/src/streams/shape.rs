//! The documents of events, as the pipeline of a stream gets them.

use std::sync::Arc;

use base::codes::refused;
use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc, rawdoc};
use query::code::Code;
use store::Family;
use store::keys::CollectionId;
use store::snapshot::Snapshot;

use crate::catalog::collection::CollectionState;
use crate::catalog::definition_events::{COLLECTION_OPTIONS, STATE_BEFORE_CHANGE};
use crate::catalog::names::Catalog;
use crate::changes::event::{Event, EventKind};
use crate::changes::log::timestamp;
use crate::document::decode::EMPTY;
use crate::streams::event::{FullDocumentBeforeChangeType, FullDocumentType};
use crate::streams::token::ResumeToken;
use crate::write::prepare::record_key;

/// About how many bytes the document of an event has beside the documents in it, a namespace beside its names, and a usual key.
const HEAD_BYTES: usize = 384;
const NAMESPACE_BYTES: usize = 48;
const KEY_BYTES: usize = 64;

/// Which documents a stream shows beside its events.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) full: Option<FullDocumentType>,
    pub(super) before: Option<FullDocumentBeforeChangeType>,
    /// The identity of the store, by which collections have UUIDs, if the stream shows what MongoDB shows on demand only.
    pub(super) expanded: Option<Vec<u8>>,
}

impl Shown {
    /// Whether the stream shows what MongoDB shows on demand only.
    pub(super) fn is_expanded(&self) -> bool {
        self.expanded.is_some()
    }

    /// The UUID of a collection, where it is shown.
    fn uuid(&self, collection: CollectionId) -> Option<Bson> {
        let identity = self.expanded.as_ref().filter(|_| collection.0 != 0)?;
        let bytes = collection.uuid(identity).to_vec();
        Some(Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes }))
    }
}

/// Where documents are looked up.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) snapshot: &'a Snapshot,
}

/// An event with its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) event: Event<'a>,
    pub(super) token: &'a ResumeToken,
    pub(super) position: u64,
}

/// Makes the document of an event.
pub(super) fn document(placed: Placed<'_>, shown: &Shown, source: Source<'_>) -> Result<RawDocumentBuf> {
    let Placed { event, .. } = placed;
    let mut document = head(placed, event.kind.name());
    if let Some(Bson::Binary(uuid)) = shown.uuid(event.collection) {
        document.append(cstr!("collectionUUID"), uuid);
    }
    if let Some(session) = event.session {
        append_all(&mut document, session);
    }
    if event.kind == EventKind::Update {
        add_updated(&mut document, event, shown, source)?;
    } else if let Some(full) = event.full {
        document.append(cstr!("fullDocument"), full);
    }
    document.append(cstr!("ns"), &*namespace(&event));
    if shown.is_expanded() && (event.kind == EventKind::Create || event.is_of_view()) {
        document.append(cstr!("nsType"), if event.is_of_view() { "view" } else { "collection" });
    }
    if let Some(to) = event.detail.and_then(|detail| detail.get_document("to").ok()) {
        document.append(cstr!("to"), to);
    }
    if let Some(detail) = event.detail.filter(|_| shown.is_expanded()) {
        append_all(&mut document, &definition_change(event, detail, shown)?);
    }
    if let Some(key) = event.key {
        document.append(cstr!("documentKey"), key);
    } else if let Some(id) = event.full.and_then(|full| index::element::field(full, "_id")) {
        let mut key = with_room(KEY_BYTES);
        key.append(cstr!("_id"), id);
        document.append(cstr!("documentKey"), &*key);
    }
    if let Some(description) = event.description {
        document.append(cstr!("updateDescription"), &*described(description, shown));
    }
    if matches!(event.kind, EventKind::Update | EventKind::Replace | EventKind::Delete) {
        add_before(&mut document, event, shown)?;
    }
    Ok(document)
}

/// Makes the document of the end of a stream.
pub(super) fn invalidate(placed: Placed<'_>) -> RawDocumentBuf {
    head(placed, "invalidate")
}

fn head(placed: Placed<'_>, name: &str) -> RawDocumentBuf {
    let Placed { event, token, position } = placed;
    let parts = [event.full, event.description, event.before, event.key];
    let mut document =
        with_room(HEAD_BYTES + parts.iter().flatten().map(|part| part.as_bytes().len()).sum::<usize>());
    document.append(cstr!("_id"), &*token.to_document());
    document.append(cstr!("operationType"), name);
    document.append(cstr!("clusterTime"), timestamp(position));
    document.append(cstr!("wallTime"), DateTime::from_millis(event.millis.cast_signed()));
    document
}

fn append_all(document: &mut RawDocumentBuf, fields: &RawDocument) {
    for (name, value) in fields.iter().filter_map(std::result::Result::ok) {
        document.append(name, value);
    }
}

/// The description of a change of a definition, with the UUIDs of the collections.
fn definition_change(event: Event<'_>, detail: &RawDocument, shown: &Shown) -> Result<RawDocumentBuf> {
    let mut change = Document::try_from(detail)?;
    if event.kind == EventKind::Rename {
        let mut description = Document::new();
        if let Some(Bson::Int64(id)) = change.remove("dropTarget")
            && let Some(uuid) = u32::try_from(id).ok().and_then(|id| shown.uuid(CollectionId(id)))
        {
            description.insert("dropTarget", uuid);
        }
        description.extend(change);
        return Ok(rawdoc! { "operationDescription": RawDocumentBuf::try_from(&description)? });
    }
    let before = change.get_document_mut(STATE_BEFORE_CHANGE);
    let options = before.ok().and_then(|before| before.get_document_mut(COLLECTION_OPTIONS).ok());
    if let (Some(options), Some(uuid)) = (options, shown.uuid(event.collection)) {
        let mut with_uuid = doc! { "uuid": uuid };
        with_uuid.extend(std::mem::take(options));
        *options = with_uuid;
    }
    Ok(RawDocumentBuf::try_from(&change)?)
}

/// A document without fields, in a buffer for `bytes` bytes.
fn with_room(bytes: usize) -> RawDocumentBuf {
    let mut empty = Vec::with_capacity(bytes);
    empty.extend(EMPTY);
    RawDocumentBuf::from_bytes(empty).unwrap_or_default()
}

fn namespace(event: &Event<'_>) -> RawDocumentBuf {
    let mut namespace = with_room(NAMESPACE_BYTES + event.namespace.len());
    namespace.append(cstr!("db"), event.db());
    if let Some((_, coll)) = event.namespace.split_once('.') {
        namespace.append(cstr!("coll"), coll);
    }
    namespace
}

/// Adds the document after an update, if the stream asks for it.
fn add_updated(
    document: &mut RawDocumentBuf,
    event: Event<'_>,
    shown: &Shown,
    source: Source<'_>,
) -> Result<()> {
    match shown.full {
        None => {}
        Some(FullDocumentType::WhenAvailable | FullDocumentType::Required) if event.full.is_some() => {
            let full = event.full.map_or(RawBsonRef::Null, RawBsonRef::Document);
            document.append(cstr!("fullDocument"), full);
        }
        Some(FullDocumentType::UpdateLookup) => match look_up(event, source)? {
            Some(found) => document.append(cstr!("fullDocument"), RawDocument::from_bytes(&found)?),
            None => document.append(cstr!("fullDocument"), RawBsonRef::Null),
        },
        // It was made before the collection kept its documents.
        Some(FullDocumentType::WhenAvailable) => document.append(cstr!("fullDocument"), RawBsonRef::Null),
        Some(FullDocumentType::Required) => return Err(missing("after", &event)),
    }
    Ok(())
}

fn add_before(document: &mut RawDocumentBuf, event: Event<'_>, shown: &Shown) -> Result<()> {
    match (shown.before, event.before) {
        (None | Some(FullDocumentBeforeChangeType::Off), _) => {}
        (Some(_), Some(before)) => document.append(cstr!("fullDocumentBeforeChange"), before),
        (Some(FullDocumentBeforeChangeType::WhenAvailable), None) => {
            document.append(cstr!("fullDocumentBeforeChange"), RawBsonRef::Null);
        }
        (Some(FullDocumentBeforeChangeType::Required), None) => return Err(missing("before", &event)),
    }
    Ok(())
}

/// The document of an update, as the round has it. `None` if it is gone.
fn look_up(event: Event<'_>, source: Source<'_>) -> Result<Option<Vec<u8>>> {
    let id = event.key.and_then(|key| index::element::field(key, "_id"));
    // By the collection's id and not by its name alone, which another one may have by now.
    let is_meant = |state: &Arc<CollectionState>| state.id == event.collection;
    let named = event
        .namespace
        .split_once('.')
        .and_then(|(db, coll)| source.catalog.find(&Namespace { db: db.to_owned(), coll: coll.to_owned() }));
    let state = named.filter(is_meant).or_else(|| source.catalog.collections().into_iter().find(is_meant));
    match state.zip(id) {
        Some((state, id)) => source.snapshot.get(Family::Records, &record_key(&state, id)),
        None => Ok(None),
    }
}

fn described(description: &RawDocument, shown: &Shown) -> RawDocumentBuf {
    let fields = description.iter().filter_map(std::result::Result::ok);
    let fields = fields.filter(|(name, _)| shown.is_expanded() || name.as_str() != "disambiguatedPaths");
    fields.collect()
}

#[cold]
fn missing(when: &str, event: &Event<'_>) -> Error {
    let message = format!(
        "the stream requires documents as they were {when} their changes, and the log has none of this {} in {}",
        event.kind.name(),
        event.namespace
    );
    refused(Code::NO_MATCHING_DOCUMENT, message)
}
