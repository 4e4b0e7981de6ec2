//! The collections and views that a pipeline reads besides its own, on the snapshot of its read view.
//!
//! A view is its pipeline over a collection. It is run again each time it is read as a whole; of a view that only filters, an
//! index of its collection may be asked.

use std::collections::HashMap;
use std::sync::Arc;

use base::error::{Error, Result};
use bson::{Bson, Document, RawDocument};
use index::path::FieldPath;
use query::expression::Variables;
use query::pipeline::Pipeline;
use query::pipeline::foreign::{Documents, FieldIndex, Foreign};
use query::pipeline::joins::ForeignJoin;

use crate::execute::explain::Explained;
use crate::execute::field_lookup::FieldLookup;
use crate::execute::leading::leading;
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::execute::row_stream::RowStream;
use crate::execute::rows::{Rows, Search};
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// Read views of one snapshot by the names of their collections, and the views over them. What is absent does not exist.
/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ForeignViews {
    all: Arc<Tables>,
}

#[derive(Default)]
struct Tables {
    read: HashMap<String, ReadView>,
    derived: HashMap<String, Derived>,
}

/// A view: the collection that it comes down to, and all stages over it.
pub(crate) struct Derived {
    base: String,
    pipeline: Pipeline,
    /// The filter that the whole view is, if it is nothing else.
    only_filter: Option<Document>,
}

impl Derived {
    pub(crate) fn new(base: String, pipeline: Pipeline) -> Self {
        let only_filter = only_filter(pipeline.clone());
        Self { base, pipeline, only_filter }
    }
}

/// The filter that a pipeline amounts to. Returns `None` if it is more than a filter.
fn only_filter(mut pipeline: Pipeline) -> Option<Document> {
    // The same function as for every pipeline decides what a search can do of it.
    let leading = pipeline.take_leading();
    let is_filter =
        pipeline.is_empty() && leading.sort.is_none() && leading.skip == 0 && leading.limit.is_none();
    is_filter.then(|| Document::try_from(&leading.filter).ok())?
}

impl ForeignViews {
    pub(crate) fn new(read: HashMap<String, ReadView>, derived: HashMap<String, Derived>) -> Self {
        Self { all: Arc::new(Tables { read, derived }) }
    }

    /// The way in which a `$lookup` finds documents of another collection, by MongoDB's names. `db` is the database
    /// of all.
    pub(crate) fn strategy(&self, db: &str, join: &ForeignJoin<'_>) -> Result<Document> {
        let mut told = Document::new();
        let index = match join.collection {
            None => None,
            Some(collection) => {
                told.insert("foreignCollection", format!("{db}.{collection}"));
                let Some((view, filter)) = self.searched(collection, &join.filter)? else {
                    // Another view has no index; it is read as a whole.
                    return Ok(by_reading(join, told));
                };
                let Some(view) = view else {
                    told.insert("strategy", "NonExistentForeignCollection");
                    return Ok(told);
                };
                let selector = Selector::with_variables(&filter, join.variables.clone())?;
                let Some(again) = view.again() else { return Ok(told) };
                match Matches::open_indexed(again, &selector)? {
                    Some(_) if !filter.is_empty() => {
                        Explained::of(&filter, &Search::of(selector), &view)?.index_name()
                    }
                    Some(_) | None => None,
                }
            }
        };
        let Some(index) = index else { return Ok(by_reading(join, told)) };
        told.insert("strategy", "IndexedLoopJoin");
        told.insert("indexName", index);
        tell_stages_run_once(join, &mut told);
        Ok(told)
    }

    /// The collection that a search in a collection or a view reads, absent if it does not exist, and the filter of the search.
    /// Returns `None` for a view that is more than a filter.
    fn searched(
        &self,
        collection: &str,
        filter: &RawDocument,
    ) -> Result<Option<(Option<ReadView>, Document)>> {
        let filter = Document::try_from(filter)?;
        let Some(derived) = self.all.derived.get(collection) else {
            return Ok(Some((self.view(collection), filter)));
        };
        // Another view gives documents that no index knows: it has to be read as a whole.
        let Some(own) = &derived.only_filter else { return Ok(None) };
        let both: [Bson; 2] = [own.clone().into(), filter.into()];
        let filter = Document::from_iter([("$and".to_owned(), Bson::Array(both.into()))]);
        Ok(Some((self.view(&derived.base), filter)))
    }

    fn view(&self, collection: &str) -> Option<ReadView> {
        self.all.read.get(collection).and_then(ReadView::again)
    }

    /// The documents of a view.
    fn run(&self, derived: &Derived, variables: &Variables) -> Result<Documents<Error>> {
        // The pipeline has the clock and the operation of the one that reads it, and none of its variables.
        let mut pipeline = derived.pipeline.clone();
        let (search, _) = leading(&mut pipeline, None)?;
        let rows = self.view(&derived.base).map(|view| Rows::open(view, search)).transpose()?;
        let rows = RowStream::new(rows, variables.operation().clone());
        // Its stages may read other collections and views: those are on the same snapshot.
        let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(self.clone());
        Ok(Box::new(pipeline.run_with(rows, &foreign)))
    }
}

impl Foreign<Error> for ForeignViews {
    fn find(
        &self,
        collection: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<Error>>> {
        let stream = |rows| Box::new(RowStream::new(rows, variables.operation().clone())) as Documents<Error>;
        let Some((view, filter)) = self.searched(collection, filter)? else { return Ok(None) };
        let Some(view) = view else { return Ok(Some(stream(None))) };
        let selector = Selector::with_variables(&filter, variables.clone())?;
        let matches = Matches::open_indexed(view, &selector)?;
        Ok(matches.map(|matches| stream(Some(Rows::of(matches)))))
    }

    fn scan(&self, collection: &str, variables: &Variables) -> Result<Documents<Error>> {
        if let Some(derived) = self.all.derived.get(collection) {
            return self.run(derived, variables);
        }
        let open = |view| {
            let everything = Selector::with_variables(&Document::new(), variables.clone())?;
            Matches::open(view, &everything, &Order::default()).map(Rows::of)
        };
        let rows = self.view(collection).map(open).transpose()?;
        Ok(Box::new(RowStream::new(rows, variables.operation().clone())))
    }

    fn field_index(
        &self,
        collection: &str,
        field: &FieldPath,
        variables: &Variables,
    ) -> Result<Option<Box<dyn FieldIndex<Error> + Send + Sync>>> {
        // A view has no indexes of its own, and the filter of one that is nothing else has to be joined with what is asked for.
        if self.all.derived.contains_key(collection) {
            return Ok(None);
        }
        let lookup = self.view(collection).and_then(|view| FieldLookup::of(&view, field, variables));
        Ok(lookup.map(|lookup| Box::new(lookup) as Box<dyn FieldIndex<Error> + Send + Sync>))
    }
}

/// The way in which a `$lookup` finds documents without an index.
fn by_reading(join: &ForeignJoin<'_>, mut told: Document) -> Document {
    told.insert("strategy", if join.is_keyed { "HashJoin" } else { "NestedLoopJoin" });
    if join.runs_once {
        told.insert("runsOnce", true);
    }
    tell_stages_run_once(join, &mut told);
    told
}

/// Adds how many stages are run for the first document only, if some are and others are not.
fn tell_stages_run_once(join: &ForeignJoin<'_>, told: &mut Document) {
    if let (1.., Ok(count)) = (join.stages_run_once, i32::try_from(join.stages_run_once)) {
        told.insert("stagesRunOnce", count);
    }
}
