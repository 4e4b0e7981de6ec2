//! `$setWindowFields` as it is parsed: how documents are divided and sorted, and the fields that are computed.

use bson::{RawBsonRef, RawDocumentBuf};
use index::path::FieldPath;

use crate::code::Code;
use crate::expression::{ComputedFields, Expression, Variables};
use crate::pipeline::error::Fault;
use crate::pipeline::options::{object, options};
use crate::pipeline::sort::SortOrder;
use crate::pipeline::window::bounds::Bounds;
use crate::pipeline::window::function::{Call, Function, missing_operator};
use crate::raw::{Field, Fields};
use crate::sort::Sort;
use crate::value::{describe, shorten};

const STAGE: &str = "$setWindowFields";

/// The most names that are looked for one by one.
const NAMES_MAX: usize = 8;

/// The stage after its documents are sorted.
#[derive(Clone, Debug)]
pub(crate) struct WindowFields {
    /// The expression that divides the documents. Absent if all are one partition.
    pub(super) partition: Option<Expression>,
    pub(super) sort: Option<Sort>,
    /// The value of the only field of the sort.
    pub(super) sorted_by: Option<Expression>,
    /// Whether an output compares the positions of documents in the sort.
    pub(super) has_rank: bool,
    pub(super) outputs: Vec<Output>,
    /// The names of the outputs, unless one of them is a path.
    pub(super) names: Option<Vec<bson::raw::CString>>,
    /// Sets the outputs at their paths.
    pub(super) fields: ComputedFields,
}

/// One computed field.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) function: Function,
    pub(super) bounds: Bounds,
}

impl WindowFields {
    /// Parses the argument: the stage itself, and the sort that has to come before it.
    pub(crate) fn parse(
        operand: RawBsonRef<'_>,
        variables: &Variables,
    ) -> Result<(Option<SortOrder>, Self), Fault> {
        let names = ["partitionBy", "sortBy", "output"];
        let [partition, sort_by, output] =
            options(STAGE, names, operand, Code::FAILED_TO_PARSE, Code::IDL_UNKNOWN_FIELD)?;
        let output = output.ok_or(Fault::OptionMissing {
            stage: STAGE,
            option: "output",
            code: Code::IDL_FAILED_TO_PARSE,
        })?;
        let output = object(STAGE, output, Code::TYPE_MISMATCH)?;
        let sort_by = sort_by.map(|sort_by| object(STAGE, sort_by, Code::TYPE_MISMATCH)).transpose()?;
        // Operators look at the order while they are parsed, so it comes before them.
        let sort = sort_by.map(Sort::parse).transpose()?;
        // Ranks ask it which documents are equal.
        let sort = sort.map(|sort| sort.with_collation(variables.collation()));
        let partition =
            partition.map(|partition| parse_partition(partition, variables)).transpose()?.flatten();
        let (mut outputs, mut paths) = (Vec::new(), Vec::new());
        for field in Fields::of(output) {
            let field = field?;
            paths.push(field.name());
            outputs.push(parse_output(&field, sort.as_ref(), variables)?);
        }
        // All outputs are known now, so paths in each other's way are found.
        let fields = ComputedFields::of_paths(&paths).map_err(collision)?;
        // Names without dots can be added to a copy of the document, so it need not be split into fields.
        let plain = paths.iter().all(|path| !path.contains('.'));
        let names =
            paths.iter().map(|path| bson::raw::CString::try_from(*path).ok()).collect::<Option<Vec<_>>>();
        let order = order(partition.as_ref(), sort_by)?;
        let sorted_by = sort.as_ref().map(|sort| sorted_by(sort, variables)).transpose()?.flatten();
        let has_rank = outputs.iter().any(|output| matches!(output.function, Function::Rank(_)));
        // Each name is compared with each field of a document: for many a search through a tree is faster.
        let names = names.filter(|names| plain && names.len() <= NAMES_MAX);
        Ok((order, Self { partition, sort, sorted_by, has_rank, outputs, names, fields }))
    }
}

/// Parses the expression of partitions. Returns `None` if it is constant: then all documents are one partition.
fn parse_partition(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Option<Expression>, Fault> {
    let expression = Expression::parse(operand, variables)?;
    match expression.constant() {
        Some(Some(value)) if value.as_array().is_some() => Err(array_partition(value)),
        Some(_) => Ok(None),
        None => Ok(Some(expression)),
    }
}

/// The error for a partition whose key is an array: documents could not be sorted by it.
pub(super) fn array_partition(found: RawBsonRef<'_>) -> Fault {
    let expected = "'partitionBy' to be no array";
    Fault::Operand { stage: STAGE, expected, found: describe(found), code: Code::TYPE_MISMATCH }
}

fn parse_output(field: &Field<'_>, sort: Option<&Sort>, variables: &Variables) -> Result<Output, Fault> {
    variables.operation().steps(1)?;
    let value = field.value()?;
    let reason = |reason| Fault::Field {
        stage: STAGE,
        field: shorten(field.name()),
        reason,
        code: Code::FAILED_TO_PARSE,
    };
    let document =
        value.as_document().ok_or_else(|| reason("it must be an object with an operator of windows"))?;
    // The operator and its window may come in any order.
    let (mut operator, mut window) = (None, None);
    for part in Fields::of(document) {
        let part = part?;
        if part.name() == "window" {
            if window.replace(part.value()?).is_some() {
                return Err(reason("'window' is given twice"));
            }
        } else if !part.name().starts_with('$') {
            return Err(reason("only 'window' is allowed beside the operator"));
        } else if operator.replace((part.name(), part.value()?)).is_some() {
            return Err(reason("it must have exactly one operator"));
        }
    }
    let (name, operand) = operator.ok_or_else(|| missing_operator(field.name()))?;
    let (function, bounds) = Call { name, operand, window, sort, variables }.parse()?;
    Ok(Output { function, bounds })
}

/// MongoDB has a number of its own for outputs that are in each other's way.
fn collision(error: crate::expression::error::Error) -> Fault {
    if error.code() == Code::COMPUTED_FIELD_COLLISION {
        let reason = "another output is the same or contains it";
        return Fault::Field {
            stage: STAGE,
            field: "output".to_owned(),
            reason,
            code: Code::WINDOW_OUTPUT_COLLISION,
        };
    }
    error.into()
}

/// The order in which partitions come one after the other, each sorted.
fn order(
    partition: Option<&Expression>,
    sort_by: Option<&bson::RawDocument>,
) -> Result<Option<SortOrder>, Fault> {
    // One sort for both: partitions first, and the order within them after that.
    let mut given = RawDocumentBuf::new();
    // A partition by a field is a part of the sort, so that an index can give the order. Arrays would be sorted by an
    // element, but are rejected as keys of partitions.
    let field = partition.and_then(Expression::field);
    if let Some(field) = &field {
        append(&mut given, field.as_str(), RawBsonRef::Int32(1))?;
    }
    for part in sort_by.into_iter().flat_map(Fields::of) {
        let part = part?;
        // Within a partition all have the same value.
        if field.as_ref().is_none_or(|field| field.as_str() != part.name()) {
            append(&mut given, part.name(), part.value()?)?;
        }
    }
    let computed = partition.filter(|_| field.is_none());
    match (given.is_empty(), computed) {
        (true, None) => Ok(None),
        (_, computed) => Ok(Some(SortOrder::within(&given, computed.cloned())?)),
    }
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) -> Result<(), Fault> {
    let name = bson::raw::CString::try_from(name);
    let name = name.map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
    document.append(&name, value);
    Ok(())
}

/// The value of the only field of a sort. Returns `None` if it has none or several.
fn sorted_by(sort: &Sort, variables: &Variables) -> Result<Option<Expression>, Fault> {
    let mut fields = sort.fields();
    let (Some((path, _)), None) = (fields.next(), fields.next()) else { return Ok(None) };
    let path = format!("${}", FieldPath::as_str(path));
    Ok(Some(Expression::parse(RawBsonRef::String(&path), variables)?))
}
