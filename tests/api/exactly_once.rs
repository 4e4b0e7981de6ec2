//! Calls with tokens: they happen once, and are answered as the first time, also by the next opening.

use std::fmt::Debug;
use std::sync::Barrier;
use std::thread;

use cairndb::bson::{Bson, Document, Uuid, doc};
use cairndb::{
    AutoIncrement, Client, Collection, Contract, ErrorKind, ExactlyOnceError, IndexModel, IndexOptions,
    InsertManyResult, InsertOneResult, ReturnDocument, SummaryBulkWriteResult, Token, UpdateResult,
    WriteConcern, WriteModel,
};
use cairndb_tests::scratch::{Scratch, small};

fn people(client: &Client) -> Collection<Document> {
    client.database("app").collection("people")
}

fn all(client: &Client) -> Vec<Document> {
    let found = people(client).find(doc! {}).sort(doc! { "_id": 1 }).run().expect("a cursor");
    found.map(|document| document.expect("read")).collect()
}

fn filled(scratch: &Scratch) -> Client {
    let client = scratch.open();
    let documents = (1..4).map(|id| doc! { "_id": id, "n": 0 });
    people(&client).insert_many(documents).run().expect("stored");
    client
}

/// A result without what says whether it is the first.
trait Told: Debug {
    fn told(&self) -> (String, Option<bool>);
}

macro_rules! told {
    ($($result:ident),+) => {$(
        impl Told for $result {
            fn told(&self) -> (String, Option<bool>) {
                let mut first = self.clone();
                first.was_replayed = false;
                (format!("{first:?}"), Some(self.was_replayed))
            }
        }
    )+};
}

told!(InsertOneResult, UpdateResult, SummaryBulkWriteResult);

impl Told for InsertManyResult {
    fn told(&self) -> (String, Option<bool>) {
        let mut ids: Vec<_> = self.inserted_ids.iter().collect();
        ids.sort_by_key(|(position, _)| **position);
        let mut generated: Vec<_> = self.generated.iter().collect();
        generated.sort_by_key(|(position, _)| **position);
        (format!("{ids:?} {generated:?} {:?}", self.last_generate_id), Some(self.was_replayed))
    }
}

impl Told for cairndb::DeleteResult {
    fn told(&self) -> (String, Option<bool>) {
        (self.deleted_count.to_string(), Some(self.was_replayed))
    }
}

impl Told for Option<Document> {
    fn told(&self) -> (String, Option<bool>) {
        (format!("{self:?}"), None)
    }
}

/// Makes a call twice in this life of a store and once in the next one. It is applied once, and is answered in the same way.
#[track_caller]
fn check<R: Told>(call: impl Fn(&Collection<Document>) -> cairndb::Result<R>) {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let before = all(&client);
    let (first, is_replay) = call(&people(&client)).expect("done").told();
    assert_ne!(is_replay, Some(true));
    let after = all(&client);
    assert_ne!(before, after, "it has an effect");
    let again = |client: &Client| {
        let (again, is_replay) = call(&people(client)).expect("answered").told();
        assert_eq!(again, first);
        assert_ne!(is_replay, Some(false));
        assert_eq!(all(client), after);
    };
    again(&client);
    client.close().expect("closed");
    let client = scratch.open();
    again(&client);
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
}

fn increase() -> Document {
    doc! { "$inc": { "n": 1 } }
}

#[test]
fn each_verb_happens_once() {
    check(|people| people.insert_one(doc! { "name": "Ada" }).exactly_once("t").run());
    check(|people| people.insert_many([doc! { "name": "Ada" }]).exactly_once("t").run());
    check(|people| people.insert_many([doc! { "a": 1 }, doc! { "_id": 9 }]).exactly_once("t").run());
    check(|people| people.update_one(doc! { "_id": 1 }, increase()).exactly_once("t").run());
    check(|people| people.update_one(doc! { "n": 0 }, increase()).exactly_once("t").run());
    check(|people| people.update_one(doc! { "a": 9 }, increase()).upsert(true).exactly_once("t").run());
    check(|people| people.update_many(doc! {}, increase()).exactly_once("t").run());
    check(|people| people.update_many(doc! { "a": 9 }, increase()).upsert(true).exactly_once("t").run());
    check(|people| people.replace_one(doc! { "_id": 1 }, doc! { "a": 1 }).exactly_once("t").run());
    check(|people| people.replace_one(doc! { "a": 1 }, doc! { "a": 1 }).upsert(true).exactly_once("t").run());
    check(|people| people.delete_one(doc! {}).exactly_once("t").run());
    check(|people| people.delete_many(doc! { "_id": { "$gt": 1 } }).exactly_once("t").run());
}

#[test]
fn each_verb_that_returns_a_document_happens_once() {
    for shown in [ReturnDocument::Before, ReturnDocument::After] {
        for upsert in [false, true] {
            let filter = || {
                if upsert {
                    doc! { "a": 9 }
                } else {
                    doc! { "_id": 1 }
                }
            };
            check(|people| {
                let update = people.find_one_and_update(filter(), increase()).return_document(shown);
                update.upsert(upsert).exactly_once("t").run()
            });
            check(|people| {
                let replace = people.find_one_and_replace(filter(), doc! { "b": 1 }).return_document(shown);
                replace.upsert(upsert).projection(doc! { "_id": 0 }).exactly_once("t").run()
            });
        }
    }
    check(|people| people.find_one_and_delete(doc! {}).sort(doc! { "_id": -1 }).exactly_once("t").run());
}

#[test]
fn a_bulk_write_happens_once() {
    let models = |people: &Collection<Document>| -> Vec<WriteModel> {
        let namespace = people.namespace();
        let update = cairndb::UpdateOneModel::builder().namespace(namespace.clone()).update(increase());
        let delete = cairndb::DeleteManyModel::builder().namespace(namespace).filter(doc! { "_id": 2 });
        vec![
            people.insert_one_model(doc! { "name": "Ada" }).expect("valid").into(),
            update.filter(doc! { "_id": 1 }).build().into(),
            people.replace_one_model(doc! { "_id": 3 }, doc! { "b": 1 }).expect("valid").into(),
            delete.build().into(),
        ]
    };
    check(|people| people.bulk_write(models(people)).exactly_once("t").run());
    // With the result of each write.
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let write = || {
        let write = people.bulk_write(models(&people)).verbose_results().exactly_once("t").run();
        let mut result = write.expect("done");
        let was_replayed = result.summary.was_replayed;
        result.summary.was_replayed = false;
        result.insert_results.values_mut().for_each(|result| result.was_replayed = false);
        result.update_results.values_mut().for_each(|result| result.was_replayed = false);
        result.delete_results.values_mut().for_each(|result| result.was_replayed = false);
        (result, was_replayed)
    };
    let ((first, was_replayed), (again, is_replay)) = (write(), write());
    assert_eq!((first, was_replayed, is_replay), (again, false, true));
}

/// The rows of one document are in the batch of a write to each kind of collection.
#[test]
fn numbers_unique_keys_and_capped_collections_are_no_matter() {
    let scratch = Scratch::new();
    for round in 0..2 {
        let client = scratch.open();
        let app = client.database("app");
        if round == 0 {
            let gapless = AutoIncrement::builder().field("number").contract(Contract::Gapless).build();
            app.create_collection("people").auto_increment(gapless).run().expect("made");
            let unique = IndexOptions::builder().unique(true).build();
            let index = IndexModel::builder().keys(doc! { "name": 1 }).options(unique).build();
            people(&client).create_index(index).run().expect("made");
            app.create_collection("log").capped(true).size(4096).max(2).run().expect("made");
        }
        let (people, log) = (people(&client), app.collection::<Document>("log"));
        for name in ["Ada", "Grace", "Edith"] {
            let first = people.insert_one(doc! { "name": name }).exactly_once(name).run().expect("stored");
            let again = people.insert_one(doc! { "name": name }).exactly_once(name).run().expect("answered");
            assert_eq!((again.was_replayed, again.generated), (true, first.generated));
            let entry = doc! { "name": name };
            log.insert_one(&entry).exactly_once(format!("log {name}")).run().expect("stored");
        }
        let renamed = doc! { "$set": { "name": "Augusta" } };
        people.update_one(doc! { "name": "Ada" }, renamed).exactly_once("rename").run().expect("changed");
        let numbers = people.find(doc! {}).sort(doc! { "number": 1 }).run().expect("a cursor");
        let numbers: Vec<i64> =
            numbers.map(|found| found.expect("read").get_i64("number").expect("one")).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(log.count_documents(doc! {}).run().expect("counted"), 2);
        assert_eq!(people.count_documents(doc! { "name": "Augusta" }).run().expect("counted"), 1);
        assert!(client.verify().expect("verified").is_clean());
        client.close().expect("closed");
    }
}

#[test]
fn what_changed_nothing_is_the_result_too() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let update = || people.update_one(doc! { "_id": 7 }, increase()).exactly_once("a").run().expect("done");
    let delete = || people.delete_one(doc! { "_id": 7 }).exactly_once("b").run().expect("done");
    let modify =
        || people.find_one_and_update(doc! { "_id": 7 }, increase()).exactly_once("c").run().expect("done");
    let many = || people.delete_many(doc! { "_id": 7 }).exactly_once("d").run().expect("done");
    let same = || {
        people
            .update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 0 } })
            .exactly_once("e")
            .run()
            .expect("done")
    };
    let round = || {
        (
            update().matched_count,
            delete().deleted_count,
            modify(),
            many().deleted_count,
            same().modified_count,
        )
    };
    assert_eq!(round(), (0, 0, None, 0, 0));
    people.insert_one(doc! { "_id": 7 }).run().expect("stored");
    people.update_one(doc! { "_id": 1 }, increase()).run().expect("changed");
    assert_eq!(round(), (0, 0, None, 0, 0));
    assert_eq!(same().matched_count, 1);
    assert_eq!(people.count_documents(doc! { "_id": 7 }).run().expect("counted"), 1);
}

#[test]
fn what_was_refused_is_run_again() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let insert = || people.insert_one(doc! { "_id": 1, "new": true }).exactly_once("a").run();
    let many =
        || people.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).ordered(false).exactly_once("b").run();
    let writes = || -> cairndb::Result<_> {
        let writes =
            [people.insert_one_model(doc! { "_id": 8 })?, people.insert_one_model(doc! { "_id": 2 })?];
        people.bulk_write(writes).exactly_once("c").run()
    };
    assert!(insert().expect_err("taken").is_duplicate_key());
    assert!(many().is_err());
    let error = writes().expect_err("taken");
    let ErrorKind::BulkWrite(refused) = error.kind() else { panic!("{error:?}") };
    assert_eq!(refused.write_errors.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(people.count_documents(doc! { "_id": 8 }).run().expect("counted"), 0, "all or nothing");
    people.delete_many(doc! { "_id": { "$lt": 3 } }).run().expect("removed");
    assert!(!writes().expect("stored").was_replayed);
    people.delete_many(doc! { "_id": { "$lt": 3 } }).run().expect("removed");
    assert!(!many().expect("stored").was_replayed);
    people.delete_many(doc! { "_id": { "$lt": 3 } }).run().expect("removed");
    assert!(!insert().expect("stored").was_replayed);
    assert!(insert().expect("answered").was_replayed);
}

#[test]
fn an_insert_many_that_was_stored_in_part_is_refused_again_in_the_same_words() {
    for ordered in [true, false] {
        for gapless in [false, true] {
            let scratch = Scratch::new();
            let client = scratch.open();
            if gapless {
                let number = AutoIncrement::builder().field("number").contract(Contract::Gapless).build();
                let made = client.database("app").create_collection("people").auto_increment(number).run();
                made.expect("made");
            }
            people(&client).insert_one(doc! { "_id": 2 }).run().expect("stored");
            let insert = |client: &Client| {
                let documents = (0..5).map(|id| doc! { "_id": id, "text": "new" });
                let error = people(client).insert_many(documents).ordered(ordered).exactly_once("t").run();
                let error = error.expect_err("2 is taken");
                let ErrorKind::InsertMany(refused) = error.kind() else { panic!("{error:?}") };
                refused.clone()
            };
            let first = insert(&client);
            let stored = all(&client);
            assert_eq!(stored.len(), if ordered { 3 } else { 5 });
            assert_eq!(insert(&client), first);
            client.close().expect("closed");
            let client = scratch.open();
            assert_eq!(insert(&client), first);
            assert_eq!(all(&client), stored);
            if gapless {
                let mut numbers: Vec<i64> =
                    stored.iter().map(|document| document.get_i64("number").expect("a number")).collect();
                numbers.sort_unstable();
                assert!(
                    numbers.iter().copied().eq(1..=i64::try_from(stored.len()).expect("few")),
                    "{numbers:?}"
                );
            }
        }
    }
}

#[test]
fn a_token_of_another_call_is_refused_and_names_the_first() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    people.update_one(doc! { "_id": 1 }, increase()).exactly_once("t").run().expect("done");
    let before = all(&client);
    let others = [
        people.update_one(doc! { "_id": 2 }, increase()).exactly_once("t").run().expect_err("another filter"),
        people
            .update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 2 } })
            .exactly_once("t")
            .run()
            .expect_err("update"),
        people
            .update_one(doc! { "_id": 1 }, increase())
            .upsert(true)
            .exactly_once("t")
            .run()
            .expect_err("an option"),
        people.update_many(doc! { "_id": 1 }, increase()).exactly_once("t").run().expect_err("another verb"),
        people.insert_one(doc! { "_id": 9 }).exactly_once("t").run().expect_err("another verb"),
        client
            .start_session()
            .run()
            .expect("started")
            .start_transaction()
            .exactly_once("t")
            .run()
            .expect_err("all of it"),
    ];
    for error in others {
        assert_eq!(error.code(), Some(72), "{error}");
        assert!(error.to_string().contains("update_one app.people"), "{error}");
        assert!(matches!(error.kind(), ErrorKind::ExactlyOnce(ExactlyOnceError::Reused { .. })), "{error:?}");
    }
    assert_eq!(all(&client), before);
    // The write concern is not a part of the call.
    let journaled = people.update_one(doc! { "_id": 1 }, increase()).write_concern(WriteConcern::journaled());
    assert!(journaled.exactly_once("t").run().expect("answered").was_replayed);
}

#[test]
fn tokens_that_are_none_are_refused() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    for token in [String::new(), "x".repeat(65)] {
        let error = people.insert_one(doc! { "_id": 9 }).exactly_once(token).run().expect_err("no token");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    }
    people.insert_one(doc! { "_id": 9 }).exactly_once("x".repeat(64)).run().expect("stored");
    // Within a transaction, which goes on.
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("begun");
    people.insert_one(doc! { "_id": 10 }).session(&mut session).run().expect("staged");
    let insert = people.insert_one(doc! { "_id": 11 }).session(&mut session).exactly_once("a").run();
    let update = people.update_many(doc! {}, increase()).exactly_once("a").session(&mut session).run();
    for error in [insert.expect_err("within a transaction"), update.expect_err("within a transaction")] {
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    }
    session.commit_transaction().run().expect("committed");
    assert_eq!(people.count_documents(doc! { "_id": { "$gt": 9 } }).run().expect("counted"), 1);
    // Outside of one a session is no matter.
    let insert = people.insert_one(doc! { "_id": 12 }).session(&mut session).exactly_once("b").run();
    assert!(!insert.expect("stored").was_replayed);
    client.close().expect("closed");
    let reader = small().read_only(true).open(scratch.path()).expect("opened");
    let refused = self::people(&reader).insert_one(doc! { "_id": 12 }).exactly_once("b").run();
    assert!(matches!(refused.expect_err("only read").kind(), ErrorKind::ReadOnly));
}

/// Runs a call by several threads at once.
fn race<R: Send>(threads: usize, call: impl Fn() -> R + Sync) -> Vec<R> {
    let barrier = Barrier::new(threads);
    let run = || {
        barrier.wait();
        call()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn calls_of_several_threads_with_one_token_are_one() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let firsts = |replays: Vec<bool>| replays.into_iter().filter(|was_replayed| !was_replayed).count();
    for round in 0..40 {
        let token = Token::from(format!("update {round}"));
        let update =
            || people.update_one(doc! { "_id": 1 }, increase()).exactly_once(&token).run().expect("done");
        let done = race(4, update);
        assert_eq!(firsts(done.iter().map(|done| done.was_replayed).collect()), 1, "{done:?}");
        let token = Token::from(Uuid::new());
        let insert = || people.insert_one(doc! { "round": round }).exactly_once(&token).run().expect("done");
        let done = race(4, insert);
        assert_eq!(firsts(done.iter().map(|done| done.was_replayed).collect()), 1, "{done:?}");
        assert!(done.iter().all(|one| one.inserted_id == done[0].inserted_id), "{done:?}");
        // Each but the first meets the `_id` that the first has stored.
        let id = 1000 + round;
        let token = Token::from(format!("insert {round}"));
        let insert = || people.insert_one(doc! { "_id": id }).exactly_once(&token).run().expect("done");
        let done = race(4, insert);
        assert_eq!(firsts(done.iter().map(|done| done.was_replayed).collect()), 1, "{done:?}");
        let token = Token::from(format!("inserts {round}"));
        let both = || {
            let both = [doc! { "_id": 2000 + round }, doc! { "_id": 3000 + round }];
            people.insert_many(both).exactly_once(&token).run().expect("done")
        };
        let done = race(3, both);
        assert_eq!(firsts(done.iter().map(|done| done.was_replayed).collect()), 1, "{done:?}");
        let token = Token::from(format!("transaction {round}"));
        let run = || -> cairndb::Result<i32> {
            let mut session = client.start_session().run()?;
            session.start_transaction().exactly_once(&token).and_run(|session| {
                people.insert_one(doc! { "_id": 4000 + round }).session(&mut *session).run()?;
                Ok(round)
            })
        };
        assert!(race(3, || run().expect("done")).iter().all(|done| *done == round));
        let token = client.token();
        let many = || people.update_many(doc! { "_id": { "$lt": 3 } }, increase()).exactly_once(&token).run();
        let done = race(3, || many().expect("done"));
        assert_eq!(firsts(done.iter().map(|done| done.was_replayed).collect()), 1, "{done:?}");
        let token = client.token();
        let run = || -> cairndb::Result<i32> {
            let mut session = client.start_session().run()?;
            session.start_transaction().exactly_once(&token).and_run(|session| {
                people.update_one(doc! { "_id": 3 }, increase()).session(&mut *session).run()?;
                let found = people.find_one(doc! { "_id": 3 }).session(&mut *session).run()?;
                Ok(found.expect("there").get_i32("n").expect("a number"))
            })
        };
        let done = race(3, || run().expect("done"));
        assert!(done.iter().all(|n| *n == round + 1), "{done:?}");
    }
    let numbers: Vec<i32> = all(&client).iter().filter_map(|found| found.get_i32("n").ok()).collect();
    assert_eq!(numbers, [80, 40, 40]);
    assert_eq!(people.count_documents(doc! { "round": { "$gte": 0 } }).run().expect("counted"), 40);
    assert!(client.verify().expect("verified").is_clean());
}

/// The effect of a second transaction would be committed without the token.
#[test]
fn the_function_of_a_transaction_with_a_token_starts_no_other() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let mut session = client.start_session().run().expect("started");
    let start = |session: &mut cairndb::ClientSession| {
        session.start_transaction().exactly_once("one").and_run(|session| {
            session.abort_transaction().run()?;
            session.start_transaction().run()?;
            people.insert_one(doc! { "_id": 77 }).session(session).run()?;
            Ok(1)
        })
    };
    for _ in 0..2 {
        let refused = start(&mut session).expect_err("it is refused");
        assert!(refused.to_string().contains("cannot start another one"), "{refused}");
    }
    assert_eq!(people.count_documents(doc! { "_id": 77 }).run().expect("counted"), 0);
    // The session goes on.
    session.start_transaction().run().expect("started");
}

#[test]
fn a_transaction_is_committed_once_and_returns_what_it_returned() {
    let scratch = Scratch::new();
    let mut calls = 0;
    for round in 0..3 {
        let client = if round == 0 { filled(&scratch) } else { scratch.open() };
        let people = people(&client);
        let mut session = client.start_session().run().expect("started");
        let returned: Vec<Bson> = session
            .start_transaction()
            .exactly_once("t")
            .and_run(|session| {
                calls += 1;
                people.delete_one(doc! { "_id": 1 }).session(&mut *session).run()?;
                people.insert_one(doc! { "_id": "new" }).session(&mut *session).run()?;
                Ok(vec![Bson::Int32(1), Bson::from("two")])
            })
            .expect("committed");
        assert_eq!(returned, [Bson::Int32(1), Bson::from("two")]);
        // One that reads nothing and writes nothing is one too.
        let empty = session.start_transaction().exactly_once("empty").and_run(|_| Ok(7));
        assert_eq!(empty.expect("committed"), 7);
        let again = session.start_transaction().exactly_once("t").run().expect_err("it is committed");
        assert_eq!(again.code(), Some(256), "{again}");
        assert!(matches!(again.kind(), ErrorKind::ExactlyOnce(ExactlyOnceError::Done)));
        assert!(!session.in_transaction());
        assert_eq!(people.count_documents(doc! {}).run().expect("counted"), 3);
        drop(session);
        client.close().expect("closed");
    }
    assert_eq!(calls, 1);
}

#[test]
fn a_transaction_that_was_not_committed_does_not_spend_its_token() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let mut session = client.start_session().run().expect("started");
    let failed = session.start_transaction().exactly_once("t").and_run(|session| {
        people.insert_one(doc! { "_id": 9 }).session(&mut *session).run()?;
        Err::<(), _>(cairndb::Error::custom("no"))
    });
    assert!(failed.is_err());
    let aborted = session.start_transaction().exactly_once("t").and_run(|session| {
        people.insert_one(doc! { "_id": 9 }).session(&mut *session).run()?;
        session.abort_transaction().run()?;
        Ok(1)
    });
    assert_eq!(aborted.expect("aborted"), 1);
    let itself = session.start_transaction().exactly_once("t").and_run(|session| {
        people.insert_one(doc! { "_id": 9 }).session(&mut *session).run()?;
        session.commit_transaction().run()
    });
    assert!(matches!(itself.expect_err("not there").kind(), ErrorKind::Transaction { .. }));
    // Results that cannot be stored.
    let large = session.start_transaction().exactly_once("t").and_run(|session| {
        people.insert_one(doc! { "_id": 9 }).session(&mut *session).run()?;
        Ok("x".repeat(17 << 20))
    });
    assert_eq!(large.expect_err("too large").code(), Some(10_334));
    let no_bson = session.start_transaction().exactly_once("t").and_run(|session| {
        people.insert_one(doc! { "_id": 9 }).session(&mut *session).run()?;
        Ok(u64::MAX)
    });
    assert!(matches!(no_bson.expect_err("no BSON").kind(), ErrorKind::Bson(_)));
    assert_eq!(people.count_documents(doc! { "_id": 9 }).run().expect("counted"), 0);
    session.start_transaction().exactly_once("t").run().expect("begun");
    people.insert_one(doc! { "_id": 9 }).session(&mut session).run().expect("staged");
    session.commit_transaction().run().expect("committed");
    assert_eq!(session.start_transaction().exactly_once("t").run().expect_err("done").code(), Some(256));
}

/// A transaction with a token that was begun before another one with it was committed.
#[test]
fn a_commit_that_comes_second_is_told_so() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let people = people(&client);
    let mut sessions = [(); 2].map(|()| client.start_session().run().expect("started"));
    for (id, session) in (8..).zip(&mut sessions) {
        session.start_transaction().exactly_once("t").run().expect("begun");
        people.insert_one(doc! { "_id": id }).session(&mut *session).run().expect("staged");
    }
    let [first, second] = &mut sessions;
    first.commit_transaction().run().expect("committed");
    assert_eq!(second.commit_transaction().run().expect_err("late").code(), Some(256));
    assert_eq!(people.count_documents(doc! { "_id": { "$gte": 8 } }).run().expect("counted"), 1);
    // Its session goes on.
    second.start_transaction().run().expect("begun");
    people.insert_one(doc! { "_id": 9 }).session(&mut *second).run().expect("staged");
    second.commit_transaction().run().expect("committed");
}

#[test]
fn an_update_that_is_larger_than_a_transaction_changes_nothing() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let people = people(&client);
    for id in 0..23 {
        people.insert_one(doc! { "_id": id, "text": "x".repeat(3 << 20) }).run().expect("stored");
    }
    let update = |filter| people.update_many(filter, increase()).exactly_once("t").run();
    assert_eq!(update(doc! {}).expect_err("too large").code(), Some(257));
    assert_eq!(people.count_documents(doc! { "n": 1 }).run().expect("counted"), 0);
    // The token is not spent.
    assert_eq!(update(doc! { "_id": 1 }).expect("done").modified_count, 1);
}

#[test]
fn copies_and_salvaged_folders_remember_tokens_and_drops_leave_them() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let insert = |client: &Client| people(client).insert_one(doc! { "name": "Ada" }).exactly_once("t").run();
    let first = insert(&client).expect("stored");
    let copy = Scratch::new();
    client.backup(copy.path()).expect("copied");
    people(&client).truncate().run().expect("emptied");
    assert!(insert(&client).expect("answered").was_replayed);
    people(&client).drop().run().expect("dropped");
    assert!(insert(&client).expect("answered").was_replayed);
    assert_eq!(all(&client).len(), 0);
    client.close().expect("closed");
    let salvaged = Scratch::new();
    let report = cairndb::salvage(scratch.path(), salvaged.path()).run().expect("salvaged");
    assert!(report.is_complete() && report.verified.is_clean(), "{report:?}");
    for scratch in [&copy, &salvaged] {
        let client = scratch.open();
        let again = insert(&client).expect("answered");
        assert_eq!((again.was_replayed, &again.inserted_id), (true, &first.inserted_id));
        assert!(client.verify().expect("verified").is_clean());
    }
}

#[test]
fn replays_are_counted_and_so_are_the_bytes_of_tokens() {
    let scratch = Scratch::new();
    let client = filled(&scratch);
    let tokens = || client.metrics().expect("measured").tokens;
    let (before, insert) =
        (tokens(), || people(&client).insert_one(doc! { "_id": 9 }).exactly_once("t").run());
    assert_eq!((before.replays, before.bytes), (0, 0));
    insert().expect("stored");
    let after = tokens();
    assert!(after.replays == 0 && after.bytes > 40, "{after:?}");
    insert().expect("answered");
    assert_eq!((tokens().replays, tokens().bytes), (1, after.bytes));
}

#[test]
fn when_the_table_of_tokens_is_full_nothing_is_written() {
    let scratch = Scratch::new();
    let client = small().token_bytes_max(64 << 10).open(scratch.path()).expect("opened");
    let people = people(&client);
    let documents = (0..20).map(|id| doc! { "_id": id, "text": "x".repeat(4000) });
    people.insert_many(documents).run().expect("stored");
    let delete = |id: i32| people.find_one_and_delete(doc! { "_id": id }).exactly_once(format!("{id}")).run();
    let (full, error) =
        (0..20).find_map(|id| Some((id, delete(id).err()?))).expect("16 documents are more than 64 KiB");
    assert_eq!((full, error.code()), (15, Some(146)), "{error}");
    assert_eq!(people.count_documents(doc! {}).run().expect("counted"), 5);
    // All that is remembered is so still, and a smaller result has room.
    assert!(delete(3).expect("answered").is_some());
    assert_eq!(
        people.delete_one(doc! { "_id": full }).exactly_once("small").run().expect("done").deleted_count,
        1
    );
    for (retention, bytes) in [(59, 1 << 30), (367 * 86_400, 1 << 30), (60, 1000)] {
        let builder =
            small().token_retention(std::time::Duration::from_secs(retention)).token_bytes_max(bytes);
        let error = builder.open(Scratch::new().path()).expect_err("out of range");
        assert!(error.to_string().contains("token_"), "{error}");
    }
}
