//! Comparing one value with an operand: `$eq`, `$gt` and their kin, and `$in`.
//!
//! Order and equality are [`index::order::compare`]'s. What is added here is what query operators do
//! differently: they compare within one type class only, take null, undefined and a missing field for
//! the same, and never find NaN smaller or greater than anything.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};
use index::order::{TypeClass, compare, type_class};

use crate::pattern::{Pattern, Watch};

/// How a value must stand to the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// A relation to an operand, which is never undefined.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    relation: Relation,
    operand: RawBson,
    class: TypeClass,
    is_nan: bool,
}

impl Comparison {
    pub(super) fn new(relation: Relation, operand: RawBsonRef<'_>) -> Self {
        let (class, is_nan) = (type_class(operand), is_nan(operand));
        Self { relation, operand: operand.into(), class, is_nan }
    }

    pub(super) fn relation(&self) -> Relation {
        self.relation
    }

    pub(super) fn operand(&self) -> &RawBson {
        &self.operand
    }

    /// Whether a value, or a field that is missing, stands in the relation.
    #[inline]
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let Some(value) = value else { return self.matches_class(TypeClass::Undefined) };
        let class = type_class(value);
        if class != self.class {
            return self.matches_class(class);
        }
        match compare(value, self.operand.as_raw_bson_ref()) {
            Ordering::Equal => self.admits_equal(),
            Ordering::Greater => {
                matches!(self.relation, Relation::Gt | Relation::Gte) && self.is_ordered(value)
            }
            Ordering::Less => matches!(self.relation, Relation::Lt | Relation::Lte) && self.is_ordered(value),
        }
    }

    /// Whether a value of another class than the operand's matches.
    fn matches_class(&self, class: TypeClass) -> bool {
        let is_nothing = |class| matches!(class, TypeClass::Null | TypeClass::Undefined);
        if is_nothing(class) && is_nothing(self.class) {
            return self.admits_equal();
        }
        match self.relation {
            Relation::Eq => false,
            Relation::Gt | Relation::Gte => self.class == TypeClass::MinKey,
            Relation::Lt | Relation::Lte => self.class == TypeClass::MaxKey,
        }
    }

    fn admits_equal(&self) -> bool {
        matches!(self.relation, Relation::Eq | Relation::Gte | Relation::Lte)
    }

    /// Whether neither side is NaN.
    fn is_ordered(&self, value: RawBsonRef<'_>) -> bool {
        self.class != TypeClass::Number || (!self.is_nan && !is_nan(value))
    }
}

/// A set of values and patterns, one of which must match.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    /// Ascending, without null, and each value once.
    values: Vec<RawBson>,
    has_null: bool,
    patterns: Vec<Pattern>,
}

impl Membership {
    pub(super) fn new<'v>(values: impl IntoIterator<Item = RawBsonRef<'v>>, patterns: Vec<Pattern>) -> Self {
        let (nulls, others): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|value| type_class(*value) == TypeClass::Null);
        let mut values = others.into_iter().map(RawBson::from).collect::<Vec<_>>();
        values.sort_by(|left, right| compare(left.as_raw_bson_ref(), right.as_raw_bson_ref()));
        values.dedup_by(|left, right| compare(left.as_raw_bson_ref(), right.as_raw_bson_ref()).is_eq());
        Self { values, has_null: !nulls.is_empty(), patterns }
    }

    /// The values other than null, ascending.
    pub(super) fn values(&self) -> &[RawBson] {
        &self.values
    }

    pub(super) fn has_null(&self) -> bool {
        self.has_null
    }

    pub(super) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether a value, or a field that is missing, is a member.
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>, watch: &Watch<'_>) -> bool {
        let Some(value) = value else { return self.has_null };
        if matches!(type_class(value), TypeClass::Null | TypeClass::Undefined) {
            return self.has_null;
        }
        self.values.binary_search_by(|member| compare(member.as_raw_bson_ref(), value)).is_ok()
            || self.patterns.iter().any(|pattern| pattern.matches(value, watch))
    }
}

fn is_nan(value: RawBsonRef<'_>) -> bool {
    compare(value, RawBsonRef::Double(f64::NAN)).is_eq()
}
