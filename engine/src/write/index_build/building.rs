//! The common part of a build: its context, the keys of a document, and the errors of a build.

use std::sync::Arc;

use base::error::{Error, Result};
use base::write_error::Refusal;
use bson::RawDocument;
use index::multikey::ArrayComponents;
use query::code::Code;
use query::operation::OperationContext;
use store::handles::Storage;

use crate::catalog::builds::{Build, BuildEnd};
use crate::catalog::collection::CollectionState;
use crate::write::duplicate;
use crate::write::entries::{Entry, entries_of, split};
use crate::write::unique::{document_of, may_be_shortened, of_values};

/// The context of the parts of a build.
#[derive(Clone, Copy)]
pub(super) struct Building<'a> {
    pub(super) storage: Storage<'a>,
    pub(super) collection: &'a CollectionState,
    pub(super) build: &'a Arc<Build>,
    pub(super) operation: &'a OperationContext,
}

impl Building<'_> {
    /// Counts reading `bytes` bytes. Fails if the build must end.
    #[inline]
    pub(super) fn step(&self, bytes: usize) -> Result<()> {
        self.operation.pass(bytes)?;
        self.refuse_end()
    }

    /// Fails if the build must end.
    pub(super) fn look(&self) -> Result<()> {
        self.operation.look()?;
        self.refuse_end()
    }

    /// The entries of a document in the index. Arrays that they come from are known from now on.
    pub(super) fn draw(&self, document: &RawDocument, encoded_id: &[u8]) -> Result<Vec<Entry>> {
        let drawn = entries_of([(0, &self.build.index)], document, encoded_id);
        let drawn = drawn.map_err(|refusal| self.failed(&refusal))?;
        for (_, found) in &drawn.arrays {
            self.know_arrays(found);
        }
        Ok(drawn.entries)
    }

    /// The error of a unique index with a key of several documents: that of the entry `value`, and that of `other` if it is known.
    pub(super) fn duplicate(&self, key: &[u8], value: &[u8], other: Option<&[u8]>) -> Error {
        let (namespace, index) = (&self.collection.namespace, &self.build.index);
        let by_documents =
            if may_be_shortened(index, key) { self.by_documents(key, value, other) } else { Ok(None) };
        match by_documents {
            Ok(Some(refusal)) => self.failed(&refusal),
            Ok(None) => {
                let types = split(index, key, value).map(|parts| parts.types).unwrap_or_default();
                self.failed(&duplicate::of_entry(namespace, index, key, types))
            }
            Err(error) => error,
        }
    }

    /// The rejection of a shortened key by the values of its documents. Returns `None` if the document is gone.
    fn by_documents(&self, key: &[u8], value: &[u8], other: Option<&[u8]>) -> Result<Option<Refusal>> {
        let (index, database) = (&self.build.index, self.storage.database);
        let read = |value: &[u8]| document_of(database, self.collection.id, index, (key, value));
        let (own, other) = (read(value)?, other.map(read).transpose()?.flatten());
        let document = |bytes: &Option<Vec<u8>>| {
            bytes.as_deref().and_then(|bytes| RawDocument::from_bytes(bytes).ok().map(ToOwned::to_owned))
        };
        let (own, other) = (document(&own), document(&other));
        let namespace = &self.collection.namespace;
        Ok(own.map(|own| of_values(namespace, index, key, &own, other.as_deref())))
    }

    fn know_arrays(&self, found: &[ArrayComponents]) {
        // No reader sees the index yet, and its catalog entry is written at the end.
        self.build.index.arrays.announce(found);
        self.build.index.arrays.confirm(found);
    }

    #[inline]
    fn refuse_end(&self) -> Result<()> {
        let Some(end) = self.build.ended() else { return Ok(()) };
        let reason = match end {
            BuildEnd::CollectionGone => "the collection was dropped",
            BuildEnd::IndexDropped => "the index was dropped",
            BuildEnd::RecordsRemoved => "documents were removed as a range",
        };
        let message = format!("Index build failed: {}: {reason}", self.collection.namespace);
        Err(Error::command(Code::INDEX_BUILD_ABORTED, message).in_namespace(&self.collection.namespace))
    }

    fn failed(&self, refusal: &Refusal) -> Error {
        let namespace = &self.collection.namespace;
        let message = format!("Index build failed: {namespace}: {}", refusal.message);
        let mut error = refusal.clone();
        error.message = message;
        Error::write(error).into_command().in_namespace(namespace)
    }
}
