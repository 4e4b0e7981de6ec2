//! Looks documents of a collection up by the value of one field, again and again on one snapshot: what a `$lookup` asks for each
//! of its documents. Nothing is parsed, planned or opened for one value.
//!
//! It answers for values whose equality is that of their keys in an index on nothing but the field, or in the records if the field
//! is the `_id`. All others are for a search, with a plan. It tests each document.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::error::{Error, Result};
use base::metrics::notes;
use bson::{RawBson, RawBsonRef, RawDocument};
use index::collation::Collation;
use index::key::{Direction, LongKeys};
use index::order::compare;
use index::path::{FieldPath, leaves, value_at};
use index::range::KeyRange;
use query::expression::Variables;
use query::operation::OperationContext;
use query::pipeline::foreign::FieldIndex;
use store::Family;
use store::keys::{CollectionId, ID_BYTES};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

use crate::catalog::indexes::{Index, whole_on};
use crate::document::decode::{EMPTY, stored};
use crate::execute::leaf_walk::{LeafStep, LeafWalk};
use crate::execute::read_view::ReadView;
use crate::execute::record_fetch::RecordFetch;
use crate::execute::rest::Rest;
use crate::plan::bounds::ID_FIELD;

/// A reader of documents by the value of one field.
pub(super) struct FieldLookup {
    snapshot: Arc<Snapshot>,
    path: FieldPath,
    operation: OperationContext,
    keys: Keys,
    long_keys: LongKeys,
    /// By which texts are equal.
    collation: Collation,
    /// The value that is asked for, and its key.
    wanted: RawBson,
    key: Vec<u8>,
    state: State,
    records: RecordFetch,
    record_key: Vec<u8>,
    document: Vec<u8>,
}

/// The place of the keys of values.
enum Keys {
    /// Among the records: the field is the `_id`.
    Records(CollectionId),
    Index(Box<IndexKeys>),
}

/// The keys of an index, which has one entry for a value if it is unique.
struct IndexKeys {
    index: Index,
    direction: Direction,
    /// A walk over the entries of the value in leaves.
    leaves: LeafWalk,
    /// Whether it is at the current entry.
    is_in_leaf: bool,
    /// A walk through the index, opened for the first value whose entries no leaf has.
    scan: Option<Scan>,
    /// The value that the walk was put at last.
    scanned: Vec<u8>,
    /// The value of the entry that was looked up.
    entry: Vec<u8>,
}

/// The progress of reading the documents of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    /// The last entry that was read is that of `record_key`.
    Within,
    End,
}

impl FieldLookup {
    /// A reader of the documents of a view by the value at `path`. Returns `None` if no index has just these values.
    pub(super) fn of(view: &ReadView, path: &FieldPath, variables: &Variables) -> Option<Self> {
        let snapshot = Arc::clone(view.snapshot()?);
        let collection = view.collection();
        let keys = if path.as_str() == ID_FIELD {
            Keys::Records(collection)
        } else {
            // The view's own indexes: the snapshot has all their entries.
            let (index, direction) = whole_on(view.indexes(), path.as_str())?;
            Keys::Index(Box::new(IndexKeys {
                index: index.clone(),
                direction,
                leaves: LeafWalk::new(&snapshot, index, Direction::Ascending),
                is_in_leaf: false,
                scan: None,
                scanned: Vec::new(),
                entry: Vec::new(),
            }))
        };
        Some(Self {
            records: RecordFetch::new(&snapshot, collection, variables.operation()),
            snapshot,
            path: path.clone(),
            operation: variables.operation().clone(),
            keys,
            long_keys: view.record_keys().long_keys,
            collation: variables.collation().clone(),
            wanted: RawBson::Null,
            key: Vec::new(),
            state: State::End,
            record_key: collection.prefix().to_vec(),
            document: EMPTY.to_vec(),
        })
    }

    /// Steps to the next entry of the value, and puts the key of its record into `record_key`. Returns `false` at the end.
    fn advance_entry(&mut self) -> Result<bool> {
        let is_first = self.state == State::Before;
        let (key, record_key) = (self.key.as_slice(), &mut self.record_key);
        let keys = match &mut self.keys {
            Keys::Records(_) => {
                if is_first {
                    key.clone_into(record_key);
                }
                return Ok(is_first);
            }
            Keys::Index(keys) => keys,
        };
        let reader = EntryReader { snapshot: &self.snapshot, operation: &self.operation, key };
        let is_there = if is_first {
            keys.first(reader)?
        } else {
            keys.next(reader, record_key.get(ID_BYTES..).unwrap_or_default())?
        };
        if !is_there {
            return Ok(false);
        }
        let id = keys.id(key, self.long_keys).ok_or_else(|| {
            Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index")
        })?;
        // The prefix of the collection stays.
        record_key.truncate(ID_BYTES);
        record_key.extend_from_slice(id);
        Ok(true)
    }

    /// Reads the record that the current entry names. Returns whether it has the value.
    fn read(&mut self) -> Result<bool> {
        let is_there = self.records.read(&self.record_key, &mut self.document)?;
        let is_entry = !matches!(self.keys, Keys::Records(_));
        if is_entry {
            notes::examined(1, u64::from(is_there));
        }
        if !is_there {
            self.operation.step()?;
            EMPTY.clone_into(&mut self.document);
            // Both are from one snapshot and were written in one batch, so this is not a race.
            let problem = "the entry's document does not exist";
            return if is_entry {
                Err(Error::corruption(Family::Entries.name(), &self.key, problem))
            } else {
                Ok(false)
            };
        }
        let document = stored(&self.record_key, &self.document)?;
        self.operation.pass(document.as_bytes().len())?;
        // An entry promises it, and the document has the last word.
        Ok(has(document, &self.path, self.wanted.as_raw_bson_ref()))
    }
}

/// Reads the entries of a value.
#[derive(Clone, Copy)]
struct EntryReader<'a> {
    snapshot: &'a Arc<Snapshot>,
    operation: &'a OperationContext,
    key: &'a [u8],
}

impl IndexKeys {
    /// Goes to the first entry of a value. Returns `false` if there is none.
    fn first(&mut self, reader: EntryReader<'_>) -> Result<bool> {
        let EntryReader { snapshot, key, .. } = reader;
        // Where values follow each other.
        self.is_in_leaf = self.leaves.begin_at_next(key);
        if self.is_in_leaf {
            return Ok(true);
        }
        let step = match KeyRange::prefix(key.to_vec()).end {
            Some(end) => self.leaves.begin(key, &end),
            None => LeafStep::Unknown,
        };
        self.is_in_leaf = step != LeafStep::Unknown;
        if self.is_in_leaf {
            return Ok(step == LeafStep::Entry);
        }
        if self.index.spec.is_unique() {
            return snapshot.get_into(Family::Entries, key, &mut self.entry);
        }
        Ok(self.scan_to(reader)?.key().starts_with(key))
    }

    /// Steps to the next entry of a value, after the one of the document with this `_id`. Returns `false` if there is none.
    fn next(&mut self, reader: EntryReader<'_>, id: &[u8]) -> Result<bool> {
        if self.index.spec.is_unique() {
            return Ok(false);
        }
        let key = reader.key;
        if self.is_in_leaf {
            let step = self.leaves.advance();
            if step != LeafStep::Unknown {
                return Ok(step == LeafStep::Entry);
            }
            self.is_in_leaf = false;
            let rest = self.leaves.bounds().0.to_vec();
            self.scan_of(reader).seek(&rest)?;
            key.clone_into(&mut self.scanned);
            return Ok(self.scan_of(reader).key().starts_with(key));
        }
        if self.scan.is_none() {
            // The walk has rested: it goes on from the entry that it was at.
            self.scan_of(reader).seek(&[key, id].concat())?;
            key.clone_into(&mut self.scanned);
        }
        let scan = self.scan_of(reader);
        scan.advance()?;
        // The bytes of a value are never the beginning of those of another one.
        Ok(scan.key().starts_with(key))
    }

    /// The encoded `_id` that the current entry names. Returns `None` if it is damaged.
    fn id(&self, key: &[u8], long_keys: LongKeys) -> Option<&[u8]> {
        if self.index.spec.is_unique() {
            let value = if self.is_in_leaf { self.leaves.value() } else { self.entry.as_slice() };
            return value.get(..long_keys.skip(value, Direction::Ascending).ok()?);
        }
        let entry = if self.is_in_leaf { self.leaves.key() } else { self.scan.as_ref()?.key() };
        entry.get(key.len()..)
    }

    /// The walk, at the first entry of the value, or at the one behind it.
    fn scan_to(&mut self, reader: EntryReader<'_>) -> Result<&mut Scan> {
        let scanned = std::mem::take(&mut self.scanned);
        let scan = self.scan_of(reader);
        scan.seek_after(&scanned, reader.key)?;
        self.scanned = scanned;
        reader.key.clone_into(&mut self.scanned);
        Ok(self.scan_of(reader))
    }

    fn scan_of(&mut self, reader: EntryReader<'_>) -> &mut Scan {
        let EntryReader { snapshot, operation, .. } = reader;
        let index = &self.index;
        self.scan.get_or_insert_with(|| {
            let bounds = (index.id.prefix().to_vec(), Some(index.id.end()));
            Scan::open(snapshot, Family::Entries, bounds, CacheUse::Fill, operation)
        })
    }
}

impl FieldIndex<Error> for FieldLookup {
    fn find(&mut self, value: RawBsonRef<'_>) -> Result<bool> {
        // All that the key cannot determine is left to a search, which knows the rules.
        if !self.collation.finds_by_key(value) {
            return Ok(false);
        }
        self.wanted = value.into();
        self.key.clear();
        // Counted like the search that it replaces: numbers must not say which of both was done.
        let direction = match &self.keys {
            Keys::Records(collection) => {
                notes::looked_up();
                self.key.extend_from_slice(&collection.prefix());
                Direction::Ascending
            }
            Keys::Index(keys) => {
                let index = &keys.index;
                index.uses.note();
                notes::searched(false);
                notes::scans(notes::Plan::Index(&index.name));
                self.key.extend_from_slice(&index.id.prefix());
                keys.direction
            }
        };
        self.long_keys.encode(value, direction, &mut self.key);
        self.state = State::Before;
        Ok(true)
    }

    fn advance(&mut self) -> Result<bool> {
        while self.state != State::End {
            // An absent key is a step too: looking for nothing can last as long.
            if !self.advance_entry()? {
                self.operation.step()?;
                self.state = State::End;
                break;
            }
            self.state = State::Within;
            if self.read()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn current(&self) -> &RawDocument {
        // `read` has made a document of these bytes already, so this cannot fail.
        RawDocument::from_bytes(&self.document).expect("read() looked at the bytes")
    }

    fn rest(&mut self) {
        // The document is a copy and stays; the walk holds blocks of the cache.
        if let Keys::Index(keys) = &mut self.keys {
            keys.leaves.rest(Rest::Keep);
            keys.scan = None;
            keys.scanned.clear();
        }
        self.records.rest();
    }
}

/// Whether a document has a value at a path, as a filter sees it.
pub(super) fn has(document: &RawDocument, path: &FieldPath, wanted: RawBsonRef<'_>) -> bool {
    let is_wanted = |value: RawBsonRef<'_>| compare(value, wanted).is_eq();
    // The common case: no array on the path, and none at its end.
    if let Some(value) = value_at(document, path).filter(|value| value.as_array().is_none()) {
        return is_wanted(value);
    }
    let mut is_found = false;
    let _ = leaves(document, path, &mut |leaf| {
        is_found = match leaf.value {
            Some(RawBsonRef::Array(array)) if leaf.expand => array.into_iter().flatten().any(is_wanted),
            Some(value) => is_wanted(value),
            None => false,
        };
        if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    is_found
}
