//! Cases through the engine, by `Database::run_command` over one store: each in collections of its own, and by every
//! command that can say the same.
//!
//! The clock runs, and documents without an `_id` get one. So a moment and an `ObjectId` that can only be made by this
//! run are shown as those of the crate's way through the corpus, where the clock stands still and the `ObjectId` is one of
//! zeros. Nothing else is evened out.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};
use cairndb::{Client, Database};
use cairndb_tests::scratch::Scratch;

use crate::conformance::corpus::{Case, Change, Command, Find, Modification, OtherCollection, Reach, Upsert};
use crate::conformance::expectation::Outcome;
use crate::conformance::run::{NOW, STAMP};

/// A command that a case is run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CaseCommand {
    Find,
    Count,
    Update,
    FindAndModify,
    Distinct,
    Aggregate,
    /// An aggregation over other collections that have indexes on the fields by which they are joined.
    IndexedAggregate,
    /// An expression, as a computed field of `find`.
    Projection,
    /// An expression, as a stage of an update.
    Pipeline,
}

/// A store in which the cases are run.
pub(crate) struct Engine {
    database: Database,
    /// The number of collections; their names are numbers.
    collections: Cell<usize>,
    /// The begin of the run, in seconds.
    began: u32,
    // Last, because fields are dropped in order: the store goes before its folder.
    _client: Client,
    _scratch: Scratch,
}

/// An error's number and text.
struct Refusal {
    code: i32,
    text: String,
}

impl From<cairndb::Error> for Refusal {
    fn from(error: cairndb::Error) -> Self {
        let code = error.code().unwrap_or_else(|| panic!("an error without a number: {error:?}"));
        Self { code, text: error.to_string() }
    }
}

/// The commands that a case can be run by.
pub(crate) fn ways(case: &Case) -> &'static [CaseCommand] {
    match &case.command {
        Command::Find(find) if is_countable(find) => &[CaseCommand::Find, CaseCommand::Count],
        Command::Find(_) => &[CaseCommand::Find],
        Command::Update(Change { reach: Reach::One, .. }) => {
            &[CaseCommand::Update, CaseCommand::FindAndModify]
        }
        Command::Update(Change { reach: Reach::Many, .. }) => &[CaseCommand::Update],
        Command::Distinct { .. } => &[CaseCommand::Distinct],
        Command::Aggregate { .. } if case.others.is_empty() => &[CaseCommand::Aggregate],
        Command::Aggregate { .. } => &[CaseCommand::Aggregate, CaseCommand::IndexedAggregate],
        Command::Expression { .. } => &[CaseCommand::Projection, CaseCommand::Pipeline],
    }
}

/// Whether `count` supports all that is asked.
fn is_countable(find: &Find) -> bool {
    find.projection.is_none() && find.sort.is_none() && find.variables.is_empty()
}

impl Engine {
    /// An empty store.
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        let database = client.database("conformance");
        Self { database, collections: Cell::new(0), began: seconds(), _client: client, _scratch: scratch }
    }

    /// The result of the command of a case.
    pub(crate) fn run(&self, case: &Case, way: CaseCommand) -> Outcome {
        let outcome = self.outcome(case, way);
        let outcome = outcome.unwrap_or_else(|Refusal { code, text }| Outcome::Refused { code, text });
        match outcome {
            Outcome::Documents(documents) => Outcome::Documents(
                documents.into_iter().map(|document| self.still_document(document)).collect(),
            ),
            Outcome::Values(values) => Outcome::Values(
                values.into_iter().map(|value| value.map(|value| self.still(value))).collect(),
            ),
            Outcome::Number(_) | Outcome::Refused { .. } => outcome,
        }
    }

    fn outcome(&self, case: &Case, way: CaseCommand) -> Result<Outcome, Refusal> {
        let Case { documents, command, .. } = case;
        let collection = self.collections.get().to_string();
        self.collections.set(self.collections.get() + 1);
        if !documents.is_empty() {
            self.write(doc! { "insert": &collection, "documents": documents })?;
        }
        self.make_others(case, way)?;
        match command {
            Command::Find(find) if way == CaseCommand::Count => {
                self.count(&collection, find).map(Outcome::Number)
            }
            Command::Find(find) => self.find(&collection, find).map(Outcome::Documents),
            Command::Update(change) if way == CaseCommand::FindAndModify => {
                self.find_and_modify(&collection, change).map(Outcome::Documents)
            }
            Command::Update(change) => self.update(&collection, change).map(Outcome::Documents),
            Command::Distinct { path, filter } => {
                self.distinct(&collection, path, filter).map(Outcome::Values)
            }
            Command::Aggregate { stages, variables } => {
                let given = self.aggregate(&collection, stages, variables)?;
                let Some(then) = &case.then else { return Ok(Outcome::Documents(given)) };
                assert!(given.is_empty(), "a pipeline that writes gives {given:?}");
                self.stored(then).map(Outcome::Documents)
            }
            Command::Expression { expression, variables } if way == CaseCommand::Pipeline => {
                self.in_update(&collection, expression, variables).map(Outcome::Values)
            }
            Command::Expression { expression, variables } => {
                self.in_projection(&collection, expression, variables).map(Outcome::Values)
            }
        }
    }

    /// Makes the other collections of a case again, in place of those of the case before.
    fn make_others(&self, case: &Case, way: CaseCommand) -> Result<(), Refusal> {
        let written = case.then.iter();
        for name in case.others.iter().map(|other| &other.name).chain(written) {
            self.command(doc! { "drop": name })?;
        }
        for OtherCollection { name, documents, unique } in &case.others {
            self.command(doc! { "create": name })?;
            if !documents.is_empty() {
                self.write(doc! { "insert": name, "documents": documents })?;
            }
            for key in unique {
                self.make_index(name, key, true)?;
            }
        }
        let Command::Aggregate { stages, .. } = &case.command else { return Ok(()) };
        if way == CaseCommand::IndexedAggregate {
            for (from, field) in stages.iter().flat_map(joined_fields) {
                self.make_index(&from, &doc! { field: 1 }, false)?;
            }
        }
        Ok(())
    }

    fn make_index(&self, collection: &str, key: &Document, unique: bool) -> Result<(), Refusal> {
        let fields: Vec<&str> = key.keys().map(String::as_str).collect();
        let mut index = doc! { "key": key, "name": fields.join("_") };
        if unique {
            index.insert("unique", true);
        }
        self.command(doc! { "createIndexes": collection, "indexes": [index] })?;
        Ok(())
    }

    fn command(&self, command: Document) -> Result<Document, Refusal> {
        Ok(self.database.run_command(command).run()?)
    }

    /// Runs a command whose rejections are in its reply.
    fn write(&self, command: Document) -> Result<Document, Refusal> {
        let reply = self.command(command)?;
        let Ok(errors) = reply.get_array("writeErrors") else { return Ok(reply) };
        let error = errors.first().and_then(Bson::as_document).expect("an error");
        let (code, text) =
            (error.get_i32("code").expect("a number"), error.get_str("errmsg").expect("a text"));
        Err(Refusal { code, text: text.to_owned() })
    }

    /// The documents that a command with a cursor gives.
    fn batch(&self, command: Document) -> Result<Vec<Document>, Refusal> {
        let reply = self.command(command)?;
        let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let documents = batch.expect("a batch").iter().map(|found| found.as_document().expect("a document"));
        Ok(documents.cloned().collect())
    }

    fn stored(&self, collection: &str) -> Result<Vec<Document>, Refusal> {
        self.batch(doc! { "find": collection })
    }

    fn find(&self, collection: &str, find: &Find) -> Result<Vec<Document>, Refusal> {
        let mut command = with_let(doc! { "find": collection, "filter": &find.filter }, &find.variables);
        command.extend(find.projection.clone().map(|shown| ("projection".to_owned(), shown.into())));
        command.extend(find.sort.clone().map(|sort| ("sort".to_owned(), sort.into())));
        command.extend(limits(find));
        self.batch(command)
    }

    fn count(&self, collection: &str, find: &Find) -> Result<usize, Refusal> {
        let mut command = doc! { "count": collection, "query": &find.filter };
        command.extend(limits(find));
        let number = self.command(command)?.get_i32("n").expect("a number");
        Ok(usize::try_from(number).expect("a number of documents"))
    }

    fn distinct(
        &self,
        collection: &str,
        path: &str,
        filter: &Document,
    ) -> Result<Vec<Option<Bson>>, Refusal> {
        let reply = self.command(doc! { "distinct": collection, "key": path, "query": filter })?;
        Ok(reply.get_array("values").expect("values").iter().cloned().map(Some).collect())
    }

    /// A pipeline with a source of its own is run on the database where it must be.
    fn aggregate(
        &self,
        collection: &str,
        stages: &[Document],
        variables: &Document,
    ) -> Result<Vec<Document>, Refusal> {
        let is_on_database = stages.first().is_some_and(|stage| {
            ["$documents", "$currentOp", "$listLocalSessions"].iter().any(|name| stage.contains_key(*name))
        });
        let target = if is_on_database { Bson::Int32(1) } else { Bson::from(collection) };
        let command = doc! { "aggregate": target, "pipeline": stages, "cursor": {} };
        self.batch(with_let(command, variables))
    }

    fn update(&self, collection: &str, change: &Change) -> Result<Vec<Document>, Refusal> {
        let mut statement = doc! { "q": &change.filter, "u": modification(&change.update) };
        statement.insert("multi", change.reach == Reach::Many);
        statement.extend(asked(change));
        self.write(with_let(doc! { "update": collection, "updates": [statement] }, &change.variables))?;
        self.stored(collection)
    }

    /// The document that is given must be stored just so.
    fn find_and_modify(&self, collection: &str, change: &Change) -> Result<Vec<Document>, Refusal> {
        let update = modification(&change.update);
        let mut command =
            doc! { "findAndModify": collection, "query": &change.filter, "update": update, "new": true };
        command.extend(asked(change));
        let reply = self.command(with_let(command, &change.variables))?;
        let stored = self.stored(collection)?;
        if let Ok(value) = reply.get_document("value") {
            let raw = |document: &Document| bson::serialize_to_vec(document).expect("bytes");
            assert!(stored.iter().any(|document| raw(document) == raw(value)), "{value} is not stored");
        }
        Ok(stored)
    }

    fn in_projection(
        &self,
        collection: &str,
        expression: &Bson,
        variables: &Document,
    ) -> Result<Vec<Option<Bson>>, Refusal> {
        // By itself a number would be an inclusion, and an object a nested projection.
        let computed = doc! { "$let": { "vars": {}, "in": expression } };
        let shown = doc! { "_id": 0, "value": computed };
        Ok(values(self.batch(with_let(doc! { "find": collection, "projection": shown }, variables))?))
    }

    fn in_update(
        &self,
        collection: &str,
        expression: &Bson,
        variables: &Document,
    ) -> Result<Vec<Option<Bson>>, Refusal> {
        let stage = doc! { "$replaceWith": { "value": expression } };
        let statement = doc! { "q": {}, "u": [stage], "multi": true };
        self.write(with_let(doc! { "update": collection, "updates": [statement] }, variables))?;
        Ok(values(self.stored(collection)?))
    }

    fn still_document(&self, document: Document) -> Document {
        document.into_iter().map(|(name, value)| (name, self.still(value))).collect()
    }

    /// The value with what only this run can have made in it as the crate's way shows it.
    fn still(&self, value: Bson) -> Bson {
        let is_now = |at: i64| (i64::from(self.began)..=i64::from(seconds())).contains(&at);
        let is_moment_now = |moment: DateTime| is_now(moment.timestamp_millis().div_euclid(1000));
        if let Bson::Document(fields) = value {
            Bson::Document(self.still_document(fields))
        } else if let Bson::Array(elements) = value {
            Bson::Array(elements.into_iter().map(|element| self.still(element)).collect())
        } else if value.as_datetime().is_some_and(|moment| is_moment_now(*moment)) {
            NOW.into()
        } else if value.as_timestamp().is_some_and(|stamp| is_now(stamp.time.into())) {
            STAMP.into()
        } else if value.as_object_id().is_some_and(|id| is_moment_now(id.timestamp())) {
            ObjectId::from_bytes([0; 12]).into()
        } else {
            value
        }
    }
}

fn seconds() -> u32 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u32::try_from(elapsed.as_secs()).expect("a clock before 2106")
}

/// The collections and fields by which stages join, in them and in their pipelines.
fn joined_fields(stage: &Document) -> Vec<(String, String)> {
    let mut joined = Vec::new();
    let text = |name: &str| stage.get_str(name).ok().map(str::to_owned);
    if let (Some(from), Some(field)) = (text("from"), text("connectToField").or(text("foreignField"))) {
        joined.extend((field != "_id" && !field.is_empty()).then_some((from, field)));
    }
    for value in stage.values() {
        let inside = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        joined.extend(inside.iter().filter_map(Bson::as_document).flat_map(joined_fields));
    }
    joined
}

fn with_let(mut command: Document, variables: &Document) -> Document {
    if !variables.is_empty() {
        command.insert("let", variables);
    }
    command
}

fn limits(find: &Find) -> Document {
    let number = |count: usize| i64::try_from(count).expect("small");
    let mut limits = doc! { "skip": number(find.skip) };
    limits.extend(find.limit.map(|limit| ("limit".to_owned(), number(limit).into())));
    limits
}

fn modification(update: &Modification) -> Bson {
    match update {
        Modification::Operators(operators) => operators.into(),
        Modification::Pipeline(stages) => stages.clone().into(),
    }
}

fn asked(change: &Change) -> Document {
    let mut asked = doc! { "upsert": change.upsert == Upsert::Yes };
    if !change.array_filters.is_empty() {
        asked.insert("arrayFilters", change.array_filters.clone());
    }
    asked
}

fn values(documents: Vec<Document>) -> Vec<Option<Bson>> {
    documents.into_iter().map(|mut document| document.remove("value")).collect()
}
