//! The conditions of an `$expr` on a single field: the values that an index can have there, for documents for which
//! it is true.
//!
//! The rules are those of expressions, not of filters. Values of all types compare, by the one order of all; a missing value
//! comes after `MinKey` and before undefined and null, and an index has null for it; an array is compared as a whole, while
//! an index has its elements, and a path through an array gathers an array.
//!
//! The invariant: a set has every value that a match has in an index. It may have more, so the expression still decides.

use std::collections::HashMap;

use bson::RawBson;
use index::collation::Collation;
use index::interval::{Bound, Interval, Intervals, Limit};
use index::order::{TypeClass, type_class};
use index::path::FieldPath;

use crate::expression::Variables;
use crate::expression::implied::{Comparator, FieldComparison};
use crate::filter::compare::in_keys;
use crate::value::{content_bytes, elements};

/// The most bytes of an operand that is kept. An expression of a few bytes can compute a list of many megabytes, which would be
/// kept, and made into bounds, outside of the memory that its operation accounts for.
const OPERAND_BYTES_MAX: usize = 1024 * 1024;

/// Comparisons that are all true of a field in every document for which an expression is true.
#[derive(Clone, Debug)]
pub(super) struct ImpliedTest {
    path: FieldPath,
    /// At least one.
    comparisons: Vec<FixedComparison>,
    /// The expression's comparison of strings.
    collation: Collation,
}

/// A comparison with operands whose values are known.
#[derive(Clone, Debug)]
struct FixedComparison {
    comparator: Comparator,
    /// `None` is a missing value. An `$in` has all members of its list here, and everything else one operand.
    operands: Vec<Option<RawBson>>,
}

impl ImpliedTest {
    /// The tests of comparisons that are all true, one for each path, with the values that variables have now. Comparisons are
    /// left out if their operand has no value, or one that says nothing.
    pub(super) fn all(comparisons: &[FieldComparison], variables: &Variables) -> Vec<Self> {
        let mut tests: Vec<Self> = Vec::new();
        // A map, because a filter of megabytes can compare many thousands of fields.
        let mut positions: HashMap<&FieldPath, usize> = HashMap::new();
        for comparison in comparisons {
            let Some(fixed) = FixedComparison::of(comparison, variables) else { continue };
            let position = *positions.entry(&comparison.path).or_insert(tests.len());
            if let Some(test) = tests.get_mut(position) {
                test.comparisons.push(fixed);
            } else {
                let (path, collation) = (comparison.path.clone(), variables.collation().clone());
                tests.push(Self { path, comparisons: vec![fixed], collation });
            }
        }
        tests
    }

    pub(super) fn path(&self) -> &FieldPath {
        &self.path
    }

    /// The operands of all comparisons that have a value.
    pub(super) fn operands(&self) -> impl Iterator<Item = &RawBson> {
        self.comparisons.iter().flat_map(|comparison| comparison.operands.iter().flatten())
    }

    /// The values that an index whose keys have a collation can have at the path for a match without arrays there. Every match
    /// is one if [no array meets the test](Self::is_met_by_arrays).
    ///
    /// Returns `None` if all operands are texts of which the keys have another order.
    pub(super) fn superset(&self, keys: &Collation) -> Option<Intervals> {
        // All comparisons are of one value, while each condition of a filter may be met by another element of an array.
        let sets =
            self.comparisons.iter().filter_map(|comparison| comparison.superset(&self.collation, keys));
        let sets: Vec<Intervals> = sets.collect();
        let values = (!sets.is_empty()).then(|| Intervals::in_all(sets))?;
        // The values have no missing one, and null may be out of them.
        let missing = self.is_met_by_missing().then(|| Interval::point(RawBson::Null));
        Some(values.union(Intervals::from_any(missing)))
    }

    /// Whether a missing field meets the test.
    pub(super) fn is_met_by_missing(&self) -> bool {
        self.comparisons.iter().all(FixedComparison::is_met_by_missing)
    }

    /// Whether some array may meet the test.
    pub(super) fn is_met_by_arrays(&self) -> bool {
        self.comparisons.iter().all(FixedComparison::is_met_by_arrays)
    }
}

impl FixedComparison {
    fn of(comparison: &FieldComparison, variables: &Variables) -> Option<Self> {
        let comparator = comparison.comparator;
        // An operand that fails will fail again where a document is tested, and be reported there.
        let operand = comparison.operand(variables).ok()?;
        if operand.as_ref().is_some_and(|value| content_bytes(value.as_raw_bson_ref()) > OPERAND_BYTES_MAX) {
            return None;
        }
        let operands = match comparator {
            Comparator::In => elements(operand?.as_array()?).map(|member| Some(member.into())).collect(),
            Comparator::Eq | Comparator::Gt | Comparator::Gte | Comparator::Lt | Comparator::Lte => {
                vec![operand]
            }
        };
        Some(Self { comparator, operands })
    }

    fn is_met_by_missing(&self) -> bool {
        self.operands.iter().any(|operand| {
            // Only `MinKey` is below a missing value.
            let is_least = operand.as_ref().is_some_and(|value| class(value) == TypeClass::MinKey);
            match self.comparator {
                Comparator::Eq => operand.is_none(),
                Comparator::Gt => is_least,
                Comparator::Gte => is_least || operand.is_none(),
                Comparator::Lt => !is_least && operand.is_some(),
                Comparator::Lte => !is_least,
                // A list has no missing values.
                Comparator::In => false,
            }
        })
    }

    fn is_met_by_arrays(&self) -> bool {
        self.operands.iter().any(|operand| {
            let operand = operand.as_ref().map(class);
            match self.comparator {
                Comparator::Eq | Comparator::In => operand == Some(TypeClass::Array),
                // All arrays are above a missing value, as they are above null and numbers.
                Comparator::Gt | Comparator::Gte => operand.is_none_or(|class| class <= TypeClass::Array),
                Comparator::Lt | Comparator::Lte => operand.is_some_and(|class| class >= TypeClass::Array),
            }
        })
    }

    /// The values that meet the comparison. The null of a missing field is not among them.
    fn superset(&self, own: &Collation, keys: &Collation) -> Option<Intervals> {
        let mut intervals = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            intervals.extend(match operand {
                // Keys in another order bound no text. All classes from that of texts on would be a bound, but to read all
                // texts by an index costs more than to read the documents.
                Some(operand) => self.with(in_keys(operand, own, keys)?.into_owned()),
                None => self.with_missing(),
            });
        }
        Some(Intervals::from_any(intervals))
    }

    fn with(&self, operand: RawBson) -> Option<Interval> {
        let (least, greatest) = (inclusive(RawBson::MinKey), inclusive(RawBson::MaxKey));
        let exclusive = |value| Bound { value, limit: Limit::Exclusive };
        match self.comparator {
            Comparator::Eq | Comparator::In => Some(Interval::point(operand)),
            Comparator::Gt => Interval::new(exclusive(operand), greatest),
            Comparator::Gte => Interval::new(inclusive(operand), greatest),
            Comparator::Lt => Interval::new(least, exclusive(operand)),
            Comparator::Lte => Interval::new(least, inclusive(operand)),
        }
    }

    /// The values that compare with a missing one as they have to. It lies between `MinKey` and undefined.
    fn with_missing(&self) -> Option<Interval> {
        match self.comparator {
            Comparator::Eq | Comparator::In => None,
            Comparator::Gt | Comparator::Gte => {
                Interval::new(inclusive(RawBson::Undefined), inclusive(RawBson::MaxKey))
            }
            Comparator::Lt | Comparator::Lte => Some(Interval::point(RawBson::MinKey)),
        }
    }
}

fn inclusive(value: RawBson) -> Bound {
    Bound { value, limit: Limit::Inclusive }
}

fn class(value: &RawBson) -> TypeClass {
    type_class(value.as_raw_bson_ref())
}
