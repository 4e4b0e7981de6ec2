//! `$group`: groups documents by the value of an expression, and computes accumulators for each group.
//!
//! Two documents are in one group if their keys compare as equal: 1 and 1.0 are one group, whose `_id` is the first of
//! them. A missing key is null, also as the only field of an object. Groups come out in the order of their first documents.

use std::collections::HashSet;

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::FieldPath;
use index::validate::validate;

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::pipeline::accumulator::{Accumulator, GroupState};
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::pipeline::options::object;
use crate::pipeline::stream::nothing;
use crate::raw::{Field, Fields};
use crate::value::{describe, shorten};

const STAGE: &str = "$group";
const ID: &str = "_id";

/// The expression of the groups' key, and the accumulators by the names of their fields.
#[derive(Clone, Debug)]
pub(super) struct Group {
    id: Expression,
    fields: GroupFields,
}

impl Group {
    /// Parses the argument of `$group`.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        let document = object(STAGE, operand, Code::GROUP_NOT_OBJECT)?;
        let mut id = None;
        let mut output = GroupFields::default();
        for field in Fields::of(document) {
            let field = field?;
            // The key can be anywhere among the fields; in the result it comes first.
            if field.name() != ID {
                output.add(&field, variables)?;
            } else if id.replace(parse_key(field.value()?, variables)?).is_some() {
                return Err(unmade(ID, "it is given twice", Code::GROUP_ID_TWICE));
            }
        }
        let missing = Fault::OptionMissing { stage: STAGE, option: ID, code: Code::GROUP_ID_MISSING };
        Ok(Self { id: id.ok_or(missing)?, fields: output })
    }

    /// The field that is the key, if nothing is used of a group but its first document. Which one that is must be
    /// decided by a sort.
    pub(super) fn one_of_each(&self, is_sorted: bool) -> Option<FieldPath> {
        let takes_first =
            self.fields.fields.iter().all(|(_, accumulator)| is_sorted && accumulator.takes_first());
        self.id.field().filter(|_| takes_first)
    }

    /// The key of a document.
    pub(super) fn id(&self) -> &Expression {
        &self.id
    }

    /// The accumulators.
    pub(super) fn fields(&self) -> &GroupFields {
        &self.fields
    }

    /// Adds the fields that the key and the accumulators read. Returns `None` if one of them may read any field.
    pub(super) fn collect_fields(&self, paths: &mut Vec<FieldPath>) -> Option<()> {
        self.id.collect_fields(paths)?;
        self.fields.collect_fields(paths)
    }

    /// A group for a stage that is translated into one: the key, and the other fields as in a `$group`.
    pub(super) fn by(id: RawBsonRef<'_>, output: &RawDocument, variables: &Variables) -> Result<Self, Fault> {
        let id = Expression::parse(id, variables)?;
        Ok(Self { id, fields: GroupFields::parse(output, variables)? })
    }
}

/// Fields with the accumulators that give them their values.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupFields {
    fields: Vec<(CString, Accumulator)>,
    /// The names of `fields`, so that a repeated name is found without comparing it with each.
    names: HashSet<String>,
}

impl GroupFields {
    /// Parses the fields of a group, without its key.
    pub(super) fn parse(output: &RawDocument, variables: &Variables) -> Result<Self, Fault> {
        let mut fields = Self::default();
        for field in Fields::of(output) {
            fields.add(&field?, variables)?;
        }
        Ok(fields)
    }

    /// Adds the fields that the accumulators read. Returns `None` if one of them may read any field.
    pub(super) fn collect_fields(&self, paths: &mut Vec<FieldPath>) -> Option<()> {
        self.fields.iter().try_for_each(|(_, accumulator)| accumulator.collect_fields(paths))
    }

    /// Whether an accumulator has an `n` that depends on the key of the group.
    pub(super) fn have_varying_count(&self) -> bool {
        self.fields.iter().any(|(_, accumulator)| accumulator.has_varying_count())
    }

    /// Parses the accumulator of one field and adds it.
    fn add(&mut self, field: &Field<'_>, variables: &Variables) -> Result<(), Fault> {
        variables.operation().steps(1)?;
        let name = field.name();
        if name.contains('.') {
            return Err(unmade(name, "a name must not hold a dot", Code::GROUP_FIELD_DOT));
        }
        if name.starts_with('$') {
            return Err(unmade(name, "a name must not start with a dollar sign", Code::GROUP_FIELD_DOLLAR));
        }
        if name == ID || !self.names.insert(name.to_owned()) {
            return Err(unmade(name, "it is given twice", Code::FIELD_TWICE));
        }
        let value = field.value()?;
        let accumulator = value.as_document();
        let accumulator = accumulator.ok_or_else(|| {
            let found = describe(value);
            let expected = "an object with an accumulator for each field";
            Fault::Operand { stage: STAGE, expected, found, code: Code::GROUP_FIELD_NOT_OBJECT }
        })?;
        let operators = Fields::of(accumulator).collect::<Result<Vec<_>, _>>()?;
        // `{total: {$sum: 1, $max: 1}}` would be two values for one field.
        let [operator] = operators.as_slice() else {
            return Err(unmade(name, "it must have exactly one accumulator", Code::GROUP_FIELD_OPERATORS));
        };
        let parsed = Accumulator::parse(operator.name(), operator.value()?, variables)?;
        let name =
            CString::try_from(name).map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
        self.fields.push((name, parsed));
        Ok(())
    }
}

/// Parses the key. A plain number or boolean as a field of it is a forgotten dollar sign: `{a: 1}` for `{a: "$a"}`.
fn parse_key(key: RawBsonRef<'_>, variables: &Variables) -> Result<Expression, Fault> {
    for field in key.as_document().into_iter().flat_map(Fields::of) {
        let field = field?;
        let is_plain = matches!(
            field.value()?,
            RawBsonRef::Int32(_)
                | RawBsonRef::Int64(_)
                | RawBsonRef::Double(_)
                | RawBsonRef::Decimal128(_)
                | RawBsonRef::Boolean(_)
        );
        // An operator has operands of all kinds.
        if field.name().starts_with('$') {
            break;
        }
        if is_plain {
            let reason =
                "a key has no plain numbers and booleans: a field of documents begins with a dollar sign";
            return Err(unmade(field.name(), reason, Code::GROUP_ID_INCLUSION));
        }
    }
    Ok(Expression::parse_group_key(key, variables)?)
}

/// The error for a field that the groups cannot have.
fn unmade(field: &str, reason: &'static str, code: Code) -> Fault {
    Fault::Field { stage: STAGE, field: shorten(field), reason, code }
}

/// The states of a group's accumulators, in the order of the fields.
pub(super) struct GroupStates {
    states: Vec<GroupState>,
}

impl GroupStates {
    /// The states of a group without a key.
    pub(super) fn start(
        fields: &GroupFields,
        variables: &Variables,
        memory: &mut StageMemory,
    ) -> Result<Self, Fault> {
        Self::start_with(nothing(), fields, variables, memory)
    }

    /// The states of a group. `id` is the group's key if that is an object, and otherwise empty.
    pub(super) fn start_with(
        id: &RawDocument,
        fields: &GroupFields,
        variables: &Variables,
        memory: &mut StageMemory,
    ) -> Result<Self, Fault> {
        let mut states = Vec::with_capacity(fields.fields.len());
        for (_, accumulator) in &fields.fields {
            // A state counts by itself what it holds besides its own size.
            memory.grow(size_of::<GroupState>())?;
            states.push(accumulator.start(id, variables)?);
        }
        Ok(Self { states })
    }

    /// Adds a document to all states.
    pub(super) fn add(
        &mut self,
        fields: &GroupFields,
        document: &RawDocument,
        variables: &Variables,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        for ((_, accumulator), state) in fields.fields.iter().zip(&mut self.states) {
            accumulator.add(state, document, variables, memory)?;
        }
        Ok(())
    }

    /// Appends all states as they are now, so that [`restore`](Self::restore) goes on with them.
    pub(super) fn save_into(self, saved: &mut RawArrayBuf) {
        for state in self.states {
            // One after the other, so that there is never more than one copy.
            saved.push(RawBson::Array(state.save()));
        }
    }

    /// Continues from states that were saved, if nothing was added yet. Returns `None` if they are not states of these fields.
    pub(super) fn restore(
        &mut self,
        saved: &mut dyn Iterator<Item = RawBsonRef<'_>>,
        memory: &mut StageMemory,
    ) -> Result<Option<()>, Fault> {
        for state in &mut self.states {
            let Some(of_state) = saved.next().and_then(RawBsonRef::as_array) else { return Ok(None) };
            if state.restore(of_state, memory)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// The group's document: `start`, which has the key, with the values of the accumulators.
    pub(super) fn finish(
        self,
        stage: &'static str,
        fields: &GroupFields,
        start: RawDocumentBuf,
    ) -> Result<RawDocumentBuf, Fault> {
        let mut document = start;
        for ((name, _), state) in fields.fields.iter().zip(self.states) {
            document.append(name, state.into_value());
        }
        // A `$push` can make a group larger than a document may be.
        validate(document.as_bytes()).map_err(|error| Fault::of_result(stage, &error))?;
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_plain_number_in_a_key_is_a_forgotten_dollar_sign() {
        let parsed = |id: RawDocumentBuf| {
            let stage = rawdoc! { "_id": id };
            Group::parse(RawBsonRef::Document(&stage), &Variables::default()).map(drop)
        };
        for refused in [rawdoc! { "a": 1 }, rawdoc! { "x": "$a", "a": true }, rawdoc! { "a": 1.5 }] {
            let refusal = parsed(refused.clone());
            assert!(
                matches!(&refusal, Err(Fault::Field { code, .. }) if *code == Code::GROUP_ID_INCLUSION),
                "{refused:?}: {refusal:?}"
            );
        }
        for taken in
            [rawdoc! { "x": { "a": 1 } }, rawdoc! { "$add": [1, 2] }, rawdoc! {}, rawdoc! { "a": "$a" }]
        {
            assert!(parsed(taken.clone()).is_ok(), "{taken:?}");
        }
    }
}
