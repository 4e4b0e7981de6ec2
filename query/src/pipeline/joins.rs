//! The searches of the `$lookup` stages of a pipeline in other collections, as far as they are known before they run:
//! the input of an explanation.

use std::collections::HashMap;

use bson::{RawBson, RawDocumentBuf};

use crate::expression::Variables;
use crate::pipeline::correlation::{ComparedField, Condition};
use crate::pipeline::lookup::all_of;
use crate::pipeline::stage::{PlacedStage, Stage};
use crate::pipeline::stream::nothing;

/// A value in place of one that depends on a document. Which number it is does not matter: all have an index's order
/// in common.
const NUMBER: RawBson = RawBson::Int32(0);

/// A `$lookup` of a pipeline.
#[derive(Clone, Debug)]
pub struct ForeignJoin<'p> {
    /// The position of the stage among those that were parsed, counted from 0.
    pub position: usize,
    /// The other collection. Absent if documents replace it that are given in the pipeline.
    pub collection: Option<&'p str>,
    /// A filter as the stage has it for a document, with a number in place of its values.
    pub filter: RawDocumentBuf,
    /// Whether a field of the other documents must have a value, so that a hash table may have them by it.
    pub is_keyed: bool,
    /// Whether no document changes what it finds, so that it is run for the first one only.
    pub runs_once: bool,
    /// The number of first stages of its pipeline that are run for the first document only, as far as their results
    /// fit into memory. 0 if it runs once as a whole.
    pub stages_run_once: usize,
    /// The variables of the filter.
    pub variables: Variables,
}

/// The joins of stages. One that cannot be reported is left out: running it gives the error.
pub(super) fn of<'p>(stages: &'p [PlacedStage], variables: &Variables) -> Vec<ForeignJoin<'p>> {
    let join = |placed: &'p PlacedStage| {
        let Stage::Lookup(join) = &placed.stage else { return None };
        let lookup = &join.lookup;
        let variables = lookup.variables(nothing(), variables).ok()?;
        let by_field = lookup.equality.as_ref().map(|equality| equality.foreign.filter(&[NUMBER]));
        let condition = lookup.condition.as_ref();
        let plain = condition.map(|condition| condition.plain.clone());
        let pushed = join.unwound.as_ref().and_then(|unwound| unwound.matching.as_ref());
        // Only a pipeline that selects lets a filter of its results into the search.
        let selects_only = join.stages.iter().all(|placed| matches!(placed.stage, Stage::Match(_)));
        // If a field must have a value, an index has to be one for that alone.
        let has_keys = condition.is_some_and(|condition| condition.keys().next().is_some());
        let is_keyed = lookup.equality.is_some() || has_keys;
        let compared = condition.map(|condition| examples(condition, &variables)).unwrap_or_default();
        // Beside a key, ranges only narrow what the index for it finds.
        let compared = compared.into_iter().filter(|(compared, _)| !is_keyed || compared.is_key());
        let compared = compared.map(|(_, example)| example);
        let pushed = pushed.filter(|_| selects_only && !is_keyed).map(|matching| matching.given.clone());
        Some(ForeignJoin {
            position: placed.position,
            collection: lookup.from.as_deref(),
            filter: all_of(by_field.into_iter().chain(plain).chain(compared).chain(pushed).collect()),
            is_keyed,
            runs_once: lookup.is_constant(),
            stages_run_once: lookup.kept_stages(),
            variables,
        })
    };
    stages.iter().filter_map(join).collect()
}

/// The comparisons in the expressions of a condition, each as a filter with a value in place of those that depend on
/// a document.
fn examples<'c>(condition: &'c Condition, variables: &Variables) -> Vec<(&'c ComparedField, RawDocumentBuf)> {
    // A value that is known for a field represents those that are not: then no two of its bounds contradict each other.
    let mut known: HashMap<&str, RawBson> = HashMap::new();
    for compared in &condition.compared {
        if let Some(value) = compared.known(variables) {
            known.entry(compared.field.path.as_str()).or_insert(value);
        }
    }
    let example = |compared: &'c ComparedField| {
        let value = compared.known(variables);
        let stands_for_it = known.get(compared.field.path.as_str());
        (compared, compared.example(value.as_ref().or(stands_for_it).unwrap_or(&NUMBER)))
    };
    condition.compared.iter().map(example).collect()
}
