//! Whether a document that is to be written is valid by the validator of its collection.
//!
//! The check looks at the final bytes, with the `_id` and all generated values, before anything is written. Where a
//! collection has no validator there are no [`Checks`], and a write asks for nothing but that.

use std::cell::Cell;

use base::error::Result;
use base::namespace::Namespace;
use base::write_error::{Refusal, WriteError};
use bson::{DateTime, Document, RawDocument};
use query::code::Code;
use query::error::Error as FilterError;
use query::expression::Variables;
use query::filter::failure::{describe_briefly, describe_failure};
use query::operation::OperationContext;

use crate::catalog::validation::Validation;
use crate::one_line::OneLine;
use crate::options::{ValidationAction, ValidationLevel};

/// The most bytes that the details of one rejected document use.
const DETAILS_BYTES_MAX: usize = 1 << 20;

/// The limit of details for the documents of one call, or of its validator's bytes read for them, whichever is more.
const CALL_BYTES_MAX: usize = 4 << 20;

/// The checks of the documents of one call.
pub(crate) struct Checks<'a> {
    namespace: &'a Namespace,
    validation: &'a Validation,
    /// One clock for the call.
    variables: Variables,
    /// The number of bytes that may still be made or read for the details of the call.
    left: Cell<usize>,
}

impl<'a> Checks<'a> {
    /// The checks of a call. Returns `None` if nothing is to be checked.
    #[inline]
    pub(crate) fn of(
        namespace: &'a Namespace,
        validation: Option<&'a Validation>,
        operation: impl FnOnce() -> OperationContext,
    ) -> Option<Self> {
        let validation = validation?;
        let collation = validation.active()?.collation().clone();
        // Only now: without a validator a write reads no clock.
        let variables = Variables::new(DateTime::now()).within(operation()).with_collation(collation);
        Some(Self { namespace, validation, variables, left: Cell::new(CALL_BYTES_MAX) })
    }

    /// Checks a document that is to be inserted. Returns why it is rejected.
    pub(super) fn refuse(&self, document: &RawDocument) -> Result<Option<Refusal>> {
        if self.is_valid(document)? {
            return Ok(None);
        }
        self.refuse_invalid(document)
    }

    /// Checks a document that is to replace another one. Returns why it is rejected.
    pub(super) fn refuse_change(&self, old: &RawDocument, new: &RawDocument) -> Result<Option<Refusal>> {
        if self.is_valid(new)? {
            return Ok(None);
        }
        // The old one only now: nearly always the new one is valid.
        if self.validation.level() == ValidationLevel::Moderate && !self.is_valid(old)? {
            return Ok(None);
        }
        self.refuse_invalid(new)
    }

    fn is_valid(&self, document: &RawDocument) -> Result<bool> {
        let Some(validator) = self.validation.active() else { return Ok(true) };
        match validator.filter().try_matches(document, &self.variables) {
            Ok(is_match) => Ok(is_match),
            // That the operation is over says nothing of the document.
            Err(error @ FilterError::Interrupted(_)) => Err(error.into()),
            // As in MongoDB, an expression that fails for a document does not accept it. One that was stopped with its operation
            // ends as well.
            Err(_) => {
                self.variables.operation().verdict()?;
                Ok(false)
            }
        }
    }

    #[cold]
    fn refuse_invalid(&self, document: &RawDocument) -> Result<Option<Refusal>> {
        match self.validation.action() {
            ValidationAction::Warn => {
                self.warn(document)?;
                return Ok(None);
            }
            ValidationAction::ErrorAndLog => self.warn(document)?,
            ValidationAction::Error => {}
        }
        let details = self.details(document)?;
        let mut refusal = WriteError::boxed(Code::DOCUMENT_VALIDATION_FAILURE, "Document failed validation");
        refusal.details = Some(details);
        Ok(Some(refusal))
    }

    /// MongoDB's `errInfo`. Documents are rejected by the thousand, and each time the whole validator is read. So both what all
    /// of them report together and what is read for it are bounded.
    fn details(&self, document: &RawDocument) -> Result<Document> {
        let Some(validator) = self.validation.active() else { return Ok(Document::new()) };
        // The first document is always reported, however large the validator is.
        let room = self.left.get().min(DETAILS_BYTES_MAX);
        let details = describe_failure(validator.document(), document, &self.variables, room)?;
        let bytes = details.to_vec()?.len().max(validator.document().as_bytes().len());
        self.left.set(self.left.get().saturating_sub(bytes));
        Ok(details)
    }

    fn warn(&self, document: &RawDocument) -> Result<()> {
        let Some(validator) = self.validation.active() else { return Ok(()) };
        // The rules and the `_id`, and no other value of the document.
        let details = describe_briefly(validator.document(), document, &self.variables)?;
        tracing::warn!(namespace = %OneLine(self.namespace), details = %OneLine(details), "a document is not valid");
        Ok(())
    }
}
