//! From the keywords of a schema to its rules.
//!
//! There are three different errors for a keyword: JSON Schema has it and MongoDB rejects it, MongoDB has it
//! and CairnDB does not, and neither has it.

use std::collections::HashSet;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use index::number::{Decimal, Number, unpack};

use crate::error::{Error, Fault, KeywordFault};
use crate::filter::compare::{Comparison, Relation};
use crate::filter::element::named_types;
use crate::filter::operand::{self, DEPTH_MAX, pattern_error};
use crate::filter::schema::equality::Identity;
use crate::filter::schema::tree::{Demand, Dependency, Items, Limit, Properties, Rest, Rule, Schema, number};
use crate::pattern::{Pattern, Room};
use crate::registry::Registry;
use crate::value::{describe, integer};
use index::collation::Collation;

const OPERATOR: &str = "$jsonSchema";

/// Whether CairnDB has a keyword of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeywordSupport {
    Supported,
    /// MongoDB has it, and CairnDB does not.
    Unsupported,
    /// JSON Schema has it, and MongoDB rejects it.
    Refused,
}

const KEYWORDS: Registry<KeywordSupport> = Registry::new(&[
    ("$ref", KeywordSupport::Refused),
    ("$schema", KeywordSupport::Refused),
    ("additionalItems", KeywordSupport::Supported),
    ("additionalProperties", KeywordSupport::Supported),
    ("allOf", KeywordSupport::Supported),
    ("anyOf", KeywordSupport::Supported),
    ("bsonType", KeywordSupport::Supported),
    ("default", KeywordSupport::Refused),
    ("definitions", KeywordSupport::Refused),
    ("dependencies", KeywordSupport::Supported),
    ("description", KeywordSupport::Supported),
    ("encrypt", KeywordSupport::Unsupported),
    ("encryptMetadata", KeywordSupport::Unsupported),
    ("enum", KeywordSupport::Supported),
    ("exclusiveMaximum", KeywordSupport::Supported),
    ("exclusiveMinimum", KeywordSupport::Supported),
    ("format", KeywordSupport::Refused),
    ("id", KeywordSupport::Refused),
    ("items", KeywordSupport::Supported),
    ("maxItems", KeywordSupport::Supported),
    ("maxLength", KeywordSupport::Supported),
    ("maxProperties", KeywordSupport::Supported),
    ("maximum", KeywordSupport::Supported),
    ("minItems", KeywordSupport::Supported),
    ("minLength", KeywordSupport::Supported),
    ("minProperties", KeywordSupport::Supported),
    ("minimum", KeywordSupport::Supported),
    ("multipleOf", KeywordSupport::Supported),
    ("not", KeywordSupport::Supported),
    ("oneOf", KeywordSupport::Supported),
    ("pattern", KeywordSupport::Supported),
    ("patternProperties", KeywordSupport::Supported),
    ("properties", KeywordSupport::Supported),
    ("required", KeywordSupport::Supported),
    ("title", KeywordSupport::Supported),
    ("type", KeywordSupport::Supported),
    ("uniqueItems", KeywordSupport::Supported),
]);

/// The names of types for the keyword `type`, with their names for `bsonType`.
const JSON_TYPES: Registry<&str> = Registry::new(&[
    ("array", "array"),
    ("boolean", "bool"),
    ("null", "null"),
    ("number", "number"),
    ("object", "object"),
    ("string", "string"),
]);

/// The keywords for one end of a range of numbers.
struct EndKeywords {
    /// The keyword for the number.
    number: &'static str,
    /// The keyword whose boolean excludes the number itself.
    exclusive: &'static str,
    /// The relation to the number if it is allowed.
    inclusion: Relation,
    /// The relation to the number if it is excluded.
    exclusion: Relation,
}

const MINIMUM: EndKeywords = EndKeywords {
    number: "minimum",
    exclusive: "exclusiveMinimum",
    inclusion: Relation::Gte,
    exclusion: Relation::Gt,
};

const MAXIMUM: EndKeywords = EndKeywords {
    number: "maximum",
    exclusive: "exclusiveMaximum",
    inclusion: Relation::Lte,
    exclusion: Relation::Lt,
};

/// Parses the operand of `$jsonSchema`, which `depth` operators of the filter enclose.
pub(crate) fn parse(schema: RawBsonRef<'_>, depth: usize, room: &Room) -> Result<Schema, Error> {
    let context = SchemaContext { path: String::new(), depth, room: room.clone() };
    let Some(document) = schema.as_document() else {
        let fault = Fault::SchemaType { found: describe(schema) };
        return Err(Error::Malformed { path: context.path, operator: OPERATOR.to_owned(), fault });
    };
    context.schema(document)
}

/// The context of a schema inside of the outermost one.
struct SchemaContext {
    /// The properties down to this schema, joined by dots. Errors name it.
    path: String,
    /// The number of operators and schemas that enclose this one.
    depth: usize,
    /// The memory that compiled patterns may use.
    room: Room,
}

/// The keywords of a schema. Each one is supported, and none is given twice.
struct Keywords<'s> {
    context: &'s SchemaContext,
    given: Vec<(&'s str, RawBsonRef<'s>)>,
}

impl SchemaContext {
    fn schema(&self, document: &RawDocument) -> Result<Schema, Error> {
        // Schemas share the limit of operators, so a filter's tree is bounded whichever of them it is made
        // of.
        if self.depth > DEPTH_MAX {
            return Err(self.malformed(Fault::TooDeep { limit: DEPTH_MAX }));
        }
        let keywords = self.keywords(document)?;
        // They require nothing of a value, but MongoDB rejects any but strings.
        for name in ["title", "description"] {
            keywords.typed(name, "a string", RawBsonRef::as_str)?;
        }
        let mut rules = Vec::new();
        rules.extend(keywords.types()?);
        keywords.number_rules(&mut rules)?;
        keywords.string_rules(&mut rules)?;
        keywords.array_rules(&mut rules)?;
        keywords.object_rules(&mut rules)?;
        keywords.logical_rules(&mut rules)?;
        Ok(Schema { rules })
    }

    fn keywords<'s>(&'s self, document: &'s RawDocument) -> Result<Keywords<'s>, Error> {
        let mut given: Vec<(&str, RawBsonRef<'_>)> = Vec::new();
        for field in operand::fields(document, &self.path) {
            let (name, value) = field?;
            match KEYWORDS.get(name).copied() {
                None => return Err(self.refuse(name, KeywordFault::Unknown)),
                Some(KeywordSupport::Refused) => return Err(self.refuse(name, KeywordFault::Refused)),
                Some(KeywordSupport::Unsupported) => {
                    let operator = format!("{OPERATOR}: {name}");
                    return Err(Error::UnsupportedOperator { path: self.path.clone(), operator });
                }
                Some(KeywordSupport::Supported) if given.iter().any(|(earlier, _)| *earlier == name) => {
                    return Err(self.refuse(name, KeywordFault::Twice));
                }
                Some(KeywordSupport::Supported) => given.push((name, value)),
            }
        }
        Ok(Keywords { context: self, given })
    }

    /// The context of a schema inside of this one, for the same value or for a part of it without a name.
    fn deeper(&self) -> Self {
        Self { path: self.path.clone(), depth: self.depth + 1, room: self.room.clone() }
    }

    /// The context of the schema of a property.
    fn property(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, depth: self.depth + 1, room: self.room.clone() }
    }

    fn malformed(&self, fault: Fault) -> Error {
        Error::Malformed { path: self.path.clone(), operator: OPERATOR.to_owned(), fault }
    }

    fn refuse(&self, keyword: &str, fault: KeywordFault) -> Error {
        self.malformed(Fault::Keyword { keyword: keyword.to_owned(), fault })
    }
}

impl<'s> Keywords<'s> {
    /// A keyword's value, if it is given.
    fn get(&self, keyword: &str) -> Option<RawBsonRef<'s>> {
        self.given.iter().find(|(name, _)| *name == keyword).map(|(_, value)| *value)
    }

    /// A keyword's value as `read` returns it, if the keyword is given. `expected` is the type that the error
    /// names.
    fn typed<T>(
        &self,
        keyword: &str,
        expected: &'static str,
        read: impl FnOnce(RawBsonRef<'s>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(keyword) else { return Ok(None) };
        let fault = || KeywordFault::WrongType { expected, found: describe(value) };
        read(value).map(Some).ok_or_else(|| self.context.refuse(keyword, fault()))
    }

    /// The members of a keyword's value, which must be an array.
    fn members(&self, keyword: &str) -> Result<Option<Vec<RawBsonRef<'s>>>, Error> {
        let Some(array) = self.typed(keyword, "an array", RawBsonRef::as_array)? else { return Ok(None) };
        operand::members(array, &self.context.path).map(Some)
    }

    /// The fields of a keyword's value, which must be an object.
    fn fields(&self, keyword: &str) -> Result<Vec<(&'s str, RawBsonRef<'s>)>, Error> {
        let Some(object) = self.typed(keyword, "an object", RawBsonRef::as_document)? else {
            return Ok(Vec::new());
        };
        operand::fields(object, &self.context.path).collect()
    }

    /// A member of a keyword's value as the object that it must be.
    fn member_object(&self, keyword: &str, value: RawBsonRef<'s>) -> Result<&'s RawDocument, Error> {
        let fault = || KeywordFault::WrongMember { expected: "an object", found: describe(value) };
        value.as_document().ok_or_else(|| self.context.refuse(keyword, fault()))
    }

    /// The rule for `type` or `bsonType`, of which a schema may have only one.
    fn types(&self) -> Result<Option<Rule>, Error> {
        // Both keywords name types, `bsonType` with the names of `$type`. MongoDB accepts one of them at a
        // time.
        let (keyword, value) = match (self.get("type"), self.get("bsonType")) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err(self.context.refuse("bsonType", KeywordFault::TypeTwice)),
            (Some(value), None) => ("type", value),
            (None, Some(value)) => ("bsonType", value),
        };
        let names = if let Some(name) = value.as_str() {
            vec![name]
        } else if value.as_array().is_some() {
            self.names(keyword)?.unwrap_or_default()
        } else {
            let fault = KeywordFault::WrongType {
                expected: "a string or an array of strings",
                found: describe(value),
            };
            return Err(self.context.refuse(keyword, fault));
        };
        let mut types = Vec::new();
        // A name may mean several types (`number`), so the rule has a list of types and not of names.
        for name in names {
            types.extend_from_slice(self.type_of(keyword, name)?);
        }
        Ok(Some(Rule::Types(types)))
    }

    /// The types that a name means for the keyword, `type` or `bsonType`.
    fn type_of(&self, keyword: &str, name: &str) -> Result<&'static [ElementType], Error> {
        // JSON Schema has this type, and MongoDB rejects it with an error of its own.
        if name == "integer" {
            return Err(self.context.refuse(keyword, KeywordFault::TypeInteger));
        }
        let found = if keyword == "bsonType" {
            named_types(name)
        } else {
            JSON_TYPES.get(name).and_then(|alias| named_types(alias))
        };
        let fault = || KeywordFault::TypeName { found: describe(RawBsonRef::String(name)) };
        found.ok_or_else(|| self.context.refuse(keyword, fault()))
    }

    /// The members of a keyword's value, which must be at least one string, without duplicates.
    fn names(&self, keyword: &str) -> Result<Option<Vec<&'s str>>, Error> {
        let Some(members) = self.members(keyword)? else { return Ok(None) };
        self.distinct_names(keyword, &members).map(Some)
    }

    /// `members` as strings. There must be at least one, and no duplicates.
    fn distinct_names(&self, keyword: &str, members: &[RawBsonRef<'s>]) -> Result<Vec<&'s str>, Error> {
        let mut names = Vec::with_capacity(members.len());
        for member in members {
            let fault = || KeywordFault::WrongMember { expected: "a string", found: describe(*member) };
            names.push(member.as_str().ok_or_else(|| self.context.refuse(keyword, fault()))?);
        }
        if names.is_empty() {
            return Err(self.context.refuse(keyword, KeywordFault::Empty));
        }
        // Sorting a copy finds a duplicate without comparing all pairs, and keeps the order of the names.
        let mut sorted = names.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[_]>::first) {
            None => Ok(names),
            Some(name) => {
                let fault = KeywordFault::MemberTwice { found: describe(RawBsonRef::String(name)) };
                Err(self.context.refuse(keyword, fault))
            }
        }
    }

    fn number_rules(&self, rules: &mut Vec<Rule>) -> Result<(), Error> {
        rules.extend(self.bound(&MINIMUM)?);
        rules.extend(self.bound(&MAXIMUM)?);
        if let Some(divisor) = self.typed("multipleOf", "a number", number)? {
            let is_positive = match unpack(divisor) {
                // MongoDB rejects negative divisors and zero, and NaN is neither.
                Decimal::Nan => true,
                Decimal::Infinity { negative } => !negative,
                Decimal::Finite { negative, coefficient, .. } => !negative && coefficient > 0,
            };
            if !is_positive {
                let found = self.get("multipleOf").map(describe).unwrap_or_default();
                return Err(self.context.refuse("multipleOf", KeywordFault::NotPositive { found }));
            }
            rules.push(Rule::MultipleOf(divisor));
        }
        Ok(())
    }

    /// The rule for one end of a range of numbers, if its number is given.
    fn bound(&self, end: &EndKeywords) -> Result<Option<Rule>, Error> {
        let is_number = |value| Number::of(value).map(|_| value);
        let is_exclusive = self.typed(end.exclusive, "a boolean", RawBsonRef::as_bool)?;
        let Some(operand) = self.typed(end.number, "a number", is_number)? else {
            if is_exclusive.is_none() {
                return Ok(None);
            }
            // In draft 4 the exclusive keyword is a boolean about the other one and means nothing alone.
            let fault = KeywordFault::BoundMissing { keyword: end.number };
            return Err(self.context.refuse(end.exclusive, fault));
        };
        let relation = if is_exclusive == Some(true) { end.exclusion } else { end.inclusion };
        Ok(Some(Rule::Compare(Comparison::new(relation, operand, &Collation::simple()))))
    }

    fn string_rules(&self, rules: &mut Vec<Rule>) -> Result<(), Error> {
        rules.extend(self.count("minLength")?.map(Limit::Min).map(Rule::Length));
        rules.extend(self.count("maxLength")?.map(Limit::Max).map(Rule::Length));
        if let Some(pattern) = self.typed("pattern", "a string", RawBsonRef::as_str)? {
            rules.push(Rule::Pattern(Box::new(self.pattern(pattern)?)));
        }
        Ok(())
    }

    fn pattern(&self, pattern: &str) -> Result<Pattern, Error> {
        Pattern::parse(pattern, "", &self.context.room)
            .map_err(|error| pattern_error(&self.context.path, OPERATOR, error))
    }

    /// A keyword's value, which must be an integer of 0 or more.
    fn count(&self, keyword: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.get(keyword) else { return Ok(None) };
        // As everywhere in MongoDB's schemas the type of the number does not matter: 2.0 is a count.
        let count = integer(value).and_then(|count| usize::try_from(count).ok());
        let fault = || KeywordFault::Count { found: describe(value) };
        count.map(Some).ok_or_else(|| self.context.refuse(keyword, fault()))
    }

    fn array_rules(&self, rules: &mut Vec<Rule>) -> Result<(), Error> {
        rules.extend(self.count("minItems")?.map(Limit::Min).map(Rule::ItemCount));
        rules.extend(self.count("maxItems")?.map(Limit::Max).map(Rule::ItemCount));
        if self.typed("uniqueItems", "a boolean", RawBsonRef::as_bool)? == Some(true) {
            rules.push(Rule::UniqueItems);
        }
        // Checked even if it is not used below: MongoDB rejects a bad operand in any case.
        let rest = self.rest("additionalItems")?;
        let Some(items) = self.get("items") else { return Ok(()) };
        if let Some(schema) = items.as_document() {
            // One schema is about all elements, so `additionalItems` is about none.
            let rest = Rest::Meets(Box::new(self.context.deeper().schema(schema)?));
            rules.push(Rule::Items(Items { first: Vec::new(), rest }));
            return Ok(());
        }
        if items.as_array().is_none() {
            let fault = KeywordFault::WrongType { expected: "an object or an array", found: describe(items) };
            return Err(self.context.refuse("items", fault));
        }
        let first = self.schemas("items")?.unwrap_or_default();
        rules.push(Rule::Items(Items { first, rest }));
        Ok(())
    }

    /// A keyword's value, which must be an array of schemas.
    fn schemas(&self, keyword: &str) -> Result<Option<Vec<Schema>>, Error> {
        let Some(members) = self.members(keyword)? else { return Ok(None) };
        let context = self.context.deeper();
        let parse = |member: RawBsonRef<'s>| context.schema(self.member_object(keyword, member)?);
        members.into_iter().map(parse).collect::<Result<_, _>>().map(Some)
    }

    /// The value of `additionalItems` or `additionalProperties`.
    fn rest(&self, keyword: &str) -> Result<Rest, Error> {
        let Some(value) = self.get(keyword) else { return Ok(Rest::Allowed) };
        if let Some(is_allowed) = value.as_bool() {
            return Ok(if is_allowed { Rest::Allowed } else { Rest::Refused });
        }
        let schema = self.typed(keyword, "an object or a boolean", RawBsonRef::as_document)?;
        match schema {
            None => Ok(Rest::Allowed),
            Some(schema) => Ok(Rest::Meets(Box::new(self.context.deeper().schema(schema)?))),
        }
    }

    fn object_rules(&self, rules: &mut Vec<Rule>) -> Result<(), Error> {
        rules.extend(self.count("minProperties")?.map(Limit::Min).map(Rule::PropertyCount));
        rules.extend(self.count("maxProperties")?.map(Limit::Max).map(Rule::PropertyCount));
        if let Some(names) = self.names("required")? {
            rules.push(Rule::Required(names.into_iter().map(str::to_owned).collect()));
        }
        // A property's name becomes a part of the path in errors. Patterns and the other schemas have no name
        // to add.
        let mut named = Vec::new();
        for (name, schema) in self.fields("properties")? {
            let schema = self.member_object("properties", schema)?;
            named.push((name.to_owned(), self.context.property(name).schema(schema)?));
        }
        // Sorted, because each field of each document is looked up here.
        named.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut patterns = Vec::new();
        for (pattern, schema) in self.fields("patternProperties")? {
            let schema = self.member_object("patternProperties", schema)?;
            patterns.push((self.pattern(pattern)?, self.context.deeper().schema(schema)?));
        }
        let rest = self.rest("additionalProperties")?;
        // Without any requirement the rule is left out, since it would walk all fields of a document.
        if !named.is_empty() || !patterns.is_empty() || !matches!(rest, Rest::Allowed) {
            rules.push(Rule::Properties(Properties { named, patterns, rest }));
        }
        for (field, demand) in self.fields("dependencies")? {
            let demand = self.demand(field, demand)?;
            rules.push(Rule::Dependency(Dependency { field: field.to_owned(), demand }));
        }
        Ok(())
    }

    /// The demand of `dependencies` on an object that has `field`: a schema, or the names of other fields.
    fn demand(&self, field: &str, demand: RawBsonRef<'s>) -> Result<Demand, Error> {
        if let Some(schema) = demand.as_document() {
            return Ok(Demand::Schema(self.context.deeper().schema(schema)?));
        }
        let Some(array) = demand.as_array() else {
            let fault =
                KeywordFault::WrongMember { expected: "an object or an array", found: describe(demand) };
            return Err(self.context.property(field).refuse("dependencies", fault));
        };
        let members = operand::members(array, &self.context.path)?;
        let names = self.distinct_names("dependencies", &members)?;
        Ok(Demand::Fields(names.into_iter().map(str::to_owned).collect()))
    }

    fn logical_rules(&self, rules: &mut Vec<Rule>) -> Result<(), Error> {
        rules.extend(self.alternatives("allOf")?.map(Rule::AllOf));
        rules.extend(self.alternatives("anyOf")?.map(Rule::AnyOf));
        rules.extend(self.alternatives("oneOf")?.map(Rule::OneOf));
        if let Some(schema) = self.typed("not", "an object", RawBsonRef::as_document)? {
            rules.push(Rule::Not(Box::new(self.context.deeper().schema(schema)?)));
        }
        if let Some(members) = self.members("enum")? {
            rules.push(self.enumeration(&members)?);
        }
        Ok(())
    }

    /// A keyword's value, which must be an array of at least one schema.
    fn alternatives(&self, keyword: &str) -> Result<Option<Vec<Schema>>, Error> {
        match self.schemas(keyword)? {
            Some(schemas) if schemas.is_empty() => {
                Err(self.context.refuse(keyword, KeywordFault::NoAlternatives))
            }
            schemas => Ok(schemas),
        }
    }

    /// The rule for `enum`. MongoDB rejects two equal members.
    fn enumeration(&self, members: &[RawBsonRef<'s>]) -> Result<Rule, Error> {
        if members.is_empty() {
            return Err(self.context.refuse("enum", KeywordFault::Empty));
        }
        let mut identities = HashSet::with_capacity(members.len());
        for member in members {
            // Equal means what it means for documents, so `{a: 1, b: 2}` and `{b: 2, a: 1}` are duplicates.
            if !identities.insert(Identity::of(*member)) {
                let fault = KeywordFault::MemberTwice { found: describe(*member) };
                return Err(self.context.refuse("enum", fault));
            }
        }
        Ok(Rule::Enum(identities))
    }
}
