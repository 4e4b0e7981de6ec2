//! `count_documents` and `estimated_document_count`.

use std::sync::Arc;
use std::time::Duration;

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, doc};
use query::code::Code;
use query::operation::OperationContext;
use store::{Database, Store};

use crate::catalog::collection::{CollectionState, CounterMark};
use crate::collection::handle::{Collection, Handle};
use crate::collection::scope::Scope;
use crate::collection::view_reads::AsPipeline;
use crate::execute::explain::{Depth, Explained};
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::execute::rows::{Rows, Search};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::declare::setters;
use crate::options::reads::count_option;
use crate::options::{Collation, CountOptions, Hint};
use crate::plan::access::Needed;
use crate::plan::order::{Order, check_hint};
use crate::plan::selector::Selector;
use crate::results::number;

/// The interval in which a thread that waits for the count of another one checks whether it must end.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

impl<T> Collection<T> {
    /// Counts the documents that match the filter, by reading them.
    ///
    /// To count all documents without reading them use
    /// [`estimated_document_count`](Self::estimated_document_count).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// assert_eq!(people.count_documents(doc! { "name": "Ada" }).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_> {
        CountDocuments { collection: Scope::of(&self.handle), filter, options: CountOptions::default() }
    }

    /// Returns the number of documents, from a counter.
    ///
    /// In spite of MongoDB's name it is exact, for all writes that have returned. The counter survives an orderly close.
    /// After a crash the first call reads all documents once to count them; writes can go on meanwhile.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// assert_eq!(people.estimated_document_count().run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn estimated_document_count(&self) -> EstimatedDocumentCount<'_> {
        EstimatedDocumentCount { collection: &self.handle, max_time: None }
    }
}

/// The action that [`Collection::count_documents`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// assert_eq!(people.count_documents(doc! {}).skip(1).limit(10).run()?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "the count is done by run()"]
pub struct CountDocuments<'a> {
    collection: Scope<'a>,
    filter: Document,
    options: CountOptions,
}

/// The action that [`Collection::estimated_document_count`] returns. [`run`](Self::run) executes it.
#[must_use = "the count is done by run()"]
pub struct EstimatedDocumentCount<'a> {
    collection: &'a Handle,
    max_time: Option<Duration>,
}

in_session!(CountDocuments<'a> = r#"people.count_documents(doc! {})"#);

setters!(CountDocuments<'a>, CountOptions, count_option);

impl CountDocuments<'_> {
    /// Counts the documents.
    pub fn run(self) -> Result<u64> {
        let watch = self.collection.watch(Verb::CountDocuments);
        watch.end(self.count(), || Requested::search(&self.filter, None))
    }

    fn count(&self) -> Result<u64> {
        let search = self.search()?;
        let selector = search.selector.clone();
        let counted = self.collection.search(&selector, |view| {
            check_hint(self.options.hint.as_ref(), view.indexes())?;
            // `Rows` applies skip and limit, and ends the scan at the limit. Nothing is decoded.
            let mut rows = Rows::open(view, search)?;
            let mut count = 0;
            while rows.advance()? {
                count += 1;
            }
            Ok(count)
        })?;
        match counted {
            Some(count) => Ok(count),
            None if self.collection.is_view()? => {
                self.collection.abort_on_error(self.as_pipeline().count(&self.collection))
            }
            // As in MongoDB, a collection that does not exist is an empty one.
            None => Ok(0),
        }
    }

    /// The pipeline that counts the same on a view.
    pub(crate) fn as_pipeline(&self) -> AsPipeline {
        AsPipeline::of_count(&self.filter, &self.options)
    }

    /// Plans the count for `explain`, and at [`Depth::Execution`] counts.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let hint = self.options.hint.as_ref();
        let explained = self.collection.explain_search(&self.filter, hint, self.search()?, depth)?;
        let counted = explained.rows();
        Ok(explained.under("COUNT", 0, doc! { "nCounted": number(counted) }))
    }

    fn search(&self) -> Result<Search> {
        // MongoDB's drivers count by a pipeline, so the code is that of its stage `$limit`.
        if self.options.limit == Some(0) {
            return Err(refused(Code::LIMIT_NOT_POSITIVE, "the limit must be positive, got 0"));
        }
        // Before the operation begins: a language that does not exist ends the call.
        let collation = self.collection.rules(self.options.collation.as_ref())?;
        let operation = self.collection.begin(self.options.max_time);
        Ok(Search {
            skip: self.options.skip.unwrap_or(0),
            limit: self.options.limit,
            order: Order::of(None, self.options.hint.as_ref())?,
            // To count a document nothing of it is needed.
            needs: Needed::Fields(Vec::new()),
            ..Search::of(Selector::parse(&self.filter, None, operation, collation)?)
        })
    }
}

impl EstimatedDocumentCount<'_> {
    /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Only a count of all documents, as after
    /// a crash, needs any time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert_eq!(people.estimated_document_count().max_time(Duration::from_secs(5)).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Reads the counter.
    pub fn run(self) -> Result<u64> {
        let watch = self.collection.watch(Verb::EstimatedDocumentCount);
        watch.end(self.count(), Requested::default)
    }

    fn count(&self) -> Result<u64> {
        let operation = self.collection.begin_plain(self.max_time);
        match self.collection.known_count(&operation)? {
            Some(count) => Ok(count),
            // A view has no counter: its documents are counted.
            None if self.collection.is_view()? => {
                let options = CountOptions { max_time: self.max_time, ..CountOptions::default() };
                AsPipeline::of_count(&Document::new(), &options).count(self.collection)
            }
            None => Ok(0),
        }
    }

    /// Explains the count: no document is read.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        // Only whether the collection exists is asked: the counter itself may not be known yet, and an
        // explanation must not start a count. The names of the stages are MongoDB's.
        let stage = match self.collection.read(|_, _| Ok(()))? {
            Some(()) => "RECORD_STORE_FAST_COUNT",
            None => "EOF",
        };
        Ok(Explained::without_reading(&Document::new(), stage, depth))
    }
}

impl Handle {
    /// Returns the counter's number of documents, or `None` if the collection does not exist.
    ///
    /// If the counter does not know it, the documents are counted. Writes go on meanwhile, and the counter adds what they
    /// insert and remove.
    pub(super) fn known_count(&self, operation: &OperationContext) -> Result<Option<u64>> {
        let shared = self.shared();
        // Kept until the count is done. `close` waits for it, so the scan never meets a closed store.
        let database = shared.store.enter()?;
        loop {
            let Some(state) = self.find_state()? else { return Ok(None) };
            if let Some(documents) = state.count.known() {
                return Ok(Some(documents));
            }
            // One count serves all threads that ask: the others wait here for its result, each within its own limits.
            let Some(_counting) = state.count.begin_counting(WAIT_INTERVAL) else {
                operation.look()?;
                continue;
            };
            // Another thread may have counted while this one waited for its turn.
            if let Some(documents) = state.count.known() {
                return Ok(Some(documents));
            }
            if let Some((view, mark)) = with_counter(&shared.store, &database, &state)? {
                let stored =
                    count_stored(view, operation).map_err(|error| error.in_namespace(&state.namespace))?;
                state.count.settle(stored, mark);
                // Asked again: `settle` has added what was written since the snapshot.
                return Ok(Some(state.count.known().unwrap_or(stored)));
            }
            // The collection was dropped or renamed: it is resolved again.
        }
    }
}

/// Takes a snapshot of the collection and the state of its counter at the same moment. Returns `None` if the collection
/// must be resolved again.
fn with_counter(
    store: &Store,
    database: &Arc<Database>,
    state: &CollectionState,
) -> Result<Option<(ReadView, CounterMark)>> {
    // A write changes the counter after its commit, both under its latches. While all latches are held, no write is
    // between the two.
    let _latched = store.latches.lock_all();
    Ok(ReadView::of_found(database, state)?.map(|view| (view, state.count.mark())))
}

/// Counts the documents of a collection by reading them.
fn count_stored(view: ReadView, operation: &OperationContext) -> Result<u64> {
    // The latches are free again, so writes go on during this scan.
    let everything = Selector::everything_within(operation.clone())?;
    let mut matches = Matches::open(view, &everything, &Order::default())?;
    let mut documents = 0;
    while matches.advance()? {
        documents += 1;
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc::channel;

    use bson::doc;

    use super::*;
    use crate::client::Client;

    /// The time that a write may need, however busy the machine is.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A store whose counter of documents is unknown, as after a crash.
    fn uncounted(folder: &tempfile::TempDir) -> (Client, Collection<Document>) {
        let open = |path: &Path| {
            let client = Client::open(path).expect("opened");
            let things = client.database("test").collection::<Document>("things");
            (client, things)
        };
        let (from, to) = (folder.path().join("db"), folder.path().join("copy"));
        let (client, things) = open(&from);
        things.insert_many((0..1_000).map(|id| doc! { "_id": id })).run().expect("stored");
        client.sync().expect("synced");
        // The files as they are now: nothing was closed, so no count was written. An open store may remove files that it
        // needs no more.
        while copy(&from, &to).is_err() {
            fs::remove_dir_all(&to).expect("removed");
        }
        open(&to)
    }

    fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
        fs::create_dir(to)?;
        for file in fs::read_dir(from)? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
        Ok(())
    }

    /// The lock that a count holds while it reads all documents once kept every writer of the collection waiting.
    #[test]
    fn an_insert_returns_while_all_documents_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_client, things) = uncounted(&folder);
        let shared = things.handle.shared();
        let database = shared.store.enter().expect("open");
        let state = things.handle.find_state().expect("a name").expect("there");
        assert_eq!(state.count.known(), None);
        // As `known_count` does it, with a write in the middle.
        let counting = state.count.begin_counting(Duration::ZERO).expect("no other count runs");
        let (view, mark) = with_counter(&shared.store, &database, &state).expect("read").expect("there");
        let (stored, is_stored) = channel();
        std::thread::scope(|scope| {
            let writer = things.clone();
            scope.spawn(move || stored.send(writer.insert_one(doc! { "_id": -1 }).run().map(drop)));
            is_stored.recv_timeout(PATIENCE).expect("no writer waits for a count").expect("stored");
        });
        let counted = count_stored(view, &OperationContext::default()).expect("counted");
        assert_eq!(counted, 1_000);
        state.count.settle(counted, mark);
        drop(counting);
        assert_eq!(things.estimated_document_count().run().expect("known"), 1_001);
    }

    #[test]
    fn who_waits_for_the_count_of_another_thread_keeps_to_its_own_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_client, things) = uncounted(&folder);
        let limit = Duration::from_nanos(1);
        // Its own count ends as well, and leaves the number unknown.
        let code = |outcome: Result<u64>| outcome.expect_err("the limit is over").code();
        assert_eq!(code(things.estimated_document_count().max_time(limit).run()), Some(50));
        let state = things.handle.find_state().expect("a name").expect("there");
        assert_eq!(state.count.known(), None);
        let counting = state.count.begin_counting(Duration::ZERO).expect("no other count runs");
        assert_eq!(code(things.estimated_document_count().max_time(limit).run()), Some(50));
        drop(counting);
        assert_eq!(things.estimated_document_count().run().expect("counted"), 1_000);
        assert_eq!(things.estimated_document_count().max_time(limit).run().expect("known"), 1_000);
    }
}
