//! The events that a write leaves in the log of changes, if its collection is logged.
//!
//! They are made under the latches, of the bytes that are written, and go into the batch of the write. Whether a collection is logged
//! is a part of its definition, which stays as it is while the gate is held.

use bson::RawDocument;
use index::validate::validate;
use query::update::describe;

use crate::catalog::collection::CollectionState;
use crate::changes::event::{Event, EventKind, key_of};

/// A collection that is logged.
#[derive(Clone, Copy)]
pub(super) struct LoggedCollection<'a> {
    pub(super) state: &'a CollectionState,
    /// Whether the log has its documents as they were before and after their changes.
    pub(super) keeps_images: bool,
}

/// A document before and after a change.
#[derive(Clone, Copy)]
pub(super) struct DocumentChange<'a> {
    pub(super) old: &'a [u8],
    pub(super) new: &'a [u8],
    /// Whether a replacement has changed it.
    pub(super) is_replacement: bool,
}

impl LoggedCollection<'_> {
    /// The event of a new document.
    #[cold]
    pub(super) fn inserted(self, document: &[u8]) -> Vec<u8> {
        self.event(|event| Event { kind: EventKind::Insert, full: raw(document), ..event })
    }

    /// The event of a document that is changed.
    #[cold]
    pub(super) fn changed(self, change: DocumentChange<'_>) -> Vec<u8> {
        let (old, new) = (raw(change.old), raw(change.new));
        let states = old.zip(new).filter(|_| !change.is_replacement);
        let described = states.and_then(|(old, new)| describe(old, new));
        // Around the values is a level more than in the document: the deepest ones are reported as a whole.
        let description = described.filter(|description| validate(description.as_bytes()).is_ok());
        let before = old.filter(|_| self.keeps_images);
        let Some(description) = description else {
            return self.event(|event| Event { kind: EventKind::Replace, full: new, before, ..event });
        };
        let full = new.filter(|_| self.keeps_images);
        let key = new.map(key_of);
        let (key, description) = (key.as_deref(), Some(&*description));
        self.event(|event| Event { kind: EventKind::Update, key, full, description, before, ..event })
    }

    /// The event of a document that is removed.
    #[cold]
    pub(super) fn deleted(self, document: &[u8]) -> Vec<u8> {
        let key = raw(document).map(key_of);
        let before = raw(document).filter(|_| self.keeps_images);
        self.event(|event| Event { kind: EventKind::Delete, key: key.as_deref(), before, ..event })
    }

    fn event<'e>(self, with: impl FnOnce(Event<'e>) -> Event<'e>) -> Vec<u8> {
        let namespace = self.state.namespace.to_string();
        let event = Event::new(EventKind::Insert, self.state.id, "");
        Event { namespace: &namespace, ..with(event) }.encode()
    }
}

/// A document that was validated when it was written.
fn raw(document: &[u8]) -> Option<&RawDocument> {
    RawDocument::from_bytes(document).ok()
}
