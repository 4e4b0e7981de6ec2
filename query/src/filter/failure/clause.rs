//! The parts of a filter: which of them decide that it does not match, or that it does.

use bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, doc};

use crate::error::Error;
use crate::expression::Expression;
use crate::filter::Filter;
use crate::filter::element::is_operators;
use crate::filter::failure::leaf::Leaf;
use crate::filter::failure::report::{Report, named};
use crate::filter::failure::schema;
use crate::filter::operand::{fields, members};

/// The wanted outcome for a document. Within a negation it should not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Match,
    Mismatch,
}

impl Wanted {
    fn opposite(self) -> Self {
        match self {
            Self::Match => Self::Mismatch,
            Self::Mismatch => Self::Match,
        }
    }

    fn is_met(self, is_match: bool) -> bool {
        is_match == (self == Self::Match)
    }

    /// The field that lists the clauses which decided.
    fn clauses(self) -> &'static str {
        match self {
            Self::Match => "clausesNotSatisfied",
            Self::Mismatch => "clausesSatisfied",
        }
    }
}

/// A part of a filter. All parts of a document must match.
enum Part<'f> {
    Clause(Clause<'f>),
    Leaf(Leaf<'f>),
    /// `$not` of a field with the parts of its operand.
    Not(Vec<Part<'f>>),
}

/// An operator at the level of fields.
#[derive(Clone, Copy)]
struct Clause<'f> {
    name: &'f str,
    operand: RawBsonRef<'f>,
}

/// The details of a filter. Returns `None` if the document does what is wanted.
pub(super) fn of_filter(
    report: &Report<'_>,
    filter: &RawDocument,
    document: &RawDocument,
    wanted: Wanted,
) -> Result<Option<Document>, Error> {
    of_all(report, &parts(filter)?, document, wanted)
}

/// The details of parts that must all match.
fn of_all(
    report: &Report<'_>,
    parts: &[Part<'_>],
    document: &RawDocument,
    wanted: Wanted,
) -> Result<Option<Document>, Error> {
    match parts {
        // As in MongoDB a single part represents itself.
        [only] => of_part(report, only, document, wanted),
        parts => {
            let each = parts.iter().map(|part| of_part(report, part, document, wanted));
            joined(report, "$and", each, Goal { wanted, quantity: Quantity::All })
        }
    }
}

/// The wanted outcome for the members of a list together.
#[derive(Clone, Copy)]
struct Goal {
    wanted: Wanted,
    quantity: Quantity,
}

/// The number of members that must meet the goal for a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    All,
    One,
}

/// Joins the details of members. If all of them must match, one that fails decides, and of a match all do; if one must
/// match, it is the other way round.
fn joined(
    report: &Report<'_>,
    operator: &str,
    members: impl Iterator<Item = Result<Option<Document>, Error>>,
    goal: Goal,
) -> Result<Option<Document>, Error> {
    let Goal { wanted, quantity } = goal;
    let decides_alone = (wanted == Wanted::Match) == (quantity == Quantity::All);
    let mut clauses: Vec<Bson> = Vec::new();
    for (position, details) in members.enumerate() {
        // Both a long list and details without room end here.
        if !report.goes_on() {
            break;
        }
        match details? {
            Some(details) => {
                let index = i64::try_from(position).unwrap_or(i64::MAX);
                clauses.push(Bson::Document(doc! { "index": index, "details": details }));
            }
            // All would have to decide together, and this one does what is wanted.
            None if !decides_alone => return Ok(None),
            None => {}
        }
    }
    // Nothing failed. An `$and` without parts matches, so it decides where a match is not wanted.
    if clauses.is_empty() && decides_alone {
        return Ok(None);
    }
    let mut details = report.begin(operator);
    details.insert(wanted.clauses(), clauses);
    Ok(Some(details))
}

fn of_part(
    report: &Report<'_>,
    part: &Part<'_>,
    document: &RawDocument,
    wanted: Wanted,
) -> Result<Option<Document>, Error> {
    match part {
        Part::Leaf(leaf) => {
            let is_match = leaf.matches(report, document)?;
            Ok((!wanted.is_met(is_match)).then(|| leaf.details(report, document, is_match)))
        }
        Part::Not(inner) => {
            let Some(inner) = of_all(report, inner, document, wanted.opposite())? else { return Ok(None) };
            let mut details = report.begin("$not");
            details.insert("details", inner);
            Ok(Some(details))
        }
        Part::Clause(clause) => of_clause(report, *clause, document, wanted),
    }
}

fn of_clause(
    report: &Report<'_>,
    clause: Clause<'_>,
    document: &RawDocument,
    wanted: Wanted,
) -> Result<Option<Document>, Error> {
    let Clause { name, operand } = clause;
    // The goal of a branch, and the number of branches that must meet it.
    let logical = match name {
        "$and" => Some((wanted, Quantity::All)),
        "$or" => Some((wanted, Quantity::One)),
        // No branch may match: each is asked for the opposite, and all of them have to do that.
        "$nor" => Some((wanted.opposite(), Quantity::All)),
        _ => None,
    };
    if let Some((of_branch, quantity)) = logical {
        let array = operand.as_array().map_or_else(|| Ok(Vec::new()), |array| members(array, ""))?;
        let branches = array.into_iter().filter_map(RawBsonRef::as_document);
        let each = branches.map(|branch| of_filter(report, branch, document, of_branch));
        return joined(report, name, each, Goal { wanted, quantity });
    }
    match (name, operand.as_document()) {
        ("$expr", _) => of_expression(report, operand, document, wanted),
        ("$jsonSchema", Some(schema)) => of_schema(report, schema, document, wanted),
        // The rest is `$alwaysTrue`, `$alwaysFalse` and `$sampleRate`.
        _ => {
            let given = named(name, operand);
            let filter = Filter::parse_with(&given, report.variables)?;
            let is_match = filter.try_matches(document, report.variables)?;
            if wanted.is_met(is_match) {
                return Ok(None);
            }
            let mut details = report.begin(name);
            report.specify(&mut details, &given);
            let always = if is_match { "true" } else { "false" };
            details.insert("reason", format!("expression always evaluates to {always}"));
            Ok(Some(details))
        }
    }
}

fn of_expression(
    report: &Report<'_>,
    operand: RawBsonRef<'_>,
    document: &RawDocument,
    wanted: Wanted,
) -> Result<Option<Document>, Error> {
    let value = Expression::parse(operand, report.variables)
        .and_then(|expression| expression.evaluate(document, report.variables));
    // That the operation is over is not a fault of the expression.
    report.variables.operation().verdict()?;
    let is_match =
        value.as_ref().is_ok_and(|value| Expression::is_true(value.as_ref().map(RawBson::as_raw_bson_ref)));
    if value.is_ok() && wanted.is_met(is_match) {
        return Ok(None);
    }
    let mut details = report.begin("$expr");
    report.specify(&mut details, &named("$expr", operand));
    match value {
        // A missing value is false, and there is nothing to show.
        Ok(value) => {
            let reason = if is_match { "expression did match" } else { "expression did not match" };
            details.insert("reason", reason);
            if let Some(value) = &value {
                report.repeat(&mut details, "expressionResult", value.as_raw_bson_ref());
            }
        }
        Err(error) => {
            let code = error.code();
            let told =
                doc! { "code": code.number(), "codeName": code.name().as_ref(), "errmsg": error.to_string() };
            details.insert("reason", "failed to evaluate aggregation expression");
            details.insert("details", told);
        }
    }
    Ok(Some(details))
}

fn of_schema(
    report: &Report<'_>,
    schema: &RawDocument,
    document: &RawDocument,
    wanted: Wanted,
) -> Result<Option<Document>, Error> {
    // Nothing broken is a match, so this is the verdict as well as its reasons.
    let broken = schema::of_document(report, schema, document)?;
    if wanted.is_met(broken.is_empty()) {
        return Ok(None);
    }
    let mut details = report.begin("$jsonSchema");
    if broken.is_empty() {
        details.insert("reason", "schema matched");
    } else {
        schema::annotate(report, &mut details, schema);
        details.insert("schemaRulesNotSatisfied", broken);
    }
    Ok(Some(details))
}

/// The parts of a document of fields and clauses.
fn parts(filter: &RawDocument) -> Result<Vec<Part<'_>>, Error> {
    let mut parts = Vec::new();
    for field in fields(filter, "") {
        let (name, operand) = field?;
        match name {
            // It selects nothing.
            "$comment" => {}
            // Parts of a database reference are fields in spite of their names.
            name if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") => {
                parts.push(Part::Clause(Clause { name, operand }));
            }
            path => match operand.as_document().filter(|document| is_operators(document)) {
                Some(operators) => parts.extend(below(path, operators)?),
                None => parts.push(value(path, operand)),
            },
        }
    }
    Ok(parts)
}

/// The parts of the operators below a field.
fn below<'f>(path: &'f str, operators: &'f RawDocument) -> Result<Vec<Part<'f>>, Error> {
    let mut parts = Vec::new();
    for field in fields(operators, path) {
        let (name, operand) = field?;
        match (name, operand.as_document()) {
            // A part of `$regex`, which reads it itself.
            ("$options", _) => {}
            ("$not", Some(inner)) => parts.push(Part::Not(below(path, inner)?)),
            // A regular expression.
            ("$not", None) => parts.push(Part::Not(vec![value(path, operand)])),
            (operator, _) => {
                let (operator, siblings) = (Some(operator), Some(operators));
                parts.push(Part::Leaf(Leaf { path, operator, operand, siblings }));
            }
        }
    }
    Ok(parts)
}

fn value<'f>(path: &'f str, operand: RawBsonRef<'f>) -> Part<'f> {
    Part::Leaf(Leaf { path, operator: None, operand, siblings: None })
}
