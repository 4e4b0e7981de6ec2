//! `$jsonSchema`: whether a document has a shape, in MongoDB's dialect of draft 4 of JSON Schema.
//!
//! A schema is a list of rules. A rule speaks of one kind of value and holds for all others: a least length asks
//! nothing of a number. Parsing bounds how deeply schemas are nested, and a rule goes no deeper into
//! a value than its schema does, so recursion here is safe.

mod array;
mod equality;
mod object;
mod parse;

use bson::spec::ElementType;
use bson::{Decimal128, RawBsonRef};

use crate::decimal::{Precision, from_double, from_integer, is_zero, remainder};
use crate::filter::compare::Comparison;
use crate::filter::schema::array::{Items, are_distinct};
use crate::filter::schema::equality::Identity;
use crate::filter::schema::object::{Dependency, Properties};
use crate::pattern::{Pattern, Watch};
use crate::value::elements;

pub(super) use crate::filter::schema::parse::parse;

/// What a value must look like.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    rules: Vec<Rule>,
}

/// What is said of the fields or elements that nothing else is said of.
#[derive(Clone, Debug)]
enum Rest {
    Allowed,
    Refused,
    Meets(Box<Schema>),
}

/// A number of things that must be there at least or at most.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Min(usize),
    Max(usize),
}

#[derive(Clone, Debug)]
enum Rule {
    /// Of any value.
    Types(Vec<ElementType>),
    Enum(Vec<Identity>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
    /// Of numbers.
    Compare(Comparison),
    MultipleOf(Decimal128),
    /// Of strings, counted in characters.
    Length(Limit),
    Pattern(Box<Pattern>),
    /// Of arrays.
    ItemCount(Limit),
    UniqueItems,
    Items(Items),
    /// Of objects.
    PropertyCount(Limit),
    Required(Vec<String>),
    Properties(Properties),
    Dependency(Dependency),
}

impl Schema {
    /// Whether a value has the shape. A document is asked as the object that it is.
    pub(super) fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        self.rules.iter().all(|rule| watch.goes_on() && rule.matches(value, watch))
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

impl Limit {
    /// Whether so many are there; no more are looked at than are needed.
    fn admits(self, things: impl Iterator) -> bool {
        match self {
            Self::Min(min) => things.take(min).count() == min,
            Self::Max(max) => things.take(max.saturating_add(1)).count() <= max,
        }
    }
}

impl Rule {
    fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        match self {
            Self::Types(types) => types.contains(&value.element_type()),
            Self::Enum(members) => {
                let identity = Identity::of(value);
                watch.passes(members.len() * size_of::<Identity>()) && members.contains(&identity)
            }
            Self::AllOf(schemas) => schemas.iter().all(|schema| schema.matches(value, watch)),
            Self::AnyOf(schemas) => schemas.iter().any(|schema| schema.matches(value, watch)),
            Self::OneOf(schemas) => {
                schemas.iter().filter(|schema| schema.matches(value, watch)).take(2).count() == 1
            }
            Self::Not(schema) => !schema.matches(value, watch),
            Self::Compare(comparison) => number(value).is_none() || comparison.matches(Some(value)),
            Self::MultipleOf(divisor) => {
                number(value).is_none_or(|number| is_zero(remainder(number, *divisor)))
            }
            Self::Length(limit) => value.as_str().is_none_or(|text| limit.admits(text.chars())),
            Self::Pattern(pattern) => value.as_str().is_none() || pattern.matches(value, watch),
            Self::ItemCount(limit) => value.as_array().is_none_or(|array| limit.admits(elements(array))),
            Self::UniqueItems => value.as_array().is_none_or(|array| are_distinct(array, watch)),
            Self::Items(items) => value.as_array().is_none_or(|array| items.matches(array, watch)),
            Self::PropertyCount(limit) => {
                value.as_document().is_none_or(|document| limit.admits(object::fields(document)))
            }
            Self::Required(names) => value
                .as_document()
                .is_none_or(|document| names.iter().all(|name| object::has_field(document, name, watch))),
            Self::Properties(properties) => {
                value.as_document().is_none_or(|document| properties.matches(document, watch))
            }
            Self::Dependency(dependency) => {
                value.as_document().is_none_or(|document| dependency.matches(document, watch))
            }
        }
    }
}

/// A number as the decimal that MongoDB divides, or nothing for a value of another kind.
fn number(value: RawBsonRef<'_>) -> Option<Decimal128> {
    if let RawBsonRef::Decimal128(decimal) = value {
        return Some(decimal);
    }
    if let Some(double) = value.as_f64() {
        return Some(from_double(double, Precision::Double));
    }
    value.as_i64().or_else(|| value.as_i32().map(i64::from)).map(from_integer)
}

#[cfg(test)]
mod tests;
