//! `$out`, and copies of collections as capped ones: documents are gathered in a collection that no reader sees, and replace the target in one commit.
//!
//! The gathered documents go through the same line as every insert, into a collection that has the indexes of the target from
//! the beginning. So what an index rejects is rejected before anything of the target is touched. The last step is a rename
//! that drops the target: readers see its old documents or the new ones. Whatever ends the pipeline before, what was
//! gathered is dropped; after a kill the next open drops it.

use std::sync::Arc;

use base::codes::{self, refused};
use base::error::{Error, ErrorKind, Result};
use base::namespace::Namespace;
use query::code::Code;
use query::operation::{OperationContext, Reservation};
use store::keys::OrderId;

use crate::catalog::capped::{Capped, CappedLimits};
use crate::catalog::change::{Rename, Replace, refuse_fields};
use crate::catalog::collection::{CollectionState, Definition};
use crate::cursor::RawCursor;
use crate::document::draft::Drafts;
use crate::execute::piped::Piped;
use crate::one_line::OneLine;
use crate::options::WriteConcern;
use crate::shared::Shared;
use crate::write::Target;
use crate::write::insert;
use crate::write::outcome::{InsertOrder, InsertOutcome};
use crate::write::validation::Checks;

/// Documents are inserted when there are this many bytes of them.
const INSERTED_BYTES: usize = 4 << 20;

/// The collection in which documents are gathered. It is dropped with this, unless it was put in place.
pub(super) struct Aside<'a> {
    shared: &'a Shared,
    target: &'a Namespace,
    namespace: Namespace,
    state: Arc<CollectionState>,
    /// The definition of the target when it was copied.
    copied: Definition,
    /// Whether no document is checked by the validator of the target.
    bypass: Option<bool>,
    is_placed: bool,
    /// The gathering stage or command, in messages.
    name: &'static str,
}

/// Documents that are gathered, one after the other.
pub(super) trait Documents {
    /// Steps to the next document. Returns `false` at the end.
    fn advance(&mut self) -> Result<bool>;
    /// The bytes of the current document.
    fn bytes(&self) -> &[u8];
}

impl Documents for Piped {
    fn advance(&mut self) -> Result<bool> {
        Self::advance(self)
    }

    fn bytes(&self) -> &[u8] {
        Self::bytes(self)
    }
}

impl Documents for RawCursor {
    fn advance(&mut self) -> Result<bool> {
        Self::advance(self)
    }

    fn bytes(&self) -> &[u8] {
        self.current().as_bytes()
    }
}

impl<'a> Aside<'a> {
    /// Makes the collection for documents that are to replace those of `target`.
    pub(super) fn begin(shared: &'a Shared, target: &'a Namespace, bypass: Option<bool>) -> Result<Self> {
        let _in_use = shared.store.enter()?;
        shared.store.admit_write()?;
        shared.catalog.refuse_view(target)?;
        // Under the gate for a moment, so that a change of the indexes that is running is seen as a whole.
        let replaced = shared.catalog.find(target).map(|state| state.definition());
        // The present target decides the form of what is gathered; it must be the same at the end.
        let copied = match replaced {
            Some(definition) => {
                refuse_fields(target, &definition)?;
                if definition.capped.is_some() {
                    let message = format!("namespace '{target}' is capped so it can't be used for $out");
                    return Err(refused(Code::OUT_TO_CAPPED, message).in_namespace(target));
                }
                definition
            }
            None => Definition::of_indexes(Vec::new()),
        };
        let like = copied.clone();
        Self::make(shared, target, copied, &like, bypass)
    }

    /// Makes the collection for documents of a new capped collection, which is validated like another one.
    pub(super) fn begin_capped(
        shared: &'a Shared,
        target: &'a Namespace,
        like: &Definition,
        limits: CappedLimits,
    ) -> Result<Self> {
        shared.store.admit_write()?;
        // The order is reserved when the collection is made.
        let capped = Capped { limits, order: OrderId(0) };
        let like = like.with_indexes(Vec::new()).with_capped(Some(capped));
        // As in MongoDB documents are copied as they are.
        let mut made = Self::make(shared, target, Definition::of_indexes(Vec::new()), &like, Some(true))?;
        // In messages only: the collection aside is the same.
        made.name = "cloneCollectionAsCapped";
        Ok(made)
    }

    fn make(
        shared: &'a Shared,
        target: &'a Namespace,
        copied: Definition,
        like: &Definition,
        bypass: Option<bool>,
    ) -> Result<Self> {
        let database = shared.store.enter()?;
        // An id of the store's own generator: two calls for one target gather in two collections.
        let namespace = Namespace::aside(&target.db, &shared.generator.generate().to_string());
        let state = shared.catalog.create_aside(shared.storage(&database), &namespace, like)?;
        // Before the sync: dropped if that fails, it drops the collection.
        let aside = Self { shared, target, namespace, state, copied, bypass, is_placed: false, name: "$out" };
        shared.store.sync_written(&database)?;
        Ok(aside)
    }

    /// Gathers documents to their end, and puts them in place.
    pub(super) fn fill(mut self, documents: &mut impl Documents, operation: &OperationContext) -> Result<()> {
        // Documents that wait for the next insert are memory of the operation, like the memory of a stage.
        let mut held = Reservation::of(operation);
        let mut drafts = Drafts::default();
        let mut bytes = 0;
        while documents.advance()? {
            bytes += documents.bytes().len();
            held.grow_by_steps(bytes)?;
            drafts.push_bytes(documents.bytes());
            if bytes >= INSERTED_BYTES {
                self.insert(std::mem::take(&mut drafts), operation)?;
                bytes = 0;
            }
        }
        // An insert without documents would be rejected, and a pipeline may have no results.
        if drafts.len() > 0 {
            self.insert(drafts, operation)?;
        }
        self.put_in_place()
    }

    fn insert(&self, mut drafts: Drafts, operation: &OperationContext) -> Result<()> {
        let shared = self.shared;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        // Not resolved by its name: a collection that is gone must not be made again.
        let Some(definition) = self.state.enter(operation)? else { return Err(self.is_gone()) };
        // By the name that the caller knows, for what is logged.
        let checks = Checks::of(self.target, definition.validation.as_deref(), || operation.clone());
        // The commit that puts the documents in place is synced, and with it what was written before.
        let level = shared.commit_level(Some(&WriteConcern::buffered()))?;
        let storage = shared.storage(&database);
        let target = Target::within(storage, &self.state, &definition, &shared.generator, (level, operation));
        let target = Target { checks: checks.as_ref(), ..target }.unchecked(self.bypass);
        let outcome: InsertOutcome<Vec<usize>> =
            insert::insert_many(target, &mut drafts, InsertOrder::Ordered)
                .map_err(|error| self.named(error))?;
        // The first one ends the call, so there is one at most.
        match outcome.refused.into_iter().next() {
            None => Ok(()),
            Some(refused) => Err(self.named(codes::of_write(refused))),
        }
    }

    fn put_in_place(&mut self) -> Result<()> {
        let shared = self.shared;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        // The rename would name the gathering collection, which the caller does not know.
        if self.state.is_retired() {
            return Err(self.is_gone());
        }
        let replace = Replace::Same(&self.copied);
        shared.define(&database, |storage| {
            // The part that it could end was gathered before.
            let operation = OperationContext::unlimited();
            let rename = Rename { from: &self.namespace, to: self.target, replace };
            shared.catalog.rename(storage, rename, &operation)?;
            self.is_placed = true;
            Ok(())
        })?;
        Ok(())
    }

    /// An error with the name that the caller knows, in place of that of the gathering collection.
    fn named(&self, error: Error) -> Error {
        let error = error.into_command();
        let ErrorKind::Command(refused) = error.kind() else { return error };
        let (aside, target) = (self.namespace.to_string(), self.target.to_string());
        let message = format!("{} failed: {}", self.name, refused.message.replace(&aside, &target));
        let mut refused = refused.clone();
        refused.message = message;
        Error::new(ErrorKind::Command(refused)).in_namespace(self.target)
    }

    /// The error if the documents gathered so far were dropped: with their database, that is.
    fn is_gone(&self) -> Error {
        let message = format!("the database of {} was dropped while {} was running", self.target, self.name);
        refused(Code::NAMESPACE_NOT_FOUND, message).in_namespace(self.target)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        // A store that rejects this (it is closed, or a commit failed) drops the collection when it is opened next.
        let dropped = self.shared.store.enter().and_then(|database| {
            let operation = OperationContext::unlimited();
            let drop = |storage| self.shared.catalog.drop_collection(storage, &self.namespace, &operation);
            self.shared.define(&database, drop)
        });
        if let Err(error) = dropped {
            tracing::warn!(error = %OneLine(error), target = %OneLine(&self.target), "what was gathered stays until the next open");
        }
    }
}
