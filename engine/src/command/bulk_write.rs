//! `bulkWrite`: inserts, updates and deletes of any collections in one command.
//!
//! It is run against the database `admin`; each operation names its collection by a position in `nsInfo`. The form of all
//! operations is checked before the first is run. What became of each is a document in the batch of a cursor, and the sums are fields
//! of the reply. Inserts into one collection that follow each other are stored together.

use base::codes::refused;
use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use query::code::Code;
use query::operation::{OperationContext, Reservation};

use crate::arguments::{Arguments, TOKEN_FIELD};
use crate::collection::{Collection, Delete};
use crate::command::context::CommandContext;
use crate::command::insert::without_any;
use crate::command::request::decode_statement;
use crate::command::upserted_ids::UpsertedIds;
use crate::command::write_errors::{Repeated, WriteErrors};
use crate::command::{delete, update};
use crate::document::draft::Drafts;
use crate::options::{DeleteOptions, InsertManyOptions};
use crate::outcomes::retryable::Done;
use crate::outcomes::row::Kind;
use crate::results::{UpdateResult, number};
use crate::write::outcome::InsertOutcome;

const KNOWN: [&str; 8] =
    ["bypassDocumentValidation", "cursor", "errorsOnly", TOKEN_FIELD, "let", "nsInfo", "ops", "ordered"];
/// The namespace of the cursor in replies.
const CURSOR_NAMESPACE: &str = "admin.$cmd.bulkWrite";
/// The most inserts that are stored by one call: between two calls the command looks at its limits.
const GROUP_MAX: usize = 1_000;
/// The memory of the result of an operation, without the `_id` of an upserted document, which is counted by its size, and without the
/// messages and details of errors, which have limits of their own.
const RESULT_MEMORY: usize = 1_024;

/// Runs `bulkWrite`. If the time is over, the whole command fails, and what was written until then stays.
pub(super) fn bulk_write(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&KNOWN)?;
    if context.db != "admin" {
        return Err(refused(Code::UNAUTHORIZED, "bulkWrite may only be run against the admin database."));
    }
    if let Some(cursor) = arguments.document("cursor")? {
        let cursor = Arguments::of("bulkWrite.cursor", cursor);
        cursor.allow_in_statement(&["batchSize"])?;
        cursor.count("batchSize")?;
    }
    let namespaces = namespaces(arguments)?;
    let statements = arguments.raw_statements("ops")?;
    let operations = statements.iter().map(|statement| Operation::read(statement, namespaces.len()));
    let operations = operations.collect::<Result<Vec<_>>>()?;
    let mut updates = update::Shared::of(arguments)?;
    let sync = context.one_sync(&mut updates.write_concern, operations.len())?;
    let mut bulk = BulkWrite {
        context,
        namespaces,
        is_ordered: arguments.boolean("ordered")?.unwrap_or(true),
        deletes: DeleteOptions {
            let_vars: updates.let_vars.cloned(),
            write_concern: updates.write_concern.clone(),
            ..DeleteOptions::default()
        },
        inserts: InsertManyOptions {
            ordered: arguments.boolean("ordered")?,
            bypass_document_validation: updates.bypass,
            write_concern: updates.write_concern.clone(),
            ..InsertManyOptions::default()
        },
        updates,
        results: Results::of(context, arguments.boolean("errorsOnly")?.unwrap_or(false)),
    };
    bulk.run(&operations)?;
    sync.end(context.shared)?;
    if !bulk.results.repeated.is_empty() {
        context.secure_repeated(arguments.write_concern()?.as_ref())?;
    }
    Ok(bulk.results.into_reply())
}

/// The collections of `nsInfo`.
fn namespaces(arguments: &Arguments<'_>) -> Result<Vec<Namespace>> {
    let entries = arguments.documents("nsInfo")?.ok_or_else(|| arguments.missing("nsInfo"))?;
    let namespace = |entry: &Document| {
        let entry = Arguments::of("bulkWrite.nsInfo", entry);
        entry.allow_in_statement(&["ns"])?;
        let name = entry.text("ns")?.ok_or_else(|| entry.missing("ns"))?;
        // The first dot ends the name of the database.
        let (database, collection) = name.split_once('.').unwrap_or((name, ""));
        Namespace::parse(database, collection).map_err(|_| {
            let message = format!("Invalid namespace specified for bulkWrite: '{name}'");
            refused(Code::INVALID_NAMESPACE, message)
        })
    };
    entries.into_iter().map(namespace).collect()
}

/// The action of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Insert,
    Update,
    Delete,
}

/// The values that a field of an operation may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Object,
    Objects,
    ObjectOrArray,
    ObjectOrText,
    Boolean,
}

impl Shape {
    fn fits(self, value: RawBsonRef<'_>) -> bool {
        let is_object = value.as_document().is_some();
        match self {
            Self::Object => is_object,
            Self::Objects => value.as_array().is_some_and(|array| {
                array.into_iter().all(|element| element.is_ok_and(|element| element.as_document().is_some()))
            }),
            Self::ObjectOrArray => is_object || value.as_array().is_some(),
            Self::ObjectOrText => is_object || value.as_str().is_some(),
            Self::Boolean => value.as_bool().is_some(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Objects => "array of objects",
            Self::ObjectOrArray => "object or array",
            Self::ObjectOrText => "string or object",
            Self::Boolean => "bool",
        }
    }
}

impl Action {
    const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    /// The name of its first field, whose value is the position of the collection.
    fn name(self) -> &'static str {
        self.kind().name()
    }

    fn kind(self) -> Kind {
        match self {
            Self::Insert => Kind::Insert,
            Self::Update => Kind::Update,
            Self::Delete => Kind::Delete,
        }
    }

    /// The other fields: the names, and those that the statements of `update` and `delete` have for them.
    fn fields(self) -> &'static [(&'static str, &'static str, Shape)] {
        match self {
            Self::Insert => &[("document", "document", Shape::Object)],
            Self::Update => &[
                ("filter", "q", Shape::Object),
                ("updateMods", "u", Shape::ObjectOrArray),
                ("multi", "multi", Shape::Boolean),
                ("upsert", "upsert", Shape::Boolean),
                ("arrayFilters", "arrayFilters", Shape::Objects),
                ("hint", "hint", Shape::ObjectOrText),
                ("constants", "c", Shape::Object),
                ("collation", "collation", Shape::Object),
                ("sort", "sort", Shape::Object),
            ],
            Self::Delete => &[
                ("filter", "q", Shape::Object),
                ("multi", "multi", Shape::Boolean),
                ("hint", "hint", Shape::ObjectOrText),
                ("collation", "collation", Shape::Object),
            ],
        }
    }

    /// The number of fields that must be there: the first ones.
    fn required(self) -> usize {
        match self {
            Self::Insert | Self::Delete => 1,
            Self::Update => 2,
        }
    }
}

/// An operation whose form was checked.
#[derive(Clone, Copy)]
struct Operation<'a> {
    action: Action,
    /// The position of its collection in `nsInfo`.
    namespace: usize,
    statement: &'a RawDocument,
}

impl<'a> Operation<'a> {
    const PLACE: &'static str = "bulkWrite.ops";

    fn read(statement: &'a RawDocument, namespaces: usize) -> Result<Self> {
        let first = statement.iter().next().transpose()?;
        let action = |name: &str| Action::ALL.into_iter().find(|action| action.name() == name);
        let Some((action, position)) = first.and_then(|(name, value)| Some((action(name.as_str())?, value)))
        else {
            let name = first.map_or("", |(name, _)| name.as_str());
            let message = format!("BSON field '{}.{name}' is an unknown field.", Self::PLACE);
            return Err(refused(Code::IDL_UNKNOWN_FIELD, message));
        };
        let namespace = Self::namespace(action, position, namespaces)?;
        let mut seen: Vec<&str> = Vec::new();
        for field in statement.iter().skip(1) {
            let (name, value) = field?;
            let name = name.as_str();
            if name == action.name() || seen.contains(&name) {
                let message = format!("BSON field '{}.{name}' is a duplicate field", Self::PLACE);
                return Err(refused(Code::IDL_DUPLICATE_FIELD, message));
            }
            let Some((_, _, shape)) = action.fields().iter().find(|(known, ..)| *known == name) else {
                let known: Vec<&str> = action.fields().iter().map(|(known, ..)| *known).collect();
                let decoded = Document::try_from(statement)?;
                let known = [&known[..], &[action.name()]].concat();
                Arguments::of(Self::PLACE, &decoded).allow_in_statement(&known)?;
                // An option that asks for nothing.
                continue;
            };
            if value == RawBsonRef::Null {
                continue;
            }
            if !shape.fits(value) {
                return Err(Self::wrong_type(name, value, shape.name()));
            }
            seen.push(name);
        }
        let required = action.fields().iter().take(action.required());
        match required.map(|(name, ..)| *name).find(|name| !seen.contains(name)) {
            None => Ok(Self { action, namespace, statement }),
            Some(missing) => {
                let message =
                    format!("BSON field '{}.{missing}' is missing but a required field", Self::PLACE);
                Err(refused(Code::IDL_FAILED_TO_PARSE, message))
            }
        }
    }

    /// The position of the collection, which must be in `nsInfo`.
    fn namespace(action: Action, value: RawBsonRef<'_>, namespaces: usize) -> Result<usize> {
        let name = action.name();
        let document = doc! { name: Bson::try_from(value)? };
        let is_number = value.as_i32().is_some() || value.as_i64().is_some() || value.as_f64().is_some();
        let position = if is_number { Arguments::of(Self::PLACE, &document).count(name)? } else { None };
        let position = position.ok_or_else(|| Self::wrong_type(name, value, "int"))?;
        let found = usize::try_from(position).ok().filter(|position| *position < namespaces);
        found.ok_or_else(|| {
            let message = format!(
                "BulkWrite ops entry {{ {name}: {position} }} has an invalid nsInfo index: there are {namespaces} namespaces"
            );
            refused(Code::BAD_VALUE, message)
        })
    }

    fn wrong_type(field: &str, found: RawBsonRef<'_>, expected: &str) -> Error {
        let found = format!("{:?}", found.element_type()).to_lowercase();
        let place = Self::PLACE;
        let message =
            format!("BSON field '{place}.{field}' is the wrong type: {found} instead of {expected}");
        refused(Code::TYPE_MISMATCH, message)
    }

    fn is_multi(&self) -> bool {
        self.statement.get_bool("multi").unwrap_or(false)
    }

    /// The operation as a statement of `update` or `delete`, which the operation holds until what is returned is dropped.
    fn decode(&self, operation: &OperationContext) -> Result<(Document, Reservation)> {
        let (decoded, held) = decode_statement(self.statement, operation)?;
        let mut statement = Document::new();
        for (name, value) in decoded {
            if let Some((_, name, _)) = self.action.fields().iter().find(|(known, ..)| *known == name) {
                statement.insert(*name, value);
            }
        }
        if self.action == Action::Delete {
            statement.remove("multi");
            statement.insert("limit", i32::from(!self.is_multi()));
        }
        Ok((statement, held))
    }
}

/// A command that runs.
struct BulkWrite<'a> {
    context: &'a CommandContext<'a>,
    namespaces: Vec<Namespace>,
    is_ordered: bool,
    inserts: InsertManyOptions,
    updates: update::Shared<'a>,
    deletes: DeleteOptions,
    results: Results<'a>,
}

/// Whether the operations after one are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    GoesOn,
    Ends,
}

impl BulkWrite<'_> {
    fn run(&mut self, operations: &[Operation<'_>]) -> Result<()> {
        let operation = self.context.operation();
        let mut position = 0;
        while let Some(first) = operations.get(position) {
            // An operation that finds nothing needs few steps, so without this the limit would be seen late.
            operation.look()?;
            let rest = operations.get(position..).unwrap_or_default();
            let count = if first.action == Action::Insert { group_len(rest) } else { 1 };
            self.results.make_room(count)?;
            let progress = match first.action {
                Action::Insert => self.insert(position, rest.get(..count).unwrap_or_default())?,
                Action::Update => self.update(position, first, &operation)?,
                Action::Delete => self.delete(position, first, &operation)?,
            };
            if progress == Progress::Ends {
                break;
            }
            position += count;
        }
        Ok(())
    }

    fn collection(&self, position: usize) -> Collection<RawDocumentBuf> {
        let namespace = self.namespaces.get(position).cloned();
        // Positions were checked, so the empty name means a case that does not occur.
        let Namespace { db, coll } = namespace.unwrap_or_else(|| Namespace::new("", ""));
        self.context.collection_of(&db, &coll)
    }

    /// Stores the documents of operations that follow each other from `start` on, all for one collection.
    fn insert(&mut self, start: usize, group: &[Operation<'_>]) -> Result<Progress> {
        let Some(first) = group.first() else { return Ok(Progress::GoesOn) };
        let mut drafts = Drafts::default();
        let (mut places, mut results) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for (position, operation) in (start..).zip(group) {
            if self.enter(position, Kind::Insert).is_some() {
                self.results.repeated.add(position);
                results.push((position, Single::Inserted(None)));
                continue;
            }
            drafts.push_bytes(operation.statement.get_document("document")?.as_bytes());
            places.push(position);
        }
        if !places.is_empty() {
            if let Some(retryable) = self.context.retryable() {
                retryable.enter_documents(&places);
            }
            let collection = self.collection(first.namespace);
            let stored = collection.handle.insert_drafts(drafts).with_options(self.inserts.clone()).store();
            self.add_stored(&places, stored.or_else(without_any), &mut results)?;
        }
        // Those that were done before stand among those that are done now.
        results.sort_by_key(|(position, _)| *position);
        for (position, result) in results {
            let is_refused = matches!(result, Single::Refused(_));
            self.results.add(position, Action::Insert, result);
            if is_refused && self.ends_by_refusal() {
                return Ok(Progress::Ends);
            }
        }
        Ok(Progress::GoesOn)
    }

    /// Adds what became of the documents of the operations at `places`.
    fn add_stored(
        &mut self,
        places: &[usize],
        stored: Result<InsertOutcome<Vec<usize>>>,
        results: &mut Vec<(usize, Single)>,
    ) -> Result<()> {
        let InsertOutcome { inserted, refused, mut generated, .. } = match stored {
            Ok(outcome) => outcome,
            Err(error) => {
                // Of the collection, and so of each document: a view, for one, accepts none.
                let first = places.first().copied().unwrap_or_default();
                let refusal = self.results.errors.refusal(first, error)?;
                for place in places {
                    // Each one counts towards the limits of messages and details.
                    let shown = self.results.errors.shown(refusal.clone());
                    results.push((*place, Single::Refused(shown)));
                }
                return Ok(());
            }
        };
        let place = |position: usize| places.get(position).copied().unwrap_or(position);
        for position in inserted {
            let values = generated.remove(&position).map(|values| {
                let values = values.iter().map(|(field, value)| (field.to_owned(), Bson::Int64(value)));
                values.collect::<Document>()
            });
            results.push((place(position), Single::Inserted(values)));
        }
        for refusal in refused {
            let place = place(refusal.index);
            results.push((place, Single::Refused(self.results.errors.shown(refusal))));
        }
        Ok(())
    }

    fn update(
        &mut self,
        position: usize,
        operation: &Operation<'_>,
        limits: &OperationContext,
    ) -> Result<Progress> {
        if let Some(done) = self.enter(position, Kind::Update) {
            self.results.repeated.add(position);
            let count = u64::from(done.upserted.is_none());
            let result = UpdateResult::new(count, count, done.upserted);
            self.results.add(position, Action::Update, Single::Updated(result));
            return Ok(Progress::GoesOn);
        }
        let allowed = self.results.ids.check().and_then(|()| self.check_repeatable(operation));
        let updated = allowed.and_then(|()| {
            let (statement, _held) = operation.decode(limits)?;
            let collection = self.collection(operation.namespace);
            update::apply(&collection, &Arguments::of("updates", &statement), &self.updates)
        });
        match updated {
            Ok(result) => {
                self.results.add(position, Action::Update, Single::Updated(result));
                Ok(Progress::GoesOn)
            }
            Err(error) => self.refuse(position, Action::Update, error),
        }
    }

    fn delete(
        &mut self,
        position: usize,
        operation: &Operation<'_>,
        limits: &OperationContext,
    ) -> Result<Progress> {
        if self.enter(position, Kind::Delete).is_some() {
            self.results.repeated.add(position);
            self.results.add(position, Action::Delete, Single::Deleted(1));
            return Ok(Progress::GoesOn);
        }
        let deleted = self.check_repeatable(operation).and_then(|()| {
            let (statement, _held) = operation.decode(limits)?;
            let collection = self.collection(operation.namespace);
            let statement = Arguments::of("deletes", &statement);
            let delete: Delete<'_> = delete::read(&collection, &statement, &self.deletes)?;
            delete.at(self.updates.now).run()
        });
        match deleted {
            Ok(result) => {
                self.results.add(position, Action::Delete, Single::Deleted(result.deleted_count));
                Ok(Progress::GoesOn)
            }
            Err(error) => self.refuse(position, Action::Delete, error),
        }
    }

    /// The result of an operation that was done before. From here on it is the one that runs, if that is nothing.
    fn enter(&self, position: usize, kind: Kind) -> Option<Done> {
        self.context.retryable().and_then(|retryable| retryable.enter_as(position, kind))
    }

    /// Rejects an operation of many documents in a command that may be sent again.
    fn check_repeatable(&self, operation: &Operation<'_>) -> Result<()> {
        if self.context.retryable().is_some() && operation.is_multi() {
            return Err(refused(Code::INVALID_OPTIONS, "Cannot use retryable writes with multi=true"));
        }
        Ok(())
    }

    /// Adds a rejected operation. An error that is not a rejection of one operation is returned.
    fn refuse(&mut self, position: usize, action: Action, error: Error) -> Result<Progress> {
        let refusal = self.results.errors.refusal(position, error)?;
        let shown = self.results.errors.shown(refusal);
        self.results.add(position, action, Single::Refused(shown));
        Ok(if self.ends_by_refusal() { Progress::Ends } else { Progress::GoesOn })
    }

    /// Whether the command ends at a rejection. A transaction that was aborted accepts no more writes.
    fn ends_by_refusal(&self) -> bool {
        if self.context.is_in_transaction() {
            self.context.abort_transaction();
        }
        self.is_ordered || self.results.errors.end_command()
    }
}

/// The number of operations from the first on that are inserts into one collection.
fn group_len(operations: &[Operation<'_>]) -> usize {
    let Some(first) = operations.first() else { return 0 };
    let is_alike = |operation: &&Operation<'_>| {
        operation.action == Action::Insert && operation.namespace == first.namespace
    };
    operations.iter().take(GROUP_MAX).take_while(is_alike).count()
}

/// The result of one operation.
enum Single {
    /// With the values that were generated, if there are any.
    Inserted(Option<Document>),
    Updated(UpdateResult),
    Deleted(u64),
    /// The error, as a statement of a write would have it.
    Refused(Document),
}

/// The results of the operations, and their sums.
struct Results<'a> {
    documents: Vec<Bson>,
    held: Reservation,
    /// Whether results of operations that were not rejected are left out.
    errors_only: bool,
    errors: WriteErrors<'a>,
    ids: UpsertedIds,
    repeated: Repeated,
    refused: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

impl<'a> Results<'a> {
    fn of(context: &'a CommandContext<'a>, errors_only: bool) -> Self {
        Self {
            documents: Vec::new(),
            held: Reservation::of(&context.operation()),
            errors_only,
            errors: WriteErrors::of(context),
            ids: UpsertedIds::of(&context.operation()),
            repeated: Repeated::default(),
            refused: 0,
            inserted: 0,
            matched: 0,
            modified: 0,
            upserted: 0,
            deleted: 0,
        }
    }

    /// Reserves memory for the results of the next operations, before they are run.
    fn make_room(&mut self, count: usize) -> Result<()> {
        self.ids.reserve()?;
        let count = self.documents.len().saturating_add(count);
        Ok(self.held.grow_by_steps(count.saturating_mul(RESULT_MEMORY))?)
    }

    fn add(&mut self, position: usize, action: Action, result: Single) {
        let is_refused = matches!(result, Single::Refused(_));
        let mut document = doc! {
            "ok": if is_refused { 0.0 } else { 1.0 },
            "idx": i32::try_from(position).unwrap_or(i32::MAX),
        };
        match result {
            Single::Inserted(generated) => {
                self.inserted += 1;
                document.insert("n", 1);
                document.extend(generated.map(|values| ("generated".to_owned(), Bson::Document(values))));
            }
            Single::Updated(result) => {
                let is_upsert = result.upserted_id.is_some();
                self.matched += result.matched_count;
                self.modified += result.modified_count;
                self.upserted += u64::from(is_upsert);
                // As in MongoDB, `n` counts an upserted document as well.
                document.insert("n", number(result.matched_count + u64::from(is_upsert)));
                document.insert("nModified", number(result.modified_count));
                if let Some(id) = result.upserted_id.filter(|_| !self.errors_only) {
                    document.insert("upserted", self.ids.add(doc! { "_id": id }));
                }
            }
            Single::Deleted(count) => {
                self.deleted += count;
                document.insert("n", number(count));
            }
            Single::Refused(error) => {
                self.refused += 1;
                // The position is reported already, and by another name.
                document.extend(error.into_iter().filter(|(field, _)| field != "index"));
                document.insert("n", 0);
                if action == Action::Update {
                    document.insert("nModified", 0);
                }
            }
        }
        if is_refused || !self.errors_only {
            self.documents.push(document.into());
        }
    }

    fn into_reply(self) -> Document {
        let mut reply = doc! {
            "cursor": { "firstBatch": self.documents, "id": 0_i64, "ns": CURSOR_NAMESPACE },
            "nErrors": number(self.refused),
            "nInserted": number(self.inserted),
            "nMatched": number(self.matched),
            "nModified": number(self.modified),
            "nUpserted": number(self.upserted),
            "nDeleted": number(self.deleted),
        };
        self.repeated.report(&mut reply);
        reply
    }
}
