//! Stages that make one document out of one: `$project`, `$set`, `$unset`, `$replaceWith` and their other names.
//!
//! These are the stages that updates may have as well.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::validate::validate;

use crate::code::Code;
use crate::expression::{ComputedFields, Expression, Variables};
use crate::pipeline::error::Fault;
use crate::pipeline::options::{object, options};
use crate::projection::Projection;
use crate::value::describe;

/// The way in which a stage makes a new document out of one.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// `$set`, which is `$addFields`.
    Set(ComputedFields),
    /// `$project`, and `$unset` as a projection that excludes fields.
    Project(Projection),
    /// `$replaceWith`, and `$replaceRoot`.
    Replace(Expression),
}

impl Shape {
    /// The new document. It can exceed the limits of a document: the caller checks where that matters.
    pub(crate) fn apply(
        &self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<RawDocumentBuf, Fault> {
        match self {
            Self::Set(fields) => Ok(fields.apply(document, variables)?),
            Self::Project(projection) => Ok(projection.apply(document, variables)?),
            Self::Replace(root) => match root.evaluate(document, variables)? {
                Some(RawBson::Document(root)) => Ok(root),
                // A missing field is not an empty document either: MongoDB fails for both.
                Some(other) => Err(Fault::RootNotObject { found: describe(other.as_raw_bson_ref()) }),
                None => Err(Fault::RootNotObject { found: "nothing".to_owned() }),
            },
        }
    }

    /// The new document, checked against the limits. Without the check, a pipeline could nest documents deeper with each
    /// stage.
    pub(super) fn apply_checked(
        &self,
        stage: &'static str,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<RawDocumentBuf, Fault> {
        let made = self.apply(document, variables)?;
        // Removing fields cannot break a limit, and a validation reads the whole document.
        if self.adds() {
            validate(made.as_bytes()).map_err(|error| Fault::of_result(stage, &error))?;
        }
        Ok(made)
    }

    /// Whether the new document can be larger or deeper than the old one.
    fn adds(&self) -> bool {
        match self {
            Self::Set(_) | Self::Replace(_) => true,
            Self::Project(projection) => projection.adds(),
        }
    }
}

/// Parses `$set` or `$addFields`.
pub(super) fn set(
    stage: &'static str,
    operand: RawBsonRef<'_>,
    variables: &Variables,
) -> Result<Shape, Fault> {
    let fields = object(stage, operand, Code::SET_NOT_OBJECT)?;
    Ok(Shape::Set(ComputedFields::parse(fields, variables)?))
}

/// Parses `$project`.
pub(super) fn project(
    stage: &'static str,
    operand: RawBsonRef<'_>,
    variables: &Variables,
) -> Result<Shape, Fault> {
    let fields = object(stage, operand, Code::PROJECT_NOT_OBJECT)?;
    Ok(Shape::Project(Projection::parse_stage(fields, variables)?))
}

/// Parses `$unset`, one or several paths, into a projection that excludes them.
pub(super) fn unset(
    stage: &'static str,
    operand: RawBsonRef<'_>,
    variables: &Variables,
) -> Result<Shape, Fault> {
    let expected = "a field's name or an array of such";
    let fault = |code| Fault::Operand { stage, expected, found: describe(operand), code };
    let mut excluded = RawDocumentBuf::new();
    // The projection checks the paths, with the same numbers as `$project`.
    let mut exclude = |name: &str| {
        let name =
            bson::raw::CString::try_from(name.to_owned()).map_err(|_| fault(Code::UNSET_FIELD_NAME))?;
        excluded.append(&name, 0);
        Ok::<(), Fault>(())
    };
    // MongoDB accepts one path without an array around it.
    match (operand.as_str(), operand.as_array()) {
        (Some(name), _) => exclude(name)?,
        (None, Some(names)) => {
            for name in names {
                let name =
                    name.ok().and_then(RawBsonRef::as_str).ok_or_else(|| fault(Code::UNSET_FIELD_NAME))?;
                exclude(name)?;
            }
        }
        (None, None) => return Err(fault(Code::UNSET_TYPE)),
    }
    // Without paths it would be a projection that does nothing.
    if excluded.is_empty() {
        return Err(fault(Code::UNSET_EMPTY));
    }
    Ok(Shape::Project(Projection::parse_stage(&excluded, variables)?))
}

/// Parses `$replaceRoot`, whose expression is the option `newRoot`.
pub(super) fn replace_root(
    stage: &'static str,
    operand: RawBsonRef<'_>,
    variables: &Variables,
) -> Result<Shape, Fault> {
    let [root] =
        options(stage, ["newRoot"], operand, Code::REPLACE_ROOT_NOT_OBJECT, Code::IDL_UNKNOWN_FIELD)?;
    let missing = Fault::OptionMissing { stage, option: "newRoot", code: Code::IDL_FAILED_TO_PARSE };
    replace_with(stage, root.ok_or(missing)?, variables)
}

/// Parses `$replaceWith`, whose argument is the expression itself. It has the parameters of all rows of the table.
pub(super) fn replace_with(
    _: &'static str,
    operand: RawBsonRef<'_>,
    variables: &Variables,
) -> Result<Shape, Fault> {
    Ok(Shape::Replace(Expression::parse(operand, variables)?))
}
