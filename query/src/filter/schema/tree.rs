//! A schema as a list of rules, and whether a value is valid by it.
//!
//! A rule is about one kind of value, and every other value meets it: a minimum length is met by each number.
//! Rules contain schemas of their own for elements, fields and alternatives. Parsing bounds how deeply
//! schemas are nested, and a rule goes no deeper into a value than its schema does, so recursion here is
//! safe.

use std::collections::HashSet;

use bson::spec::ElementType;
use bson::{Decimal128, RawArray, RawBsonRef, RawDocument};

use crate::decimal::{Precision, from_double, from_integer, is_zero, remainder};
use crate::filter::compare::Comparison;
use crate::filter::schema::equality::{Identity, fields};
use crate::pattern::{Pattern, Watch};
use crate::value::elements;

/// The conditions on a value.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(super) rules: Vec<Rule>,
}

/// One thing that a schema requires of values of one kind.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    // Of any value.
    Types(Vec<ElementType>),
    Enum(HashSet<Identity>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
    // Of numbers.
    Compare(Comparison),
    MultipleOf(Decimal128),
    // Of strings. The length counts characters, not bytes.
    Length(Limit),
    Pattern(Box<Pattern>),
    // Of arrays.
    ItemCount(Limit),
    UniqueItems,
    Items(Items),
    // Of objects.
    PropertyCount(Limit),
    Required(Vec<String>),
    Properties(Properties),
    Dependency(Dependency),
}

/// A least or a greatest number of things.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Min(usize),
    Max(usize),
}

/// The demand on the elements or fields that no other schema is about.
#[derive(Clone, Debug)]
pub(super) enum Rest {
    Allowed,
    Refused,
    Meets(Box<Schema>),
}

/// Schemas of the first elements of an array, and of all that follow.
#[derive(Clone, Debug)]
pub(super) struct Items {
    pub(super) first: Vec<Schema>,
    pub(super) rest: Rest,
}

/// Schemas of fields by name and by pattern, and of all other fields.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    /// Ascending by name.
    pub(super) named: Vec<(String, Schema)>,
    pub(super) patterns: Vec<(Pattern, Schema)>,
    pub(super) rest: Rest,
}

/// The demand on an object that has a field.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    pub(super) field: String,
    pub(super) demand: Demand,
}

/// The requirement of a [`Dependency`].
#[derive(Clone, Debug)]
pub(super) enum Demand {
    /// The object has these fields, too.
    Fields(Vec<String>),
    /// The whole object is valid by this schema, too.
    Schema(Schema),
}

impl Schema {
    /// Whether a value is valid by the schema.
    pub(crate) fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        self.rules.iter().all(|rule| watch.goes_on() && rule.matches(value, watch))
    }
}

impl Rule {
    fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        match self {
            Self::Types(types) => types.contains(&value.element_type()),
            Self::Enum(members) => {
                let identity = Identity::of(value);
                // A large value costs the operation more than one step; how many members there are does not matter.
                watch.passes(identity.bytes()) && members.contains(&identity)
            }
            Self::AllOf(schemas) => schemas.iter().all(|schema| schema.matches(value, watch)),
            Self::AnyOf(schemas) => schemas.iter().any(|schema| schema.matches(value, watch)),
            // The second match decides already, so the schemas after it are not evaluated.
            Self::OneOf(schemas) => {
                schemas.iter().filter(|schema| schema.matches(value, watch)).take(2).count() == 1
            }
            Self::Not(schema) => !schema.matches(value, watch),
            Self::Compare(comparison) => number(value).is_none() || comparison.matches(Some(value)),
            Self::MultipleOf(divisor) => {
                number(value).is_none_or(|number| is_zero(remainder(number, *divisor)))
            }
            Self::Length(limit) => value.as_str().is_none_or(|text| limit.is_met_by(text.chars())),
            // Unlike `$regex`, the keyword is about strings only and lets every symbol pass.
            Self::Pattern(pattern) => value.as_str().is_none() || pattern.matches(value, watch),
            Self::ItemCount(limit) => value.as_array().is_none_or(|array| limit.is_met_by(elements(array))),
            Self::UniqueItems => value.as_array().is_none_or(|array| are_distinct(array, watch)),
            Self::Items(items) => value.as_array().is_none_or(|array| items.matches(array, watch)),
            Self::PropertyCount(limit) => {
                value.as_document().is_none_or(|document| limit.is_met_by(fields(document)))
            }
            Self::Required(names) => value
                .as_document()
                .is_none_or(|document| names.iter().all(|name| has_field(document, name, watch))),
            Self::Properties(properties) => {
                value.as_document().is_none_or(|document| properties.matches(document, watch))
            }
            Self::Dependency(dependency) => {
                value.as_document().is_none_or(|document| dependency.matches(document, watch))
            }
        }
    }
}

impl Limit {
    /// Whether the number of things is within the limit. It reads no more of them than it needs to know that.
    fn is_met_by(self, things: impl Iterator) -> bool {
        match self {
            Self::Min(min) => things.take(min).count() == min,
            Self::Max(max) => things.take(max.saturating_add(1)).count() <= max,
        }
    }
}

impl Rest {
    fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        match self {
            Self::Allowed => true,
            Self::Refused => false,
            Self::Meets(schema) => schema.matches(value, watch),
        }
    }
}

impl Items {
    fn matches(&self, array: &RawArray, watch: &Watch<'_>) -> bool {
        let mut first = self.first.iter();
        elements(array).take_while(|_| watch.goes_on()).all(|element| match first.next() {
            Some(schema) => schema.matches(element, watch),
            None => self.rest.matches(element, watch),
        })
    }
}

impl Properties {
    fn matches(&self, document: &RawDocument, watch: &Watch<'_>) -> bool {
        fields(document).all(|field| {
            let name = field.key().as_str();
            watch.goes_on() && field.value().is_ok_and(|value| self.matches_field(name, value, watch))
        })
    }

    /// Whether a field is valid by the schema of its name and by those of all patterns that match the name.
    fn matches_field(&self, name: &str, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        let found = self.named.binary_search_by(|(other, _)| other.as_str().cmp(name));
        let named = found.ok().and_then(|at| self.named.get(at)).map(|(_, schema)| schema);
        let name = RawBsonRef::String(name);
        let matching =
            self.patterns.iter().filter(|(pattern, _)| watch.goes_on() && pattern.matches(name, watch));
        let mut schemas = named.into_iter().chain(matching.map(|(_, schema)| schema)).peekable();
        // `additionalProperties` is about a field only if neither its name nor a pattern is.
        if schemas.peek().is_none() {
            return self.rest.matches(value, watch);
        }
        schemas.all(|schema| schema.matches(value, watch))
    }
}

impl Dependency {
    fn matches(&self, document: &RawDocument, watch: &Watch<'_>) -> bool {
        if !has_field(document, &self.field, watch) {
            return true;
        }
        match &self.demand {
            Demand::Fields(names) => names.iter().all(|name| has_field(document, name, watch)),
            Demand::Schema(schema) => schema.matches(RawBsonRef::Document(document), watch),
        }
    }
}

/// A number as the decimal that MongoDB divides. Returns `None` for a value that is not a number.
pub(super) fn number(value: RawBsonRef<'_>) -> Option<Decimal128> {
    if let RawBsonRef::Decimal128(decimal) = value {
        return Some(decimal);
    }
    // MongoDB rounds a double to 15 digits here, so that 0.3 is a multiple of 0.1.
    if let Some(double) = value.as_f64() {
        return Some(from_double(double, Precision::Double));
    }
    value.as_i64().or_else(|| value.as_i32().map(i64::from)).map(from_integer)
}

/// Whether no two elements are equal.
fn are_distinct(array: &RawArray, watch: &Watch<'_>) -> bool {
    let mut seen = HashSet::new();
    elements(array).take_while(|_| watch.goes_on()).all(|element| seen.insert(Identity::of(element)))
}

fn has_field(document: &RawDocument, name: &str, watch: &Watch<'_>) -> bool {
    // A name may be at the end of a long document, so the whole of it is charged.
    watch.passes(document.as_bytes().len()) && fields(document).any(|field| field.key().as_str() == name)
}
