//! The search at the start of a pipeline.

use base::error::Result;
use bson::Document;
use query::pipeline::Pipeline;

use crate::execute::rows::{RowExtras, Search};
use crate::options::Hint;
use crate::plan::access::Needed;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// Splits the stages that a search can execute off the start of the pipeline. Returns the search and its filter.
pub(crate) fn leading(pipeline: &mut Pipeline, hint: Option<&Hint>) -> Result<(Search, Document)> {
    let leading = pipeline.take_leading();
    let sort = leading.sort.as_deref().map(Document::try_from).transpose()?;
    let filter = Document::try_from(&leading.filter)?;
    let search = Search {
        // The pipeline's own variables: `$expr` in the filter and the stages have one `let` and one clock.
        selector: Selector::with_variables(&filter, pipeline.variables().clone())?,
        order: Order::collated(sort.as_ref(), hint, pipeline.variables().collation())?,
        skip: leading.skip,
        limit: leading.limit,
        // A search in front of a pipeline ends where documents change shape: `$project` stays a stage. What the stages
        // read of a document may be all in an index.
        projection: None,
        extras: RowExtras { metadata: pipeline.reads_metadata(), ..RowExtras::default() },
        // Metadata has the `_id`, which an index may not have.
        needs: match pipeline.needed_fields() {
            Some(fields) if !pipeline.reads_metadata() => Needed::Fields(fields),
            Some(_) | None => Needed::Documents,
        },
        one_of_each: leading.one_of_each,
    };
    Ok((search, filter))
}
