//! Scans that are merged because each of them has the order of a sort, which one scan over all of their keys has not.
//!
//! `{a: {$in: [1, 2]}}` sorted by `b` is such a case for an index on `a` and `b`: entries with `a: 1` are sorted by `b`,
//! so are those with `a: 2`, and all together are not.

use index::interval::Intervals;
use index::key::Direction;

use crate::sort::Sort;

/// The largest number of scans that are merged, which is MongoDB's limit. Each one holds a place in the storage.
pub(super) const SCANS_MAX: usize = 200;

/// The comparison of the next documents of merged scans.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::operation::OperationContext;
/// use cairndb_query::planner::{Access, IndexView, MergeOrder, Request, plans};
/// use cairndb_query::sort::Sort;
/// use index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1, "age": 1 }, SpecOptions::default())?;
/// let filter = Filter::parse(&rawdoc! { "city": { "$in": ["Oslo", "Rome"] } })?;
/// let sort = Sort::parse(&rawdoc! { "age": 1 })?;
/// let indexes = [IndexView::new(&spec, &[])];
/// let request = Request { filter: Some(&filter), sort: Some(&sort), indexes: &indexes, ..Request::default() };
/// let plan = plans(&request, &OperationContext::default()).swap_remove(0);
/// let Access::Merge(merge) = plan.access else { panic!("a merge") };
/// assert_eq!(merge.scans.len(), 2);
/// assert!(matches!(merge.order, MergeOrder::Keys { skipped: 1, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum MergeOrder {
    /// By the keys of the entries after the first `skipped` fields, in the direction of the scans. All are scans of one
    /// index.
    Keys {
        /// The number of leading fields that the scans do not share.
        skipped: usize,
        /// The direction of all scans.
        direction: Direction,
    },
    /// By the sort keys of the documents.
    Sort(Sort),
}

/// The combinations of single values of the first fields of an index, counted before they are made: a few lists of thousands
/// multiply to billions.
pub(super) struct Combinations<'s> {
    sets: &'s [Intervals],
    /// The bounds of the first combination.
    first: Vec<Intervals>,
    fields: usize,
    count: usize,
}

impl<'s> Combinations<'s> {
    /// The one combination of no field, within bounds on all fields.
    pub(super) fn of(sets: &'s [Intervals]) -> Self {
        Self { sets, first: sets.to_vec(), fields: 0, count: 1 }
    }

    /// Combines the values of the next field with those before. Returns `None` if it is not bounded by single values, or if there
    /// would be too many combinations.
    pub(super) fn take_field(&mut self) -> Option<()> {
        let set = self.sets.get(self.fields)?;
        let count = self.count.checked_mul(set.as_slice().len()).filter(|count| *count <= SCANS_MAX)?;
        let point = set.as_slice().first().filter(|_| set.is_points())?;
        *self.first.get_mut(self.fields)? = Intervals::from(point.clone());
        (self.fields, self.count) = (self.fields + 1, count);
        Some(())
    }

    /// The number of fields whose values are combined.
    pub(super) fn fields(&self) -> usize {
        self.fields
    }

    /// The number of combinations.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The bounds of the first combination.
    pub(super) fn first(&self) -> &[Intervals] {
        &self.first
    }

    /// The bounds of each combination of the values of the first `fields` fields, in the order of the index.
    pub(super) fn all(sets: &[Intervals], fields: usize) -> Vec<Vec<Intervals>> {
        let (leading, rest) = sets.split_at_checked(fields).unwrap_or((sets, &[]));
        let mut combinations = vec![Vec::with_capacity(sets.len())];
        for set in leading {
            // One set for each value, which all combinations with it share.
            let points: Vec<Intervals> = set.as_slice().iter().cloned().map(Intervals::from).collect();
            let longer = combinations.iter().flat_map(|before: &Vec<Intervals>| {
                points.iter().map(|point| {
                    let mut bounds = Vec::with_capacity(sets.len());
                    bounds.extend(before.iter().chain([point]).cloned());
                    bounds
                })
            });
            combinations = longer.collect();
        }
        for bounds in &mut combinations {
            bounds.extend_from_slice(rest);
        }
        combinations
    }
}

#[cfg(test)]
mod tests {
    use bson::RawBson;
    use index::interval::Interval;

    use super::*;

    fn points(values: std::ops::Range<i32>) -> Intervals {
        Intervals::from_any(values.map(|value| Interval::point(RawBson::Int32(value))))
    }

    #[track_caller]
    fn check(sets: &[Intervals], fields: usize, expected: Option<usize>) {
        let mut counted = Combinations::of(sets);
        let is_taken = (0..fields).all(|_| counted.take_field().is_some());
        assert_eq!(is_taken.then(|| counted.count()), expected);
        let Some(count) = expected else { return };
        let found = Combinations::all(sets, fields);
        assert_eq!((found.len(), counted.fields()), (count, fields));
        assert_eq!(found.first().map(Vec::as_slice), Some(counted.first()));
        for bounds in found {
            assert_eq!(bounds.len(), sets.len());
            assert!(bounds.iter().take(fields).all(|set| set.as_slice().len() == 1));
        }
    }

    #[test]
    fn each_combination_of_values_is_a_scan() {
        check(&[points(0..3), points(0..2), Intervals::all()], 2, Some(6));
        check(&[points(0..3), points(0..2)], 1, Some(3));
        check(&[points(0..0)], 1, None);
    }

    #[test]
    fn ranges_and_too_many_values_are_not_taken_apart() {
        check(&[Intervals::all(), points(0..2)], 1, None);
        check(&[points(0..200)], 1, Some(200));
        check(&[points(0..201)], 1, None);
        check(&[points(0..20), points(0..11)], 2, None);
        check(&[points(0..2)], 2, None);
    }
}
