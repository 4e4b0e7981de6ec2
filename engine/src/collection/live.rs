//! `live`: a search whose result is kept up to date.

use base::error::{Error, Result};
use bson::Document;

use crate::collection::find::{AWAIT_TIME, Asking, Find, is_tailable, limit, search};
use crate::collection::handle::Handle;
use crate::execute::rows::{RowExtras, Search};
use crate::live::{Asked, LiveQuery, RawLive, Row};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::FindOptions;
use crate::plan::access::Needed;
use crate::plan::order::check_hint;

/// The most documents that a limited search may skip and return: it is run again whenever its collection has changed.
const LIMITED_ROWS_MAX: u64 = 1000;

impl<T> Find<'_, T> {
    /// Runs the search, and keeps its result up to date: a query that shows which documents enter the result, change in it and leave it.
    ///
    /// The first live query on a collection switches the log of its changes on, as a [change stream](crate::Collection::watch) does. With a
    /// limit or a skip the search is run again after each change of the collection; `skip` and `limit` together may be 1,000 then. `$$NOW`
    /// in the filter is the time of the call. A `max_time` is for the time at work, without that between two batches.
    ///
    /// # Errors
    /// Fails on a view, within a transaction, with a tailable cursor, with a skip without a limit, with a longer limit, and with `min`, `max`,
    /// `return_key` or metadata in the projection; with code 73 for a collection of the system; with code 146 if the result or a batch
    /// needs more memory than an operation may have. A store that was opened for reading cannot switch the log on.
    ///
    /// ```
    /// # use cairndb::{Client, LiveChange, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let scores = client.database("game").collection::<Document>("scores");
    /// scores.insert_many([doc! { "_id": "Ada", "points": 7 }, doc! { "_id": "Grace", "points": 5 }]).run()?;
    /// let mut best = scores.find(doc! {}).sort(doc! { "points": -1 }).limit(1).live()?;
    /// let changes = best.next().expect("the result")?;
    /// assert_eq!(changes, [LiveChange::Entered(doc! { "_id": "Ada", "points": 7 })]);
    ///
    /// scores.update_one(doc! { "_id": "Grace" }, doc! { "$inc": { "points": 5 } }).run()?;
    /// let changes = best.next().expect("it waits")?;
    /// assert!(changes.contains(&LiveChange::Entered(doc! { "_id": "Grace", "points": 10 })));
    /// assert!(changes.contains(&LiveChange::Left("Ada".into())));
    /// # Ok(())
    /// # }
    /// ```
    pub fn live(self) -> Result<LiveQuery<T>> {
        let await_time = self.options.max_await_time.unwrap_or(AWAIT_TIME);
        let watch = self.collection.watch(Verb::Find);
        let opened = open(&self.collection, &self.filter, &self.options);
        let opened = watch.end(opened, || Requested::search(&self.filter, self.options.sort.as_ref()))?;
        Ok(LiveQuery::of(opened, await_time))
    }
}

fn open(collection: &Handle, filter: &Document, options: &FindOptions) -> Result<RawLive> {
    collection.refuse_in_transaction("a live query")?;
    refuse_options(options)?;
    let namespace = collection.valid_namespace()?.clone();
    let mut asked = search(collection, filter, options, limit(options), Asking::Repeated)?;
    if asked.extras.metadata {
        return Err(refused("metadata in the projection"));
    }
    let found = collection.find_state()?;
    check_hint(options.hint.as_ref(), &found.map(|state| state.visible_indexes()).unwrap_or_default())?;
    let row = Row {
        projection: asked.projection.take().filter(|projection| !projection.is_empty()),
        has_record_id: asked.extras.record_ids,
    };
    // The `_id`s of documents are needed too, which a projection may leave out.
    let search = Search { extras: RowExtras::default(), needs: Needed::Documents, ..asked };
    let is_collation_given = options.collation.is_some() || collection.is_by_bytes;
    RawLive::open(collection.shared(), Asked { namespace, search, row, is_collation_given })
}

/// Refuses what the result of a live query cannot be kept up to date with.
fn refuse_options(options: &FindOptions) -> Result<()> {
    if is_tailable(options) {
        return Err(refused("a tailable cursor"));
    }
    if options.return_key == Some(true) {
        return Err(refused("return_key"));
    }
    if options.min.is_some() || options.max.is_some() {
        return Err(refused("min and max"));
    }
    let skip = options.skip.unwrap_or(0);
    match limit(options) {
        None if skip > 0 => Err(refused("a skip without a limit")),
        Some(limit) if limit.saturating_add(skip) > LIMITED_ROWS_MAX => {
            let message = format!(
                "a live query may skip and return {LIMITED_ROWS_MAX} documents, and not {}",
                limit.saturating_add(skip)
            );
            Err(Error::invalid_argument(message))
        }
        None | Some(_) => Ok(()),
    }
}

fn refused(what: &str) -> Error {
    Error::invalid_argument(format!("a live query cannot have {what}"))
}
