//! The documents of events, as the pipeline of a stream gets them.

use std::sync::Arc;

use base::codes::refused;
use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, Bson, Document, RawDocument, RawDocumentBuf, doc, rawdoc};
use index::element::elements;
use index::writer::{Mark, Writer};
use query::code::Code;
use store::Family;
use store::keys::CollectionId;
use store::snapshot::Snapshot;

use crate::catalog::collection::CollectionState;
use crate::catalog::definition_events::{COLLECTION_OPTIONS, STATE_BEFORE_CHANGE};
use crate::catalog::names::Catalog;
use crate::changes::event::{Event, EventKind};
use crate::streams::event::{FullDocumentBeforeChangeType, FullDocumentType};
use crate::streams::token::TokenDigits;
use crate::write::prepare::record_key;

/// About how many bytes the document of an event has beside the documents in it.
const HEAD_BYTES: usize = 384;

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
    pub(super) token: TokenDigits,
    pub(super) position: u64,
}

/// Makes the document of an event in the memory of an earlier one.
pub(super) fn document(
    placed: Placed<'_>,
    shown: &Shown,
    source: Source<'_>,
    room: Vec<u8>,
) -> Result<RawDocumentBuf> {
    let Placed { event, .. } = placed;
    let mut out = EventWriter::new(placed, event.kind.name(), room);
    if let Some(Bson::Binary(uuid)) = shown.uuid(event.collection) {
        out.add(&rawdoc! { "collectionUUID": uuid });
    }
    if let Some(session) = event.session {
        out.add(session);
    }
    if event.kind == EventKind::Update {
        out.add_updated(event, shown, source)?;
    } else if let Some(full) = event.full {
        out.fields.document("fullDocument", full);
    }
    out.fields.document_of("ns", |ns| write_namespace(&event, ns));
    if shown.is_expanded() && (event.kind == EventKind::Create || event.is_of_view()) {
        out.fields.string("nsType", if event.is_of_view() { "view" } else { "collection" });
    }
    if let Some(to) = event.detail.and_then(|detail| detail.get_document("to").ok()) {
        out.fields.document("to", to);
    }
    if let Some(detail) = event.detail.filter(|_| shown.is_expanded()) {
        out.add(&definition_change(event, detail, shown)?);
    }
    if let Some(key) = event.key {
        out.fields.document("documentKey", key);
    } else if let Some(id) = event.full.and_then(|full| elements(full.as_bytes()).named(b"_id")) {
        out.fields.document_of("documentKey", |key| key.copy(id.whole));
    }
    if let Some(description) = event.description {
        out.fields.document("updateDescription", &described(description, shown));
    }
    if matches!(event.kind, EventKind::Update | EventKind::Replace | EventKind::Delete) {
        out.add_before(event, shown)?;
    }
    out.finish()
}

/// Makes the document of the end of a stream.
pub(super) fn invalidate(placed: Placed<'_>) -> Result<RawDocumentBuf> {
    EventWriter::new(placed, "invalidate", Vec::new()).finish()
}

/// The document of an event that is being written.
struct EventWriter {
    fields: Writer,
    start: Mark,
}

impl EventWriter {
    /// A document with the fields that all events have.
    fn new(placed: Placed<'_>, name: &str, mut room: Vec<u8>) -> Self {
        let Placed { event, token, position } = placed;
        let parts = [event.full, event.description, event.before, event.key];
        let bytes = parts.iter().flatten().map(|part| part.as_bytes().len()).sum::<usize>();
        room.clear();
        room.reserve(HEAD_BYTES + bytes);
        let mut fields = Writer::after(room);
        let start = fields.open();
        token.write("_id", &mut fields);
        fields.string("operationType", name);
        // Its time is the higher half of the position: see `changes::log::timestamp`.
        fields.eight_bytes(ElementType::Timestamp, "clusterTime", position.to_le_bytes());
        fields.eight_bytes(ElementType::DateTime, "wallTime", event.millis.to_le_bytes());
        Self { fields, start }
    }

    fn finish(self) -> Result<RawDocumentBuf> {
        let Self { mut fields, start } = self;
        fields.close(start);
        Ok(RawDocumentBuf::from_bytes(fields.into_bytes())?)
    }

    /// Adds the fields of a document.
    fn add(&mut self, fields: &RawDocument) {
        for element in elements(fields.as_bytes()) {
            self.fields.copy(element.whole);
        }
    }

    fn null(&mut self, name: &str) {
        self.fields.header(ElementType::Null, name);
    }

    /// Adds the document after an update, if the stream asks for it.
    fn add_updated(&mut self, event: Event<'_>, shown: &Shown, source: Source<'_>) -> Result<()> {
        const NAME: &str = "fullDocument";
        match (shown.full, event.full) {
            (None, _) => {}
            (Some(FullDocumentType::WhenAvailable | FullDocumentType::Required), Some(full)) => {
                self.fields.document(NAME, full);
            }
            (Some(FullDocumentType::UpdateLookup), _) => match look_up(event, source)? {
                Some(found) => self.fields.document(NAME, RawDocument::from_bytes(&found)?),
                None => self.null(NAME),
            },
            // It was made before the collection kept its documents.
            (Some(FullDocumentType::WhenAvailable), None) => self.null(NAME),
            (Some(FullDocumentType::Required), None) => return Err(missing("after", &event)),
        }
        Ok(())
    }

    fn add_before(&mut self, event: Event<'_>, shown: &Shown) -> Result<()> {
        const NAME: &str = "fullDocumentBeforeChange";
        match (shown.before, event.before) {
            (None | Some(FullDocumentBeforeChangeType::Off), _) => {}
            (Some(_), Some(before)) => self.fields.document(NAME, before),
            (Some(FullDocumentBeforeChangeType::WhenAvailable), None) => self.null(NAME),
            (Some(FullDocumentBeforeChangeType::Required), None) => return Err(missing("before", &event)),
        }
        Ok(())
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

fn write_namespace(event: &Event<'_>, out: &mut Writer) {
    out.string("db", event.db());
    if let Some((_, coll)) = event.namespace.split_once('.') {
        out.string("coll", coll);
    }
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
