//! Comparing one value with an operand: `$eq`, `$gt`, `$gte`, `$lt`, `$lte` and `$in`.
//!
//! Order and equality come from [`index::order::compare`]. This file adds what query operators do
//! differently: they compare only values of one type class; null, undefined and a missing field are equal;
//! and NaN is neither less nor greater than any number.

use std::borrow::Cow;
use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};
use index::collation::{Collation, has_text};
use index::order::{TypeClass, compare, type_class};

use crate::pattern::{Pattern, Watch};

/// The relation between a value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// A comparison with an operand. The operand is never undefined: the parser rejects that.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    relation: Relation,
    operand: RawBson,
    // Both are properties of the operand. They are kept, because every value that is tested needs them.
    class: TypeClass,
    is_nan: bool,
    /// Simple wherever the operand has no text.
    collation: Collation,
}

impl Comparison {
    pub(super) fn new(relation: Relation, operand: RawBsonRef<'_>, collation: &Collation) -> Self {
        let (class, is_nan) = (type_class(operand), is_nan(operand));
        // A text is compared by rules only with another text, so without one in the operand they decide nothing.
        let is_plain = collation.is_simple() || !has_text(operand);
        let collation = if is_plain { Collation::simple() } else { collation.clone() };
        Self { relation, operand: operand.into(), class, is_nan, collation }
    }

    /// The operand as keys with a collation have it. Returns `None` if these keys are in another order.
    pub(super) fn operand_in(&self, keys: &Collation) -> Option<Cow<'_, RawBson>> {
        in_keys(&self.operand, &self.collation, keys)
    }

    /// Whether keys with a collation are in the order of the comparison.
    pub(super) fn is_ordered_by(&self, keys: &Collation) -> bool {
        has_order_of(&self.operand, &self.collation, keys)
    }

    pub(super) fn relation(&self) -> Relation {
        self.relation
    }

    pub(super) fn operand(&self) -> &RawBson {
        &self.operand
    }

    /// Whether it is an equality, in which texts are equal if their bytes are.
    pub(super) fn is_equality_of_bytes(&self) -> bool {
        // Without a text in the operand the collation is simple, and decides nothing.
        self.relation == Relation::Eq && self.collation.is_simple()
    }

    /// Whether a value meets the comparison. `None` is a missing field.
    #[inline]
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let Some(value) = value else { return self.matches_class(TypeClass::Undefined) };
        let class = type_class(value);
        // MongoDB's type bracketing: `{$gt: 5}` matches no string, although strings sort after numbers.
        if class != self.class {
            return self.matches_class(class);
        }
        match self.collation.compare(value, self.operand.as_raw_bson_ref()) {
            // NaN is equal to NaN, so this branch needs no check for it.
            Ordering::Equal => self.includes_equal(),
            Ordering::Greater => {
                matches!(self.relation, Relation::Gt | Relation::Gte) && self.is_ordered(value)
            }
            Ordering::Less => matches!(self.relation, Relation::Lt | Relation::Lte) && self.is_ordered(value),
        }
    }

    /// Whether a value of a class other than the operand's meets the comparison.
    fn matches_class(&self, class: TypeClass) -> bool {
        let is_null = |class| matches!(class, TypeClass::Null | TypeClass::Undefined);
        if is_null(class) && is_null(self.class) {
            return self.includes_equal();
        }
        // The two keys at the ends of the order compare with values of every class.
        match self.relation {
            Relation::Eq => false,
            Relation::Gt | Relation::Gte => self.class == TypeClass::MinKey,
            Relation::Lt | Relation::Lte => self.class == TypeClass::MaxKey,
        }
    }

    /// Whether a value that is equal to the operand meets the comparison.
    fn includes_equal(&self) -> bool {
        matches!(self.relation, Relation::Eq | Relation::Gte | Relation::Lte)
    }

    /// Whether neither `value` nor the operand is NaN, which has no order among numbers.
    fn is_ordered(&self, value: RawBsonRef<'_>) -> bool {
        // `value` is of the operand's class, so one look at the class spares most values the comparison with
        // NaN.
        self.class != TypeClass::Number || (!self.is_nan && !is_nan(value))
    }
}

/// The operand of `$in`: a value must equal one of the values or match one of the patterns.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    /// Without null, ascending, and without duplicates, so that it can be searched by halving.
    values: Vec<RawBson>,
    has_null: bool,
    patterns: Vec<Pattern>,
    /// Simple if no value has a text.
    collation: Collation,
}

impl Membership {
    /// A set of `values` in any order, which may hold duplicates and null, and of `patterns`.
    pub(super) fn new<'v>(
        values: impl IntoIterator<Item = RawBsonRef<'v>>,
        patterns: Vec<Pattern>,
        collation: &Collation,
    ) -> Self {
        // Null is kept apart, because undefined and a missing field are equal to it and `compare` tells them
        // apart.
        let (nulls, others): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|value| type_class(*value) == TypeClass::Null);
        let mut values = others.into_iter().map(RawBson::from).collect::<Vec<_>>();
        // The search compares members with texts that are none of them, so the order must be that of the collation.
        let is_plain = collation.is_simple() || !values.iter().any(|value| has_text(value.as_raw_bson_ref()));
        let collation = if is_plain { Collation::simple() } else { collation.clone() };
        values.sort_by(|left, right| collation.compare(left.as_raw_bson_ref(), right.as_raw_bson_ref()));
        values.dedup_by(|left, right| {
            collation.compare(left.as_raw_bson_ref(), right.as_raw_bson_ref()).is_eq()
        });
        Self { values, has_null: !nulls.is_empty(), patterns, collation }
    }

    /// The keys with a collation for each value: `None` if these keys are in another order.
    pub(super) fn values_in(&self, keys: &Collation) -> impl Iterator<Item = Option<Cow<'_, RawBson>>> {
        self.values.iter().map(move |value| in_keys(value, &self.collation, keys))
    }

    /// Whether keys with a collation are in an order that distinguishes all members from other values.
    pub(super) fn is_ordered_by(&self, keys: &Collation) -> bool {
        self.values.iter().all(|value| has_order_of(value, &self.collation, keys))
    }

    /// The values in ascending order, without null.
    pub(super) fn values(&self) -> &[RawBson] {
        &self.values
    }

    /// Whether null is a member.
    pub(super) fn has_null(&self) -> bool {
        self.has_null
    }

    pub(super) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether a value is a member or matches a pattern. `None` is a missing field.
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>, watch: &Watch<'_>) -> bool {
        let Some(value) = value else { return self.has_null };
        if matches!(type_class(value), TypeClass::Null | TypeClass::Undefined) {
            return self.has_null;
        }
        // The search costs less than matching a pattern, so it comes first.
        self.values.binary_search_by(|member| self.collation.compare(member.as_raw_bson_ref(), value)).is_ok()
            || self.patterns.iter().any(|pattern| pattern.matches(value, watch))
    }
}

fn is_nan(value: RawBsonRef<'_>) -> bool {
    compare(value, RawBsonRef::Double(f64::NAN)).is_eq()
}

/// An operand that is compared by its `own` collation, as keys with another one have it. Returns `None` if they have another
/// order of its texts.
pub(super) fn in_keys<'v>(
    operand: &'v RawBson,
    own: &Collation,
    keys: &Collation,
) -> Option<Cow<'v, RawBson>> {
    if own.is_simple() && keys.is_simple() {
        return Some(Cow::Borrowed(operand));
    }
    if own == keys {
        return Some(Cow::Owned(keys.key_form(operand.as_raw_bson_ref()).into_owned()));
    }
    // Without a text inside, the collations agree on what is below, equal and above.
    (!has_text(operand.as_raw_bson_ref())).then_some(Cow::Borrowed(operand))
}

/// Whether keys with a collation have the order of an operand that is compared by its `own` one.
fn has_order_of(operand: &RawBson, own: &Collation, keys: &Collation) -> bool {
    own == keys || !has_text(operand.as_raw_bson_ref())
}
