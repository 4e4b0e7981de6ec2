//! `distinct`.

use std::time::Duration;

use bson::{Bson, Document, RawDocument};
use query::distinct::Distinct as Values;

use crate::collection::Collection;
use crate::error::Result;
use crate::execute::explain::{Depth, Explained};
use crate::execute::rows::{Rows, Search};
use crate::options::{Collation, DistinctOptions, Hint};
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::Selector;

impl<T> Collection<T> {
    /// Each value that a field has in the documents that match, once; an array gives its elements. Values come in the
    /// order in which they are met.
    ///
    /// Fails with code 17217 if they take more than 16 MiB.
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
    pub fn distinct(&self, field_name: impl AsRef<str>, filter: Document) -> Distinct<'_, T> {
        let field = field_name.as_ref().to_owned();
        Distinct { collection: self, field, filter, options: DistinctOptions::default() }
    }
}

/// A `distinct` that is done by [`run`](Self::run).
#[must_use = "the values are read by run()"]
pub struct Distinct<'a, T> {
    collection: &'a Collection<T>,
    field: String,
    filter: Document,
    options: DistinctOptions,
}

setters!(Distinct<'a, T>, DistinctOptions, {
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Give up with code 50 after this long.
    max_time: Duration,
});

impl<T> Distinct<'_, T> {
    /// Reads the values.
    pub fn run(self) -> Result<Vec<Bson>> {
        let search = self.search()?;
        let mut values = Values::new(&self.field)?;
        let selector = search.selector.clone();
        self.collection.search(&selector, |view| {
            check_hint(self.options.hint.as_ref(), view.indexes())?;
            let mut rows = Rows::open(view, search)?;
            while rows.advance()? {
                values.add(RawDocument::from_bytes(rows.bytes())?)?;
            }
            Ok(())
        })?;
        values.into_values().into_iter().map(|value| Ok(Bson::try_from(value)?)).collect()
    }

    /// What `run` reads.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        Values::new(&self.field)?;
        self.collection.explain_search((&self.filter, self.options.hint.as_ref()), self.search()?, depth)
    }

    fn search(&self) -> Result<Search> {
        check_collation(self.options.collation.as_ref())?;
        let operation = self.collection.begin(self.options.max_time);
        let order = Order::of(None, self.options.hint.as_ref())?;
        Ok(Search { order, ..Search::of(Selector::parse(&self.filter, None, operation)?) })
    }
}
