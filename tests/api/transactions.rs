//! Transactions: what they read, what they meet, how they end, and what no transaction can do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    Client, ClientSession, Collection, Error, ErrorKind, IndexModel, IndexOptions, ReadConcern, Result,
    TRANSIENT_TRANSACTION_ERROR, UpdateOneModel, WriteConcern,
};
use cairndb_tests::race::race;

/// A store with a collection of documents that have an `_id` and a number.
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) things: Collection<Document>,
    _folder: Option<tempfile::TempDir>,
}

impl Store {
    pub(crate) fn with(documents: &[(i32, i32)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("made");
        Self { _folder: Some(folder), ..Self::of(client, documents) }
    }

    pub(crate) fn of(client: Client, documents: &[(i32, i32)]) -> Self {
        let things = client.database("app").collection::<Document>("things");
        client.database("app").create_collection("things").run().expect("made");
        for (id, n) in documents {
            things.insert_one(doc! { "_id": id, "n": n }).run().expect("stored");
        }
        Self { client, things, _folder: None }
    }

    pub(crate) fn begin(&self) -> ClientSession {
        let mut session = self.client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        session
    }

    /// The `n` that a session, or a plain reader, finds for an `_id`.
    fn n(&self, id: i32, session: Option<&mut ClientSession>) -> Option<i32> {
        let find = self.things.find_one(doc! { "_id": id });
        let found = match session {
            Some(session) => find.session(session).run(),
            None => find.run(),
        };
        found.expect("read").map(|found| found.get_i32("n").expect("a number"))
    }

    fn set(&self, id: i32, n: i32, session: &mut ClientSession) -> Result<()> {
        let set = self.things.update_one(doc! { "_id": id }, doc! { "$set": { "n": n } });
        set.session(session).run().map(|_| ())
    }

    /// The `_id`s of a search in a session.
    fn ids(&self, filter: Document, session: &mut ClientSession) -> Vec<i32> {
        let mut cursor = self.things.find(filter).session(session).run().expect("opened");
        let found = cursor.iter(session).map(|found| found.expect("read").get_i32("_id").expect("a number"));
        found.collect()
    }

    fn plain_set(&self, id: i32, n: i32) {
        self.things.update_one(doc! { "_id": id }, doc! { "$set": { "n": n } }).run().expect("written");
    }
}

#[track_caller]
fn assert_conflict<R: std::fmt::Debug>(done: Result<R>) {
    let error = done.expect_err("another one came first");
    assert!(error.is_write_conflict() && error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
}

#[track_caller]
pub(crate) fn assert_code<R: std::fmt::Debug>(done: Result<R>, code: i32) -> Error {
    let error = done.expect_err("it is refused");
    assert_eq!(error.code(), Some(code), "{error:?}");
    error
}

#[track_caller]
fn assert_text<R: std::fmt::Debug>(done: Result<R>, text: &str) {
    let error = done.expect_err("it is refused");
    assert!(matches!(error.kind(), ErrorKind::Transaction { .. }), "{error:?}");
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_transaction_is_stored_as_a_whole_or_not_at_all() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    for commits in [false, true] {
        let mut session = store.begin();
        store.set(1, 11, &mut session).expect("staged");
        store.things.insert_one(doc! { "_id": 3, "n": 30 }).session(&mut session).run().expect("staged");
        assert_eq!(
            store
                .things
                .delete_one(doc! { "_id": 2 })
                .session(&mut session)
                .run()
                .expect("staged")
                .deleted_count,
            1
        );
        // It sees its own writes, and no other reader does.
        assert_eq!([1, 2, 3].map(|id| store.n(id, Some(&mut session))), [Some(11), None, Some(30)]);
        assert_eq!([1, 2, 3].map(|id| store.n(id, None)), [Some(10), Some(20), None]);
        assert_eq!(store.ids(doc! {}, &mut session), [1, 3]);
        let counted = store.things.count_documents(doc! {}).session(&mut session).run();
        assert_eq!(counted.expect("counted"), 2);
        if commits {
            session.commit_transaction().run().expect("committed");
            session.commit_transaction().run().expect("it is committed already");
        } else {
            session.abort_transaction().run().expect("aborted");
        }
        let expected = if commits { [Some(11), None, Some(30)] } else { [Some(10), Some(20), None] };
        assert_eq!([1, 2, 3].map(|id| store.n(id, None)), expected);
        assert_eq!(store.things.estimated_document_count().run().expect("known"), 2);
    }
    assert!(store.client.verify().expect("verified").findings.is_empty());
}

/// Dirty write (G0), aborted read (G1a), intermediate read (G1b), circular information flow (G1c): what a transaction has written is
/// seen by no other before the commit.
#[test]
fn nothing_is_seen_before_the_commit() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let (mut one, mut two) = (store.begin(), store.begin());
    assert_eq!(store.n(1, Some(&mut two)), Some(10));
    store.set(1, 11, &mut one).expect("staged");
    // G0: the second writer of a document is the loser, at once.
    assert_conflict(store.set(1, 12, &mut two));
    // G1b: a state in between is not seen.
    store.set(1, 13, &mut one).expect("staged");
    let mut three = store.begin();
    assert_eq!(store.n(1, Some(&mut three)), Some(10));
    store.set(2, 23, &mut three).expect("staged");
    // G1c: neither sees what the other has written.
    assert_eq!(store.n(2, Some(&mut one)), Some(20));
    assert_eq!(store.n(1, Some(&mut three)), Some(10));
    // G1a: nor what is aborted.
    one.abort_transaction().run().expect("aborted");
    assert_eq!((store.n(1, None), store.n(1, Some(&mut three))), (Some(10), Some(10)));
    three.commit_transaction().run().expect("committed");
    assert_eq!(store.n(2, None), Some(23));
}

/// Observed transaction vanishes (OTV), predicate-many-preceders (PMP), read skew (G-single): all statements read one state.
#[test]
fn all_statements_read_the_state_of_the_first() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let mut reader = store.begin();
    assert_eq!(store.n(1, Some(&mut reader)), Some(10));
    let mut writer = store.begin();
    store.set(1, 11, &mut writer).expect("staged");
    store.set(2, 21, &mut writer).expect("staged");
    store.things.insert_one(doc! { "_id": 3, "n": 30 }).session(&mut writer).run().expect("staged");
    writer.commit_transaction().run().expect("committed");
    store.plain_set(2, 22);
    assert_eq!((store.n(1, Some(&mut reader)), store.n(2, Some(&mut reader))), (Some(10), Some(20)));
    assert_eq!(store.ids(doc! { "n": { "$gte": 15 } }, &mut reader), [2]);
    let all = store.things.distinct("n", doc! {}).session(&mut reader).run().expect("read");
    assert_eq!(all, [Bson::Int32(10), Bson::Int32(20)]);
    let sum = doc! { "$group": { "_id": null, "sum": { "$sum": "$n" } } };
    let mut cursor = store.things.aggregate([sum]).session(&mut reader).run().expect("opened");
    let sum = cursor.next(&mut reader).expect("a group").expect("read");
    assert_eq!(sum.get_i32("sum").ok(), Some(30));
    // A document that it only read is not a conflict.
    reader.commit_transaction().run().expect("committed");
}

/// Lost update (P4): what was read is written only if nothing came in between, whether a transaction or a plain write.
#[test]
fn no_update_is_lost() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    // Another transaction has written it and is open, or committed.
    let (mut one, mut two) = (store.begin(), store.begin());
    assert_eq!((store.n(1, Some(&mut one)), store.n(1, Some(&mut two))), (Some(10), Some(10)));
    store.set(1, 11, &mut one).expect("staged");
    one.commit_transaction().run().expect("committed");
    assert_conflict(store.set(1, 12, &mut two));
    assert_eq!(store.n(1, None), Some(11));
    assert_code(two.commit_transaction().run(), 251);
    // A plain write before the statement.
    let mut late = store.begin();
    assert_eq!(store.n(1, Some(&mut late)), Some(11));
    store.plain_set(1, 13);
    assert_conflict(store.set(1, 14, &mut late));
    // And after it: the first to commit wins, and a plain write never waits.
    let mut late = store.begin();
    store.set(1, 15, &mut late).expect("staged");
    store.plain_set(1, 16);
    assert_conflict(late.commit_transaction().run());
    assert_eq!(store.n(1, None), Some(16));
    // Of other documents nothing is known.
    let mut other = store.begin();
    store.set(1, 17, &mut other).expect("staged");
    store.plain_set(2, 27);
    other.commit_transaction().run().expect("committed");
    assert_eq!((store.n(1, None), store.n(2, None)), (Some(17), Some(27)));
}

/// Write skew (G2-item) can happen under snapshot isolation. If it never did, the scripts above would show nothing.
#[test]
fn write_skew_is_not_excluded() {
    let store = Store::with(&[(1, 1), (2, 1)]);
    let (mut one, mut two) = (store.begin(), store.begin());
    assert_eq!(store.ids(doc! { "n": 1 }, &mut one), [1, 2]);
    assert_eq!(store.ids(doc! { "n": 1 }, &mut two), [1, 2]);
    store.set(1, 0, &mut one).expect("staged");
    store.set(2, 0, &mut two).expect("staged");
    one.commit_transaction().run().expect("committed");
    two.commit_transaction().run().expect("committed");
    assert_eq!((store.n(1, None), store.n(2, None)), (Some(0), Some(0)));
}

#[test]
fn a_write_that_is_undone_meanwhile_is_a_conflict_too() {
    let store = Store::with(&[(1, 10)]);
    let mut session = store.begin();
    store.set(1, 11, &mut session).expect("staged");
    // The document is what it was, and was not all the time.
    store.plain_set(1, 12);
    store.plain_set(1, 10);
    assert_conflict(session.commit_transaction().run());
}

#[test]
fn unique_keys_are_claimed_with_their_documents() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let unique = cairndb::IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build();
    store.things.create_index(index).run().expect("made");
    let insert = |id: i32, n: i32, session: &mut ClientSession| {
        store.things.insert_one(doc! { "_id": id, "n": n }).session(session).run()
    };
    // Taken by what is stored, and by what it has staged itself.
    let mut session = store.begin();
    assert!(insert(3, 10, &mut session).expect_err("taken").is_duplicate_key());
    assert_code(insert(4, 40, &mut session), 251);
    let mut session = store.begin();
    insert(3, 30, &mut session).expect("free");
    assert!(insert(4, 30, &mut session).expect_err("taken").is_duplicate_key());
    // Freed by itself.
    let mut session = store.begin();
    store.things.delete_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    insert(5, 10, &mut session).expect("it is free now");
    assert_eq!(store.ids(doc! { "n": 10 }, &mut session), [5]);
    session.commit_transaction().run().expect("committed");
    // Of two that want a free one the second is the loser.
    let (mut one, mut two) = (store.begin(), store.begin());
    insert(6, 60, &mut one).expect("free");
    assert_conflict(insert(7, 60, &mut two));
    store.things.insert_one(doc! { "_id": 8, "n": 60 }).run().expect("a plain writer does not wait");
    assert_conflict(one.commit_transaction().run());
    assert_eq!(store.n(6, None), None);
    assert!(store.client.verify().expect("verified").findings.is_empty());
}

#[test]
fn every_kind_of_write_is_staged() {
    let store = Store::with(&[(1, 10), (2, 20), (3, 30)]);
    store
        .things
        .create_index(IndexModel::builder().keys(doc! { "tags": 1, "n": -1 }).build())
        .run()
        .expect("made");
    let things = &store.things;
    let mut session = store.begin();
    let within = &mut session;
    let many = doc! { "$inc": { "n": 1 }, "$push": { "tags": "seen" } };
    let updated =
        things.update_many(doc! { "n": { "$gte": 20 } }, many).session(within).run().expect("staged");
    assert_eq!((updated.matched_count, updated.modified_count), (2, 2));
    // By an index whose entries are staged, with arrays that the catalog does not know of yet.
    assert_eq!(store.ids(doc! { "tags": "seen" }, within), [3, 2]);
    let replaced = things.replace_one(doc! { "_id": 1 }, doc! { "n": 5, "tags": ["a", "b"] });
    assert_eq!(replaced.session(within).run().expect("staged").modified_count, 1);
    let upserted = things.update_one(doc! { "_id": 4 }, doc! { "$set": { "n": 40 } }).upsert(true);
    assert_eq!(upserted.session(within).run().expect("staged").upserted_id, Some(Bson::Int32(4)));
    let found = things.find_one_and_update(doc! { "_id": 4 }, doc! { "$inc": { "n": 2 } });
    let found = found.return_document(cairndb::ReturnDocument::After).session(within).run().expect("staged");
    assert_eq!(found, Some(doc! { "_id": 4, "n": 42 }));
    let first =
        things.find_one_and_delete(doc! {}).sort(doc! { "n": 1 }).session(within).run().expect("staged");
    assert_eq!(first.and_then(|first| first.get_i32("_id").ok()), Some(1));
    let inserted = things.insert_many((5..8).map(|id| doc! { "_id": id, "n": id })).session(within).run();
    assert_eq!(inserted.expect("staged").inserted_ids.len(), 3);
    let deleted = things.delete_many(doc! { "n": { "$in": [6, 7] } }).session(within).run().expect("staged");
    assert_eq!(deleted.deleted_count, 2);
    session.commit_transaction().run().expect("committed");
    let mut stored: Vec<(i32, i32)> = things
        .find(doc! {})
        .run()
        .expect("opened")
        .map(|found| found.expect("read"))
        .map(|found| (found.get_i32("_id").expect("a number"), found.get_i32("n").expect("a number")))
        .collect();
    stored.sort_unstable();
    assert_eq!(stored, [(2, 21), (3, 31), (4, 42), (5, 5)]);
    assert_eq!(things.estimated_document_count().run().expect("known"), 4);
    assert_eq!(things.count_documents(doc! { "tags": "seen" }).run().expect("counted"), 2);
    assert!(store.client.verify().expect("verified").findings.is_empty());
}

#[test]
fn a_cursor_shows_what_was_staged_when_it_was_opened() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let mut session = store.begin();
    store.set(1, 11, &mut session).expect("staged");
    let mut cursor = store.things.find(doc! {}).session(&mut session).run().expect("opened");
    assert!(cursor.advance(&mut session).expect("read"));
    store.set(2, 21, &mut session).expect("staged");
    assert!(cursor.advance(&mut session).expect("read"));
    assert_eq!(cursor.current().get_i32("n").ok(), Some(20));
    let mut cursor = store.things.find(doc! {}).session(&mut session).run().expect("opened");
    session.commit_transaction().run().expect("committed");
    assert_code(cursor.advance(&mut session), 43);
}

#[test]
fn joins_and_views_read_the_same_state() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let db = store.client.database("app");
    let names = db.collection::<Document>("names");
    names.insert_one(doc! { "_id": 1, "name": "one" }).run().expect("stored");
    db.create_collection("large")
        .view_on("things")
        .pipeline([doc! { "$match": { "n": { "$gte": 15 } } }])
        .run()
        .expect("made");
    let mut session = store.begin();
    assert_eq!(store.n(1, Some(&mut session)), Some(10));
    names.insert_one(doc! { "_id": 2, "name": "two" }).run().expect("stored");
    store.set(1, 15, &mut session).expect("staged");
    let join =
        doc! { "$lookup": { "from": "names", "localField": "_id", "foreignField": "_id", "as": "named" } };
    let mut cursor = store.things.aggregate([join]).session(&mut session).run().expect("opened");
    let counts: Vec<usize> = cursor
        .iter(&mut session)
        .map(|found| found.expect("read").get_array("named").expect("an array").len())
        .collect();
    assert_eq!(counts, [1, 0]);
    let large = db.collection::<Document>("large");
    let counted = large.count_documents(doc! {}).session(&mut session).run().expect("counted");
    assert_eq!(counted, 2);
    // A view that is another one is not what the transaction began with.
    db.collection::<Document>("large").drop().run().expect("dropped");
    let error = assert_code(large.count_documents(doc! {}).session(&mut session).run(), 246);
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR));
}

#[test]
fn what_was_changed_since_is_not_read_or_written() {
    type Change = fn(&Store);
    let changes: [(&str, Change); 5] = [
        ("an index", |store| {
            let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
            store.things.create_index(index).run().expect("made");
        }),
        ("a validator", |store| {
            let change = doc! { "collMod": "things", "validator": { "n": { "$type": "int" } } };
            store.client.database("app").run_command(change).run().expect("changed");
        }),
        ("a truncate", |store| {
            store.things.truncate().run().expect("removed");
        }),
        ("a drop", |store| store.things.drop().run().expect("dropped")),
        ("a rename", |store| {
            store.things.rename("others").run().expect("renamed");
        }),
    ];
    for (name, change) in changes {
        let store = Store::with(&[(1, 10)]);
        // After it has begun: neither a read nor a write.
        for writes in [false, true] {
            let store = Store::with(&[(1, 10)]);
            let mut session = store.begin();
            assert_eq!(store.n(1, Some(&mut session)), Some(10));
            change(&store);
            let done = if writes {
                store.set(1, 11, &mut session)
            } else {
                store.things.find_one(doc! { "_id": 1 }).session(&mut session).run().map(|_| ())
            };
            let error = done.expect_err(name);
            assert_eq!(error.code(), Some(246), "{name}: {error}");
            assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{name}");
        }
        // After it has written.
        let mut session = store.begin();
        store.set(1, 11, &mut session).expect("staged");
        change(&store);
        assert_conflict(session.commit_transaction().run());
        assert!(store.client.verify().expect("verified").findings.is_empty(), "{name}");
    }
}

#[test]
fn a_session_answers_in_the_words_of_the_driver() {
    let store = Store::with(&[(1, 10)]);
    let mut session = store.client.start_session().run().expect("started");
    assert!(matches!(session.id().get("id"), Some(Bson::Binary(_))));
    assert_text(session.commit_transaction().run(), "no transaction started");
    assert_text(session.abort_transaction().run(), "no transaction started");
    session.start_transaction().run().expect("started");
    assert_text(session.start_transaction().run(), "transaction already in progress");
    session.commit_transaction().run().expect("without a statement");
    assert_text(
        session.abort_transaction().run(),
        "Cannot call abortTransaction after calling commitTransaction",
    );
    session.start_transaction().run().expect("started");
    session.abort_transaction().run().expect("aborted");
    assert_text(session.abort_transaction().run(), "cannot call abortTransaction twice");
    assert_text(
        session.commit_transaction().run(),
        "Cannot call commitTransaction after calling abortTransaction",
    );
    // A session without a transaction changes nothing of a call.
    store.set(1, 11, &mut session).expect("written");
    assert_eq!(store.n(1, None), Some(11));
}

#[test]
fn what_is_wrong_before_the_store_is_asked_leaves_the_transaction_open() {
    let store = Store::with(&[(1, 10)]);
    let other = Store::with(&[]);
    let mut session = store.begin();
    store.set(1, 11, &mut session).expect("staged");
    let foreign = other.things.find_one(doc! {}).session(&mut session).run();
    assert!(matches!(foreign.expect_err("another client's").kind(), ErrorKind::InvalidArgument { .. }));
    let concern = store.things.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 12 } });
    let concern = concern.write_concern(WriteConcern::journaled()).session(&mut session).run();
    assert!(matches!(concern.expect_err("not for a statement").kind(), ErrorKind::InvalidArgument { .. }));
    assert_code(store.things.find_one(doc! { "$fly": 1 }).session(&mut session).run(), 2);
    session.commit_transaction().run().expect("committed");
    assert_eq!(store.n(1, None), Some(11));
    let unknown = session.start_transaction().read_concern(ReadConcern::custom("linearizable")).run();
    assert!(matches!(unknown.expect_err("no such level").kind(), ErrorKind::InvalidArgument { .. }));
}

#[test]
fn an_error_in_the_store_aborts() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let mut session = store.begin();
    store.set(1, 11, &mut session).expect("staged");
    let many = [doc! { "_id": 3, "n": 30 }, doc! { "_id": 2, "n": 0 }, doc! { "_id": 4, "n": 40 }];
    let refused = store.things.insert_many(many).session(&mut session).run().expect_err("2 is taken");
    assert!(refused.is_duplicate_key());
    assert_code(store.set(1, 12, &mut session), 251);
    let error = assert_code(session.commit_transaction().run(), 251);
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR));
    assert_eq!((store.n(1, None), store.n(3, None)), (Some(10), None));
}

#[test]
fn no_transaction_can_do_everything() {
    let store = Store::with(&[(1, 10)]);
    let db = store.client.database("app");
    db.create_collection("log").capped(true).size(1 << 20).run().expect("made");
    let refused = |run: &dyn Fn(&mut ClientSession) -> Result<()>| {
        let mut session = store.begin();
        assert_eq!(store.n(1, Some(&mut session)), Some(10));
        assert_code(run(&mut session), 263);
    };
    let log = db.collection::<Document>("log");
    refused(&|session| log.insert_one(doc! {}).session(session).run().map(|_| ()));
    for stage in [
        doc! { "$out": "copy" },
        doc! { "$merge": "copy" },
        doc! { "$unionWith": "log" },
        doc! { "$collStats": {} },
    ] {
        refused(&|session| store.things.aggregate([stage.clone()]).session(session).run().map(|_| ()));
    }
    let inner = doc! { "$lookup": { "from": "log", "pipeline": [{ "$unionWith": "log" }], "as": "x" } };
    refused(&|session| store.things.aggregate([inner.clone()]).session(session).run().map(|_| ()));
    assert!(!db.list_collection_names().run().expect("listed").contains(&"copy".to_owned()));
}

#[test]
fn and_run_tries_again_until_no_writer_came_first() {
    let store = Store::with(&[(1, 0)]);
    let (threads, rounds) = (4, 50);
    let tried = AtomicU32::new(0);
    let add = |session: &mut ClientSession| {
        tried.fetch_add(1, Ordering::Relaxed);
        let n = store.n_in(session)?;
        store.set(1, n + 1, session)
    };
    race(0..threads, |_| {
        let mut session = store.client.start_session().run().expect("started");
        for _ in 0..rounds {
            session.start_transaction().and_run(add).expect("committed");
        }
    });
    assert_eq!(store.n(1, None), Some(threads * rounds));
    // Threads need not have met. A writer that comes between makes one more try, each time that it does.
    let before = tried.load(Ordering::Relaxed);
    let mut others = vec![1000, 2000];
    let mut session = store.client.start_session().run().expect("started");
    let done = session.start_transaction().and_run(|session| {
        tried.fetch_add(1, Ordering::Relaxed);
        let n = store.n_in(session)?;
        if let Some(other) = others.pop() {
            store.plain_set(1, other);
        }
        store.set(1, n + 1, session)
    });
    done.expect("committed");
    assert_eq!((tried.into_inner() - before, store.n(1, None)), (3, Some(1001)));
    // An error of the caller's own is returned, and nothing is stored.
    let mut session = store.client.start_session().run().expect("started");
    let refused = session.start_transaction().and_run(|session| {
        store.set(1, 7, session)?;
        Err::<(), _>(Error::custom(42_u8))
    });
    assert_eq!(refused.expect_err("refused").get_custom::<u8>(), Some(&42));
    assert_eq!(store.n(1, None), Some(1001));
}

impl Store {
    fn n_in(&self, session: &mut ClientSession) -> Result<i32> {
        let found = self.things.find_one(doc! { "_id": 1 }).session(session).run()?;
        Ok(found.expect("it is there").get_i32("n").expect("a number"))
    }
}

#[test]
fn a_dropped_session_and_a_closed_client_leave_nothing() {
    let store = Store::with(&[(1, 10)]);
    let mut session = store.begin();
    store.set(1, 11, &mut session).expect("staged");
    drop(session);
    // Its claim is gone.
    let mut session = store.begin();
    store.set(1, 12, &mut session).expect("staged");
    store.client.clone().close().expect("no transaction keeps the folder");
    assert!(session.commit_transaction().run().is_err());
    assert!(store.n_in(&mut session).is_err());
}

#[test]
fn a_transaction_outlives_its_thread_and_no_other_waits_for_it() {
    let store = Store::with(&[(1, 10)]);
    let (send, receive) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.begin();
            store.set(1, 11, &mut session).expect("staged");
            send.send(session).expect("it is waited for");
        });
    });
    let mut session = receive.recv().expect("it was sent");
    store
        .things
        .update_many(doc! {}, doc! { "$set": { "other": true } })
        .run()
        .expect("a plain writer does not wait");
    assert_conflict(session.commit_transaction().run());
}

#[test]
fn many_models_are_one_statement_each() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    let model = |id: i32| {
        let update = UpdateOneModel::builder().namespace(store.things.namespace()).filter(doc! { "_id": id });
        update.update(doc! { "$inc": { "n": 1 } }).build()
    };
    let mut session = store.begin();
    let written = store.things.bulk_write([model(1), model(2)]).session(&mut session).run().expect("staged");
    assert_eq!(written.modified_count, 2);
    assert_eq!((store.n(1, Some(&mut session)), store.n(1, None)), (Some(11), Some(10)));
    session.commit_transaction().run().expect("committed");
    assert_eq!((store.n(1, None), store.n(2, None)), (Some(11), Some(21)));
}

#[test]
fn a_conflict_in_a_bulk_write_is_one_of_its_transaction() {
    for ordered in [true, false] {
        let store = Store::with(&[(1, 10), (2, 20)]);
        let write = |id: i32| {
            let update = UpdateOneModel::builder().namespace(store.things.namespace());
            update.filter(doc! { "_id": id }).update(doc! { "$inc": { "n": 1 } }).build()
        };
        let mut session = store.begin();
        assert_eq!(store.n(1, Some(&mut session)), Some(10));
        store.plain_set(1, 11);
        let written = store.things.bulk_write([write(1), write(2)]).ordered(ordered);
        assert_conflict(written.session(&mut session).run());
        assert_code(session.commit_transaction().run(), 251);
        // A document that is rejected ends it too, and no other write is tried.
        let mut session = store.begin();
        let taken = store.things.insert_one_model(doc! { "_id": 1 }).expect("a model");
        let writes: [cairndb::WriteModel; 2] = [taken.into(), write(2).into()];
        let refused = store.things.bulk_write(writes).ordered(ordered).session(&mut session).run();
        let error = refused.expect_err("1 is taken");
        assert!(
            matches!(error.kind(), ErrorKind::BulkWrite(refused) if refused.write_errors.len() == 1),
            "{error:?}"
        );
        assert_code(session.commit_transaction().run(), 251);
        assert_eq!(store.n(2, None), Some(20));
    }
}

#[test]
fn a_pipeline_on_a_database_is_no_statement() {
    let store = Store::with(&[(1, 10)]);
    let db = store.client.database("app");
    let stages = [doc! { "$documents": [{ "_id": 1 }] }, doc! { "$out": "copy" }];
    let mut session = store.begin();
    assert_code(db.aggregate(stages.clone()).session(&mut session).run().map(|_| ()), 263);
    session.abort_transaction().run().expect("aborted");
    assert!(!db.list_collection_names().run().expect("listed").contains(&"copy".to_owned()));
    // Outside of a transaction it is what it is without a session.
    db.aggregate(stages).session(&mut session).run().expect("copied");
    assert!(db.list_collection_names().run().expect("listed").contains(&"copy".to_owned()));
}

#[test]
fn a_write_concern_is_looked_at_when_a_transaction_is_started() {
    let store = Store::with(&[(1, 10)]);
    let mut session = store.client.start_session().run().expect("started");
    let mut concern = WriteConcern::journaled();
    concern.w = Some(cairndb::Acknowledgment::Nodes(2));
    let refused = session.start_transaction().write_concern(concern).run();
    assert!(refused.is_err() && !session.in_transaction());
    session.start_transaction().write_concern(WriteConcern::journaled()).run().expect("started");
    store.set(1, 11, &mut session).expect("staged");
    session.commit_transaction().run().expect("committed");
    assert_eq!(store.n(1, None), Some(11));
}

/// The highest key of a unique index was asked of what is stored by then, so a key that a plain delete had freed counted as never given.
#[test]
fn a_unique_key_of_the_snapshot_is_taken_though_it_was_freed_since() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Client::open(folder.path().join("db")).expect("opened");
    let things = |client: &Client| client.database("app").collection::<Document>("things");
    let client = open();
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "u": 1 }).options(unique).build();
    things(&client).create_index(index).run().expect("made");
    things(&client).insert_one(doc! { "_id": 1, "u": 1 }).run().expect("stored");
    client.close().expect("closed");
    // The given keys are known in memory alone.
    let client = open();
    let things = things(&client);
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("started");
    assert!(things.find_one(doc! { "u": 1 }).session(&mut session).run().expect("read").is_some());
    things.delete_one(doc! { "_id": 1 }).run().expect("removed");
    let second = things.insert_one(doc! { "_id": 2, "u": 1 }).session(&mut session).run();
    assert!(second.is_err_and(|error| error.is_duplicate_key()));
}
