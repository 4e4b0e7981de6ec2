//! The possible targets of a scan: the records, an index, or one path of a wildcard index; and the bounds that a
//! filter gives there.

use std::sync::LazyLock;

use bson::rawdoc;
use index::interval::Intervals;
use index::key::Direction;
use index::multikey::ArrayComponents;
use index::path::FieldPath;
use index::spec::{IndexSpec, SpecOptions, Uniqueness};

use crate::filter::Filter;
use crate::filter::entries::{EntryBounds, IndexedField};
use crate::filter::planning_budget::PlanningBudget;
use crate::planner::membership::{Membership, PartialView};
use crate::planner::request::IndexView;
use crate::planner::wildcard;

/// The records as an index: unique, on `_id`, without arrays.
pub(super) static RECORDS: LazyLock<Option<IndexSpec>> = LazyLock::new(|| {
    let options = SpecOptions { uniqueness: Uniqueness::Unique, ..SpecOptions::default() };
    IndexSpec::parse(&rawdoc! { "_id": 1 }, options).ok()
});

/// The source of a scan: the records, or an index of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanTarget<'a> {
    pub(super) spec: &'a IndexSpec,
    pub(super) arrays: &'a [ArrayComponents],
    pub(super) has_details: bool,
    pub(super) has_shortened_ids: bool,
    /// The position of the index in the request, or `None` for the records.
    pub(super) index: Option<usize>,
    /// Which documents it has.
    pub(super) members: Membership<'a>,
    /// The path of a wildcard index that is read. It is then planned as an index on this path.
    pub(super) path: Option<&'a FieldPath>,
}

/// A field of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetField<'a> {
    pub(super) path: &'a FieldPath,
    pub(super) direction: Direction,
}

/// The bounds that a filter gives for a target. Returns `None` if they would cost too much.
pub(super) fn bounds_of<'f>(
    filter: Option<&'f Filter>,
    target: ScanTarget<'_>,
    budget: &PlanningBudget<'f>,
) -> Option<EntryBounds> {
    match filter {
        Some(filter) => filter.entry_bounds_within(&fields_of(target), budget),
        None => Some(unbounded(target)),
    }
}

/// The bounds of a scan of all keys of a target.
pub(super) fn unbounded(target: ScanTarget<'_>) -> EntryBounds {
    EntryBounds { sets: vec![Intervals::all(); target.fields().count()], has_value: false }
}

/// The fields of a target as a filter needs them.
pub(super) fn fields_of(target: ScanTarget<'_>) -> Vec<IndexedField<'_>> {
    let (fields, collation) = (target.fields().enumerate(), target.spec.collation());
    fields
        .map(|(at, field)| IndexedField { path: field.path, arrays: target.arrays_at(at), collation })
        .collect()
}

impl<'a> ScanTarget<'a> {
    /// The records, whose keys may be shortened or not.
    pub(super) fn records(spec: &'a IndexSpec, has_shortened_ids: bool) -> Self {
        Self {
            spec,
            arrays: if has_shortened_ids { &[ArrayComponents::SHORTENED] } else { &[] },
            has_details: false,
            has_shortened_ids,
            index: None,
            members: Membership::default(),
            path: None,
        }
    }

    /// The index at a position of the request.
    pub(super) fn of(view: &IndexView<'a>, position: usize) -> Self {
        let collation = view.spec.collation();
        let partial = view.partial.map(|filter| PartialView { filter, collation });
        let members = Membership { is_sparse: view.spec.is_sparse(), partial };
        let IndexView { spec, arrays, has_details, has_shortened_ids, .. } = *view;
        Self { spec, arrays, has_details, has_shortened_ids, index: Some(position), members, path: None }
    }

    /// Whether it has a key of every document.
    pub(super) fn has_every_document(&self) -> bool {
        !self.members.leaves_out() && self.spec.wildcard().is_none()
    }

    /// A wildcard index, planned as an index on one of its paths.
    pub(super) fn at_path(self, path: &'a FieldPath) -> Self {
        Self { arrays: wildcard::arrays_of(self.arrays), path: Some(path), ..self }
    }

    /// The fields that it is planned with.
    pub(super) fn fields(&self) -> impl Iterator<Item = TargetField<'a>> + use<'a> {
        let path = self.path;
        // Of a wildcard index the first field is the path, which is fixed.
        let fields = self.spec.fields().iter().skip(usize::from(path.is_some()));
        fields.map(move |field| TargetField { path: path.unwrap_or(&field.path), direction: field.direction })
    }

    /// The components with arrays of a field's path.
    pub(super) fn arrays_at(&self, field: usize) -> ArrayComponents {
        self.arrays.get(field).copied().unwrap_or_default()
    }
}
