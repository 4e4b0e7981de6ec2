//! From a filter document to its tree: all checks of operators and their arguments.
//!
//! The invariant: for every document, parsing recurses at most [`DEPTH_MAX`] levels, and so does everything
//! that later walks the tree.

use bson::{RawBsonRef, RawDocument, rawdoc};
use index::collation::Collation;
use index::path::FieldPath;

use crate::error::{Error, Fault};
use crate::expression::implied::Implied;
use crate::expression::{Expression, Variables};
use crate::filter::array::parse_length;
use crate::filter::bits::{BitTest, Bits};
use crate::filter::compare::{Comparison, Membership, Relation};
use crate::filter::element::{Modulo, TypeSet, first_name, is_element_operators, is_operators};
use crate::filter::evaluate::{Condition, Node, Test};
use crate::filter::implied::ImpliedTest;
use crate::filter::operand::{DEPTH_MAX, fields, members, pattern_error};
use crate::filter::operator::{self, Clause, Operator, OperatorSupport};
use crate::filter::schema;
use crate::filter::value_test::ValueTest;
use crate::numeric::Numeric;
use crate::pattern::{Pattern, Room};
use crate::value::{describe, integer, is_true};

/// Parses a whole filter. Without `variables`, `$expr` is rejected.
pub(super) fn parse(filter: &RawDocument, variables: Option<&Variables>) -> Result<Node, Error> {
    let expressions = variables.map_or(Expressions::Unsupported, Expressions::Allowed);
    // Only variables belong to a request with a limit for all its patterns. Without them the filter has its
    // own limit.
    let own = Room::default();
    let room = variables.map_or(&own, Variables::room);
    let simple = Collation::simple();
    let collation = variables.map_or(&simple, Variables::collation);
    ParseContext { path: "", depth: 0, expressions, room, collation }.document(filter)
}

/// Parses the only field of a filter.
pub(super) fn parse_field(field: &str, value: RawBsonRef<'_>, variables: &Variables) -> Result<Node, Error> {
    let expressions = Expressions::Allowed(variables);
    let (room, collation) = (variables.room(), variables.collation());
    let context = ParseContext { path: "", depth: 0, expressions, room, collation };
    let node = OperatorCall { context, name: field, operand: value }.node()?;
    Ok(node.unwrap_or(Node::All(Vec::new())))
}

/// Parses a filter without expressions, with texts compared by a collation.
pub(super) fn parse_collated(filter: &RawDocument, collation: &Collation) -> Result<Node, Error> {
    let (expressions, room) = (Expressions::Unsupported, &Room::default());
    ParseContext { path: "", depth: 0, expressions, room, collation }.document(filter)
}

/// Parses a filter inside of another command's argument, where `$expr` and `$jsonSchema` are not allowed.
pub(super) fn parse_plain(filter: &RawDocument, room: &Room, collation: &Collation) -> Result<Node, Error> {
    let expressions = Expressions::Forbidden;
    ParseContext { path: "", depth: 0, expressions, room, collation }.document(filter)
}

/// Whether `$expr` and `$jsonSchema` are allowed in a part of a filter.
#[derive(Clone, Copy)]
enum Expressions<'p> {
    /// No expression, because the caller of the filter cannot receive an expression's error.
    Unsupported,
    /// Neither an expression nor a schema, in the whole argument.
    Forbidden,
    /// No expression, because the part is applied to array elements and an expression needs the whole
    /// document.
    Nested,
    /// Neither: the part is applied to array elements, in an argument that forbids schemas as well.
    NestedForbidden,
    /// Both. Expressions use these variables.
    Allowed(&'p Variables),
}

/// The context of the part of the filter that the parser reads.
#[derive(Clone, Copy)]
struct ParseContext<'p> {
    /// The field names down to this part, joined by dots. Errors name it.
    path: &'p str,
    /// The number of operators that enclose this part.
    depth: usize,
    expressions: Expressions<'p>,
    /// The memory that compiled patterns may use.
    room: &'p Room,
    /// The comparison of strings.
    collation: &'p Collation,
}

/// An operator with its operand, below a field or at the level of fields.
#[derive(Clone, Copy)]
struct OperatorCall<'c> {
    context: ParseContext<'c>,
    name: &'c str,
    operand: RawBsonRef<'c>,
}

impl ParseContext<'_> {
    /// Parses a document of fields and clauses. All of them must match.
    fn document(self, document: &RawDocument) -> Result<Node, Error> {
        let mut nodes = Vec::new();
        for field in fields(document, self.path) {
            let (name, operand) = field?;
            nodes.extend(OperatorCall { context: self, name, operand }.node()?);
        }
        Ok(Node::all(nodes))
    }

    /// Parses the operators below a field. All of them must match.
    fn operators(self, document: &RawDocument) -> Result<Condition, Error> {
        let mut conditions = Vec::new();
        for field in fields(document, self.path) {
            let (name, operand) = field?;
            conditions.extend(OperatorCall { context: self, name, operand }.operator(document)?);
        }
        Ok(Condition::All(conditions))
    }

    /// The context of the operands of `operator`, one level further down.
    fn deeper(self, operator: &str) -> Result<Self, Error> {
        // Every recursion of this parser passes here. So this one check also bounds what later walks the
        // tree.
        if self.depth == DEPTH_MAX {
            return Err(self.malformed(operator, Fault::TooDeep { limit: DEPTH_MAX }));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn malformed(self, operator: &str, fault: Fault) -> Error {
        Error::Malformed { path: self.path.to_owned(), operator: operator.to_owned(), fault }
    }
}

impl<'c> OperatorCall<'c> {
    /// Parses a field or an operator at the level of fields. Returns `None` for one that selects nothing.
    fn node(self) -> Result<Option<Node>, Error> {
        if self.name.starts_with('$') { self.clause() } else { self.field().map(Some) }
    }

    /// Parses the operand of a field: operators, a regular expression, or a value to equal.
    fn field(self) -> Result<Node, Error> {
        let outer = self.context.path;
        let path = if outer.is_empty() { self.name.to_owned() } else { format!("{outer}.{}", self.name) };
        let context = ParseContext { path: &path, ..self.context };
        // Below `$elemMatch` the node is applied to an element, so its own path starts there. Only errors
        // name the whole path.
        let field = FieldPath::parse(self.name)
            .map_err(|error| context.malformed("$eq", Fault::Path { reason: error.to_string() }))?;
        let condition = match self.operand.as_document() {
            Some(document) if is_operators(document) => context.deeper("$eq")?.operators(document)?,
            Some(_) | None => {
                let call = OperatorCall { context, name: "$eq", operand: self.operand };
                call.value_or_pattern()?
            }
        };
        Ok(Node::field(&field, condition))
    }

    /// Parses an operator at the level of fields. Returns `None` for `$comment`, which selects nothing.
    fn clause(self) -> Result<Option<Node>, Error> {
        match operator::clause(self.name) {
            None => Err(self.unknown()),
            Some(OperatorSupport::Unsupported) => Err(self.unsupported()),
            Some(OperatorSupport::Supported(clause)) => Ok(match clause {
                Clause::And => Some(Node::all(self.branches()?)),
                Clause::Or => Some(Node::Any(self.branches()?)),
                Clause::Nor => Some(Node::Not(Box::new(Node::Any(self.branches()?)))),
                Clause::AlwaysTrue => Some(self.constant(Node::All(Vec::new()))?),
                Clause::AlwaysFalse => Some(self.constant(Node::Any(Vec::new()))?),
                // MongoDB lets a filter select by the parts of a database reference, in spite of their names.
                Clause::Reference => Some(self.field()?),
                Clause::Expr => Some(self.expression()?),
                Clause::JsonSchema => Some(self.schema()?),
                Clause::SampleRate => Some(self.sample_rate()?),
                Clause::Comment => None,
            }),
        }
    }

    /// Parses `$expr`, where it is allowed.
    fn expression(self) -> Result<Node, Error> {
        // Each case has an error of its own, so a caller learns whether the operator or its position is
        // wrong.
        match self.context.expressions {
            Expressions::Unsupported => Err(self.unsupported()),
            Expressions::Forbidden => Err(self.not_allowed()),
            Expressions::Nested | Expressions::NestedForbidden => Err(self.malformed(Fault::NotTopLevel)),
            Expressions::Allowed(variables) => {
                let expression = Expression::parse(self.operand, variables)?;
                let implied = implied(expression.implied(), variables);
                // The expression comes first: what it implies is true of every document, and decides nothing.
                Ok(Node::all([Node::Expression(Box::new(expression))].into_iter().chain(implied).collect()))
            }
        }
    }

    /// Parses `$sampleRate`: a document matches with the given probability. It is allowed where `$expr` is.
    fn sample_rate(self) -> Result<Node, Error> {
        let expected = "a number from 0 to 1";
        let wrong = || self.malformed(Fault::WrongType { expected, found: describe(self.operand) });
        // NaN is in no range.
        let rate = Numeric::of(self.operand).map(Numeric::to_double);
        let rate = rate.filter(|rate| (0.0..=1.0).contains(rate)).ok_or_else(wrong)?;
        // Each document draws a number of its own: at least 0 and below 1, so 0 matches none and 1 matches all.
        let drawn = rawdoc! { "$lt": [{ "$rand": {} }, rate] };
        let call = OperatorCall { operand: RawBsonRef::Document(&drawn), ..self };
        call.expression()
    }

    /// Parses `$jsonSchema`, where it is allowed: also where expressions are not, if the argument accepts
    /// schemas.
    fn schema(self) -> Result<Node, Error> {
        match self.context.expressions {
            Expressions::Forbidden | Expressions::NestedForbidden => Err(self.not_allowed()),
            Expressions::Unsupported | Expressions::Nested | Expressions::Allowed(_) => Ok(Node::Schema(
                Box::new(schema::parse::parse(self.operand, self.context.depth, self.context.room)?),
            )),
        }
    }

    /// Parses the filters in the array of `$and`, `$or` or `$nor`.
    fn branches(self) -> Result<Vec<Node>, Error> {
        let members = self.members()?;
        if members.is_empty() {
            return Err(self.malformed(Fault::Empty { expected: "the array" }));
        }
        let context = self.context.deeper(self.name)?;
        let parse = |(position, member): (usize, &RawBsonRef<'_>)| {
            let fault = || Fault::WrongMember { position, expected: "an object", found: describe(*member) };
            let document = member.as_document().ok_or_else(|| self.malformed(fault()))?;
            context.document(document)
        };
        members.iter().enumerate().map(parse).collect()
    }

    /// Returns `node` if the operand is 1, the only one that `$alwaysTrue` and `$alwaysFalse` accept.
    fn constant(self, node: Node) -> Result<Node, Error> {
        if integer(self.operand) == Some(1) {
            return Ok(node);
        }
        Err(self.malformed(Fault::NotOne { found: describe(self.operand) }))
    }

    /// Parses an operator below a field. `siblings` is the document that holds the operator.
    ///
    /// Returns `None` for `$options`, which is a part of `$regex`.
    fn operator(self, siblings: &RawDocument) -> Result<Option<Condition>, Error> {
        let operator = match operator::operator(self.name) {
            None => return Err(self.unknown()),
            Some(OperatorSupport::Unsupported) => return Err(self.unsupported()),
            Some(OperatorSupport::Supported(operator)) => operator,
        };
        Ok(Some(match operator {
            Operator::Eq => self.comparison(Relation::Eq)?,
            Operator::Gt => self.comparison(Relation::Gt)?,
            Operator::Gte => self.comparison(Relation::Gte)?,
            Operator::Lt => self.comparison(Relation::Lt)?,
            Operator::Lte => self.comparison(Relation::Lte)?,
            // MongoDB rejects a regular expression as the operand of `$ne`, though `$eq` accepts one.
            Operator::Ne => not(self.comparison_without_regex(Relation::Eq)?),
            Operator::In => self.membership()?,
            Operator::Nin => not(self.membership()?),
            Operator::Not => not(self.negated()?),
            Operator::Exists if is_true(self.operand) => Condition::Test(Test::Exists),
            Operator::Exists => not(Condition::Test(Test::Exists)),
            Operator::Type => self.test(TypeSet::parse(self.operand).map(Test::Type))?,
            Operator::Mod => self.test(Modulo::parse(self.operand).map(ValueTest::Mod).map(Test::Value))?,
            Operator::Size => self.test(parse_length(self.operand).map(ValueTest::Size).map(Test::Value))?,
            Operator::BitsAllSet => self.bits(BitTest::AllSet)?,
            Operator::BitsAllClear => self.bits(BitTest::AllClear)?,
            Operator::BitsAnySet => self.bits(BitTest::AnySet)?,
            Operator::BitsAnyClear => self.bits(BitTest::AnyClear)?,
            Operator::All => self.all()?,
            Operator::ElemMatch => self.element_match()?,
            Operator::Regex => self.regex(siblings)?,
            Operator::Options => {
                // `$regex` reads its options itself, because they may be before or after it.
                self.option_text()?;
                let is_alone = siblings.get("$regex").ok().flatten().is_none();
                return if is_alone { Err(self.malformed(Fault::OptionsAlone)) } else { Ok(None) };
            }
        }))
    }

    /// Parses `$eq`, `$gt`, `$gte`, `$lt` or `$lte`.
    fn comparison(self, relation: Relation) -> Result<Condition, Error> {
        // Equality compares a regular expression as a value. MongoDB does not order by one.
        if relation != Relation::Eq {
            return self.comparison_without_regex(relation);
        }
        if self.operand == RawBsonRef::Undefined {
            return Err(self.malformed(Fault::Undefined));
        }
        Ok(Condition::Test(Test::Compare(Comparison::new(relation, self.operand, self.context.collation))))
    }

    fn comparison_without_regex(self, relation: Relation) -> Result<Condition, Error> {
        if self.operand.as_regex().is_some() {
            return Err(self.malformed(Fault::Regex));
        }
        if self.operand == RawBsonRef::Undefined {
            return Err(self.malformed(Fault::Undefined));
        }
        Ok(Condition::Test(Test::Compare(Comparison::new(relation, self.operand, self.context.collation))))
    }

    /// Parses an operand without an operator: a regular expression is matched, any other value is compared.
    fn value_or_pattern(self) -> Result<Condition, Error> {
        match self.operand.as_regex() {
            Some(regex) => {
                let pattern = Pattern::of(regex, self.context.room)
                    .map_err(|error| pattern_error(self.context.path, "$regex", error))?;
                Ok(Condition::Test(Test::Value(ValueTest::Pattern(pattern))))
            }
            None => self.comparison(Relation::Eq),
        }
    }

    /// Parses the array of `$in` or `$nin`.
    fn membership(self) -> Result<Condition, Error> {
        let mut values = Vec::new();
        let mut patterns = Vec::new();
        for (position, member) in self.members()?.into_iter().enumerate() {
            self.check_plain(position, member)?;
            // As a member a regular expression is matched, while `$eq` compares it.
            if let Some(regex) = member.as_regex() {
                let pattern = Pattern::of(regex, self.context.room);
                patterns.push(pattern.map_err(|error| pattern_error(self.context.path, self.name, error))?);
            } else if member == RawBsonRef::Undefined {
                return Err(self.malformed(Fault::Undefined));
            } else {
                values.push(member);
            }
        }
        Ok(Condition::Test(Test::In(Membership::new(values, patterns, self.context.collation))))
    }

    /// Parses the operand of `$not`, before it is negated.
    fn negated(self) -> Result<Condition, Error> {
        // `$not` accepts a regular expression directly, while `{$not: 5}` is an error in MongoDB.
        if self.operand.as_regex().is_some() {
            return self.value_or_pattern();
        }
        let Some(document) = self.operand.as_document() else {
            return Err(self.wrong_type("an object of operators or a regular expression"));
        };
        if document.is_empty() {
            return Err(self.malformed(Fault::Empty { expected: "the object of operators" }));
        }
        self.context.deeper(self.name)?.operators(document)
    }

    /// Parses the array of `$all`: values, or `$elemMatch` conditions.
    fn all(self) -> Result<Condition, Error> {
        let members = self.members()?;
        let is_element_match = |member: &RawBsonRef<'_>| {
            member.as_document().and_then(first_name).is_some_and(|name| name == "$elemMatch")
        };
        let are_element_matches = members.first().is_some_and(is_element_match);
        if members.is_empty() {
            // In MongoDB `{$all: []}` matches no document, although every array has all members of an empty
            // list.
            return Ok(Condition::Any(Vec::new()));
        }
        let mut conditions = Vec::with_capacity(members.len());
        for (position, member) in members.into_iter().enumerate() {
            // The first member decides what the others must be. MongoDB rejects a mixture.
            if are_element_matches != is_element_match(&member) {
                return Err(self.malformed(Fault::MixedMembers { position }));
            }
            let object = member.as_document().filter(|_| are_element_matches);
            if let Some(operand) = object.and_then(|member| member.get("$elemMatch").ok().flatten()) {
                let context = self.context.deeper(self.name)?;
                conditions.push(OperatorCall { context, name: "$elemMatch", operand }.element_match()?);
                continue;
            }
            self.check_plain(position, member)?;
            conditions.push(OperatorCall { operand: member, ..self }.value_or_pattern()?);
        }
        Ok(Condition::All(conditions))
    }

    /// Parses `$elemMatch`: operators for each element, or a filter for elements that are objects.
    fn element_match(self) -> Result<Condition, Error> {
        let Some(document) = self.operand.as_document() else { return Err(self.wrong_type("an object")) };
        let context = self.context.deeper(self.name)?;
        let expressions = match context.expressions {
            Expressions::Forbidden | Expressions::NestedForbidden => Expressions::NestedForbidden,
            Expressions::Unsupported | Expressions::Nested | Expressions::Allowed(_) => Expressions::Nested,
        };
        // The elements are not whole documents from here on.
        let context = ParseContext { expressions, ..context };
        // `{$elemMatch: {$or: […]}}` starts with a dollar sign, and is a filter of objects all the same.
        let is_clause = first_name(document).and_then(operator::clause).is_some();
        let test = if is_element_operators(document) && !is_clause {
            Test::AnyElement(Box::new(context.operators(document)?))
        } else {
            Test::AnyObject(Box::new(context.document(document)?))
        };
        Ok(Condition::Test(test))
    }

    /// Parses `$regex` with the `$options` from the same document.
    fn regex(self, siblings: &RawDocument) -> Result<Condition, Error> {
        let options = siblings.get("$options").ok().flatten();
        let options = options
            .map(|operand| OperatorCall { name: "$options", operand, ..self }.option_text())
            .transpose()?;
        let parsed = if let Some(regex) = self.operand.as_regex() {
            let own = regex.options.as_str();
            if options.is_some_and(|options| !options.is_empty()) && !own.is_empty() {
                // MongoDB's number for this error depends on which of the two comes first.
                let is_first = siblings.iter_elements().map_while(Result::ok).find_map(|element| {
                    let name = element.key().as_str();
                    matches!(name, "$regex" | "$options").then_some(name == "$regex")
                });
                let is_after = is_first == Some(true);
                return Err(self.malformed(if is_after {
                    Fault::OptionsAfterPattern
                } else {
                    Fault::OptionsBeforePattern
                }));
            }
            // At most one of the two has letters here.
            let options = if own.is_empty() { options.unwrap_or(own) } else { own };
            Pattern::parse(regex.pattern.as_str(), options, self.context.room)
        } else if let Some(pattern) = self.operand.as_str() {
            Pattern::parse(pattern, options.unwrap_or_default(), self.context.room)
        } else {
            return Err(self.wrong_type("a string or a regular expression"));
        };
        let pattern = parsed.map_err(|error| pattern_error(self.context.path, self.name, error))?;
        Ok(Condition::Test(Test::Value(ValueTest::Pattern(pattern))))
    }

    /// The operand of `$options`, which must be a string.
    fn option_text(self) -> Result<&'c str, Error> {
        self.operand.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    fn bits(self, test: BitTest) -> Result<Condition, Error> {
        self.test(Bits::parse(test, self.operand).map(ValueTest::Bits).map(Test::Value))
    }

    /// Turns the parsed operand of an operator into a condition, or its fault into an error.
    fn test(self, parsed: Result<Test, Fault>) -> Result<Condition, Error> {
        parsed.map(Condition::Test).map_err(|fault| self.malformed(fault))
    }

    /// The members of the operand, which must be an array.
    fn members(self) -> Result<Vec<RawBsonRef<'c>>, Error> {
        let Some(array) = self.operand.as_array() else { return Err(self.wrong_type("an array")) };
        members(array, self.context.path)
    }

    /// Rejects a member that is a document of operators, where only values are allowed.
    fn check_plain(self, position: usize, member: RawBsonRef<'_>) -> Result<(), Error> {
        let Some(document) = member.as_document().filter(|document| is_operators(document)) else {
            return Ok(());
        };
        // `{$in: [{$gt: 5}]}` would never match what its author means, so MongoDB rejects it.
        let operator = first_name(document).unwrap_or_default().to_owned();
        Err(self.malformed(Fault::NestedOperator { position, operator }))
    }

    fn malformed(self, fault: Fault) -> Error {
        self.context.malformed(self.name, fault)
    }

    fn wrong_type(self, expected: &'static str) -> Error {
        self.malformed(Fault::WrongType { expected, found: describe(self.operand) })
    }

    fn unknown(self) -> Error {
        Error::UnknownOperator { path: self.context.path.to_owned(), operator: self.name.to_owned() }
    }

    fn unsupported(self) -> Error {
        Error::UnsupportedOperator { path: self.context.path.to_owned(), operator: self.name.to_owned() }
    }

    fn not_allowed(self) -> Error {
        Error::NotAllowed { operator: self.name.to_owned() }
    }
}

/// The conditions of a true expression on fields, as a node for the planner. Returns `None` if nothing is known.
fn implied(implied: Implied, variables: &Variables) -> Option<Node> {
    let (mut comparisons, mut nodes) = (Vec::new(), Vec::new());
    for part in implied.conjuncts() {
        match part {
            Implied::Compared(comparison) => comparisons.push(*comparison),
            // A part of which nothing is known may be the true one.
            Implied::Any(parts) => {
                let branches = parts.into_iter().map(|part| self::implied(part, variables));
                nodes.extend(branches.collect::<Option<_>>().map(Node::Any));
            }
            Implied::All(_) | Implied::Unknown => {}
        }
    }
    let tests = ImpliedTest::all(&comparisons, variables);
    nodes.extend(tests.into_iter().map(|test| Node::Implied(Box::new(test))));
    (!nodes.is_empty()).then(|| Node::all(nodes))
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}
