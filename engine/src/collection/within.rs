//! How the verbs reach the store as statements of a transaction.

use std::borrow::Cow;
use std::sync::Arc;

use base::error::{Error, Result};
use store::write::CommitLevel;

use crate::catalog::collection::CollectionState;
use crate::collection::handle::{Handle, Missing, Terms};
use crate::execute::read_view::ReadView;
use crate::plan::selector::Selector;
use crate::transaction::{Open, Staging, Transaction, names_changed, refused_within};
use crate::write::Target;
use crate::write::validation::Checks;

impl Handle {
    /// Resolves the collection for a statement. The caller checks what it found after it has looked up what it goes by.
    fn find_within(&self, open: &Open) -> Result<Option<Cow<'_, Arc<CollectionState>>>> {
        let found = self.find_state()?;
        if found.is_none() && !self.shared().catalog.names_are_as_of(open.sequence()) {
            return Err(names_changed());
        }
        Ok(found)
    }

    /// Runs a search as a statement.
    pub(super) fn search_within<R>(
        &self,
        transaction: &Arc<Transaction>,
        selector: &Selector,
        operation: impl FnOnce(ReadView) -> Result<R>,
    ) -> Result<Option<R>> {
        let database = self.shared().store.enter()?;
        transaction.statement(&database, selector.variables().operation(), |open| {
            let Some(state) = self.find_within(open)? else { return Ok(None) };
            let view = ReadView::at(open.snapshot(), &state, selector)?;
            open.check(&state)?;
            operation(view).map(Some).map_err(|error| error.in_namespace(&state.namespace))
        })
    }

    /// Stages a write as a statement. Returns `None` if the collection does not exist.
    pub(super) fn stage<R>(
        &self,
        transaction: &Arc<Transaction>,
        missing: Missing,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        if terms.concern.is_some() {
            let message = "a write concern is given when a transaction is started, and not to its statements";
            return Err(Error::invalid_argument(message));
        }
        let shared = self.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        transaction.statement(&database, terms.operation, |open| {
            terms.operation.look()?;
            let Some(state) = self.find_within(open)? else {
                let namespace = self.valid_namespace()?;
                shared.catalog.refuse_view(namespace)?;
                return match missing {
                    Missing::Skip => Ok(None),
                    Missing::Create => Err(refused_within(&format!("to make the collection {namespace}"))),
                };
            };
            // Without the gate, which the commit enters: it makes sure that the definition is still this one.
            let definition = state.definition();
            open.check(&state)?;
            if definition.capped.is_some() {
                return Err(refused_within(&format!("a write to the capped collection {}", state.namespace)));
            }
            let validation = definition.validation.as_deref();
            let checks = Checks::of(&state.namespace, validation, || self.checking(terms.operation));
            let (storage, level) = (shared.storage(&database), CommitLevel::Delayed);
            let target =
                Target::within(storage, &state, &definition, &shared.generator, (level, terms.operation));
            let target = Target {
                acquirer: self.caller().acquirer.as_deref(),
                checks: checks.as_ref(),
                staging: Some(Staging { open, state: &state }),
                ..target
            };
            operation(target).map(Some).map_err(|error| error.in_namespace(&state.namespace))
        })
    }
}
