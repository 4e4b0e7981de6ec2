//! What the `$lookup` stages of a pipeline ask other collections for, as far as it is known before they run: what an explanation
//! plans.

use bson::{RawBson, RawDocumentBuf};

use crate::expression::Variables;
use crate::pipeline::lookup::all_of;
use crate::pipeline::stage::{PlacedStage, Stage};
use crate::pipeline::stream::nothing;

/// A `$lookup` of a pipeline.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::expression::Variables;
/// use cairndb_query::pipeline::Pipeline;
///
/// let join = rawdoc! { "$lookup": { "from": "pens", "localField": "pen", "foreignField": "_id", "as": "pen" } };
/// let pipeline = Pipeline::parse(&[join], &Variables::default())?;
/// let joins = pipeline.joins();
/// assert_eq!((joins[0].position, joins[0].collection, joins[0].is_keyed), (0, Some("pens"), true));
/// # Ok::<(), cairndb_query::pipeline::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForeignJoin<'p> {
    /// The position of the stage among those that were parsed, counted from 0.
    pub position: usize,
    /// The other collection. Absent if documents take its place that are given in the pipeline.
    pub collection: Option<&'p str>,
    /// A filter as the stage has it for a document, with a number in the place of its values.
    pub filter: RawDocumentBuf,
    /// Whether a field of the other documents must have a value, so that a hash table may have them by it.
    pub is_keyed: bool,
    /// Whether no document changes what it finds, so that it is run for the first one only.
    pub runs_once: bool,
    /// The variables of the filter.
    pub variables: Variables,
}

/// The joins of stages. One that cannot be told is left out: running it gives the error.
pub(super) fn of<'p>(stages: &'p [PlacedStage], variables: &Variables) -> Vec<ForeignJoin<'p>> {
    let join = |placed: &'p PlacedStage| {
        let Stage::Lookup(join) = &placed.stage else { return None };
        let lookup = &join.lookup;
        // Which number it is does not matter: all have an index's order in common.
        let number = [RawBson::Int32(0)];
        let by_field = lookup.equality.as_ref().map(|equality| equality.foreign.filter(&number));
        let condition = lookup.condition.as_ref();
        let given = condition.map(|condition| condition.given.clone());
        let keys = condition.map_or(&[][..], |condition| &condition.keys);
        let by_key = keys.iter().map(|(field, _)| field.filter(&number));
        let pushed = join.unwound.as_ref().and_then(|unwound| unwound.matching.as_ref());
        // Only a pipeline that selects lets a filter of its results into the search.
        let selects_only = join.stages.iter().all(|placed| matches!(placed.stage, Stage::Match(_)));
        // Where a field must have a value, an index has to be one for that alone.
        let is_keyed = lookup.equality.is_some() || !keys.is_empty();
        let pushed = pushed.filter(|_| selects_only && !is_keyed).map(|matching| matching.given.clone());
        Some(ForeignJoin {
            position: placed.position,
            collection: lookup.from.as_deref(),
            filter: all_of(by_field.into_iter().chain(given).chain(by_key).chain(pushed).collect()),
            is_keyed,
            runs_once: lookup.is_constant(),
            variables: lookup.variables(nothing(), variables).ok()?,
        })
    };
    stages.iter().filter_map(join).collect()
}
