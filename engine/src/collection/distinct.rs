//! `distinct`.

use std::time::Duration;

use base::error::Result;
use bson::{Bson, Document, RawDocument};
use index::path::FieldPath;
use query::distinct::Distinct as Values;

use crate::collection::handle::Collection;
use crate::collection::scope::Scope;
use crate::collection::view_reads::AsPipeline;
use crate::execute::explain::{Depth, Explained};
use crate::execute::rows::{Rows, Search};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::declare::setters;
use crate::options::reads::distinct_option;
use crate::options::{Collation, DistinctOptions, Hint};
use crate::plan::access::Needed;
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::Selector;

impl<T> Collection<T> {
    /// Returns each different value that a field has in the documents that match the filter. Of an array each element
    /// counts as a value. The values come in the order in which they are found.
    ///
    /// Fails with code 17217 if the values need more than 16 MiB.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let posts = client.database("blog").collection::<Document>("posts");
    /// posts.insert_many([doc! { "_id": 1, "tags": ["a", "b"] }, doc! { "_id": 2, "tags": "a" }]).run()?;
    /// assert_eq!(posts.distinct("tags", doc! {}).run()?, ["a".into(), "b".into()]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn distinct(&self, field_name: impl AsRef<str>, filter: Document) -> Distinct<'_> {
        let field = field_name.as_ref().to_owned();
        Distinct { collection: Scope::of(&self.handle), field, filter, options: DistinctOptions::default() }
    }
}

/// The action that [`Collection::distinct`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let names = people.distinct("name", doc! { "_id": { "$gt": 1 } });
/// assert_eq!(names.max_time(Duration::from_secs(5)).run()?, ["Grace".into()]);
/// # Ok(())
/// # }
/// ```
#[must_use = "the values are read by run()"]
pub struct Distinct<'a> {
    collection: Scope<'a>,
    field: String,
    filter: Document,
    options: DistinctOptions,
}

in_session!(Distinct<'a> = r#"people.distinct("name", doc! {})"#);

setters!(Distinct<'a>, DistinctOptions, distinct_option);

impl Distinct<'_> {
    /// Reads the values.
    pub fn run(self) -> Result<Vec<Bson>> {
        let watch = self.collection.watch(Verb::Distinct);
        watch.end(self.distinct(), || Requested::search(&self.filter, None))
    }

    fn distinct(&self) -> Result<Vec<Bson>> {
        let search = self.search()?;
        let collation = self.collection.rules(self.options.collation.as_ref())?;
        // The index may give texts that are one value to the language.
        let mut values = Values::new(&self.field)?.with_collation(collation);
        let selector = search.selector.clone();
        let read = self.collection.search(&selector, |view| {
            check_hint(self.options.hint.as_ref(), view.indexes())?;
            let mut rows = Rows::open(view, search)?;
            while rows.advance()? {
                values.add(RawDocument::from_bytes(rows.bytes())?)?;
            }
            Ok(())
        })?;
        if read.is_none() && self.collection.is_view()? {
            let read = self.as_pipeline().each(&self.collection, |document| Ok(values.add(document)?));
            self.collection.abort_on_error(read)?;
        }
        // Without a collection nothing was added, and the list is empty, as in MongoDB.
        values.into_values().into_iter().map(|value| Ok(Bson::try_from(value)?)).collect()
    }

    /// The pipeline of the documents of a view that have the values.
    pub(crate) fn as_pipeline(&self) -> AsPipeline {
        AsPipeline::of_distinct(&self.filter, &self.options)
    }

    /// Plans the search for `explain`, and at [`Depth::Execution`] reads the documents.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        // Only to reject a field name that `run` would reject.
        Values::new(&self.field)?;
        self.collection.explain_search(&self.filter, self.options.hint.as_ref(), self.search()?, depth)
    }

    fn search(&self) -> Result<Search> {
        let collation = self.collection.rules(self.options.collation.as_ref())?;
        let operation = self.collection.begin(self.options.max_time);
        // `distinct` has no sort in MongoDB. The order only carries the hint.
        let order = Order::of(None, self.options.hint.as_ref())?;
        // A name that is not a path is rejected by its caller.
        let one_of_each = FieldPath::parse(&self.field).ok();
        let needs = one_of_each.clone().map_or(Needed::Documents, |path| Needed::Fields(vec![path]));
        Ok(Search {
            order,
            needs,
            one_of_each,
            ..Search::of(Selector::parse(&self.filter, None, operation, collation)?)
        })
    }
}
