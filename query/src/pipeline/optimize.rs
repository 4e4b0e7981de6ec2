//! What stages know of the ones behind them: sorts of which only the first few are asked for, and the front of a
//! pipeline that is a search.
//!
//! The invariant: the documents that come out stay the same, in the same order.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use crate::expression::Variables;
use crate::filter::Filter;
use crate::pipeline::stage::{PlacedStage, Selection, Stage};

/// The search that a pipeline starts with.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Leading {
    /// What documents must match; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// In which order they come; as they are stored if absent.
    pub sort: Option<RawDocumentBuf>,
    /// How many of them are passed over.
    pub skip: u64,
    /// How many then follow at most.
    pub limit: Option<u64>,
}

/// The part of a stream that skips and limits leave.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    skip: u64,
    limit: Option<u64>,
}

impl Window {
    /// Narrows the window by a stage, if it is one that does.
    fn narrow(&mut self, stage: &Stage) -> bool {
        match stage {
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
            | Stage::Unwind(_)
            | Stage::Sample(_)
            | Stage::Facet(_) => return false,
        }
        true
    }
}

/// Tells each sort how many documents the skips and limits right behind it leave.
pub(super) fn bound_sorts(stages: &mut [PlacedStage]) {
    for place in 0..stages.len() {
        let mut window = Window::default();
        let mut behind = stages.iter().skip(place + 1);
        while behind.next().is_some_and(|placed| window.narrow(&placed.stage)) {}
        if let Some(Stage::Sort(order)) = stages.get_mut(place).map(|placed| &mut placed.stage) {
            order.kept = window.limit.map(|limit| limit.saturating_add(window.skip));
        }
    }
}

/// Takes the search off the front.
pub(super) fn take_leading(stages: &mut Vec<PlacedStage>, variables: &Variables) -> Leading {
    let mut leading = Leading::default();
    let mut filters: Vec<Selection> = Vec::new();
    let mut window = Window::default();
    let mut taken = 0;
    for placed in stages.iter() {
        let is_open = window.skip == 0 && window.limit.is_none();
        let is_taken = if let Stage::Match(selection) = &placed.stage {
            // A filter right behind the sort says the same before it, and spares the sort documents.
            let is_joined = is_open && can_join(&filters, selection, variables);
            filters.extend(is_joined.then(|| selection.clone()));
            is_joined
        } else if let Stage::Sort(order) = &placed.stage {
            let is_first = is_open && leading.sort.is_none();
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
    leading
}

/// Whether a filter can be asked together with the ones before: one level more could be one too deep.
fn can_join(filters: &[Selection], next: &Selection, variables: &Variables) -> bool {
    let all = filters.iter().chain([next]).cloned().collect::<Vec<_>>();
    Filter::parse_with(&joined(&all), variables).is_ok()
}

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
