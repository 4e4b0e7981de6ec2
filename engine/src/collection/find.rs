//! `find` and `find_one`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use base::codes::refused;
use base::error::Result;
use base::metrics::notes;
use bson::{Bson, Document, RawDocumentBuf};
use query::code::Code;
use query::expression::{reads_metadata, reads_sort_key};
use query::projection::Projection;
use serde::de::DeserializeOwned;

use crate::collection::handle::{Collection, Handle};
use crate::collection::look_up::{LookedUp, look_up, look_up_all};
use crate::collection::scope::Scope;
use crate::collection::view_reads::AsPipeline;
use crate::cursor::{Cursor, RawCursor};
use crate::document::decode::{decode, decode_owned};
use crate::execute::explain::{Depth, Explained};
use crate::execute::read_view::ReadView;
use crate::execute::rows::{RowExtras, Rows, Search};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::metrics::watch::CursorRequest;
use crate::options::declare::setters;
use crate::options::reads::find_option;
use crate::options::{Collation, CursorType, FindOptions, Hint};
use crate::plan::access::Needed;
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::Selector;
use crate::session::{ClientSession, SessionCursor};
use crate::tail::{self, Tail};
use crate::transaction::Transaction;

/// The time that a cursor awaits a document, as in MongoDB.
pub(super) const AWAIT_TIME: Duration = Duration::from_secs(1);

impl<T> Collection<T> {
    /// Finds the documents that match the filter, as they are when `run` is called. An empty filter matches all documents.
    ///
    /// Without a sort the documents come in the order in which they are found: by `_id`, or by the index that is used; those of
    /// a capped collection in the order of their inserts. A
    /// sort that no index has is done in memory, and beyond 100 MiB in temporary files, unless `allow_disk_use` is `false`: then
    /// the search fails with code 292 (`QueryExceededMemoryLimitNoDiskUseAllowed`).
    ///
    /// A malformed filter, or one with an unknown or unsupported operator, is an error that names the operator.
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
        Find {
            collection: Scope::of(&self.handle),
            filter,
            options: FindOptions::default(),
            row: PhantomData,
        }
    }

    /// Finds one document that matches the filter: the first in the sort order, or any if no sort is given.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// let grace = people.find_one(doc! { "name": { "$regex": "^G" } }).run()?;
    /// assert_eq!(grace, Some(doc! { "_id": 2, "name": "Grace" }));
    /// assert_eq!(people.find_one(doc! { "name": "Edith" }).run()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one(&self, filter: Document) -> FindOne<'_, T> {
        FindOne {
            collection: Scope::of(&self.handle),
            filter,
            options: FindOptions::default(),
            row: PhantomData,
        }
    }
}

/// The action that [`Collection::find`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let by_name = people.find(doc! {}).sort(doc! { "name": -1 }).projection(doc! { "_id": 0 });
/// let found: Vec<Document> = by_name.limit(1).run()?.collect::<Result<_, _>>()?;
/// assert_eq!(found, [doc! { "name": "Grace" }]);
/// # Ok(())
/// # }
/// ```
#[must_use = "the search is done by run()"]
pub struct Find<'a, T> {
    pub(super) collection: Scope<'a>,
    pub(super) filter: Document,
    pub(super) options: FindOptions,
    row: PhantomData<fn() -> T>,
}

/// The action that [`Collection::find_one`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let last = people.find_one(doc! {}).sort(doc! { "_id": -1 }).projection(doc! { "_id": 0 }).run()?;
/// assert_eq!(last, Some(doc! { "name": "Grace" }));
/// # Ok(())
/// # }
/// ```
#[must_use = "the search is done by run()"]
pub struct FindOne<'a, T> {
    collection: Scope<'a>,
    filter: Document,
    options: FindOptions,
    row: PhantomData<fn() -> T>,
}

in_session!(FindOne<'a, T> = r#"people.find_one(doc! { "_id": 1 })"#);

setters!(Find<'a, T>, FindOptions, find_option);

setters!(
    FindOne<'a, T>,
    FindOptions,
    find_option,
    [
        collation,
        comment,
        hint,
        let_vars,
        max,
        max_time,
        min,
        projection,
        return_key,
        show_record_id,
        skip,
        sort
    ]
);

impl<T> Find<'_, T> {
    /// Opens a cursor over the documents.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut names = Vec::new();
    /// for person in people.find(doc! {}).run()? {
    ///     names.push(person?.get_str("name").unwrap().to_owned());
    /// }
    /// assert_eq!(names, ["Ada", "Grace"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<Cursor<T>> {
        open_watched(&self.collection, self.filter, self.options).map(Cursor::of)
    }
}

// Commands explain, and read raw documents alone.
impl Find<'_, RawDocumentBuf> {
    /// The pipeline that finds the same on a view.
    pub(crate) fn as_pipeline(&self) -> Result<AsPipeline> {
        AsPipeline::of_find(&self.filter, &self.options, limit(&self.options))
    }

    /// Plans the search for `explain`, and at [`Depth::Execution`] reads to the end of its cursor.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let asking = asking(&self.options);
        let search = search(&self.collection, &self.filter, &self.options, limit(&self.options), asking)?;
        self.collection.explain_search(&self.filter, self.options.hint.as_ref(), search, depth)
    }
}

impl<T: DeserializeOwned + 'static> FindOne<'_, T> {
    /// Reads the document. Returns `None` if none matches.
    pub fn run(self) -> Result<Option<T>> {
        let watch = self.collection.watch(Verb::FindOne);
        watch.end(self.find(), || Requested::search(&self.filter, self.options.sort.as_ref()))
    }

    #[inline]
    fn find(&self) -> Result<Option<T>> {
        let (collection, filter, options): (&Handle, _, _) = (&self.collection, &self.filter, &self.options);
        // Decoding runs code of the caller, so it comes after the store is left: `close` must not wait for it.
        match look_up(collection, filter, options)? {
            LookedUp::Document(document) => return decode_owned(document).map(Some),
            LookedUp::Nothing => return Ok(None),
            LookedUp::Unknown => {}
        }
        // The limit is 1 whatever the options say. It also lets a sort keep a single document.
        let mut cursor = open(collection, filter, options, Some(1))?;
        if !collection.abort_on_error(cursor.advance())? {
            return Ok(None);
        }
        // This cursor is measured as a part of the call.
        notes::returned(1, cursor.current().as_bytes().len() as u64);
        decode(cursor.current()).map(Some)
    }
}

/// A search within a session: the action that [`Find::session`] returns. [`run`](Self::run) executes it.
#[must_use = "the search is done by run()"]
pub struct SessionFind<'a, T> {
    find: Find<'a, T>,
    transaction: Option<Arc<Transaction>>,
}

impl<'a, T> Find<'a, T> {
    /// Makes the search a statement of a session. Its cursor is read with the session.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// people.insert_one(doc! { "_id": 2 }).session(&mut session).run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// assert_eq!(cursor.next(&mut session).transpose()?, Some(doc! { "_id": 1 }));
    /// assert_eq!(cursor.next(&mut session).transpose()?, Some(doc! { "_id": 2 }));
    /// session.abort_transaction().run()?;
    /// assert_eq!(people.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &'a mut ClientSession) -> SessionFind<'a, T> {
        self.collection = self.collection.within(session);
        let transaction = self.collection.transaction().cloned();
        SessionFind { find: self, transaction }
    }
}

impl<T> SessionFind<'_, T> {
    /// Opens a cursor over the documents.
    pub fn run(self) -> Result<SessionCursor<T>> {
        Ok(SessionCursor::of(self.find.run()?, self.transaction))
    }
}

pub(super) fn limit(options: &FindOptions) -> Option<u64> {
    // A negative limit asks a server for a single batch. There are no batches here.
    options.limit.map(i64::unsigned_abs).filter(|&limit| limit > 0)
}

/// The number of times that the result of a search is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Once,
    /// Again and again, as documents are written.
    Repeated,
}

pub(super) fn search(
    collection: &Handle,
    filter: &Document,
    options: &FindOptions,
    limit: Option<u64>,
    asking: Asking,
) -> Result<Search> {
    let collation = collection.rules(options.collation.as_ref())?;
    let operation = collection.begin(options.max_time);
    if options.allow_disk_use == Some(false) {
        operation.keep_off_disk();
    }
    let order = Order::collated(options.sort.as_ref(), options.hint.as_ref(), &collation)?;
    let order = order.within(options.min.as_ref(), options.max.as_ref())?;
    // A lookup by `_id` reads no key of an index, so it does not know whether it is in the range; and it cannot go on.
    let parse = if order.has_range() || asking == Asking::Repeated {
        Selector::parse_planned
    } else {
        Selector::parse
    };
    let selector = parse(filter, options.let_vars.as_ref(), operation, collation)?;
    let projection = options.projection.as_ref().map(RawDocumentBuf::try_from).transpose()?;
    let sorts = options.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    if !sorts && projection.as_deref().is_some_and(reads_sort_key) {
        return Err(refused(Code::BAD_VALUE, "cannot use sortKey $meta projection without a sort"));
    }
    let extras = RowExtras {
        keys: options.return_key.unwrap_or(false),
        record_ids: options.show_record_id.unwrap_or(false),
        metadata: projection.as_deref().is_some_and(reads_metadata),
    };
    let variables = selector.variables().clone();
    let variables = if extras.metadata { variables.with_metadata() } else { variables };
    let projection =
        projection.map(|given| Projection::parse(&given, selector.filter(), &variables)).transpose()?;
    Ok(Search {
        order,
        skip: options.skip.unwrap_or(0),
        // Not `options.limit`: `find_one` has a limit of its own.
        limit,
        needs: match extras {
            RowExtras { record_ids: true, .. } | RowExtras { metadata: true, .. } => Needed::Documents,
            RowExtras { keys: true, .. } => Needed::Keys,
            RowExtras { .. } => Needed::for_rows(projection.as_ref()),
        },
        projection,
        extras,
        selector,
        one_of_each: None,
    })
}

/// Opens a cursor that is measured, as `find` does.
pub(super) fn open_watched(collection: &Handle, filter: Document, options: FindOptions) -> Result<RawCursor> {
    let watch = collection.watch(Verb::Find);
    let limit = limit(&options);
    let found = if is_tailable(&options) {
        Ok(None)
    } else {
        // Within a transaction an error ends it, as one of the cursor would.
        let found = look_up_all(collection, &filter, &options, limit);
        collection.abort_on_error(found).map_err(|error| error.in_namespace(&collection.given))
    };
    let opened = match found {
        Ok(Some(found)) => Ok(RawCursor::of_found(found)),
        Ok(None) => open(collection, &filter, &options, limit),
        Err(error) => Err(error),
    };
    match opened {
        // The call is counted with its cursor.
        Ok(cursor) => {
            let (filter, sort) = (Some(filter), options.sort);
            Ok(cursor.watched(watch, CursorRequest { filter, sort, pipeline: None }))
        }
        refused => watch.end(refused, || Requested::search(&filter, options.sort.as_ref())),
    }
}

fn open(
    collection: &Handle,
    filter: &Document,
    options: &FindOptions,
    limit: Option<u64>,
) -> Result<RawCursor> {
    // Parsed before the store is entered: a malformed filter is rejected even if the collection does not exist.
    let search = search(collection, filter, options, limit, asking(options))?;
    if is_tailable(options) {
        collection.refuse_in_transaction("a tailable cursor")?;
        return open_tailable(collection, options, search);
    }
    let selector = search.selector.clone();
    let opened = collection.search(&selector, |view| {
        // The view's own indexes: the plan can use these and no others.
        check_hint(options.hint.as_ref(), view.indexes())?;
        Rows::open(view, search).map(RawCursor::new)
    })?;
    match opened {
        Some(cursor) => Ok(cursor),
        None if collection.is_view()? => AsPipeline::of_find(filter, options, limit)?.open(collection),
        // As in MongoDB, a collection that does not exist is an empty one.
        None => Ok(RawCursor::empty()),
    }
}

fn asking(options: &FindOptions) -> Asking {
    if is_tailable(options) { Asking::Repeated } else { Asking::Once }
}

pub(super) fn is_tailable(options: &FindOptions) -> bool {
    matches!(options.cursor_type, Some(CursorType::Tailable | CursorType::TailableAwait))
}

/// Opens a cursor that goes on after the last document.
fn open_tailable(collection: &Handle, options: &FindOptions, search: Search) -> Result<RawCursor> {
    // Before the store is entered, as for every search.
    tail::check(&search, options)?;
    let await_time = match options.cursor_type {
        Some(CursorType::TailableAwait) => options.max_await_time.unwrap_or(AWAIT_TIME),
        Some(CursorType::Tailable | CursorType::NonTailable) | None => Duration::ZERO,
    };
    let engine = collection.shared().engine();
    let opened = {
        let database = engine.store.enter()?;
        let taken = ReadView::take(&database, || collection.find_state())?;
        taken.map(|(state, view)| Tail::open(engine, &state, view, search, await_time)).transpose()?
    };
    match opened {
        Some(Some(tail)) => Ok(RawCursor::tailing(tail)),
        None if collection.is_view()? => {
            let namespace = collection.valid_namespace()?;
            let message = format!("a view has no documents of its own, so it cannot be tailed: {namespace}");
            Err(refused(Code::INVALID_PIPELINE_OPERATOR, message).in_namespace(namespace))
        }
        // As in MongoDB, a cursor that finds nothing to follow is at its end.
        Some(None) | None => Ok(RawCursor::empty()),
    }
}

/// Parses the projection of a search.
pub(super) fn parse_projection(
    projection: Option<&Document>,
    selector: &Selector,
) -> Result<Option<Projection>> {
    let Some(projection) = projection else { return Ok(None) };
    let raw = RawDocumentBuf::try_from(projection)?;
    // A positional `$` needs the filter, and computed fields need the variables and the clock of the search.
    Ok(Some(Projection::parse(&raw, selector.filter(), selector.variables())?))
}
