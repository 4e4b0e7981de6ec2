//! Rewriting pipelines: a `$lookup` and the `$unwind` of its array as one stage, sorts that need to keep only the first documents,
//! and first stages that are a search.
//!
//! The invariant: a rewritten pipeline gives the same documents in the same order.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use index::path::FieldPath;

use crate::expression::Variables;
use crate::filter::Filter;
use crate::pipeline::descend::{Parts, divide};
use crate::pipeline::stage::{Join, PlacedStage, Selection, Stage, Unwound};

/// The search that the first stages of a pipeline amount to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Leading {
    /// The filter that documents must match. An empty one matches all.
    pub filter: RawDocumentBuf,
    /// The order of the documents. Absent for the order in which they are stored.
    pub sort: Option<RawDocumentBuf>,
    /// The number of documents that are skipped.
    pub skip: u64,
    /// The maximum number of documents after those. Absent for no limit.
    pub limit: Option<u64>,
    /// The field that the next stage groups documents by, if it uses nothing of a group but its first document: of the
    /// documents with one value of this field the first one is then enough.
    pub one_of_each: Option<FieldPath>,
}

/// The part of a stream that a series of skips and limits selects.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    skip: u64,
    limit: Option<u64>,
}

impl Window {
    /// Narrows the window by a skip or a limit. Returns `false` for any other stage.
    fn narrow(&mut self, stage: &Stage) -> bool {
        match stage {
            // A skip after a limit removes documents of those that the limit has left.
            Stage::Skip(count) => {
                self.skip = self.skip.saturating_add(*count);
                self.limit = self.limit.map(|limit| limit.saturating_sub(*count));
            }
            Stage::Limit(count) => self.limit = Some(self.limit.map_or(*count, |limit| limit.min(*count))),
            Stage::Match(_)
            | Stage::Shape(_)
            | Stage::Sort(_)
            | Stage::Count(_)
            | Stage::Group(_)
            | Stage::BucketAuto(_)
            | Stage::Redact(_)
            | Stage::Windows(_)
            | Stage::Densify(_)
            | Stage::Unwind(_)
            | Stage::Sample(_)
            | Stage::Lookup(_)
            | Stage::GraphLookup(_)
            | Stage::Union(_)
            | Stage::Facet(_) => return false,
        }
        true
    }
}

/// Sets for each sort how many documents it has to keep: those that the skips and limits right after it select.
pub(super) fn bound_sorts(stages: &mut [PlacedStage]) {
    // Each sort looks ahead on its own. Series of skips and limits are short, so this is not quadratic in practice.
    for index in 0..stages.len() {
        let mut window = Window::default();
        let mut following = stages.iter().skip(index + 1);
        while following.next().is_some_and(|placed| window.narrow(&placed.stage)) {}
        if let Some(Stage::Sort(order)) = stages.get_mut(index).map(|placed| &mut placed.stage) {
            // The skipped documents must be kept too: they are the first ones of the order.
            order.kept = window.limit.map(|limit| limit.saturating_add(window.skip));
        }
    }
}

/// Makes each `$lookup` that is followed by the `$unwind` of its array one stage with it. Filters after both that concern nothing
/// but what is found become part of it too.
pub(super) fn join_unwinds(stages: &mut Vec<PlacedStage>, variables: &Variables) {
    let mut joined: Vec<PlacedStage> = Vec::with_capacity(stages.len());
    for mut placed in std::mem::take(stages) {
        // A stage that became part of a join is not in the list, so its last stage is the one before.
        let join = match joined.last_mut() {
            Some(PlacedStage { stage: Stage::Lookup(join), .. }) => Some(&mut **join),
            Some(_) | None => None,
        };
        let is_part = match (&mut placed, join) {
            (PlacedStage { stage: Stage::Unwind(unwind), position, .. }, Some(join))
                // The path must be just this field: one below it has other arrays.
                if join.unwound.is_none() && join.lookup.place.names() == unwind.names() =>
            {
                let (unwind, position) = (unwind.clone(), *position);
                join.unwound = Some(Unwound { unwind, position, matching: None, matches: Vec::new() });
                true
            }
            (PlacedStage { stage: Stage::Match(selection), position, .. }, Some(join)) => {
                take_matching(join, selection, *position, variables)
            }
            (_, _) => false,
        };
        if !is_part {
            joined.push(placed);
        }
    }
    *stages = joined;
}

/// Moves what concerns nothing but the documents found from the filter after a join into the join. Returns whether that is all of
/// it.
fn take_matching(join: &mut Join, selection: &mut Selection, position: usize, variables: &Variables) -> bool {
    let Some(unwound) = &mut join.unwound else { return false };
    // A document without results would have been kept or dropped by the filter, and a position would be that among fewer results.
    if unwound.unwind.keeps_empty() || unwound.unwind.index_path().is_some() {
        return false;
    }
    let Parts { inside, rest } = divide(&selection.given, &join.lookup.place.joined());
    if inside.is_empty() {
        return false;
    }
    let before = unwound.matching.iter().cloned();
    let given = joined(&before.chain([Selection { given: inside, ..selection.clone() }]).collect::<Vec<_>>());
    // The filters become parts of others, which is a level more than they were given with.
    let [alone, rest_alone] = [&given, &rest].map(|filter| Filter::parse_with(filter, variables));
    let (Ok(filter), Ok(rest_filter)) = (alone, rest_alone) else { return false };
    let mut branches = RawArrayBuf::new();
    branches.push(given.clone());
    if Filter::parse_with(&rawdoc! { "$and": branches }, variables).is_err() {
        return false;
    }
    unwound.matching = Some(Selection { filter, given });
    if rest.is_empty() {
        unwound.matches.push(position);
        return true;
    }
    *selection = Selection { filter: rest_filter, given: rest };
    false
}

/// Removes the first stages that are a search, and returns the search. It applies filter, sort, skip and limit in this
/// order, so stages are removed only as long as that order gives the same documents.
pub(super) fn take_leading(stages: &mut Vec<PlacedStage>, variables: &Variables) -> Leading {
    let mut leading = Leading::default();
    let mut filters: Vec<Selection> = Vec::new();
    let mut window = Window::default();
    let mut taken = 0;
    for placed in stages.iter() {
        let is_open = window.skip == 0 && window.limit.is_none();
        let is_taken = if let Stage::Match(selection) = &placed.stage {
            // A filter after the sort selects the same documents before it, and leaves fewer to be sorted. After a skip
            // or a limit it would select from others.
            let is_joined = is_open && can_join(&filters, selection, variables);
            filters.extend(is_joined.then(|| selection.clone()));
            is_joined
        } else if let Stage::Sort(order) = &placed.stage {
            // A search has one order, so a second sort stays a stage.
            let is_first = is_open && leading.sort.is_none() && order.partition.is_none();
            leading.sort = leading.sort.or_else(|| is_first.then(|| order.given.clone()));
            is_first
        } else {
            window.narrow(&placed.stage)
        };
        if !is_taken {
            break;
        }
        taken += 1;
    }
    stages.drain(..taken);
    leading.filter = joined(&filters);
    leading.skip = window.skip;
    leading.limit = window.limit;
    leading.one_of_each = stages.first().and_then(|next| one_of_each(&next.stage, &leading));
    leading
}

/// The field of [`Leading::one_of_each`].
fn one_of_each(next: &Stage, leading: &Leading) -> Option<FieldPath> {
    // A document that is left out could be neither skipped nor counted.
    let is_whole = leading.skip == 0 && leading.limit.is_none();
    let Stage::Group(group) = next else { return None };
    if is_whole { group.one_of_each(leading.sort.is_some()) } else { None }
}

/// Whether a filter can be joined with those before it. The `$and` around them adds a level, which can be one too many.
fn can_join(filters: &[Selection], next: &Selection, variables: &Variables) -> bool {
    let all = filters.iter().chain([next]).cloned().collect::<Vec<_>>();
    Filter::parse_with(&joined(&all), variables).is_ok()
}

/// One filter that matches what all of `filters` match.
fn joined(filters: &[Selection]) -> RawDocumentBuf {
    match filters {
        [] => RawDocumentBuf::new(),
        [only] => only.given.clone(),
        [_, _, ..] => {
            let mut branches = RawArrayBuf::new();
            for selection in filters {
                branches.push(selection.given.clone());
            }
            rawdoc! { "$and": branches }
        }
    }
}
