//! Operators that ask a value alone whether it meets them, as `$mod` and `$size` do. What the rest of the filter and the planner know of
//! such an operator is here, so another one is added in this file, in `operator` and in `parse`.

use bson::{RawBson, RawBsonRef, Regex};
use index::collation::Collation;
use index::interval::{Bound, Interval, Intervals, Limit};
use index::order::TypeClass;

use crate::filter::array::has_length;
use crate::filter::bits::Bits;
use crate::filter::element::Modulo;
use crate::pattern::{Pattern, Watch};

/// This many bytes of a value weigh as much as a value.
pub(super) const BYTES_OF_A_VALUE: usize = 64;

/// Such an operator with its operand.
#[derive(Clone, Debug)]
pub(super) enum ValueTest {
    Mod(Modulo),
    Pattern(Pattern),
    Bits(Bits),
    /// The value is an array of this length.
    Size(usize),
}

impl ValueTest {
    /// Whether a value that is there meets the test. A missing field never does.
    #[inline]
    pub(super) fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        match self {
            Self::Mod(modulo) => modulo.matches(value),
            Self::Pattern(pattern) => pattern.matches(value, watch),
            Self::Bits(bits) => bits.matches(value),
            Self::Size(length) => has_length(value, *length),
        }
    }

    /// The name of the operator.
    pub(super) fn operator(&self) -> &'static str {
        match self {
            Self::Mod(_) => "$mod",
            Self::Pattern(_) => "$regex",
            Self::Bits(bits) => bits.operator(),
            Self::Size(_) => "$size",
        }
    }

    /// Whether only an array as a whole can meet the test, and none of its elements makes it do so.
    pub(super) fn is_of_arrays(&self) -> bool {
        match self {
            Self::Mod(_) | Self::Pattern(_) | Self::Bits(_) => false,
            Self::Size(_) => true,
        }
    }

    /// A superset of the values that meet the test, in the key forms of a collation. Returns `None` if the test says nothing about the values in
    /// an index, which is slow and never wrong.
    pub(super) fn superset(&self, keys: &Collation) -> Option<Intervals> {
        match self {
            Self::Mod(_) => Some(Interval::class(TypeClass::Number).into()),
            Self::Bits(_) => Some(Intervals::from_any([
                Interval::class(TypeClass::Number),
                Interval::class(TypeClass::Binary),
            ])),
            Self::Pattern(pattern) => Some(Intervals::from_any(matched(pattern, keys))),
            Self::Size(_) => None,
        }
    }

    /// About the number of intervals that the test gives.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Pattern(pattern) => pattern_weight(pattern),
            Self::Mod(_) | Self::Bits(_) | Self::Size(_) => 1,
        }
    }
}

pub(super) fn pattern_weight(pattern: &Pattern) -> usize {
    2 + pattern.text().len() / BYTES_OF_A_VALUE
}

/// The strings with the pattern's fixed prefix, and the regular expression as a stored value, which matches
/// as well.
pub(super) fn matched(pattern: &Pattern, keys: &Collation) -> Vec<Interval> {
    // Text that does not convert (it holds a zero byte) is in no stored value, so the whole class is a safe
    // set.
    let itself = match (pattern.text().try_into(), pattern.options().try_into()) {
        (Ok(pattern), Ok(options)) => Interval::point(RawBson::RegularExpression(Regex { pattern, options })),
        (Err(_), _) | (_, Err(_)) => Interval::class(TypeClass::RegularExpression),
    };
    // Patterns are about bytes. In the order of a language the texts with a prefix need not follow each other.
    let prefix = pattern.prefix().filter(|_| keys.is_simple());
    let texts = prefix.and_then(starting_with).unwrap_or(Interval::class(TypeClass::String));
    vec![texts, itself]
}

/// The strings that start with `prefix`: from it to the same string with its last character one higher.
///
/// Returns `None` for an empty prefix.
fn starting_with(prefix: &str) -> Option<Interval> {
    let last = prefix.chars().next_back()?;
    let (kept, _) = prefix.split_at_checked(prefix.len() - last.len_utf8())?;
    let lower = Bound { value: RawBson::String(prefix.to_owned()), limit: Limit::Inclusive };
    // The last character is the highest one. Then the range stays open at its upper end.
    let Some(next) = (last..=char::MAX).nth(1) else {
        return Interval::above(lower.value, Limit::Inclusive);
    };
    Interval::new(lower, Bound { value: RawBson::String(format!("{kept}{next}")), limit: Limit::Exclusive })
}
