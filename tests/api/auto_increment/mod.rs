//! Auto-increment fields: how documents are completed, which values they get, and what moves the sequences behind.

mod batches;
mod completion;
mod conflicts;
mod contracts;
mod explicit;
mod fields;
mod life;
mod modes;
mod polling;
mod truncate;
mod updates;

use cairndb::bson::{Document, doc, serialize_to_document};
use cairndb::{
    AutoIncrement, Client, Collection, Error, IndexModel, IndexOptions, InsertOneResult, SequenceSnapshot,
};
use cairndb_tests::scratch::Scratch;

/// A collection with auto-increment fields.
struct Numbered {
    // Dropped first: the folder goes last.
    things: Collection<Document>,
    client: Client,
    scratch: Scratch,
}

impl Numbered {
    #[track_caller]
    fn with(fields: impl IntoIterator<Item = Document>) -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        let db = client.database("test");
        let fields = fields.into_iter().map(field);
        fields
            .fold(db.create_collection("things"), cairndb::action::CreateCollection::auto_increment)
            .run()
            .expect("allowed fields");
        Self::of(client, scratch)
    }

    /// One field, `n`.
    #[track_caller]
    fn n(options: Document) -> Self {
        Self::with([doc! { "Field": "n" }.into_iter().chain(options).collect()])
    }

    /// One field, `n`, that draws value by value.
    #[track_caller]
    fn singles() -> Self {
        Self::n(doc! { "AcquireSize": 1, "CacheSize": 1 })
    }

    fn of(client: Client, scratch: Scratch) -> Self {
        let things = client.database("test").collection("things");
        Self { things, client, scratch }
    }

    /// The same after a clean close.
    #[track_caller]
    fn reopened(mut self) -> Self {
        self.client.clone().close().expect("a clean close");
        self.client = self.scratch.open();
        self.things = self.client.database("test").collection("things");
        self
    }

    /// The state that a process finds that opens the database after this one was killed.
    #[track_caller]
    fn killed(&self) -> Self {
        let (client, scratch) = crashed_into(&self.scratch);
        Self::of(client, scratch)
    }

    /// A unique index over the fields.
    #[track_caller]
    fn unique(&self, keys: Document) {
        let options = IndexOptions::builder().unique(true).build();
        let model = IndexModel::builder().keys(keys).options(options).build();
        self.things.create_index(model).run().expect("an index");
    }

    #[track_caller]
    fn insert(&self, document: Document) -> InsertOneResult {
        self.things.insert_one(document).run().expect("stored")
    }

    /// Inserts an empty document; what was generated for `n`.
    #[track_caller]
    fn next(&self) -> i64 {
        self.insert(doc! {}).generated.get("n").expect("a generated value")
    }

    /// The values of `n` in the order in which the documents were stored.
    #[track_caller]
    fn numbers(&self) -> Vec<i64> {
        numbers(&self.things, "n")
    }

    #[track_caller]
    fn alter(&self, options: Document) {
        let options = doc! { "Field": "n" }.into_iter().chain(options).collect();
        self.things.alter_auto_increment(field(options)).run().expect("an allowed change");
    }

    #[track_caller]
    fn snapshot(&self) -> SequenceSnapshot {
        self.things.auto_increment("n").snapshot().expect("a snapshot")
    }

    /// The snapshot of the sequence behind `n` has these fields with these values, types included.
    #[track_caller]
    fn shows(&self, fields: Document) {
        shows(&self.snapshot(), fields);
    }

    /// Every stored document without its `_id`.
    #[track_caller]
    fn stored(&self) -> Vec<Document> {
        let mut stored = crate::all(&self.things);
        for document in &mut stored {
            document.remove("_id");
        }
        stored
    }
}

impl Drop for Numbered {
    /// Whatever a test did: what is stored agrees with itself.
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Ok(report) = self.client.verify()
        {
            assert!(report.is_clean(), "{:?}", report.findings);
        }
    }
}

const NOTHING: [Document; 0] = [];

#[track_caller]
pub(crate) fn field(options: Document) -> AutoIncrement {
    AutoIncrement::try_from(options).expect("well-formed options")
}

/// The integers that documents have in a field, in the order of `_id`s.
#[track_caller]
pub(crate) fn numbers(collection: &Collection<Document>, field: &str) -> Vec<i64> {
    let number = |document: &Document| match document.get_i64(field) {
        Ok(number) => number,
        Err(_) => i64::from(document.get_i32(field).expect("an integer")),
    };
    crate::all(collection).iter().map(number).collect()
}

/// A snapshot has these fields with these values, types included.
#[track_caller]
pub(crate) fn shows(snapshot: &SequenceSnapshot, fields: Document) {
    let snapshot = serialize_to_document(snapshot).expect("a document");
    for (name, value) in fields {
        assert_eq!(snapshot.get(&name), Some(&value), "{name} in {snapshot}");
    }
}

/// Opens a copy of the database as it would be left if its process were killed now.
#[track_caller]
pub(crate) fn crashed_into(scratch: &Scratch) -> (Client, Scratch) {
    let copy = scratch.killed();
    (copy.open(), copy)
}

/// A sequence rejects with SequoiaDB's number, in these words.
#[track_caller]
pub(crate) fn sequence_refuses<T: std::fmt::Debug>(
    result: Result<T, Error>,
    code: i32,
    words: &str,
) -> Error {
    let error = result.expect_err("refused");
    assert_eq!(error.sequoia_code(), Some(code), "{error:?}");
    assert!(error.to_string().contains(words), "{error} does not say {words:?}");
    error
}
