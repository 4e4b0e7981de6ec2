//! Serializable transactions: what they have read is still so when they commit.

use cairndb::bson::{Document, doc};
use cairndb::{Client, ClientSession, Collection, ErrorKind, PlantedFault, ReadConcern, Result};
use cairndb_tests::race::race;

use crate::transactions::{Store, assert_code};

fn begin(client: &Client, concern: ReadConcern) -> ClientSession {
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().read_concern(concern).run().expect("started");
    session
}

fn set(things: &Collection<Document>, id: i32, n: i32, session: &mut ClientSession) {
    let set = things.update_one(doc! { "_id": id }, doc! { "$set": { "n": n } });
    assert_eq!(set.session(session).run().expect("staged").matched_count, 1);
}

fn count(things: &Collection<Document>, filter: Document, session: &mut ClientSession) -> u64 {
    things.count_documents(filter).session(session).run().expect("counted")
}

/// Ends two transactions one after the other. Returns whether the second one was committed.
#[track_caller]
fn both_commit(one: &mut ClientSession, two: &mut ClientSession) -> bool {
    one.commit_transaction().run().expect("the first one");
    match two.commit_transaction().run() {
        Ok(()) => true,
        Err(error) => {
            assert!(error.is_write_conflict(), "{error:?}");
            false
        }
    }
}

/// The half of two transactions' work with a store.
type Half = fn(&Store, bool, &mut ClientSession);

/// G2-item: each reads both documents by their `_id`s, and writes one of them.
fn item(store: &Store, is_first: bool, session: &mut ClientSession) {
    for id in [1, 2] {
        store.things.find_one(doc! { "_id": id }).session(&mut *session).run().expect("read");
    }
    set(&store.things, if is_first { 1 } else { 2 }, 0, session);
}

/// G2: each counts what matches, and inserts a document that matches.
fn predicate(store: &Store, is_first: bool, session: &mut ClientSession) {
    assert_eq!(count(&store.things, doc! { "n": { "$gte": 100 } }, session), 0);
    let document = doc! { "_id": if is_first { 100 } else { 200 }, "n": 100 };
    store.things.insert_one(document).session(session).run().expect("staged");
}

/// Each finds that a document is absent that the other one inserts.
fn absence(store: &Store, is_first: bool, session: &mut ClientSession) {
    let (asked, inserted) = if is_first { (100, 200) } else { (200, 100) };
    assert_eq!(
        store.things.find_one(doc! { "_id": asked }).session(&mut *session).run().expect("read"),
        None
    );
    store.things.insert_one(doc! { "_id": inserted, "n": 0 }).session(session).run().expect("staged");
}

/// Each finds that a collection is absent that the other one makes.
fn name(store: &Store, is_first: bool, session: &mut ClientSession) {
    let (asked, made) = if is_first { ("a", "b") } else { ("b", "a") };
    let collection = |name| store.client.database("app").collection::<Document>(name);
    assert_eq!(count(&collection(asked), doc! {}, session), 0);
    collection(made).insert_one(doc! {}).session(session).run().expect("staged");
}

/// Each joins the other's collection, and writes its own.
fn join(store: &Store, is_first: bool, session: &mut ClientSession) {
    let others = store.client.database("app").collection::<Document>("others");
    let (own, other) = if is_first { (&store.things, "others") } else { (&others, "things") };
    let stages = [doc! { "$limit": 1 }, doc! { "$lookup": { "from": other, "pipeline": [], "as": "o" } }];
    own.aggregate(stages).session(&mut *session).run().expect("opened").next(session);
    set(own, 1, 0, session);
}

/// Each searches to update, and its search finds nothing because of what the other one has not written yet.
fn search_to_write(store: &Store, is_first: bool, session: &mut ClientSession) {
    let (wanted, id) = if is_first { (77, 1) } else { (88, 2) };
    let mark = store.things.update_many(doc! { "n": wanted }, doc! { "$set": { "seen": true } });
    assert_eq!(mark.session(&mut *session).run().expect("staged").matched_count, 0);
    set(&store.things, id, if is_first { 88 } else { 77 }, session);
}

/// Each asks by a write for a document by its `_id`, which does not match because of what the other one has not written yet.
fn write_without_match(store: &Store, is_first: bool, session: &mut ClientSession) {
    let (asked, id) = if is_first { (2, 1) } else { (1, 2) };
    let large = || doc! { "_id": asked, "n": 100 };
    let things = &store.things;
    let mark = doc! { "$set": { "seen": true } };
    assert_eq!(things.find_one_and_update(large(), mark).session(&mut *session).run().expect("asked"), None);
    assert_eq!(things.delete_one(large()).session(&mut *session).run().expect("asked").deleted_count, 0);
    set(things, id, 100, session);
}

/// Each sets a document by its `_id` to what it is, which the other one has not changed yet.
fn write_without_change(store: &Store, is_first: bool, session: &mut ClientSession) {
    let (asked, id) = if is_first { (2, 1) } else { (1, 2) };
    set(&store.things, asked, 10 * asked, session);
    set(&store.things, id, 100, session);
}

#[test]
fn write_skew_occurs_under_snapshot_and_never_under_serializable() {
    let halves: [(&str, Half); 8] = [
        ("item", item),
        ("predicate", predicate),
        ("absence", absence),
        ("name", name),
        ("join", join),
        ("search to write", search_to_write),
        ("write without match", write_without_match),
        ("write without change", write_without_change),
    ];
    for (what, half) in halves {
        for (concern, commits) in [(ReadConcern::snapshot(), true), (ReadConcern::serializable(), false)] {
            let store = Store::with(&[(1, 10), (2, 20)]);
            let others = store.client.database("app").collection::<Document>("others");
            others.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
            let mut one = begin(&store.client, concern.clone());
            let mut two = begin(&store.client, concern.clone());
            half(&store, true, &mut one);
            half(&store, false, &mut two);
            assert_eq!(both_commit(&mut one, &mut two), commits, "{what}, {}", concern.level());
        }
    }
}

/// The test above rests on this: without a look at what was searched, the skew goes through.
#[test]
fn planted_searches_that_are_not_checked_are_seen() {
    for (half, commits) in [(predicate as Half, true), (item as Half, true)] {
        let builder = Client::builder().in_memory(true).planted_fault(PlantedFault::SearchesNotChecked);
        let store = Store::of(builder.open("").expect("made"), &[(1, 10), (2, 20)]);
        let (mut one, mut two) = (
            begin(&store.client, ReadConcern::serializable()),
            begin(&store.client, ReadConcern::serializable()),
        );
        half(&store, true, &mut one);
        half(&store, false, &mut two);
        assert_eq!(both_commit(&mut one, &mut two), commits);
    }
}

/// A write or a change beside a transaction.
type Change = fn(&Store);

/// A plain writer, and a change of the collection, are as good as a transaction.
#[test]
fn plain_writes_and_changes_are_conflicts_too() {
    let store = || Store::with(&[(1, 10), (2, 20), (3, 30)]);
    let changes: [(&str, Change); 7] = [
        ("insert", |store| drop(store.things.insert_one(doc! { "_id": 9 }).run().expect("stored"))),
        ("update", |store| {
            store.things.update_one(doc! { "_id": 3 }, doc! { "$inc": { "n": 1 } }).run().expect("written");
        }),
        ("delete", |store| {
            store.things.delete_one(doc! { "n": 30 }).run().expect("deleted");
        }),
        ("delete many", |store| {
            store.things.delete_many(doc! { "n": 30 }).run().expect("deleted");
        }),
        ("truncate", |store| {
            store.things.truncate().run().expect("emptied");
        }),
        ("drop", |store| store.things.drop().run().expect("dropped")),
        ("rename", |store| store.things.rename("elsewhere").run().expect("renamed")),
    ];
    for (what, change) in changes {
        let store = store();
        let others = store.client.database("app").collection::<Document>("others");
        others.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
        let mut session = begin(&store.client, ReadConcern::serializable());
        assert_eq!(count(&store.things, doc! { "n": { "$gt": 5 } }, &mut session), 3);
        set(&others, 1, 2, &mut session);
        change(&store);
        let error = assert_code(session.commit_transaction().run(), 112);
        assert!(error.contains_label(cairndb::TRANSIENT_TRANSACTION_ERROR), "{what}: {error:?}");
        assert_eq!(others.find_one(doc! {}).run().expect("read"), Some(doc! { "_id": 1, "n": 1 }));
    }
}

/// A read of other documents does not conflict with a read by `_id`; and one that writes nothing has no conflict.
#[test]
fn other_documents_are_no_conflict() {
    let store = Store::with(&[(1, 10), (2, 20), (3, 30)]);
    let mut session = begin(&store.client, ReadConcern::serializable());
    store.things.find_one(doc! { "_id": 1 }).session(&mut session).run().expect("read");
    set(&store.things, 2, 21, &mut session);
    store.things.update_one(doc! { "_id": 3 }, doc! { "$inc": { "n": 1 } }).run().expect("written");
    store.things.insert_one(doc! { "_id": 4 }).run().expect("stored");
    session.commit_transaction().run().expect("committed");
    let mut reader = begin(&store.client, ReadConcern::serializable());
    assert_eq!(count(&store.things, doc! {}, &mut reader), 4);
    store.things.insert_one(doc! { "_id": 5 }).run().expect("stored");
    assert_eq!(count(&store.things, doc! {}, &mut reader), 4);
    reader.commit_transaction().run().expect("it has written nothing");
    // Its own writes neither, and those of another collection.
    let mut session = begin(&store.client, ReadConcern::serializable());
    store.things.insert_one(doc! { "_id": 6 }).session(&mut session).run().expect("staged");
    assert_eq!(count(&store.things, doc! {}, &mut session), 6);
    store.client.database("app").collection("others").insert_one(doc! {}).run().expect("stored");
    session.commit_transaction().run().expect("committed");
    // A collection of its own, made and searched in it.
    let mut session = begin(&store.client, ReadConcern::serializable());
    let new = store.client.database("app").collection::<Document>("new");
    assert_eq!(count(&new, doc! {}, &mut session), 0);
    new.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    assert_eq!(count(&new, doc! {}, &mut session), 1);
    session.commit_transaction().run().expect("committed");
    // A level that no transaction has.
    let mut session = store.client.start_session().run().expect("started");
    let refused = session.start_transaction().read_concern(ReadConcern::custom("linearizable")).run();
    assert!(matches!(refused.expect_err("refused").kind(), ErrorKind::InvalidArgument { .. }));
}

/// A view is what its pipeline reads, by the definition that it had.
#[test]
fn a_view_is_read_as_its_collection_is() {
    for changes_view in [false, true] {
        let store = Store::with(&[(1, 10), (2, 20)]);
        let database = store.client.database("app");
        let large = [doc! { "$match": { "n": { "$gt": 15 } } }];
        database.create_collection("large").view_on("things").pipeline(large).run().expect("made");
        let others = database.collection::<Document>("others");
        others.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
        let mut session = begin(&store.client, ReadConcern::serializable());
        assert_eq!(count(&database.collection("large"), doc! {}, &mut session), 1);
        set(&others, 1, 2, &mut session);
        if changes_view {
            database.collection::<Document>("large").drop().run().expect("dropped");
        } else {
            store.things.insert_one(doc! { "_id": 3, "n": 30 }).run().expect("stored");
        }
        assert_code(session.commit_transaction().run(), 112);
    }
}

/// Beyond some thousands of keys a collection counts as read as a whole, so what is remembered has a bound.
#[test]
fn very_many_reads_count_as_one_of_all() {
    let store = Store::with(&[(1, 10)]);
    for (reads, commits) in [(4_000, true), (4_200, false)] {
        let mut session = begin(&store.client, ReadConcern::serializable());
        for id in 0..reads {
            store.things.find_one(doc! { "_id": id }).session(&mut session).run().expect("read");
        }
        set(&store.things, 1, reads, &mut session);
        store.things.insert_one(doc! {}).run().expect("stored");
        assert_eq!(session.commit_transaction().run().is_ok(), commits, "{reads}");
    }
}

/// Each name that is asked for is one more look-up of the commit while writers wait, so it counts as much as is staged.
#[test]
fn absent_names_have_a_bound() {
    let store = Store::with(&[(1, 10)]);
    let mut session = begin(&store.client, ReadConcern::serializable());
    let asked = (0..10_000).find_map(|number| {
        let absent = store.client.database("app").collection::<Document>(&format!("absent{number}"));
        absent.find_one(doc! {}).session(&mut session).run().err().map(|error| (number, error.code()))
    });
    assert_eq!(asked, Some((4_096, Some(257))));
}

/// Accounts that may be overdrawn as long as their sum is not: each withdrawal looks at both.
#[test]
fn an_invariant_over_two_documents_holds() {
    let store = Store::with(&[(1, 100), (2, 100)]);
    let withdraw = |id: i32, session: &mut ClientSession, by_id: bool| -> Result<bool> {
        let sum: i32 = if by_id {
            let mut sum = 0;
            for id in [1, 2] {
                let found = store.things.find_one(doc! { "_id": id }).session(&mut *session).run()?;
                sum += found.expect("it is there").get_i32("n").expect("a number");
            }
            sum
        } else {
            let mut cursor = store.things.find(doc! {}).session(&mut *session).run()?;
            let found: Vec<Document> = cursor.iter(session).collect::<Result<_>>()?;
            found.iter().map(|found| found.get_i32("n").expect("a number")).sum()
        };
        if sum < 7 {
            return Ok(false);
        }
        let take = doc! { "$inc": { "n": -7 } };
        store.things.update_one(doc! { "_id": id }, take).session(session).run().map(|_| true)
    };
    let withdrawn: i32 = race(0..4, |thread: i32| {
        let (mut session, mut withdrawn) = (store.client.start_session().run().expect("started"), 0);
        for round in 0..20 {
            let start = session.start_transaction().read_concern(ReadConcern::serializable());
            let done = start.and_run(|session| withdraw(1 + thread % 2, session, round % 2 == 0));
            withdrawn += i32::from(done.expect("it is tried again"));
        }
        withdrawn
    })
    .into_iter()
    .sum();
    assert_eq!(withdrawn, 200 / 7, "as often as the sum allows, and never more");
}
