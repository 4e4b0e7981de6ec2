//! Runs operations on the engine and on the model, and compares what both say.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Write};

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    Client, Collection, Cursor, Error, ErrorKind, GeneratedValues, Hint, IndexModel, IndexOptions,
    IndexedWriteError, InsertManyResult,
};

use super::filter::Filter;
use super::operation::{Ending, Operation, Options};
use super::order::Key;
use super::state::{self, Cap, Index, Refusal, Replacement, bytes, refuse};
use crate::choices::Choices;
use crate::scratch::{self, Scratch};

pub(super) const DATABASE: &str = "model";
/// Operations between two proofs of everything.
const OPERATIONS_PER_CHECK: usize = 40;
/// Stands for the `_id` that the engine made for a document and then rejected: no other document has it.
const REFUSED_ID: ObjectId = ObjectId::from_bytes([0xfe; 12]);
/// The number of characters of an operation that are printed: enough to see it, not a padding of 20,000 characters.
const STEP_CHARACTERS_MAX: usize = 600;
const CURSORS_MAX: usize = 3;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Operations done.
    pub operations: usize,
    /// The number of times that the folder was opened again.
    pub reopens: usize,
    /// Every collection, index and document at the end; made ids stand as their number.
    pub dump: String,
}

/// Does at most `operations` operations, fewer when the choices are bytes that end; panics where engine and
/// model disagree.
pub fn run(choices: Choices, operations: usize) -> Outcome {
    let scratch = Scratch::new();
    let mut run = Run::start(&scratch, choices);
    while run.trail.steps.len() < operations && !run.choices.is_exhausted() {
        let operation = Operation::choose(&mut run.choices);
        run.trail.steps.push(format!("{operation:?}"));
        run.apply(operation);
        if run.trail.steps.len().is_multiple_of(OPERATIONS_PER_CHECK) {
            run.check_everything();
        }
    }
    run.reopen(Ending::Close, Options::choose(&mut Choices::from_bytes(&[])));
    Outcome { operations: run.trail.steps.len(), reopens: run.reopens, dump: run.dump() }
}

pub(super) struct Run<'a> {
    scratch: &'a Scratch,
    choices: Choices,
    /// Absent only while the folder is being opened again.
    client: Option<Client>,
    handles: BTreeMap<&'static str, Collection<Document>>,
    pub(super) model: BTreeMap<&'static str, state::Collection>,
    cursors: Vec<(Cursor<Document>, Vec<Document>)>,
    /// The ids that the engine made, ascending.
    made: Vec<Bson>,
    reopens: usize,
    trail: Trail,
}

/// The operations so far; printed when a comparison fails.
#[derive(Default)]
struct Trail {
    steps: Vec<String>,
}

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (number, step) in self.steps.iter().enumerate() {
                eprintln!("{number}: {}", step.chars().take(STEP_CHARACTERS_MAX).collect::<String>());
            }
        }
    }
}

impl<'a> Run<'a> {
    fn start(scratch: &'a Scratch, mut choices: Choices) -> Self {
        let client = scratch.open_with(Options::choose(&mut choices).builder());
        Self {
            scratch,
            choices,
            client: Some(client),
            handles: BTreeMap::new(),
            model: BTreeMap::new(),
            cursors: Vec::new(),
            made: Vec::new(),
            reopens: 0,
            trail: Trail::default(),
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::InsertOne { at, document } => self.insert_one(at, &document),
            Operation::InsertMany { at, documents, ordered } => self.insert_many(at, &documents, ordered),
            Operation::Replace { at, filter, replacement, upsert } => {
                if upsert {
                    self.upsert(at, &filter, &replacement);
                } else {
                    self.replace(at, &filter, &replacement);
                }
            }
            Operation::Delete { at, filter, many } => self.delete(at, &filter, many),
            Operation::Find { at, filter, skip, limit } => self.find(at, &filter, (skip, limit)),
            Operation::FindOne { at, filter } => self.find_one(at, &filter),
            Operation::Count { at, filter } => {
                let counted = self.handle(at).count_documents(filter.to_document()).run().expect("a read");
                let expected = self.model.get(at).map_or(0, |collection| collection.find(&filter).count());
                assert_eq!(counted, expected as u64);
            }
            Operation::EstimatedCount { at } => {
                let counted = self.handle(at).estimated_document_count().run().expect("a read");
                assert_eq!(
                    counted,
                    self.model.get(at).map_or(0, |collection| collection.documents.len()) as u64
                );
            }
            Operation::CreateIndex { at, index } => self.create_index(at, index),
            Operation::DropIndex { at, name } => {
                let expected =
                    self.model.get_mut(at).map_or(refuse(26), |collection| collection.drop_index(&name));
                let expected = if name == "_id_" { refuse(72) } else { expected };
                agree(self.handle(at).drop_index(&name).run(), expected);
            }
            Operation::DropIndexes { at } => {
                let expected = self.model.get_mut(at).map_or(refuse(26), |collection| {
                    collection.indexes.clear();
                    Ok(())
                });
                agree(self.handle(at).drop_indexes().run(), expected);
            }
            Operation::CreateCollection { at } => self.create_collection(at),
            Operation::CreateCapped { at, cap } => self.create_capped(at, cap),
            Operation::DropCollection { at } => {
                self.handle(at).drop().run().expect("dropping what is absent is no error");
                self.model.remove(at);
            }
            Operation::Rename { at, to, drop_target } => self.rename(at, to, drop_target),
            Operation::CreateField { at, path, wishes } => self.create_field(at, path, &wishes),
            Operation::AlterField { at, path, wishes } => self.alter_field(at, path, &wishes),
            Operation::DropField { at, path } => self.drop_field(at, path),
            Operation::Truncate { at } => self.truncate(at),
            Operation::OpenCursor { at } => self.open_cursor(at),
            Operation::DrainCursor => self.drain_cursor(),
            Operation::Flush => self.client().flush().expect("a flush"),
            Operation::Sync => {
                // Requested before: the background may write a reserve at any moment.
                let ticket = self.client().durability_ticket().expect("a ticket");
                self.client().sync().expect("a sync");
                assert!(ticket.is_durable());
            }
            Operation::Verify => self.check_everything(),
            Operation::Backup => self.backup(),
            Operation::Reopen { ending, options } => self.reopen(ending, options),
        }
    }

    fn insert_one(&mut self, at: &'static str, document: &Document) {
        let inserted = self.handle(at).insert_one(document).run();
        let made_id = made_id(inserted.as_ref().ok().map(|result| &result.inserted_id));
        let expected = self.model.entry(at).or_default().insert_one(document, &made_id);
        if let (Ok(result), Ok(expected)) = (&inserted, &expected) {
            self.look_at_id(&expected.document, &result.inserted_id);
            assert_eq!(values_of(&result.generated), expected.made);
            assert_eq!(result.last_generate_id, expected.made.first().map(|(_, value)| *value));
        }
        agree(inserted, expected);
    }

    fn insert_many(&mut self, at: &'static str, documents: &[Document], ordered: bool) {
        let inserted = self.handle(at).insert_many(documents).ordered(ordered).run();
        let (ids, generated, refused) = told(&inserted);
        let ids_made = |position| made_id(ids.get(&position));
        let expected = match self.model.entry(at).or_default().insert_many(documents, ordered, ids_made) {
            Ok(batch) => batch,
            Err(refusal) => return agree::<_, ()>(inserted, Err(refusal)),
        };
        let refused: Vec<(usize, Refusal)> = refused
            .iter()
            .map(|error| (error.index, refusal(error.code, error.details.as_ref(), &error.message)))
            .collect();
        assert_eq!(refused, expected.refused, "{inserted:?}");
        let mut positions: Vec<usize> = ids.keys().copied().collect();
        positions.sort_unstable();
        assert_eq!(positions, expected.stored.iter().map(|(position, _)| *position).collect::<Vec<_>>());
        for (position, stored) in &expected.stored {
            self.look_at_id(&stored.document, ids.get(position).expect("looked at above"));
            assert_eq!(generated.get(position).map(values_of).unwrap_or_default(), stored.made);
        }
    }

    fn replace(&mut self, at: &'static str, filter: &Filter, replacement: &Document) {
        let handle = self.handle(at);
        let replace = handle.replace_one(filter.to_document(), replacement);
        let replaced = replace.sort(doc! { "_id": 1 }).run();
        let expected = self
            .model
            .get_mut(at)
            .map_or(Ok(Replacement::Nothing), |collection| collection.replace(filter, replacement));
        match (replaced, expected) {
            (Ok(result), Ok(expected)) => {
                assert_eq!(result.matched_count, u64::from(expected != Replacement::Nothing));
                assert_eq!(result.modified_count, u64::from(expected == Replacement::Changed));
                assert_eq!(result.upserted_id, None);
            }
            (replaced, expected) => agree(replaced, expected),
        }
    }

    fn upsert(&mut self, at: &'static str, filter: &Filter, replacement: &Document) {
        let handle = self.handle(at);
        let replace = handle.replace_one(filter.to_document(), replacement).upsert(true);
        let replaced = replace.sort(doc! { "_id": 1 }).run();
        let expected = self
            .model
            .get_mut(at)
            .map_or(Ok(Replacement::Nothing), |collection| collection.replace(filter, replacement));
        if expected != Ok(Replacement::Nothing) {
            if let (Ok(result), Ok(expected)) = (&replaced, &expected) {
                assert_eq!((result.matched_count, &result.upserted_id), (1, &None));
                assert_eq!(result.modified_count, u64::from(*expected == Replacement::Changed));
            }
            return agree(replaced, expected);
        }
        let wanted = filter.wanted_id();
        if let (Some(wanted), Some(own)) = (wanted, replacement.get("_id"))
            && Key(wanted.clone()) != Key(own.clone())
        {
            return agree(replaced, refuse::<()>(66));
        }
        let document = match (wanted, replacement.get("_id")) {
            (Some(wanted), None) => state::with_id(wanted, replacement),
            _ => replacement.clone(),
        };
        let upserted = replaced.as_ref().ok().and_then(|result| result.upserted_id.as_ref());
        let made_id = made_id(upserted);
        let expected = self.model.entry(at).or_default().insert_one(&document, &made_id);
        if let (Ok(result), Ok(expected)) = (&replaced, &expected) {
            assert_eq!((result.matched_count, result.modified_count), (0, 0));
            self.look_at_id(&expected.document, result.upserted_id.as_ref().expect("it was inserted"));
        }
        agree(replaced, expected);
    }

    fn delete(&mut self, at: &'static str, filter: &Filter, many: bool) {
        let handle = self.handle(at);
        let document = filter.to_document();
        // The model deletes in the order of `_id`s, and a delete has no sort.
        let by_id = Hint::Name("_id_".to_owned());
        let action =
            if many { handle.delete_many(document) } else { handle.delete_one(document).hint(by_id) };
        let deleted = action.run().expect("a delete").deleted_count;
        let limit = if many { usize::MAX } else { 1 };
        let expected = self.model.get_mut(at).map_or(0, |collection| collection.delete(filter, limit));
        assert_eq!(deleted, expected);
    }

    fn find(&mut self, at: &'static str, filter: &Filter, (skip, limit): (usize, usize)) {
        let handle = self.handle(at);
        let found = handle.find(filter.to_document()).sort(doc! { "_id": 1 }).skip(skip as u64);
        let found = found.limit(i64::try_from(limit).expect("small")).run().expect("a cursor");
        let found = found.map(|document| document.expect("a document"));
        let limit = if limit == 0 { usize::MAX } else { limit };
        let everything = state::Collection::default();
        let collection = self.model.get(at).unwrap_or(&everything);
        equal(found, collection.find(filter).skip(skip).take(limit));
    }

    fn find_one(&mut self, at: &'static str, filter: &Filter) {
        let found =
            self.handle(at).find_one(filter.to_document()).sort(doc! { "_id": 1 }).run().expect("a read");
        let expected = self.model.get(at).and_then(|collection| collection.find(filter).next());
        assert_eq!(found.as_ref().map(bytes), expected.map(bytes), "{found:?} {expected:?}");
    }

    fn create_collection(&mut self, at: &'static str) {
        let created = self.client().database(DATABASE).create_collection(at).run();
        self.agree_on_creation(created, at, None);
    }

    fn create_capped(&mut self, at: &'static str, cap: Cap) {
        let database = self.client().database(DATABASE);
        let creation = database.create_collection(at).capped(true).size(cap.size);
        let created = match cap.max {
            Some(max) => creation.max(max).run(),
            None => creation.run(),
        };
        self.agree_on_creation(created, at, Some(cap));
    }

    fn agree_on_creation(&mut self, created: Result<(), Error>, at: &'static str, cap: Option<Cap>) {
        // One that is there already is not an error if it has the same limits, and no fields.
        let is_other = self
            .model
            .get(at)
            .is_some_and(|collection| !collection.fields.is_empty() || collection.cap != cap);
        agree(created, if is_other { refuse(48) } else { Ok(()) });
        self.model.entry(at).or_insert_with(|| state::Collection::capped(cap));
    }

    fn create_index(&mut self, at: &'static str, index: Index) {
        let keys: Document =
            index.fields.iter().map(|(path, way)| ((*path).to_owned(), Bson::Int32(*way))).collect();
        let options = IndexOptions::builder()
            .name(index.name.clone())
            .unique(index.unique.then_some(true))
            .sparse(index.sparse.then_some(true))
            .build();
        let model = IndexModel::builder().keys(keys).options(options).build();
        let created = self.handle(at).create_index(model).run();
        if let Ok(created) = &created {
            assert_eq!(created.index_name, index.name);
        }
        match (created, self.model.entry(at).or_default().create_index(index)) {
            // The build names the index in its text, where an insert has details.
            (Err(error), Err(expected)) => assert_eq!(error.code(), Some(expected.code), "{error:?}"),
            (created, expected) => agree(created, expected),
        }
    }

    fn rename(&mut self, at: &'static str, to: &'static str, drop_target: bool) {
        let renamed = self.handle(at).rename(to).drop_target(drop_target).run();
        let expected = if !self.model.contains_key(at) {
            refuse(26)
        } else if at == to {
            refuse(20)
        } else if self.model.contains_key(to) && !drop_target {
            refuse(48)
        } else {
            let moved = self.model.remove(at).expect("looked at above");
            self.model.insert(to, moved);
            Ok(())
        };
        agree(renamed, expected);
    }

    fn open_cursor(&mut self, at: &'static str) {
        if self.cursors.len() == CURSORS_MAX {
            return self.drain_cursor();
        }
        let cursor = self.handle(at).find(doc! {}).run().expect("a cursor");
        // A cursor over an absent collection keeps nothing open, so the model keeps none.
        if let Some(collection) = self.model.get(at) {
            self.cursors.push((cursor, collection.in_order().into_iter().cloned().collect()));
        }
    }

    /// Whatever happened since a cursor was opened, it shows the documents of that moment.
    fn drain_cursor(&mut self) {
        if let Some((cursor, expected)) = self.cursors.pop() {
            equal(cursor.map(|document| document.expect("a document")), expected.iter());
        }
    }

    fn backup(&mut self) {
        let copies = Scratch::new();
        let report = self.client().backup(copies.path()).expect("a backup");
        assert!(report.verified.is_clean(), "{:?}", report.verified);
        let copy = copies.open();
        self.check_documents(&copy);
        copy.close().expect("a close");
    }

    fn reopen(&mut self, ending: Ending, options: Options) {
        // Nothing would be left of it.
        if scratch::in_memory() {
            return;
        }
        self.reopens += 1;
        self.handles.clear();
        let path = self.scratch.path();
        let client = self.client.take().expect("a client is open between operations");
        let open = self.cursors.len();
        match ending {
            Ending::Drop => drop(client),
            Ending::Close => match client.close() {
                Ok(()) => assert_eq!(open, 0, "a cursor was open"),
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::CursorsOpen { cursors } if *cursors == open && open > 0),
                        "{error:?}"
                    );
                }
            },
        }
        if open > 0 {
            let refused = options.builder().open(&path).expect_err("a cursor keeps the folder");
            assert!(refused.is_already_open(), "{refused:?}");
        }
        while !self.cursors.is_empty() {
            self.drain_cursor();
        }
        self.client = Some(self.scratch.open_with(options.builder()));
        let fields = self.model.values_mut().flat_map(|collection| &mut collection.fields);
        fields.for_each(|field| field.numbers.reopen());
        self.check_everything();
    }

    fn check_everything(&self) {
        let report = self.client().verify().expect("a verification");
        assert!(report.is_clean(), "{:?}", report.findings);
        let documents: usize = self.model.values().map(|collection| collection.documents.len()).sum();
        let indexes: usize = self.model.values().map(|collection| collection.indexes.len()).sum();
        assert_eq!((report.documents, report.indexes), (documents as u64, indexes as u64));
        assert_eq!(report.collections, self.model.len() as u64);
        let fields: usize = self.model.values().map(|collection| collection.fields.len()).sum();
        assert_eq!(report.sequences, fields as u64);
        self.check_fields();
        self.check_documents(self.client());
    }

    fn check_documents(&self, client: &Client) {
        let database = client.database(DATABASE);
        let names = database.list_collection_names().run().expect("a list");
        assert_eq!(names, self.model.keys().copied().collect::<Vec<_>>());
        for (name, expected) in &self.model {
            let collection = database.collection::<Document>(name);
            let found = collection.find(doc! {}).run().expect("a cursor");
            equal(found.map(|document| document.expect("a document")), expected.in_order().into_iter());
            let indexes = collection.list_index_names().run().expect("a list");
            let expected = expected.indexes.iter().map(|index| index.name.as_str());
            assert_eq!(indexes, std::iter::once("_id_").chain(expected).collect::<Vec<_>>());
        }
    }

    fn dump(&self) -> String {
        let mut dump = String::new();
        for (name, collection) in &self.model {
            let _ = writeln!(
                dump,
                "{name} {:?} {:?} {:?}",
                collection.cap, collection.indexes, collection.fields
            );
            for document in collection.in_order() {
                let text = format!("{:?}", bytes_as_text(document, &self.made));
                let _ = writeln!(dump, "  {text}");
            }
        }
        dump
    }

    pub(super) fn client(&self) -> &Client {
        self.client.as_ref().expect("a client is open between operations")
    }

    pub(super) fn handle(&mut self, at: &'static str) -> Collection<Document> {
        let fresh = self.client().database(DATABASE).collection(at);
        if self.trail.steps.len().is_multiple_of(3) {
            return fresh;
        }
        // An old handle must find a collection that was dropped or renamed under it.
        self.handles.entry(at).or_insert(fresh).clone()
    }

    /// The `_id` that the engine answered is the document's own, or a new one behind all that were made.
    fn look_at_id(&mut self, document: &Document, answer: &Bson) {
        if let Some(own) = document.get("_id") {
            return assert_eq!(Key(answer.clone()), Key(own.clone()));
        }
        assert!(answer.as_object_id().is_some(), "{answer:?}");
        let last = self.made.last();
        assert!(last.is_none_or(|last| Key(last.clone()) < Key(answer.clone())), "{answer:?} repeats");
        self.made.push(answer.clone());
    }
}

/// The report of a batch, whether some of it was rejected or nothing.
fn told(inserted: &Result<InsertManyResult, Error>) -> Told {
    let error = match inserted {
        Ok(result) => return (result.inserted_ids.clone(), result.generated.clone(), Vec::new()),
        Err(error) => error,
    };
    // A rejection by a field rejects the whole call.
    let ErrorKind::InsertMany(details) = error.kind() else { return Told::default() };
    let refused = details.write_errors.clone().unwrap_or_default();
    (details.inserted_ids.clone(), details.generated.clone(), refused)
}

/// `_id`s and generated values of stored documents by position, and rejected ones.
type Told = (HashMap<usize, Bson>, HashMap<usize, GeneratedValues>, Vec<IndexedWriteError>);

/// The `_id` that the engine made, if it stored the document; else one of the same length that no other document has:
/// a capped collection rejects by length.
fn made_id(answer: Option<&Bson>) -> Bson {
    answer.cloned().unwrap_or(Bson::ObjectId(REFUSED_ID))
}

fn values_of(generated: &GeneratedValues) -> Vec<(&str, i64)> {
    generated.iter().collect()
}

fn equal<'a>(found: impl Iterator<Item = Document>, expected: impl Iterator<Item = &'a Document>) {
    let found: Vec<Document> = found.collect();
    let expected: Vec<&Document> = expected.collect();
    assert_eq!(
        found.iter().map(bytes).collect::<Vec<_>>(),
        expected.iter().map(|document| bytes(document)).collect::<Vec<_>>(),
        "found {found:?}\nexpected {expected:?}"
    );
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "both answers are made for this comparison")]
pub(super) fn agree<T: Debug, U: Debug>(result: Result<T, Error>, expected: Result<U, Refusal>) {
    match (&result, &expected) {
        (Ok(_), Ok(_)) => {}
        (Err(error), Err(expected)) => assert_eq!(refusal_of(error), *expected, "{error:?}"),
        (_, _) => panic!("the engine says {result:?}, the model {expected:?}"),
    }
}

fn refusal_of(error: &Error) -> Refusal {
    let code = error.sequoia_code().or(error.code());
    let code = code.unwrap_or_else(|| panic!("an error without a code: {error:?}"));
    let details = if let ErrorKind::Write(cairndb::WriteFailure::WriteError(error)) = error.kind() {
        error.details.clone()
    } else {
        None
    };
    refusal(code, details.as_ref(), &error.to_string())
}

/// For a duplicate key: the index, which the text names and the details must agree with.
fn refusal(code: i32, details: Option<&Document>, message: &str) -> Refusal {
    let index = (code == 11000).then(|| {
        let details = details.unwrap_or_else(|| panic!("a duplicate key without details: {message}"));
        let pattern = details.get_document("keyPattern").expect("a pattern");
        let value = details.get_document("keyValue").expect("a value");
        assert!(pattern.keys().eq(value.keys()), "{details}");
        let named = message.split(" index: ").nth(1).and_then(|rest| rest.split(' ').next());
        named.expect("the text names the index").to_owned()
    });
    Refusal { code, index }
}

fn bytes_as_text(document: &Document, made: &[Bson]) -> Document {
    let id = state::id_of(document).0;
    match made.iter().position(|made| *made == id) {
        Some(number) => state::with_id(&Bson::String(format!("made {number}")), document),
        None => document.clone(),
    }
}
