//! The stored form of events. See `docs/format.md`.

use std::time::{SystemTime, UNIX_EPOCH};

use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{RawDocument, RawDocumentBuf};
use bytes::Buf;
use index::validate::validate_up_to;
use store::Family;
use store::keys::CollectionId;

/// The layout of the values.
const LAYOUT: u8 = 1;
/// The length of what stands before the name: layout, kind, parts, time, collection, length of the name.
const HEAD_BYTES: usize = 1 + 1 + 1 + 8 + 4 + 2;
/// No document of an event is longer: a description lists all paths beside the values.
const PART_BYTES_MAX: usize = 64 << 20;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Insert,
    Replace,
    Update,
    Delete,
    Drop,
    Rename,
    DropDatabase,
    Truncate,
    Create,
    CreateIndexes,
    DropIndexes,
    Modify,
}

impl EventKind {
    const ALL: [Self; 12] = [
        Self::Insert,
        Self::Replace,
        Self::Update,
        Self::Delete,
        Self::Drop,
        Self::Rename,
        Self::DropDatabase,
        Self::Truncate,
        Self::Create,
        Self::CreateIndexes,
        Self::DropIndexes,
        Self::Modify,
    ];

    fn code(self) -> u8 {
        match self {
            Self::Insert => 1,
            Self::Replace => 2,
            Self::Update => 3,
            Self::Delete => 4,
            Self::Drop => 5,
            Self::Rename => 6,
            Self::DropDatabase => 7,
            Self::Truncate => 8,
            Self::Create => 9,
            Self::CreateIndexes => 10,
            Self::DropIndexes => 11,
            Self::Modify => 12,
        }
    }

    /// The name that a stream shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Replace => "replace",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Drop => "drop",
            Self::Rename => "rename",
            Self::DropDatabase => "dropDatabase",
            Self::Truncate => "truncate",
            Self::Create => "create",
            Self::CreateIndexes => "createIndexes",
            Self::DropIndexes => "dropIndexes",
            Self::Modify => "modify",
        }
    }

    /// Whether it is the change of a document.
    #[inline]
    pub(crate) fn is_of_document(self) -> bool {
        matches!(self, Self::Insert | Self::Replace | Self::Update | Self::Delete)
    }

    /// The parts that an event of this kind must have.
    fn needs(self) -> u8 {
        match self {
            Self::Insert | Self::Replace => FULL,
            Self::Update => KEY | DESCRIPTION,
            Self::Delete => KEY,
            Self::Rename | Self::Create | Self::CreateIndexes | Self::DropIndexes | Self::Modify => DETAIL,
            Self::Drop | Self::DropDatabase | Self::Truncate => 0,
        }
    }
}

/// The bits of the parts, in the order in which they are stored.
const KEY: u8 = 1;
const FULL: u8 = 2;
const DESCRIPTION: u8 = 4;
const BEFORE: u8 = 8;
const DETAIL: u8 = 16;
const SESSION: u8 = 32;
/// Reads a document from the front of some bytes.
type ReadPart = for<'b> fn(&mut &'b [u8]) -> std::result::Result<&'b RawDocument, String>;
const PARTS: [u8; 6] = [KEY, FULL, DESCRIPTION, BEFORE, DETAIL, SESSION];
/// Where the bits are in the value.
const PARTS_AT: usize = 2;

/// An event. Its documents are borrowed from what was written, or from the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind,
    /// When it was made, in milliseconds since 1970.
    pub(crate) millis: u64,
    /// Zero for a database.
    pub(crate) collection: CollectionId,
    /// The name of the collection, or of the database that was dropped.
    pub(crate) namespace: &'a str,
    /// `{ _id }`, unless the full document has it.
    pub(crate) key: Option<&'a RawDocument>,
    /// The document that was stored.
    pub(crate) full: Option<&'a RawDocument>,
    /// The changes of an update.
    pub(crate) description: Option<&'a RawDocument>,
    /// The document as it was before.
    pub(crate) before: Option<&'a RawDocument>,
    /// Further fields: of a rename `{ to }`, of other changes of definitions `{ operationDescription }`.
    pub(crate) detail: Option<&'a RawDocument>,
    /// `{ lsid, txnNumber }` of a transaction of a driver.
    pub(crate) session: Option<&'a RawDocument>,
}

impl<'a> Event<'a> {
    /// An event that is made now, without any part.
    pub(crate) fn new(kind: EventKind, collection: CollectionId, namespace: &'a str) -> Self {
        let millis = now_millis();
        let (key, full, description, before, detail, session) = (None, None, None, None, None, None);
        Self { kind, millis, collection, namespace, key, full, description, before, detail, session }
    }

    /// Adds the session to a stored form that has none.
    pub(crate) fn add_session(bytes: &mut Vec<u8>, session: &RawDocument) {
        if let Some(parts) = bytes.get_mut(PARTS_AT) {
            *parts |= SESSION;
            // It is the last of the parts.
            bytes.extend(session.as_bytes());
        }
    }

    fn parts(&self) -> [Option<&'a RawDocument>; 6] {
        [self.key, self.full, self.description, self.before, self.detail, self.session]
    }

    /// The stored form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts = self.parts();
        let lengths = parts.iter().flatten().map(|part| part.as_bytes().len());
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.namespace.len() + lengths.sum::<usize>());
        let present = PARTS.iter().zip(&parts).filter(|(_, part)| part.is_some());
        bytes.extend([LAYOUT, self.kind.code(), present.map(|(bit, _)| bit).sum()]);
        bytes.extend(self.millis.to_be_bytes());
        bytes.extend(self.collection.0.to_be_bytes());
        // No name is as long: see `base::names`.
        bytes.extend(u16::try_from(self.namespace.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(self.namespace.as_bytes());
        for part in parts.into_iter().flatten() {
            bytes.extend(part.as_bytes());
        }
        bytes
    }

    /// Reads a stored event. Fails if it is damaged. Of the documents that were stored, as of records, only the frame is checked.
    pub(crate) fn decode(key: &[u8], value: &'a [u8]) -> Result<Self> {
        Self::read(value, framed).map_err(|reason| Error::corruption(Family::Changes.name(), key, reason))
    }

    /// The same, with every byte checked.
    pub(crate) fn decode_checked(key: &[u8], value: &'a [u8]) -> Result<Self> {
        Self::read(value, document).map_err(|reason| Error::corruption(Family::Changes.name(), key, reason))
    }

    /// The name of the collection of a stored event of a document. `None` of other events, and of damaged ones.
    #[inline]
    pub(crate) fn collection_of_document(value: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = value.split_at_checked(HEAD_BYTES)?;
        // The kinds of documents, from `Insert` to `Delete`, have the first codes.
        let [LAYOUT, 1..=4, _, .., high, low] = head else { return None };
        rest.get(..usize::from(u16::from_be_bytes([*high, *low])))
    }

    fn read(value: &'a [u8], stored: ReadPart) -> std::result::Result<Self, String> {
        let mut rest = value;
        let (Some(head), true) = (rest.get(..HEAD_BYTES), rest.len() >= HEAD_BYTES) else {
            return Err(format!("the event has only {} bytes", value.len()));
        };
        let mut head = head;
        rest = rest.get(HEAD_BYTES..).unwrap_or_default();
        let (layout, code, bits) = (head.get_u8(), head.get_u8(), head.get_u8());
        if layout != LAYOUT {
            return Err(format!("the event has the layout {layout}, which this version does not know"));
        }
        let kind = EventKind::ALL.into_iter().find(|kind| kind.code() == code);
        let kind = kind.ok_or_else(|| format!("no event has the kind {code}"))?;
        let (millis, collection) = (head.get_u64(), CollectionId(head.get_u32()));
        let name_len = usize::from(head.get_u16());
        let (name, documents) =
            rest.split_at_checked(name_len).ok_or("the name of the event is cut short")?;
        let namespace = str::from_utf8(name).map_err(|_| "the name of the event is not UTF-8")?;
        rest = documents;
        let mut parts = [None; 6];
        for (part, bit) in parts.iter_mut().zip(PARTS) {
            if bits & bit != 0 {
                let read = if bit & (FULL | BEFORE) != 0 { stored } else { document };
                *part = Some(read(&mut rest)?);
            }
        }
        if bits & kind.needs() != kind.needs() || bits & !PARTS.iter().sum::<u8>() != 0 {
            return Err(format!("no event of the kind {} has the parts {bits:#04x}", kind.name()));
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes follow the event", rest.len()));
        }
        let [key, full, description, before, detail, session] = parts;
        Ok(Self { kind, millis, collection, namespace, key, full, description, before, detail, session })
    }

    /// Whether it is shown only by streams that ask for more events: those of changes of definitions, and of views.
    pub(crate) fn is_expanded(&self) -> bool {
        match self.kind {
            EventKind::Create | EventKind::CreateIndexes | EventKind::DropIndexes | EventKind::Modify => true,
            EventKind::Drop => self.is_of_view(),
            EventKind::Insert
            | EventKind::Replace
            | EventKind::Update
            | EventKind::Delete
            | EventKind::Rename
            | EventKind::DropDatabase
            | EventKind::Truncate => false,
        }
    }

    /// Whether it is of a view, which has no documents.
    pub(crate) fn is_of_view(&self) -> bool {
        self.collection.0 == 0 && self.kind != EventKind::DropDatabase
    }

    /// Whether it is of a collection with this name.
    pub(crate) fn is_of(&self, namespace: &Namespace) -> bool {
        self.namespace.strip_prefix(&namespace.db).and_then(|rest| rest.strip_prefix('.'))
            == Some(&namespace.coll)
    }

    /// Whether a collection has got this name by it.
    pub(crate) fn is_renamed_to(&self, namespace: &Namespace) -> bool {
        let to = self.detail.and_then(|detail| detail.get_document("to").ok());
        let is = |field: &str, name: &str| to.and_then(|to| to.get_str(field).ok()) == Some(name);
        is("db", &namespace.db) && is("coll", &namespace.coll)
    }

    /// The name of its database.
    pub(crate) fn db(&self) -> &'a str {
        self.namespace.split_once('.').map_or(self.namespace, |(db, _)| db)
    }
}

/// The document at the front of some bytes.
fn document<'a>(bytes: &mut &'a [u8]) -> std::result::Result<&'a RawDocument, String> {
    let framed = framed(bytes)?;
    validate_up_to(framed.as_bytes(), PART_BYTES_MAX).map_err(|error| error.to_string())?;
    Ok(framed)
}

/// The same, of which only the frame is checked.
fn framed<'a>(bytes: &mut &'a [u8]) -> std::result::Result<&'a RawDocument, String> {
    let length = bytes.first_chunk().copied().map(i32::from_le_bytes);
    let split = length.and_then(|length| bytes.split_at_checked(usize::try_from(length).ok()?));
    let (document, rest) = split.ok_or("a document of the event is cut short")?;
    *bytes = rest;
    RawDocument::from_bytes(document).map_err(|error| error.to_string())
}

/// Whether a document can be a part of an event: it may be nested too deeply.
pub(crate) fn is_storable(part: &RawDocument) -> bool {
    validate_up_to(part.as_bytes(), PART_BYTES_MAX).is_ok()
}

/// `{ _id }` of a document.
pub(crate) fn key_of(document: &RawDocument) -> RawDocumentBuf {
    let mut key = RawDocumentBuf::new();
    if let Some(id) = index::element::field(document, "_id") {
        key.append(bson::raw::cstr!("_id"), id);
    }
    key
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn every_event_is_read_as_it_was_made() {
        let (key, full, told) = (rawdoc! { "_id": 1 }, rawdoc! { "_id": 1, "a": "x" }, rawdoc! { "u": {} });
        for kind in EventKind::ALL {
            let event = Event {
                key: Some(&key),
                full: Some(&full),
                description: Some(&told),
                detail: Some(&key),
                session: Some(&key),
                ..Event::new(kind, CollectionId(7), "shop.orders.old")
            };
            let bytes = event.encode();
            assert_eq!(Event::read(&bytes, document), Ok(event));
            let mut later = Event { session: None, ..event }.encode();
            Event::add_session(&mut later, &key);
            assert_eq!(later, bytes);
            let least = Event { key: None, full: None, description: None, session: None, ..event };
            assert_eq!(
                Event::read(&least.encode(), document).is_ok(),
                kind.needs() & !DETAIL == 0,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn every_damage_of_a_length_or_a_code_is_found() {
        let (key, full) = (rawdoc! { "_id": 1 }, rawdoc! { "_id": 1, "a": "x" });
        let event = Event {
            key: Some(&key),
            full: Some(&full),
            ..Event::new(EventKind::Insert, CollectionId(7), "shop.orders")
        };
        let bytes = event.encode();
        for len in 0..bytes.len() {
            assert!(Event::read(&bytes[..len], document).is_err(), "{len} bytes");
        }
        assert!(Event::read(&[&bytes[..], &[0]].concat(), document).is_err());
        for (at, byte) in [(0, 2), (1, 0), (1, 99), (2, 0x80), (2, 1), (HEAD_BYTES, 0xff), (16, 200)] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            assert!(Event::read(&damaged, document).is_err(), "{byte} at {at}");
        }
        let error = Event::decode_checked(b"key", &[]).expect_err("empty");
        assert!(error.is_corruption() && error.to_string().contains("changes"), "{error}");
    }

    #[test]
    fn the_collection_of_a_document_is_known_by_the_front() {
        for kind in EventKind::ALL {
            let bytes = Event::new(kind, CollectionId(7), "shop.orders.old").encode();
            let expected = kind.is_of_document().then_some(&b"shop.orders.old"[..]);
            assert_eq!(Event::collection_of_document(&bytes), expected, "{kind:?}");
            for cut in 0..bytes.len() {
                assert_eq!(Event::collection_of_document(&bytes[..cut]), None, "{cut} bytes");
            }
        }
    }

    #[test]
    fn a_name_is_that_of_its_collection_alone() {
        let event = Event::new(EventKind::Drop, CollectionId(7), "shop.orders.old");
        for (coll, is_same) in [("orders.old", true), ("orders", false), ("old", false)] {
            let namespace = Namespace { db: "shop".to_owned(), coll: coll.to_owned() };
            assert_eq!(event.is_of(&namespace), is_same, "{coll}");
        }
        assert_eq!(event.db(), "shop");
    }
}
