//! The change that a write makes to a document: an update's operators or pipeline, or a replacement. Pure, but for
//! the clock.

use base::codes::{refused, text_with_causes};
use base::error::{Error, Result};
use base::write_error::{Refusal, WriteError};
use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};
use index::order::compare;
use index::validate::ValidDocument;
use query::code::Code;
use query::expression::Variables;
use query::filter::Filter;
use query::update::{Context, Phase, Update, UpsertStart, upsert_base};
use store::Family;

use crate::document::print::print_fields;
use crate::document::replacement::{append_elements, element, with_id_element};
use crate::document::timestamp::next_timestamp;
use crate::document::validate::{validate, validate_replacement_names, validate_size};
use crate::options::UpdateModifications;
use crate::plan::bounds::ID_FIELD;
use crate::plan::selector::Selector;
use crate::write::Target;
use crate::write::prepare::record_key;

/// The number of characters of an `_id` that an error repeats.
const ID_CHARACTERS_MAX: usize = 200;

/// A change of documents.
pub(crate) enum Change<'a> {
    /// Operators or a pipeline, with the clock that all documents of a call share.
    Update {
        update: Update,
        clock: (DateTime, Timestamp),
        /// The document that an upsert inserts. If it is absent, the update makes a document of the filter.
        supplied: Option<&'a [u8]>,
    },
    /// Another document in place of the one that is there.
    Replacement(ValidDocument<'a>),
}

impl<'a> Change<'a> {
    /// Reads an update. `variables` are those of its expressions, which only a pipeline has, and the clock of
    /// `$currentDate`.
    pub(crate) fn of_update(
        update: &UpdateModifications,
        array_filters: Option<&[Document]>,
        variables: &Variables,
    ) -> Result<Self> {
        let raw = |document: &Document| RawDocumentBuf::try_from(document);
        let array_filters = array_filters.unwrap_or_default().iter().map(raw);
        let array_filters = array_filters.collect::<std::result::Result<Vec<_>, _>>()?;
        let update = match update {
            UpdateModifications::Document(operators) => {
                Update::parse_collated(&raw(operators)?, &array_filters, variables.collation())?
            }
            UpdateModifications::Pipeline(stages) => {
                let stages = stages.iter().map(raw).collect::<std::result::Result<Vec<_>, _>>()?;
                Update::parse_pipeline(&stages, &array_filters, variables)?
            }
        };
        // Once for the call: all documents that it changes get the same time.
        Ok(Self::Update { update, clock: clock(variables), supplied: None })
    }

    /// The change by an update that was read before, with values of its variables. An upsert inserts `supplied`.
    pub(crate) fn again(update: &Update, variables: &Variables, supplied: &'a [u8]) -> Self {
        let update = update.with_variables(variables);
        Self::Update { update, clock: clock(variables), supplied: Some(supplied) }
    }

    /// Checks the bytes of a replacement.
    pub(crate) fn of_replacement(bytes: &'a [u8]) -> Result<Self> {
        let document = validate(bytes).map_err(Error::write)?;
        validate_replacement_names(document.as_raw()).map_err(Error::write)?;
        Ok(Self::Replacement(document))
    }

    /// Whether it puts another document in place of the one that is there.
    #[inline]
    pub(super) fn is_replacement(&self) -> bool {
        matches!(self, Self::Replacement(_))
    }

    /// The document as the change leaves it. Returns `None` if its bytes stay the same.
    #[inline]
    pub(super) fn successor(
        &self,
        target: Target<'_>,
        selector: &Selector,
        key: &[u8],
        current: &RawDocument,
    ) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Update { update, clock: (now, timestamp), .. } => {
                let operation = selector.variables().operation();
                // The meaning of a positional `$` is computed only if the update has one.
                let position = selector
                    .filter()
                    .filter(|_| update.is_positional())
                    .map_or(Ok(None), |filter| filter.array_position(current, operation))?;
                let context = Context::new(Phase::Modify, *now, *timestamp)
                    .with_position(position)
                    .within(operation.clone());
                let changed = update.apply(current, &context).map_err(|error| refused_for(error, current))?;
                Ok(changed.map(RawDocumentBuf::into_bytes))
            }
            Self::Replacement(replacement) => {
                let mut bytes = with_id_of(current, key, replacement)?;
                // A document keeps its numbers, unless the replacement names the fields itself.
                keep_fields(target, current, &mut bytes)?;
                validate_size(bytes.len()).map_err(Error::write)?;
                Ok(Some(bytes).filter(|bytes| bytes != current.as_bytes()))
            }
        }
    }

    /// Whether the change would alter a stored document.
    pub(crate) fn alters(
        &self,
        target: Target<'_>,
        selector: &Selector,
        document: &RawDocument,
    ) -> Result<bool> {
        let id = document.get(ID_FIELD)?.map(|id| record_key(target.collection, id));
        let key = id.as_ref().map(|key| &key[..]).unwrap_or_default();
        Ok(self.successor(target, selector, key, document)?.is_some())
    }

    /// The document that an upsert inserts when the filter finds no document. It may lack an `_id`.
    pub(super) fn upserted(&self, filter: &Document) -> Result<Vec<u8>> {
        // The filter was parsed before, so all that this can reject is an expression: without the caller's variables there
        // is not a value to start a document from.
        let filter = Filter::parse_with(&RawDocumentBuf::try_from(filter)?, &Variables::default())?;
        match self {
            Self::Update { supplied: Some(document), .. } => Ok(document.to_vec()),
            Self::Update { update, clock: (now, timestamp), supplied: None } => {
                let base = upsert_base(&filter, UpsertStart::Update)?;
                let changed = update.apply(&base, &Context::new(Phase::Insert, *now, *timestamp))?;
                Ok(changed.unwrap_or(base).into_bytes())
            }
            Self::Replacement(replacement) => {
                let base = upsert_base(&filter, UpsertStart::Replacement)?;
                // The `_id` that the filter asks for and the replacement's own must be equal, or there is only one.
                let Some(wanted) = base.get("_id")? else { return Ok(replacement.as_bytes().to_vec()) };
                if let Some(own) = replacement.id() {
                    // Equal as values is enough: 1 and 1.0 are one `_id`.
                    if compare(wanted, own).is_ne() {
                        return Err(Error::write(immutable_id(own)));
                    }
                    return Ok(replacement.as_bytes().to_vec());
                }
                let id = base.as_bytes().get(4..base.as_bytes().len() - 1).unwrap_or_default();
                Ok(with_id_element(replacement, id))
            }
        }
    }
}

/// The clock of a change: the time of the operation, and a timestamp that no other change has.
fn clock(variables: &Variables) -> (DateTime, Timestamp) {
    let stamp = next_timestamp();
    let half = |part: u64| u32::try_from(part & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    (variables.clock(), Timestamp { time: half(stamp >> 32), increment: half(stamp) })
}

/// Appends the auto-increment fields of the stored document that the replacement lacks, ascending by name. Of a nested
/// field its outermost parent is appended.
fn keep_fields(target: Target<'_>, found: &RawDocument, bytes: &mut Vec<u8>) -> Result<()> {
    let mut names: Vec<&str> =
        target.fields.iter().filter_map(|field| field.field.segments().next()).collect();
    // Fields below one parent follow each other, because the list is sorted by path.
    names.dedup();
    let mut kept = Vec::new();
    for name in names {
        if RawDocument::from_bytes(&*bytes)?.get(name)?.is_none() {
            kept.extend_from_slice(element(found, name).unwrap_or_default());
        }
    }
    if !kept.is_empty() {
        append_elements(bytes, &kept);
    }
    Ok(())
}

/// The replacement with the `_id` of the stored document, so that its type stays as well: 1 is not made 1.0.
fn with_id_of(found: &RawDocument, key: &[u8], replacement: &ValidDocument<'_>) -> Result<Vec<u8>> {
    let stored = index::validate::validate(found.as_bytes())
        .map_err(|error| Error::corruption(Family::Records.name(), key, error.to_string()))?;
    let (Some(id), Some(place)) = (stored.id(), stored.id_element()) else {
        return Err(Error::corruption(Family::Records.name(), key, "the record has no _id"));
    };
    if let Some(other) = replacement.id()
        && compare(id, other).is_ne()
    {
        return Err(Error::write(immutable_id(other)));
    }
    Ok(with_id_element(replacement, found.as_bytes().get(place).unwrap_or_default()))
}

fn immutable_id(id: RawBsonRef<'_>) -> Refusal {
    let shown = bson::Bson::try_from(id).map(|id| id.to_string()).unwrap_or_default();
    WriteError::boxed(
        Code::IMMUTABLE_FIELD,
        format!(
            "After applying the update, the (immutable) field '_id' was found to have been altered to _id: {shown}"
        ),
    )
}

/// The error of an update that cannot be applied to a stored document. It names the document, because an update of many
/// would not show otherwise which one is meant.
#[cold]
fn refused_for(error: query::update::error::Error, document: &RawDocument) -> Error {
    // That an operation is over has nothing to do with the document.
    if matches!(error, query::update::error::Error::Interrupted(_)) {
        return error.into();
    }
    let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    let shown = id.map(|id| print_fields([("_id", &id)])).unwrap_or_default();
    // Cut by characters, not bytes: the text is cut for a reader, and must stay valid UTF-8.
    let mut letters = shown.chars();
    let start = letters.by_ref().take(ID_CHARACTERS_MAX).collect::<String>();
    let rest = if letters.next().is_some() { "..." } else { "" };
    refused(error.code(), format!("{}, in the document {start}{rest}", text_with_causes(&error)))
}
