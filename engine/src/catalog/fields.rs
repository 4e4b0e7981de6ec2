//! New auto-increment fields: the checks of what is asked for, and their staging with their sequences.

use sequence::attributes::Attributes;
use sequence::auto_increment::{Field, FieldOptions};
use sequence::error::SequenceError;
use sequence::state::State;

use crate::catalog::collection::CollectionState;
use crate::catalog::names::NextIds;
use crate::catalog::sequences::{AutoField, AutoFields, internal_name};
use crate::catalog::stage::{NewSequence, stage_new_sequence};
use crate::document::complete::check_depth;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::write::Batch;

/// Finds the value furthest along a new field's sequence that the collection's documents have in the field.
pub(crate) type Furthest<'a> = dyn Fn(&CollectionState, &str, &Attributes) -> Result<Option<i64>> + 'a;

/// A field that a collection is to get, whose options were checked.
pub(crate) struct NewField<'a> {
    options: &'a FieldOptions,
    field: Field,
    attributes: Attributes,
}

/// Stages new fields, with their sequences. Nothing is in force yet.
pub(crate) fn stage_fields(
    batch: &mut Batch<'_>,
    ids: &mut NextIds,
    collection: &CollectionState,
    new: Vec<NewField<'_>>,
    furthest: &Furthest<'_>,
) -> Result<Vec<AutoField>> {
    let mut added: Vec<AutoField> = Vec::new();
    for NewField { options, field, attributes } in new {
        let path = field.path();
        let existing = if options.start_from_existing == Some(true) {
            furthest(collection, path, &attributes)?
        } else {
            None
        };
        let initial = State::new(attributes);
        let start =
            options.used_up_to.map_or_else(|| Ok(initial.clone()), |value| initial.used_up_to(value))?;
        let state = existing.map_or_else(|| start.clone(), |value| start.beyond(value));
        let name = internal_name(collection.id, path);
        let db = &collection.namespace.db;
        let sequence = NewSequence { db, name: &name, owner: Some(collection.id), state };
        let state = stage_new_sequence(batch, ids, sequence)?;
        added.push(AutoField::new(field, state));
    }
    Ok(added)
}

/// Whether a collection numbers just the fields that are asked for, in the way that is asked for, and has used the
/// values that are to count as used.
pub(crate) fn has_fields(present: &AutoFields, options: &[FieldOptions]) -> Result<bool> {
    let asked = parse_fields(options, &AutoFields::default()).map_err(as_conflict)?;
    let is_asked_for = |existing: &AutoField| {
        let sequence = &existing.state.sequence;
        asked.iter().any(|new| {
            new.field == existing.field
                && new.attributes == sequence.snapshot().attributes
                && new.options.used_up_to.is_none_or(|value| sequence.has_used(value))
        })
    };
    Ok(present.iter().count() == asked.len() && present.iter().all(is_asked_for))
}

/// Refuses fields that no collection can be given, whatever it has.
pub(crate) fn check_fields(options: &[FieldOptions]) -> Result<()> {
    parse_fields(options, &AutoFields::default()).map(|_| ()).map_err(as_conflict)
}

/// New fields and their attributes, checked against those that are present and against each other.
pub(crate) fn parse_fields<'a>(
    options: &'a [FieldOptions],
    present: &AutoFields,
) -> Result<Vec<NewField<'a>>> {
    let mut parsed: Vec<NewField<'a>> = Vec::new();
    for options in options {
        let field = Field::create(options)?;
        check_depth(&field)?;
        let path = field.path();
        if let Some(existing) = present.iter().find(|existing| existing.field.conflicts_with(path)) {
            let existing = existing.field.path().to_owned();
            return Err(SequenceError::FieldConflict { field: path.to_owned(), existing }.into());
        }
        if let Some(other) = parsed.iter().find(|other| other.field.conflicts_with(path)) {
            let other = other.field.path().to_owned();
            return Err(SequenceError::FieldTwice { field: path.to_owned(), other }.into());
        }
        let attributes = Attributes::create(&options.sequence)?;
        if let Some(value) = options.used_up_to {
            State::new(attributes.clone()).used_up_to(value)?;
        }
        parsed.push(NewField { options, field, attributes });
    }
    Ok(parsed)
}

/// Fields are added to a collection one by one, so a second of the same path conflicts with the first.
pub(crate) fn as_conflict(error: Error) -> Error {
    if let ErrorKind::Sequence(SequenceError::FieldTwice { field, other }) = error.kind() {
        return SequenceError::FieldConflict { field: field.clone(), existing: other.clone() }.into();
    }
    error
}
