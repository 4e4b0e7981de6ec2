//! `find` and `find_one`.

use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf};
use query::operation::OperationContext;
use query::projection::Projection;
use serde::de::DeserializeOwned;

use crate::collection::Collection;
use crate::cursor::Cursor;
use crate::document::decode::decode_owned;
use crate::error::{Error, Result};
use crate::execute::explain::{Depth, Explained};
use crate::execute::read_view::FoundRecord;
use crate::execute::rows::{Rows, Search};
use crate::options::{Collation, FindOptions, Hint};
use crate::plan::bounds::point_id;
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::Selector;
use crate::storage::Family;

impl<T> Collection<T> {
    /// The documents that match, as they are when `run` is called. Without a sort they come as they are found: in the
    /// order of their `_id`s, or of the index that answers. A sort that neither `_id` nor an index gives is done in memory,
    /// in at most 100 MiB (code 292).
    ///
    /// A filter that is malformed, or that uses an operator which is unknown or not supported, is an error
    /// that names it; an empty filter matches everything.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "name": "Ada", "born": 1815 }, doc! { "name": "Grace", "born": 1906 }]).run()?;
    ///
    /// let found = people.find(doc! {}).sort(doc! { "born": -1 }).projection(doc! { "_id": 0, "name": 1 }).limit(1);
    /// let names: Vec<Document> = found.run()?.collect::<Result<_, _>>()?;
    /// assert_eq!(names, [doc! { "name": "Grace" }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(&self, filter: Document) -> Find<'_, T> {
        Find { collection: self, filter, options: FindOptions::default() }
    }

    /// One document that matches: the first by the sort if one is asked for, else any.
    pub fn find_one(&self, filter: Document) -> FindOne<'_, T> {
        FindOne { collection: self, filter, options: FindOptions::default() }
    }
}

/// A `find` that is done by [`run`](Self::run).
#[must_use = "the search is done by run()"]
pub struct Find<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: FindOptions,
}

/// A `find_one` that is done by [`run`](Self::run).
#[must_use = "the search is done by run()"]
pub struct FindOne<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: FindOptions,
}

setters!(Find<'a, T>, FindOptions, {
    /// Accepted: documents are read one by one, so there are no batches to size.
    batch_size: u32,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// At most this many documents; 0 is no limit; a negative number is taken without its sign.
    limit: i64,
    /// Give up with code 50 after this long. Time between two calls of the cursor does not count.
    max_time: Duration,
    /// Which fields are shown, and which are computed.
    projection: Document,
    /// Skip this many matching documents first.
    skip: u64,
    /// In which order the documents come.
    sort: Document,
});

setters!(FindOne<'a, T>, FindOptions, {
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Give up with code 50 after this long.
    max_time: Duration,
    /// Which fields are shown, and which are computed.
    projection: Document,
    /// Skip this many matching documents first.
    skip: u64,
    /// Which of several matching documents comes first.
    sort: Document,
});

impl<T> Find<'_, T> {
    /// Opens a cursor.
    pub fn run(self) -> Result<Cursor<T>> {
        open(self.collection, &self.filter, &self.options, limit(&self.options))
    }

    /// What `run`, and a walk to the end of its cursor, does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let operation = self.collection.begin(self.options.max_time);
        let search = search(&self.filter, &self.options, limit(&self.options), operation)?;
        self.collection.explain_search((&self.filter, self.options.hint.as_ref()), search, depth)
    }
}

impl<T: DeserializeOwned + 'static> FindOne<'_, T> {
    /// Reads the document.
    pub fn run(self) -> Result<Option<T>> {
        if is_plain(&self.options)
            && self.filter.len() == 1
            && let Some(id) = point_id(&self.filter)
        {
            // Decoding runs the caller's code, so it comes after the database was let go.
            let Some(FoundRecord { key, bytes: Some(bytes) }) = self.collection.look_up(id)? else {
                return Ok(None);
            };
            return deserialize(&key, bytes).map(Some);
        }
        let mut cursor: Cursor<T> = open(self.collection, &self.filter, &self.options, Some(1))?;
        cursor.next().transpose()
    }
}

/// Whether nothing is asked beside the filter.
fn is_plain(options: &FindOptions) -> bool {
    let FindOptions {
        batch_size: _,
        collation: None,
        comment: _,
        hint: None,
        let_vars: None,
        limit: _,
        max_time: _,
        projection: None,
        skip: None | Some(0),
        sort: None,
    } = options
    else {
        return false;
    };
    true
}

fn limit(options: &FindOptions) -> Option<u64> {
    options.limit.map(i64::unsigned_abs).filter(|&limit| limit > 0)
}

fn search(
    filter: &Document,
    options: &FindOptions,
    limit: Option<u64>,
    operation: OperationContext,
) -> Result<Search> {
    check_collation(options.collation.as_ref())?;
    let selector = Selector::parse(filter, options.let_vars.as_ref(), operation)?;
    Ok(Search {
        order: Order::of(options.sort.as_ref(), options.hint.as_ref())?,
        skip: options.skip.unwrap_or(0),
        limit,
        projection: parse_projection(options.projection.as_ref(), &selector)?,
        selector,
    })
}

fn open<T>(
    collection: &Collection<T>,
    filter: &Document,
    options: &FindOptions,
    limit: Option<u64>,
) -> Result<Cursor<T>> {
    let search = search(filter, options, limit, collection.begin(options.max_time))?;
    let selector = search.selector.clone();
    let opened = collection.search(&selector, |view| {
        check_hint(options.hint.as_ref(), view.indexes())?;
        Rows::open(view, search).map(Cursor::new)
    })?;
    Ok(opened.unwrap_or_else(Cursor::empty))
}

/// Parses the projection of a search.
pub(super) fn parse_projection(
    projection: Option<&Document>,
    selector: &Selector,
) -> Result<Option<Projection>> {
    let Some(projection) = projection else { return Ok(None) };
    let raw = RawDocumentBuf::try_from(projection)?;
    Ok(Some(Projection::parse(&raw, selector.filter(), selector.variables())?))
}

fn deserialize<T: DeserializeOwned + 'static>(key: &[u8], bytes: Vec<u8>) -> Result<T> {
    let document = RawDocumentBuf::from_bytes(bytes).map_err(|error| {
        Error::corruption(Family::Records.name(), key, format!("the record is not a document: {error}"))
    })?;
    decode_owned(document)
}
