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
use index::path::{FieldPath, leaves};
use query::expression::Variables;
use query::operation::OperationContext;
use query::pipeline::foreign::FieldIndex;
use store::Family;
use store::entry_lists::EntryList;
use store::keys::{CollectionId, ID_BYTES};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

use crate::catalog::indexes::Index;
use crate::document::decode::{EMPTY, stored};
use crate::execute::entry_list::{EntryListing, ListWalk};
use crate::execute::read_view::ReadView;
use crate::execute::record_fetch::RecordFetch;
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
    /// The entries of the value, if their list is in memory.
    list: Option<ListWalk>,
    records: RecordFetch,
    record_key: Vec<u8>,
    /// The value of the entry that was looked up.
    entry: Vec<u8>,
    document: Vec<u8>,
}

/// The place of the keys of values.
enum Keys {
    /// Among the records: the field is the `_id`.
    Records(CollectionId),
    /// In a unique index, which has one entry for a value.
    Unique(Index, Direction),
    /// In any other index. The walk through it is opened for the first value whose entries are not listed.
    Plain(Index, Direction, Option<Box<Scan>>),
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
            // At most one entry is better than any number.
            let on_field =
                view.indexes().iter().filter_map(|index| Some((index, index.whole_on(path.as_str())?)));
            let (index, direction) = on_field.max_by_key(|(index, _)| index.spec.is_unique())?;
            if index.spec.is_unique() {
                Keys::Unique(index.clone(), direction)
            } else {
                Keys::Plain(index.clone(), direction, None)
            }
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
            list: None,
            record_key: collection.prefix().to_vec(),
            entry: Vec::new(),
            document: EMPTY.to_vec(),
        })
    }

    /// The list of the entries with the key, if it is in memory or is wanted there.
    fn list_of(&self, index: &Index) -> Result<Option<EntryList>> {
        let Some(switch) = index.lists.switch_of(&self.key) else { return Ok(None) };
        EntryListing { snapshot: &self.snapshot, switch, operation: &self.operation }.find(&self.key)
    }

    /// Steps to the next entry of the value, and puts the key of its record into `record_key`. Returns `false` at the end.
    fn advance_entry(&mut self) -> Result<bool> {
        let is_first = self.state == State::Before;
        let (key, record_key) = (&self.key, &mut self.record_key);
        let malformed = |key: &[u8]| {
            Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index")
        };
        let id = match &mut self.keys {
            Keys::Records(_) => {
                if is_first {
                    key.clone_into(record_key);
                }
                return Ok(is_first);
            }
            Keys::Unique(index, _) | Keys::Plain(index, ..) if self.list.is_some() => {
                let Some(list) = self.list.as_mut().filter(|_| is_first || !index.spec.is_unique()) else {
                    return Ok(false);
                };
                if !list.advance() {
                    return Ok(false);
                }
                if index.spec.is_unique() {
                    let length = self.long_keys.skip(list.value(), Direction::Ascending);
                    list.value().get(..length.map_err(|_| malformed(key))?)
                } else {
                    list.key().get(key.len()..)
                }
            }
            Keys::Unique(..) => {
                if !is_first || !self.snapshot.get_into(Family::Entries, key, &mut self.entry)? {
                    return Ok(false);
                }
                let length = self.long_keys.skip(&self.entry, Direction::Ascending);
                self.entry.get(..length.map_err(|_| malformed(key))?)
            }
            Keys::Plain(index, _, scan) => {
                let was_open = scan.is_some();
                let scan = scan.get_or_insert_with(|| {
                    let bounds = (index.id.prefix().to_vec(), Some(index.id.end()));
                    let cache = CacheUse::Fill;
                    Box::new(Scan::open(&self.snapshot, Family::Entries, bounds, cache, &self.operation))
                });
                if is_first {
                    scan.seek(key)?;
                } else {
                    if !was_open {
                        // The walk has rested: it goes on from the entry that it was at.
                        let id = record_key.get(ID_BYTES..).unwrap_or_default();
                        scan.seek(&[key, id].concat())?;
                    }
                    scan.advance()?;
                }
                // The bytes of a value are never the beginning of those of another one.
                match scan.key().strip_prefix(key.as_slice()) {
                    Some(id) => Some(id),
                    None => return Ok(false),
                }
            }
        };
        // The prefix of the collection stays.
        record_key.truncate(ID_BYTES);
        record_key.extend_from_slice(id.ok_or_else(|| malformed(key))?);
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
            Keys::Unique(index, direction) | Keys::Plain(index, direction, _) => {
                index.uses.note();
                notes::searched(false);
                notes::scans(notes::Plan::Index(&index.name));
                self.key.extend_from_slice(&index.id.prefix());
                *direction
            }
        };
        self.long_keys.encode(value, direction, &mut self.key);
        self.state = State::Before;
        self.list = match &self.keys {
            Keys::Records(_) => None,
            Keys::Unique(index, _) | Keys::Plain(index, ..) => {
                self.list_of(index)?.map(|list| ListWalk::of(self.key.clone(), list))
            }
        };
        Ok(true)
    }

    fn advance(&mut self) -> Result<bool> {
        while self.state != State::End {
            // An absent key is a step too: looking for nothing can take as long.
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
        if let Keys::Plain(_, _, scan) = &mut self.keys {
            *scan = None;
        }
        self.records.rest();
    }
}

/// Whether a document has a value at a path, as a filter sees it.
fn has(document: &RawDocument, path: &FieldPath, wanted: RawBsonRef<'_>) -> bool {
    let is_wanted = |value: RawBsonRef<'_>| compare(value, wanted).is_eq();
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
