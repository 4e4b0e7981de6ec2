//! The naive database: collections of documents by `_id`, with every rule checked by looking at everything.

use std::collections::{BTreeMap, BTreeSet};

use cairndb::bson::{Bson, Document};

use super::filter::{Filter, value_at};
use super::numbering::Field;
use super::order::{Key, compare};

/// An index, as far as the model minds: it never looks anything up by one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) fields: Vec<(&'static str, i32)>,
    pub(super) unique: bool,
    pub(super) sparse: bool,
}

/// The reason why the model rejects: the code, and for a duplicate key the name of the index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) index: Option<String>,
}

/// The action of a replacement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Replacement {
    Nothing,
    Unchanged,
    Changed,
}

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cap {
    /// In bytes: a multiple of 256.
    pub(super) size: u64,
    pub(super) max: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Collection {
    pub(super) documents: BTreeMap<Key, Document>,
    /// Present if the collection is capped.
    pub(super) cap: Option<Cap>,
    /// The `_id`s in the order of the inserts.
    order: Vec<Key>,
    pub(super) indexes: Vec<Index>,
    /// Fields that number themselves, in the order in which they were made.
    pub(super) fields: Vec<Field>,
}

pub(super) fn refuse<T>(code: i32) -> Result<T, Refusal> {
    Err(Refusal { code, index: None })
}

impl Collection {
    /// An empty collection with limits, if it has some.
    pub(super) fn capped(cap: Option<Cap>) -> Self {
        Self { cap, ..Self::default() }
    }

    /// Accepts a document that has its `_id` in front.
    pub(super) fn insert(&mut self, document: Document) -> Result<(), Refusal> {
        let id = id_of(&document);
        self.refuse_parallel_arrays(&document)?;
        let length = bytes(&document).len() as u64;
        if self.cap.is_some_and(|cap| length > cap.size) {
            return refuse(2);
        }
        if self.documents.contains_key(&id) {
            return duplicate("_id_");
        }
        self.refuse_clashes(&document, &id)?;
        self.make_room(length);
        self.order.push(id.clone());
        self.documents.insert(id, document);
        Ok(())
    }

    /// Removes the oldest documents of a capped collection until one more has room.
    fn make_room(&mut self, length: u64) {
        let Some(cap) = self.cap else { return };
        let is_full = |documents: &BTreeMap<Key, Document>| {
            let stored: u64 = documents.values().map(|document| bytes(document).len() as u64).sum();
            stored + length > cap.size || cap.max.is_some_and(|max| documents.len() as u64 >= max)
        };
        while !self.order.is_empty() && is_full(&self.documents) {
            let oldest = self.order.remove(0);
            self.documents.remove(&oldest);
        }
    }

    /// All documents, as a search without an order shows them.
    pub(super) fn in_order(&self) -> Vec<&Document> {
        match self.cap {
            Some(_) => self.order.iter().filter_map(|id| self.documents.get(id)).collect(),
            None => self.documents.values().collect(),
        }
    }

    /// Removes all documents.
    pub(super) fn clear(&mut self) {
        self.documents.clear();
        self.order.clear();
    }

    /// Replaces the first document that matches; its `_id` stays, type included.
    pub(super) fn replace(
        &mut self,
        filter: &Filter,
        replacement: &Document,
    ) -> Result<Replacement, Refusal> {
        let Some(found) = self.find(filter).next().cloned() else { return Ok(Replacement::Nothing) };
        let id = id_of(&found);
        if replacement.get("_id").is_some_and(|other| compare(other, &id.0).is_ne()) {
            return refuse(66);
        }
        let mut document = with_id(&id.0, replacement);
        self.keep_fields(&found, &mut document);
        self.refuse_parallel_arrays(&document)?;
        if bytes(&document) == bytes(&found) {
            return Ok(Replacement::Unchanged);
        }
        self.refuse_clashes(&document, &id)?;
        self.documents.insert(id, document);
        Ok(Replacement::Changed)
    }

    /// Deletes matching documents, at most `limit`; says how many.
    pub(super) fn delete(&mut self, filter: &Filter, limit: usize) -> u64 {
        let found: Vec<Key> = self.find(filter).take(limit).map(id_of).collect();
        for id in &found {
            self.documents.remove(id);
            self.order.retain(|other| other != id);
        }
        found.len() as u64
    }

    pub(super) fn find<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Document> {
        self.documents.values().filter(|document| filter.matches(document))
    }

    pub(super) fn create_index(&mut self, index: Index) -> Result<(), Refusal> {
        if let Some(existing) = self.indexes.iter().find(|existing| existing.name == index.name) {
            return if *existing == index { Ok(()) } else { refuse(86) };
        }
        if self.indexes.iter().any(|existing| existing.fields == index.fields) {
            return refuse(85);
        }
        let mut taken = BTreeSet::new();
        for document in self.documents.values() {
            for key in index.keys(document)? {
                if !taken.insert(key) && index.unique {
                    return duplicate(&index.name);
                }
            }
        }
        self.indexes.push(index);
        Ok(())
    }

    pub(super) fn drop_index(&mut self, name: &str) -> Result<(), Refusal> {
        if name == "_id_" {
            return refuse(72);
        }
        let before = self.indexes.len();
        self.indexes.retain(|index| index.name != name);
        if self.indexes.len() == before { refuse(27) } else { Ok(()) }
    }

    fn refuse_parallel_arrays(&self, document: &Document) -> Result<(), Refusal> {
        self.indexes.iter().try_for_each(|index| index.keys(document).map(drop))
    }

    fn refuse_clashes(&self, document: &Document, own: &Key) -> Result<(), Refusal> {
        for index in self.indexes.iter().filter(|index| index.unique) {
            let keys = index.keys(document)?;
            let others = self.documents.iter().filter(|(id, _)| *id != own);
            for (_, other) in others {
                if !index.keys(other)?.is_disjoint(&keys) {
                    return duplicate(&index.name);
                }
            }
        }
        Ok(())
    }
}

impl Index {
    /// Every key that a document has in the index.
    fn keys(&self, document: &Document) -> Result<BTreeSet<Vec<Key>>, Refusal> {
        let values: Vec<Option<&Bson>> =
            self.fields.iter().map(|(path, _)| value_at(document, path)).collect();
        if self.sparse && values.iter().all(Option::is_none) {
            return Ok(BTreeSet::new());
        }
        if values.iter().filter(|value| value.is_some_and(|value| value.as_array().is_some())).count() > 1 {
            return refuse(171);
        }
        let mut keys = vec![Vec::new()];
        for value in values {
            let choices = match value {
                None => vec![Bson::Null],
                Some(Bson::Array(elements)) if elements.is_empty() => vec![Bson::Undefined],
                Some(Bson::Array(elements)) => elements.clone(),
                Some(value) => vec![value.clone()],
            };
            keys = keys
                .into_iter()
                .flat_map(|key: Vec<Key>| {
                    choices.iter().map(move |choice| [key.clone(), vec![Key(choice.clone())]].concat())
                })
                .collect();
        }
        Ok(keys.into_iter().collect())
    }
}

pub(super) fn id_of(document: &Document) -> Key {
    Key(document.get("_id").expect("every stored document has an _id").clone())
}

/// The document with that `_id` in front.
pub(super) fn with_id(id: &Bson, document: &Document) -> Document {
    let mut stored = Document::new();
    stored.insert("_id", id.clone());
    stored.extend(
        document.iter().filter(|(name, _)| *name != "_id").map(|(name, value)| (name.clone(), value.clone())),
    );
    stored
}

/// A document's exact form, in which 1 and 1.0 differ.
pub(super) fn bytes(document: &Document) -> Vec<u8> {
    cairndb::bson::serialize_to_vec(document).expect("the model's documents are small and plain")
}

fn duplicate<T>(index: &str) -> Result<T, Refusal> {
    Err(Refusal { code: 11000, index: Some(index.to_owned()) })
}
