//! Scans that are merged because each of them has the order of a sort, which one scan over all of their keys has not.
//!
//! `{a: {$in: [1, 2]}}` sorted by `b` is such a case for an index on `a` and `b`: entries with `a: 1` are sorted by `b`,
//! so are those with `a: 2`, and all together are not.

use index::interval::Intervals;
use index::key::Direction;

use crate::sort::Sort;

/// The largest number of scans that are merged, which is MongoDB's limit. Each one holds a place in the storage.
pub(super) const SCANS_MAX: usize = 200;

/// How the next documents of merged scans are compared.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::planner::{Access, IndexView, MergeOrder, Request, plans};
/// use cairndb_query::sort::Sort;
/// use index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1, "age": 1 }, SpecOptions::default())?;
/// let filter = Filter::parse(&rawdoc! { "city": { "$in": ["Oslo", "Rome"] } })?;
/// let sort = Sort::parse(&rawdoc! { "age": 1 })?;
/// let indexes = [IndexView::new(&spec, &[])];
/// let request = Request { filter: Some(&filter), sort: Some(&sort), indexes: &indexes, ..Request::default() };
/// let plan = plans(&request).swap_remove(0);
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

/// The bounds of a scan for each combination of the values of the first `fields` fields. Returns `None` if these fields
/// are not bounded by single values, or if there are too many combinations.
pub(super) fn exploded(sets: &[Intervals], fields: usize) -> Option<Vec<Vec<Intervals>>> {
    let (leading, rest) = sets.split_at_checked(fields)?;
    let mut count = 1_usize;
    for set in leading {
        // Counted before they are made: a few lists of thousands would multiply to billions.
        count =
            count.checked_mul(set.as_slice().len()).filter(|count| *count <= SCANS_MAX && set.is_points())?;
    }
    let mut combinations = vec![Vec::with_capacity(sets.len())];
    for set in leading {
        let longer = combinations.iter().flat_map(|before: &Vec<Intervals>| {
            set.as_slice().iter().map(|point| {
                let mut bounds = before.clone();
                bounds.push(Intervals::from(point.clone()));
                bounds
            })
        });
        combinations = longer.collect();
    }
    for bounds in &mut combinations {
        bounds.extend_from_slice(rest);
    }
    Some(combinations)
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
        let found = exploded(sets, fields);
        assert_eq!(found.as_ref().map(Vec::len), expected);
        for bounds in found.into_iter().flatten() {
            assert_eq!(bounds.len(), sets.len());
            assert!(bounds.iter().take(fields).all(|set| set.as_slice().len() == 1));
        }
    }

    #[test]
    fn each_combination_of_values_is_a_scan() {
        check(&[points(0..3), points(0..2), Intervals::all()], 2, Some(6));
        check(&[points(0..3), points(0..2)], 1, Some(3));
        check(&[points(0..0)], 1, Some(0));
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
