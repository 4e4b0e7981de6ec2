//! `watch`: what a stream is asked for, and where it begins.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use base::codes::refused;
use base::error::{Error, Result};
use base::names::validate_database;
use base::namespace::Namespace;
use bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp};
use query::code::Code;
use query::expression::Variables;

use crate::catalog::views::is_a_view;
use crate::changes::log::{ChangeLog, LogId, position};
use crate::changes::scopes::{Scope, is_logged};
use crate::options::Collation;
use crate::shared::{Caller, Shared};
use crate::streams::event::{ChangeStreamEvent, FullDocumentBeforeChangeType, FullDocumentType};
use crate::streams::shape::Shown;
use crate::streams::stages::Stages;
use crate::streams::stream::{Asked, RawStream};
use crate::streams::token::{Place, ResumeToken, TokenKind, lost};
use crate::streams::typed::ChangeStream;
use crate::streams::walk::{LogWalk, Logged};

/// How long [`ChangeStream::next_if_any`] waits unless the stream says otherwise.
const AWAIT_TIME: Duration = Duration::from_secs(1);

/// The target of a stream.
pub(crate) enum Watched {
    Client,
    Database(String),
    /// With the error that its name is not allowed, if it is not.
    Collection(Result<Namespace>),
}

/// The action of `watch`. [`run`](Self::run) opens the stream.
#[must_use = "the stream is opened by run()"]
pub struct Watch<'a, T = Document> {
    shared: &'a Arc<Shared>,
    caller: Caller,
    watched: Watched,
    options: Options,
    row: PhantomData<fn() -> T>,
}

#[derive(Default)]
struct Options {
    pipeline: Vec<Document>,
    shown: Shown,
    resume_after: Option<ResumeToken>,
    start_after: Option<ResumeToken>,
    start_at: Option<Timestamp>,
    max_await_time: Option<Duration>,
    collation: Option<Collation>,
    is_expanded: bool,
}

impl<'a, T> Watch<'a, T> {
    pub(crate) fn new(shared: &'a Arc<Shared>, caller: Caller, watched: Watched) -> Self {
        Self { shared, caller, watched, options: Options::default(), row: PhantomData }
    }

    /// Sends the events through stages of an aggregation: `$match`, `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`,
    /// `$replaceWith` and `$redact`. The field `_id`, the resume token, must stay as it is.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let named = doc! { "$match": { "fullDocument.name": "Grace" } };
    /// let mut stream = people.watch().pipeline([named]).run()?;
    /// people.insert_many([doc! { "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    /// let grace = stream.next().expect("a stream has no end")?;
    /// assert_eq!(grace.document_key, Some(doc! { "_id": 2 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pipeline(mut self, pipeline: impl IntoIterator<Item = Document>) -> Self {
        self.options.pipeline = pipeline.into_iter().collect();
        self
    }

    /// Shows the documents of updates as well.
    ///
    /// ```
    /// # use cairndb::{Client, FullDocumentType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
    /// let mut stream = people.watch().full_document(FullDocumentType::UpdateLookup).run()?;
    /// people.update_one(doc! { "_id": 1 }, doc! { "$set": { "born": 1815 } }).run()?;
    /// let event = stream.next().expect("a stream has no end")?;
    /// assert_eq!(event.full_document, Some(doc! { "_id": 1, "name": "Ada", "born": 1815 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn full_document(mut self, full_document: FullDocumentType) -> Self {
        self.options.shown.full = Some(full_document);
        self
    }

    /// Shows documents as they were before their changes as well.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let before = FullDocumentBeforeChangeType::WhenAvailable;
    /// let mut stream = people.watch().full_document_before_change(before).run()?;
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// people.delete_one(doc! { "_id": 1 }).run()?;
    /// let removed = stream.nth(1).expect("it waits")?;
    /// assert_eq!(removed.full_document_before_change, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn full_document_before_change(mut self, before: FullDocumentBeforeChangeType) -> Self {
        self.options.shown.before = Some(before);
        self
    }

    /// Goes on after the event of a token. A stream that was at its end cannot be resumed, but another one can
    /// [start](Self::start_after) after it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let token = people.watch().run()?.resume_token();
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut stream = people.watch().resume_after(token).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume_after(mut self, token: impl Into<Option<ResumeToken>>) -> Self {
        self.options.resume_after = token.into();
        self
    }

    /// Begins after the event of a token, which may be that of the end of another stream.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let mut stream = people.watch().run()?;
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// people.drop().run()?;
    /// let end = stream.nth(2).expect("it waits")?;
    /// assert!(stream.next().is_none());
    ///
    /// people.insert_one(doc! { "_id": 2 }).run()?;
    /// let mut stream = people.watch().start_after(end.id).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 2 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_after(mut self, token: impl Into<Option<ResumeToken>>) -> Self {
        self.options.start_after = token.into();
        self
    }

    /// Begins at a time: the first event is the first one at it or after it. See
    /// [`Client::operation_time`](crate::Client::operation_time).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.watch().run()?;
    /// let time = client.operation_time()?;
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut stream = people.watch().start_at_operation_time(time).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_at_operation_time(mut self, time: Timestamp) -> Self {
        self.options.start_at = Some(time);
        self
    }

    /// How long [`ChangeStream::next_if_any`] waits for an event. One second by default.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let mut stream = people.watch().max_await_time(Duration::from_millis(5)).run()?;
    /// assert_eq!(stream.next_if_any()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_await_time(mut self, time: Duration) -> Self {
        self.options.max_await_time = Some(time);
        self
    }

    /// How many events one batch of a server may have. A stream within the process has no batches.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let mut stream = people.watch().batch_size(100).run()?;
    /// # assert!(stream.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch_size(self, _: u32) -> Self {
        self
    }

    /// How the stages compare texts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let grace = doc! { "$match": { "fullDocument.name": "grace" } };
    /// let any_case = Collation::with_locale("en").strength(cairndb::CollationStrength::Secondary);
    /// let mut stream = people.watch().pipeline([grace]).collation(any_case).run()?;
    /// people.insert_one(doc! { "_id": 1, "name": "Grace" }).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn collation(mut self, collation: Collation) -> Self {
        self.options.collation = Some(collation);
        self
    }

    /// A remark for logs. It means nothing to the stream.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let stream = people.watch().comment("of the nightly job").run()?;
    /// # assert!(stream.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    pub fn comment(self, _: impl Into<Bson>) -> Self {
        self
    }

    /// Shows more events: of collections, indexes and views that are created, changed or dropped, with a description of the change.
    /// Events have the UUIDs of their collections too, and updates say how paths are to be read that can be read in two ways.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "a.b": 1 }).run()?;
    /// let mut stream = people.watch().show_expanded_events(true).run()?;
    /// let set = doc! { "$replaceWith": { "$setField": { "field": "a.b", "input": "$$ROOT", "value": 2 } } };
    /// people.update_one(doc! { "_id": 1 }, vec![set]).run()?;
    /// let update = stream.next().expect("it waits")?.update_description.expect("an update");
    /// assert_eq!(update.disambiguated_paths, Some(doc! { "a.b": ["a.b"] }));
    ///
    /// people.create_index(cairndb::IndexModel::builder().keys(doc! { "name": 1 }).build()).run()?;
    /// let made = stream.next().expect("it waits")?.operation_description.expect("an index was made");
    /// let described = doc! { "v": 2, "key": { "name": 1 }, "name": "name_1" };
    /// assert_eq!(made, doc! { "indexes": [described] });
    /// # Ok(())
    /// # }
    /// ```
    pub fn show_expanded_events(mut self, show: bool) -> Self {
        self.options.is_expanded = show;
        self
    }

    /// Opens the stream. The first stream on a collection, a database or a client switches the log of its changes on: writes that
    /// begin after this has returned are shown.
    ///
    /// # Errors
    /// With code 260 for a token that is none, or one of another store; with code 286 if events after it are forgotten or were never
    /// logged; with code 73 for a collection or a database of the system, and with code 166 for a view. A store that was opened for
    /// reading cannot switch the log on.
    ///
    /// ```
    /// # use cairndb::{Client, OperationType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut stream = orders.watch().run()?;
    /// orders.insert_one(doc! { "_id": 1, "item": "lamp" }).run()?;
    /// orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "paid": true } }).run()?;
    ///
    /// let event = stream.next().expect("a stream has no end")?;
    /// assert_eq!(event.operation_type, OperationType::Insert);
    /// assert_eq!(event.full_document, Some(doc! { "_id": 1, "item": "lamp" }));
    /// let event = stream.next().expect("a stream has no end")?;
    /// let changed = event.update_description.expect("it is an update").updated_fields;
    /// assert_eq!(changed, doc! { "paid": true });
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<ChangeStream<ChangeStreamEvent<T>>> {
        let await_time = self.options.max_await_time.unwrap_or(AWAIT_TIME);
        // Only the stream knows `T`: what opens it is compiled once.
        let Self { shared, caller, watched, options, row: _ } = self;
        let stream = Watch::<Document> { shared, caller, watched, options, row: PhantomData }.open()?;
        Ok(ChangeStream::of(stream, await_time))
    }
}

impl Watch<'_> {
    /// Opens the stream without the type of its events.
    pub(crate) fn open(self) -> Result<RawStream> {
        let Self { shared, caller, watched, options, row: _ } = self;
        refuse_several_places(&options)?;
        let scope = scope_of(watched)?;
        let opening = shared.operation(&caller, None);
        // The limit of time of a command holds for the opening: a stream has no end, and each wait has a limit of its own.
        let operation = shared.operation(&Caller { operation: None, ..caller.clone() }, None);
        let collation = Collation::rules(options.collation.as_ref())?;
        let variables = Variables::new(DateTime::now()).within(operation.clone()).with_collation(collation);
        let stages = options.pipeline.iter().map(RawDocumentBuf::try_from);
        let stages = stages.collect::<std::result::Result<Vec<_>, _>>()?;
        operation.keep(operation.reserve(stages.iter().map(|stage| stage.as_bytes().len()).sum())?);
        let stages = Stages::parse(&stages, &variables)?;
        let database = shared.store.enter()?;
        if let Scope::Collection(namespace) = &scope
            && shared.catalog.find_view(namespace).is_some()
        {
            return Err(is_a_view(namespace));
        }
        let logged = Logged::begin(shared, &database, scope, &opening)?;
        let (log, began) = (&shared.catalog.log, logged.began);
        let place = first_place(&options, log, logged.id, began)?;
        // A stream at a time shows what is at that time too.
        let since = options.start_at.map_or(place.position, position);
        if since < began {
            return Err(lost("changes are logged since a later time"));
        }
        let walk = LogWalk::after(place, Arc::clone(shared.engine()), logged, operation);
        let expanded = options.is_expanded.then(|| database.identity()).transpose()?;
        let shown = Shown { expanded, ..options.shown };
        RawStream::open(walk, &database, Asked { shown, stages })
    }
}

/// Where the stream begins.
fn first_place(options: &Options, log: &ChangeLog, id: LogId, began: u64) -> Result<Place> {
    let place = if let Some(token) = &options.resume_after {
        let place = token.place(id)?;
        if place.kind == TokenKind::Invalidate {
            return Err(token.refused("it is that of the end of a stream; start_after accepts it"));
        }
        place
    } else if let Some(token) = &options.start_after {
        token.place(id)?
    } else if let Some(time) = options.start_at {
        Place::watermark(position(time).saturating_sub(1))
    } else {
        // Not after the last position: who reads the collection after this does not see a write that has one and is under way still.
        return Ok(Place::watermark(log.watermark().max(began)));
    };
    if log.is_ahead(place.position) {
        return Err(lost("nothing was logged as late"));
    }
    if (place.position, place.ordinal) < log.low() {
        return Err(lost("changes after it are forgotten"));
    }
    Ok(place)
}

/// Refuses a second place to begin at, with the codes of MongoDB.
fn refuse_several_places(options: &Options) -> Result<()> {
    let Options { resume_after, start_after, start_at, .. } = options;
    if resume_after.is_some() && start_after.is_some() {
        let message =
            "Only one type of resume option is allowed, but both resumeAfter and startAfter were found";
        return Err(refused(Code::RESUME_AFTER_AND_START_AFTER, message));
    }
    if start_at.is_some() && (resume_after.is_some() || start_after.is_some()) {
        let message = "Only one type of resume option is allowed, but multiple were found";
        return Err(refused(Code::RESUME_OPTIONS_CONFLICT, message));
    }
    Ok(())
}

/// The scope of a target.
///
/// # Errors
/// With code 73 if it belongs to the system.
pub(crate) fn scope_of(watched: Watched) -> Result<Scope> {
    match watched {
        Watched::Client => Ok(Scope::Client),
        Watched::Database(db) => {
            validate_database(&db)?;
            // As in MongoDB, whose streams on `admin` are those of all databases.
            let any = Namespace { db, coll: String::new() };
            if is_logged(&any) { Ok(Scope::Database(any.db)) } else { Err(unlogged(&any.db)) }
        }
        Watched::Collection(namespace) => logged_scope(namespace?),
    }
}

/// The scope of a collection.
///
/// # Errors
/// With code 73 if it belongs to the system.
pub(crate) fn logged_scope(namespace: Namespace) -> Result<Scope> {
    if is_logged(&namespace) {
        Ok(Scope::Collection(namespace))
    } else {
        Err(unlogged(&namespace.to_string()))
    }
}

fn unlogged(name: &str) -> Error {
    let message = format!("the changes of {name}, which belongs to the system, are not logged");
    refused(Code::INVALID_NAMESPACE, message)
}
