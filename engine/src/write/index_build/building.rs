//! What the parts of a build share: what they work on, the keys of a document, and the errors of a build.

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
use crate::write::entries::{Entry, entries_of};

/// What the parts of a build work on.
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

    /// The error of a unique index whose key several documents have.
    pub(super) fn duplicate(&self, key: &[u8], types: &[u8]) -> Error {
        self.failed(&duplicate::of_entry(&self.collection.namespace, &self.build.index, key, types))
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
