//! From a filter document to its tree: all checks of operators and their arguments.
//!
//! The invariant: whatever the document, parsing recurses at most [`DEPTH_MAX`] levels, and so does everything that
//! later walks the tree.

use bson::{RawBsonRef, RawDocument};
use index::path::FieldPath;

use crate::error::{Error, Fault};
use crate::expression::{Expression, Variables};
use crate::filter::array::parse_length;
use crate::filter::bits::{BitTest, Bits};
use crate::filter::compare::{Comparison, Membership, Relation};
use crate::filter::element::{Modulo, TypeSet, first_name, is_element_operators, is_operators};
use crate::filter::evaluate::{Condition, Node, Test};
use crate::filter::operator::{self, Clause, Known, Operator};
use crate::filter::schema;
use crate::pattern::{Pattern, PatternError, Room};
use crate::value::{describe, integer, is_true};

/// How deeply operators may be nested.
pub(super) const DEPTH_MAX: usize = 100;

/// Reads a whole filter.
pub(super) fn parse(filter: &RawDocument, variables: Option<&Variables>) -> Result<Node, Error> {
    let expressions = variables.map_or(Expressions::Unsupported, Expressions::Allowed);
    let own = Room::default();
    let room = variables.map_or(&own, Variables::room);
    Place { path: "", depth: 0, expressions, room }.document(filter)
}

/// Reads a filter within another command's argument, where neither expressions nor schemas may stand.
pub(super) fn parse_plain(filter: &RawDocument, room: &Room) -> Result<Node, Error> {
    Place { path: "", depth: 0, expressions: Expressions::Forbidden, room }.document(filter)
}

/// Whether an expression may stand somewhere.
#[derive(Clone, Copy)]
enum Expressions<'p> {
    /// Whoever asks the filter could not say that an expression failed.
    Unsupported,
    /// Not in this argument, nor a schema.
    Forbidden,
    /// Not within arrays: an expression sees a whole document.
    Nested,
    /// Not within arrays, and in this argument no schema either.
    NestedForbidden,
    /// With these variables.
    Allowed(&'p Variables),
}

/// Where in the filter something stands, for its errors and its depth.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// The fields that led here, joined by dots.
    path: &'p str,
    depth: usize,
    expressions: Expressions<'p>,
    /// What compiled patterns may take.
    room: &'p Room,
}

/// One operator below a field, or one clause, with its argument.
#[derive(Clone, Copy)]
struct Call<'c> {
    place: Place<'c>,
    name: &'c str,
    operand: RawBsonRef<'c>,
}

impl Place<'_> {
    /// Reads fields and clauses, all of which must match.
    fn document(self, document: &RawDocument) -> Result<Node, Error> {
        let mut nodes = Vec::new();
        for (at, element) in document.iter_elements().enumerate() {
            let (name, operand) = element
                .and_then(|element| Ok((element.key().as_str(), element.value()?)))
                .map_err(|_| self.invalid(at))?;
            let call = Call { place: self, name, operand };
            nodes.extend(if name.starts_with('$') { call.clause()? } else { Some(call.field()?) });
        }
        Ok(Node::all(nodes))
    }

    /// Reads operators below a field, all of which must match.
    fn operators(self, document: &RawDocument) -> Result<Condition, Error> {
        let mut conditions = Vec::new();
        for (at, element) in document.iter_elements().enumerate() {
            let (name, operand) = element
                .and_then(|element| Ok((element.key().as_str(), element.value()?)))
                .map_err(|_| self.invalid(at))?;
            conditions.extend(Call { place: self, name, operand }.operator(document)?);
        }
        Ok(Condition::All(conditions))
    }

    /// The place one level further down.
    fn deeper(self, operator: &str) -> Result<Self, Error> {
        if self.depth == DEPTH_MAX {
            return Err(self.malformed(operator, Fault::TooDeep { limit: DEPTH_MAX }));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn malformed(self, operator: &str, fault: Fault) -> Error {
        Error::Malformed { path: self.path.to_owned(), operator: operator.to_owned(), fault }
    }

    fn invalid(self, at: usize) -> Error {
        Error::InvalidBson { path: self.path.to_owned(), reason: format!("element {at} cannot be read") }
    }
}

impl<'c> Call<'c> {
    /// Reads what stands under a field: operators, a regular expression, or a value to equal.
    fn field(self) -> Result<Node, Error> {
        let outer = self.place.path;
        let path = if outer.is_empty() { self.name.to_owned() } else { format!("{outer}.{}", self.name) };
        let place = Place { path: &path, ..self.place };
        let field = FieldPath::parse(self.name)
            .map_err(|error| place.malformed("$eq", Fault::Path { reason: error.to_string() }))?;
        let condition = match self.operand.as_document() {
            Some(document) if is_operators(document) => place.deeper("$eq")?.operators(document)?,
            Some(_) | None => {
                let call = Call { place, name: "$eq", operand: self.operand };
                call.value_or_pattern()?
            }
        };
        Ok(Node::field(&field, condition))
    }

    /// Reads an operator in the place of a field; a comment gives nothing.
    fn clause(self) -> Result<Option<Node>, Error> {
        match operator::clause(self.name) {
            None => Err(self.unknown()),
            Some(Known::Unsupported) => Err(self.unsupported()),
            Some(Known::Supported(clause)) => Ok(match clause {
                Clause::And => Some(Node::all(self.alternatives()?)),
                Clause::Or => Some(Node::Any(self.alternatives()?)),
                Clause::Nor => Some(Node::Not(Box::new(Node::Any(self.alternatives()?)))),
                Clause::AlwaysTrue => Some(self.constant(Node::All(Vec::new()))?),
                Clause::AlwaysFalse => Some(self.constant(Node::Any(Vec::new()))?),
                Clause::Reference => Some(self.field()?),
                Clause::Expr => Some(self.expression()?),
                Clause::JsonSchema => Some(self.schema()?),
                Clause::Comment => None,
            }),
        }
    }

    fn expression(self) -> Result<Node, Error> {
        match self.place.expressions {
            Expressions::Unsupported => Err(self.unsupported()),
            Expressions::Forbidden => Err(self.not_allowed()),
            Expressions::Nested | Expressions::NestedForbidden => Err(self.malformed(Fault::NotTopLevel)),
            Expressions::Allowed(variables) => {
                Ok(Node::Expression(Box::new(Expression::parse(self.operand, variables)?)))
            }
        }
    }

    fn schema(self) -> Result<Node, Error> {
        match self.place.expressions {
            Expressions::Forbidden | Expressions::NestedForbidden => Err(self.not_allowed()),
            Expressions::Unsupported | Expressions::Nested | Expressions::Allowed(_) => {
                Ok(Node::Schema(Box::new(schema::parse(self.operand, self.place.depth, self.place.room)?)))
            }
        }
    }

    /// Reads the list of filters below `$and`, `$or` and `$nor`.
    fn alternatives(self) -> Result<Vec<Node>, Error> {
        let members = self.members()?;
        if members.is_empty() {
            return Err(self.malformed(Fault::Empty { expected: "the array" }));
        }
        let place = self.place.deeper(self.name)?;
        let parse = |(position, member): (usize, &RawBsonRef<'_>)| {
            let fault = || Fault::WrongMember { position, expected: "an object", found: describe(*member) };
            let document = member.as_document().ok_or_else(|| self.malformed(fault()))?;
            place.document(document)
        };
        members.iter().enumerate().map(parse).collect()
    }

    fn constant(self, node: Node) -> Result<Node, Error> {
        if integer(self.operand) == Some(1) {
            return Ok(node);
        }
        Err(self.malformed(Fault::NotOne { found: describe(self.operand) }))
    }

    /// Reads an operator below a field; `siblings` is the document that it stands in.
    fn operator(self, siblings: &RawDocument) -> Result<Option<Condition>, Error> {
        let operator = match operator::operator(self.name) {
            None => return Err(self.unknown()),
            Some(Known::Unsupported) => return Err(self.unsupported()),
            Some(Known::Supported(operator)) => operator,
        };
        Ok(Some(match operator {
            Operator::Eq => self.comparison(Relation::Eq)?,
            Operator::Gt => self.comparison(Relation::Gt)?,
            Operator::Gte => self.comparison(Relation::Gte)?,
            Operator::Lt => self.comparison(Relation::Lt)?,
            Operator::Lte => self.comparison(Relation::Lte)?,
            Operator::Ne => not(self.comparison_without_regex(Relation::Eq)?),
            Operator::In => self.membership()?,
            Operator::Nin => not(self.membership()?),
            Operator::Not => not(self.negated()?),
            Operator::Exists if is_true(self.operand) => Condition::Test(Test::Exists),
            Operator::Exists => not(Condition::Test(Test::Exists)),
            Operator::Type => self.test(TypeSet::parse(self.operand).map(Test::Type))?,
            Operator::Mod => self.test(Modulo::parse(self.operand).map(Test::Mod))?,
            Operator::Size => self.test(parse_length(self.operand).map(Test::Size))?,
            Operator::BitsAllSet => self.bits(BitTest::AllSet)?,
            Operator::BitsAllClear => self.bits(BitTest::AllClear)?,
            Operator::BitsAnySet => self.bits(BitTest::AnySet)?,
            Operator::BitsAnyClear => self.bits(BitTest::AnyClear)?,
            Operator::All => self.all()?,
            Operator::ElemMatch => self.element_match()?,
            Operator::Regex => self.regex(siblings)?,
            Operator::Options => {
                self.option_text()?;
                let is_alone = siblings.get("$regex").ok().flatten().is_none();
                return if is_alone { Err(self.malformed(Fault::OptionsAlone)) } else { Ok(None) };
            }
        }))
    }

    /// `$gt` and its kin take no regular expression; equality takes it as a value.
    fn comparison(self, relation: Relation) -> Result<Condition, Error> {
        if relation != Relation::Eq {
            return self.comparison_without_regex(relation);
        }
        if self.operand == RawBsonRef::Undefined {
            return Err(self.malformed(Fault::Undefined));
        }
        Ok(Condition::Test(Test::Compare(Comparison::new(relation, self.operand))))
    }

    fn comparison_without_regex(self, relation: Relation) -> Result<Condition, Error> {
        if self.operand.as_regex().is_some() {
            return Err(self.malformed(Fault::Regex));
        }
        if self.operand == RawBsonRef::Undefined {
            return Err(self.malformed(Fault::Undefined));
        }
        Ok(Condition::Test(Test::Compare(Comparison::new(relation, self.operand))))
    }

    /// A value that stands without operator: a regular expression is matched, anything else compared.
    fn value_or_pattern(self) -> Result<Condition, Error> {
        match self.operand.as_regex() {
            Some(regex) => {
                let pattern = Pattern::of(regex, self.place.room)
                    .map_err(|error| pattern_refused(self.place.path, "$regex", error))?;
                Ok(Condition::Test(Test::Pattern(pattern)))
            }
            None => self.comparison(Relation::Eq),
        }
    }

    fn membership(self) -> Result<Condition, Error> {
        let mut values = Vec::new();
        let mut patterns = Vec::new();
        for (position, member) in self.members()?.into_iter().enumerate() {
            self.check_plain(position, member)?;
            if let Some(regex) = member.as_regex() {
                let pattern = Pattern::of(regex, self.place.room);
                patterns.push(pattern.map_err(|error| pattern_refused(self.place.path, self.name, error))?);
            } else if member == RawBsonRef::Undefined {
                return Err(self.malformed(Fault::Undefined));
            } else {
                values.push(member);
            }
        }
        Ok(Condition::Test(Test::In(Membership::new(values, patterns))))
    }

    fn negated(self) -> Result<Condition, Error> {
        if self.operand.as_regex().is_some() {
            return self.value_or_pattern();
        }
        let Some(document) = self.operand.as_document() else {
            return Err(self.wrong_type("an object of operators or a regular expression"));
        };
        if document.is_empty() {
            return Err(self.malformed(Fault::Empty { expected: "the object of operators" }));
        }
        self.place.deeper(self.name)?.operators(document)
    }

    fn all(self) -> Result<Condition, Error> {
        let members = self.members()?;
        let is_element_match = |member: &RawBsonRef<'_>| {
            member.as_document().and_then(first_name).is_some_and(|name| name == "$elemMatch")
        };
        let are_element_matches = members.first().is_some_and(is_element_match);
        if members.is_empty() {
            // Not even an empty array has all of nothing.
            return Ok(Condition::Any(Vec::new()));
        }
        let mut conditions = Vec::with_capacity(members.len());
        for (position, member) in members.into_iter().enumerate() {
            if are_element_matches != is_element_match(&member) {
                return Err(self.malformed(Fault::MixedMembers { position }));
            }
            let first = member.as_document().filter(|_| are_element_matches);
            if let Some(operand) = first.and_then(|member| member.get("$elemMatch").ok().flatten()) {
                let place = self.place.deeper(self.name)?;
                conditions.push(Call { place, name: "$elemMatch", operand }.element_match()?);
                continue;
            }
            self.check_plain(position, member)?;
            conditions.push(Call { operand: member, ..self }.value_or_pattern()?);
        }
        Ok(Condition::All(conditions))
    }

    fn element_match(self) -> Result<Condition, Error> {
        let Some(document) = self.operand.as_document() else { return Err(self.wrong_type("an object")) };
        let place = self.place.deeper(self.name)?;
        let expressions = match place.expressions {
            Expressions::Forbidden | Expressions::NestedForbidden => Expressions::NestedForbidden,
            Expressions::Unsupported | Expressions::Nested | Expressions::Allowed(_) => Expressions::Nested,
        };
        let place = Place { expressions, ..place };
        let is_clause = first_name(document).and_then(operator::clause).is_some();
        let test = if is_element_operators(document) && !is_clause {
            Test::AnyElement(Box::new(place.operators(document)?))
        } else {
            Test::AnyObject(Box::new(place.document(document)?))
        };
        Ok(Condition::Test(test))
    }

    /// Reads `$regex` together with the `$options` beside it.
    fn regex(self, siblings: &RawDocument) -> Result<Condition, Error> {
        let options = siblings.get("$options").ok().flatten();
        let options =
            options.map(|operand| Call { name: "$options", operand, ..self }.option_text()).transpose()?;
        let parsed = if let Some(regex) = self.operand.as_regex() {
            let own = regex.options.as_str();
            if options.is_some_and(|options| !options.is_empty()) && !own.is_empty() {
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
            let options = if own.is_empty() { options.unwrap_or(own) } else { own };
            Pattern::parse(regex.pattern.as_str(), options, self.place.room)
        } else if let Some(pattern) = self.operand.as_str() {
            Pattern::parse(pattern, options.unwrap_or_default(), self.place.room)
        } else {
            return Err(self.wrong_type("a string or a regular expression"));
        };
        let pattern = parsed.map_err(|error| pattern_refused(self.place.path, self.name, error))?;
        Ok(Condition::Test(Test::Pattern(pattern)))
    }

    fn option_text(self) -> Result<&'c str, Error> {
        self.operand.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    fn bits(self, test: BitTest) -> Result<Condition, Error> {
        self.test(Bits::parse(test, self.operand).map(Test::Bits))
    }

    fn test(self, parsed: Result<Test, Fault>) -> Result<Condition, Error> {
        parsed.map(Condition::Test).map_err(|fault| self.malformed(fault))
    }

    /// The members of an operand that must be an array.
    fn members(self) -> Result<Vec<RawBsonRef<'c>>, Error> {
        let Some(array) = self.operand.as_array() else { return Err(self.wrong_type("an array")) };
        let read = |(at, member): (usize, Result<_, _>)| member.map_err(|_| self.place.invalid(at));
        array.into_iter().enumerate().map(read).collect()
    }

    /// Refuses operators in place of a value.
    fn check_plain(self, position: usize, member: RawBsonRef<'_>) -> Result<(), Error> {
        let Some(document) = member.as_document().filter(|document| is_operators(document)) else {
            return Ok(());
        };
        let operator = first_name(document).unwrap_or_default().to_owned();
        Err(self.malformed(Fault::NestedOperator { position, operator }))
    }

    fn malformed(self, fault: Fault) -> Error {
        self.place.malformed(self.name, fault)
    }

    fn wrong_type(self, expected: &'static str) -> Error {
        self.malformed(Fault::WrongType { expected, found: describe(self.operand) })
    }

    fn unknown(self) -> Error {
        Error::UnknownOperator { path: self.place.path.to_owned(), operator: self.name.to_owned() }
    }

    fn unsupported(self) -> Error {
        Error::UnsupportedOperator { path: self.place.path.to_owned(), operator: self.name.to_owned() }
    }

    fn not_allowed(self) -> Error {
        Error::NotAllowed { operator: self.name.to_owned() }
    }
}

/// The error for a pattern, with the place that the pattern belongs to.
pub(super) fn pattern_refused(path: &str, operator: &str, error: PatternError) -> Error {
    let (path, operator) = (path.to_owned(), operator.to_owned());
    let fault = match error {
        PatternError::Zero => Fault::PatternZero,
        PatternError::TooLong { length, limit } => Fault::PatternTooLong { length, limit },
        PatternError::OptionUnknown { option } => Fault::OptionUnknown { option },
        PatternError::Invalid { pattern, reason } => Fault::PatternInvalid { pattern, reason },
        PatternError::TooMany { limit } => Fault::PatternsTooMany { limit },
    };
    Error::Malformed { path, operator, fault }
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}
