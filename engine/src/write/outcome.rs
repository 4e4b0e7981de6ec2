//! The result of an insert, for its operations and commands.

use std::collections::HashMap;

use base::generated::GeneratedValues;
use base::insert_error::IndexedWriteError;
use bson::Bson;

use crate::write::prepare::Prepared;

/// The behavior of an `insert_many` at a rejected document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InsertOrder {
    /// Stops there.
    Ordered,
    /// Goes on with the next.
    Unordered,
}

/// The result of inserting one document.
#[derive(Debug)]
pub(crate) struct Inserted {
    pub(crate) id: Bson,
    pub(crate) generated: GeneratedValues,
}

/// The results of an `insert_many`, by position in the call.
#[derive(Debug, Default)]
pub(crate) struct InsertOutcome<S> {
    pub(crate) inserted: S,
    /// Ascending by position.
    pub(crate) refused: Vec<IndexedWriteError>,
    /// Generated values of documents that are stored.
    pub(crate) generated: HashMap<usize, GeneratedValues>,
    /// The first value that was generated.
    pub(crate) last_generate_id: Option<i64>,
    /// Whether the call had happened before, by its token.
    pub(crate) was_replayed: bool,
}

impl<S: InsertedSet> InsertOutcome<S> {
    /// An outcome with room for `count` documents, none of them stored yet.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { inserted: S::with_capacity(count), ..Self::default() }
    }

    /// The outcome of a call whose only document was stored.
    pub(crate) fn of_one(inserted: Inserted) -> Self {
        let Inserted { id, generated } = inserted;
        let last_generate_id = generated.first();
        // A map without entries allocates nothing, and most documents have no generated value.
        let generated = if generated.is_empty() { HashMap::new() } else { HashMap::from([(0, generated)]) };
        Self { inserted: S::of_one(id), generated, last_generate_id, ..Self::default() }
    }
}

/// The stored documents of a call, with as much of each as the caller wants to know.
pub(crate) trait InsertedSet: Default {
    /// An empty set with room for `count` documents.
    fn with_capacity(count: usize) -> Self;
    /// The set of a call whose only document was stored.
    fn of_one(id: Bson) -> Self;
    /// Adds a stored document. Positions come in ascending order.
    fn add(&mut self, position: usize, document: &Prepared<'_>);
    /// Whether the document at `position` was stored.
    fn contains(&self, position: usize) -> bool;
    /// Adds a document that was stored before, as its answer has it.
    fn put(&mut self, position: usize, id: Bson);
    /// The positions of the stored documents, in any order.
    fn positions(&self) -> Vec<usize>;
    /// The `_id` of a stored document. `None` if the set has none.
    fn id(&self, position: usize) -> Option<Bson>;
}

/// The `_id` of each document.
impl InsertedSet for HashMap<usize, Bson> {
    fn with_capacity(count: usize) -> Self {
        Self::with_capacity(count)
    }

    fn of_one(id: Bson) -> Self {
        Self::from([(0, id)])
    }

    fn add(&mut self, position: usize, document: &Prepared<'_>) {
        self.insert(position, document.id());
    }

    fn contains(&self, position: usize) -> bool {
        self.contains_key(&position)
    }

    fn put(&mut self, position: usize, id: Bson) {
        self.insert(position, id);
    }

    fn positions(&self) -> Vec<usize> {
        self.keys().copied().collect()
    }

    fn id(&self, position: usize) -> Option<Bson> {
        self.get(&position).cloned()
    }
}

/// Only the positions, ascending: the reply of the command `insert` counts, and names no `_id`.
impl InsertedSet for Vec<usize> {
    fn with_capacity(count: usize) -> Self {
        Self::with_capacity(count)
    }

    fn of_one(_id: Bson) -> Self {
        vec![0]
    }

    fn add(&mut self, position: usize, _document: &Prepared<'_>) {
        self.push(position);
    }

    fn contains(&self, position: usize) -> bool {
        // Positions come in ascending order, so the list is sorted.
        self.binary_search(&position).is_ok()
    }

    fn put(&mut self, position: usize, _id: Bson) {
        self.push(position);
    }

    fn positions(&self) -> Vec<usize> {
        self.clone()
    }

    fn id(&self, _position: usize) -> Option<Bson> {
        None
    }
}
