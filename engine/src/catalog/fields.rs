//! New auto-increment fields: their options are checked, and the fields staged with their sequences.

use base::error::{Error, ErrorKind, Result};
use sequence::attributes::Attributes;
use sequence::auto_increment::{FIELDS_MAX, Field, FieldOptions};
use sequence::error::SequenceError;
use sequence::state::State;
use store::write::Batch;

use crate::catalog::collection::CollectionState;
use crate::catalog::names::NextIds;
use crate::catalog::sequences::{AutoField, AutoFields, internal_name};
use crate::catalog::stage::{NewSequence, stage_new_sequence};
use crate::document::field_tree::check_depth;

/// Finds the value in the collection's documents that is furthest along a new field's sequence.
pub(crate) type Furthest<'a> = dyn Fn(&CollectionState, &str, &Attributes) -> Result<Option<i64>> + 'a;

/// Fields to be added to a collection.
#[derive(Clone, Copy)]
pub(crate) struct NewFields<'a> {
    pub(crate) options: &'a [FieldOptions],
    pub(crate) furthest: &'a Furthest<'a>,
}

/// A field that a collection is to get. Its options were checked.
pub(crate) struct NewField<'a> {
    options: &'a FieldOptions,
    field: Field,
    attributes: Attributes,
    /// The value in documents that is furthest along the sequence.
    existing: Option<i64>,
}

/// Looks for the values that new fields are to start after. It reads the whole collection, whose gate the caller holds alone.
pub(crate) fn find_existing(
    collection: &CollectionState,
    new: &mut [NewField<'_>],
    furthest: &Furthest<'_>,
) -> Result<()> {
    // A scan, so only if it is asked for.
    for field in new.iter_mut().filter(|field| field.options.start_from_existing == Some(true)) {
        field.existing = furthest(collection, field.field.path(), &field.attributes)?;
    }
    Ok(())
}

/// Stages new fields with their sequences. They have effect with the commit of the batch.
pub(crate) fn stage_fields(
    batch: &mut Batch<'_>,
    ids: &mut NextIds,
    collection: &CollectionState,
    new: Vec<NewField<'_>>,
) -> Result<Vec<AutoField>> {
    let mut added: Vec<AutoField> = Vec::new();
    for NewField { options, field, attributes, existing } in new {
        let initial = State::new(attributes);
        let used_up_to = options.sequence.used_up_to;
        let start = used_up_to.map_or_else(|| Ok(initial.clone()), |value| initial.used_up_to(value))?;
        // After `used_up_to`: the sequence starts beyond whichever of the two is further.
        let state = existing.map_or_else(|| start.clone(), |value| start.beyond(value));
        let name = internal_name(collection.id, field.path());
        let db = &collection.namespace.db;
        let sequence = NewSequence { db, name: &name, owner: Some(collection.id), state };
        let state = stage_new_sequence(batch, ids, sequence)?;
        added.push(AutoField::new(field, state));
    }
    Ok(added)
}

/// Whether a collection has exactly the fields that are asked for, with the same options, and has used the
/// values that are to count as used.
pub(crate) fn has_fields(present: &AutoFields, options: &[FieldOptions]) -> Result<bool> {
    let asked = parse_fields(options, &AutoFields::default()).map_err(as_conflict)?;
    let is_asked_for = |existing: &AutoField| {
        let sequence = &existing.state.sequence;
        asked.iter().any(|new| {
            new.field == existing.field
                && new.attributes == sequence.snapshot().attributes
                && new.options.sequence.used_up_to.is_none_or(|value| sequence.has_used(value))
        })
    };
    // As many, and each one asked for: `asked` names no field twice, or it would have been rejected above.
    Ok(present.iter().count() == asked.len() && present.iter().all(is_asked_for))
}

/// Rejects fields that no collection can have.
pub(crate) fn check_fields(options: &[FieldOptions]) -> Result<()> {
    parse_fields(options, &AutoFields::default()).map(|_| ()).map_err(as_conflict)
}

/// Checks new fields against the present ones and against each other.
pub(crate) fn parse_fields<'a>(
    options: &'a [FieldOptions],
    present: &AutoFields,
) -> Result<Vec<NewField<'a>>> {
    let count = present.iter().count() + options.len();
    // Before the fields are looked at: each is compared with all others.
    if count > FIELDS_MAX {
        return Err(SequenceError::TooManyFields { count, limit: FIELDS_MAX }.into());
    }
    let mut parsed: Vec<NewField<'a>> = Vec::new();
    for options in options {
        let field = Field::create(options)?;
        check_depth(&field)?;
        // Conflicts in both directions: a field may be neither above nor below another one.
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
        // Only for its errors: the state itself is made when the field is staged.
        if let Some(value) = options.sequence.used_up_to {
            State::new(attributes.clone()).used_up_to(value)?;
        }
        parsed.push(NewField { options, field, attributes, existing: None });
    }
    Ok(parsed)
}

/// Turns a field that is given twice into a conflict: fields are added one by one, so the second conflicts
/// with the first.
pub(crate) fn as_conflict(error: Error) -> Error {
    if let ErrorKind::Sequence(SequenceError::FieldTwice { field, other }) = error.kind() {
        return SequenceError::FieldConflict { field: field.clone(), existing: other.clone() }.into();
    }
    error
}
