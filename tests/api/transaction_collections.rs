//! Collections and indexes that a transaction makes: its own until the commit, and gone without it.

use cairndb::bson::{Document, doc};
use cairndb::{
    AutoIncrement, Client, ClientSession, Collation, CollationStrength, Collection, Error, IndexModel,
    IndexOptions, Result, TRANSIENT_TRANSACTION_ERROR,
};
use cairndb_tests::race::race;
use cairndb_tests::scratch::Scratch;

use crate::transactions::assert_code;
use crate::verify_clean;

struct Shop {
    // Dropped first: the folder goes last.
    client: Client,
    scratch: Scratch,
}

impl Shop {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self { client: scratch.open(), scratch }
    }

    fn reopened(self) -> Self {
        self.client.close().expect("closed");
        Self { client: self.scratch.open(), scratch: self.scratch }
    }

    fn begin(&self) -> ClientSession {
        let mut session = self.client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        session
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.client.database("shop").collection(name)
    }

    fn names(&self) -> Vec<String> {
        self.client.database("shop").list_collection_names().run().expect("listed")
    }
}

fn index(path: &str, unique: bool) -> IndexModel {
    let options = IndexOptions::builder().unique(unique).build();
    IndexModel::builder().keys(doc! { path: 1 }).options(options).build()
}

#[track_caller]
fn assert_transient<R: std::fmt::Debug>(done: Result<R>, code: i32) -> Error {
    let error = assert_code(done, code);
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    error
}

#[test]
fn a_collection_is_made_by_the_commit() {
    let shop = Shop::new();
    let (orders, lines) = (shop.collection("orders"), shop.collection("lines"));
    for commits in [false, true] {
        let mut session = shop.begin();
        let database = shop.client.database("shop");
        let create = database.create_collection("orders");
        create.validator(doc! { "n": { "$gt": 0 } }).session(&mut session).run().expect("made");
        let name =
            orders.create_index(index("n", true)).session(&mut session).run().expect("made").index_name;
        assert_eq!(name, "n_1");
        let several = orders.create_indexes([index("n", true), index("tags", false)]).session(&mut session);
        assert_eq!(several.run().expect("made").index_names, ["n_1", "tags_1"]);
        let documents =
            [doc! { "_id": 1, "n": 1, "tags": ["a", "b"] }, doc! { "_id": 2, "n": 2, "tags": ["b"] }];
        orders.insert_many(documents).session(&mut session).run().expect("staged");
        // Made by its first document, in the same transaction.
        lines.insert_one(doc! { "_id": 1, "order": 2 }).session(&mut session).run().expect("staged");
        lines
            .update_one(doc! { "_id": 2 }, doc! { "$set": { "order": 1 } })
            .upsert(true)
            .session(&mut session)
            .run()
            .expect("staged");
        // It sees all of it, by indexes too, and no other caller does.
        let by_tag =
            orders.count_documents(doc! { "tags": "b" }).hint(cairndb::Hint::Name("tags_1".to_owned()));
        assert_eq!(by_tag.session(&mut session).run().expect("counted"), 2);
        let joined =
            doc! { "$lookup": { "from": "orders", "localField": "order", "foreignField": "_id", "as": "o" } };
        let mut cursor = lines.aggregate([joined]).session(&mut session).run().expect("opened");
        let found: Vec<usize> = cursor
            .iter(&mut session)
            .map(|found| found.expect("read").get_array("o").expect("an array").len())
            .collect();
        assert_eq!(found, [1, 1]);
        assert_eq!(shop.names(), Vec::<String>::new());
        assert_eq!(orders.find_one(doc! {}).run().expect("read"), None);
        assert_eq!(shop.client.list_database_names().run().expect("listed"), Vec::<String>::new());
        if commits {
            session.commit_transaction().run().expect("committed");
        } else {
            session.abort_transaction().run().expect("aborted");
            assert_eq!(shop.names(), Vec::<String>::new());
        }
    }
    let shop = shop.reopened();
    let (orders, lines) = (shop.collection("orders"), shop.collection("lines"));
    assert_eq!(shop.names(), ["lines", "orders"]);
    assert_eq!(orders.list_index_names().run().expect("listed"), ["_id_", "n_1", "tags_1"]);
    assert!(orders.insert_one(doc! { "n": 2 }).run().expect_err("it is taken").is_duplicate_key());
    assert_code(orders.insert_one(doc! { "n": 0 }).run(), 121);
    assert_eq!(orders.count_documents(doc! { "tags": "b" }).run().expect("counted"), 2);
    assert_eq!(orders.estimated_document_count().run().expect("known"), 2);
    assert_eq!(lines.count_documents(doc! {}).run().expect("counted"), 2);
    verify_clean(&shop.client);
}

/// The process dies after transactions made collections, some of them without a commit.
#[test]
fn a_collection_that_was_not_committed_leaves_nothing_for_the_next_open() {
    let shop = Shop::new();
    let (kept, lost) = (shop.collection("kept"), shop.collection("lost"));
    let mut session = shop.begin();
    lost.create_index(index("n", true)).session(&mut session).run().expect("made");
    lost.insert_one(doc! { "n": 1 }).session(&mut session).run().expect("staged");
    let mut other = shop.begin();
    kept.insert_one(doc! { "n": 1 }).session(&mut other).run().expect("staged");
    other.commit_transaction().run().expect("committed");
    let copy = shop.scratch.killed();
    let client = copy.open();
    assert_eq!(client.database("shop").list_collection_names().run().expect("listed"), ["kept"]);
    let lost = client.database("shop").collection::<Document>("lost");
    lost.insert_one(doc! { "n": 2 }).run().expect("stored");
    assert_eq!(lost.count_documents(doc! {}).run().expect("counted"), 1);
    verify_clean(&client);
}

#[test]
fn a_name_is_given_once() {
    let shop = Shop::new();
    let things = shop.collection("things");
    // A plain writer is first: at the statement, or at the commit.
    let mut session = shop.begin();
    shop.collection("others").find_one(doc! {}).session(&mut session).run().expect("read");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert_transient(things.insert_one(doc! { "_id": 2 }).session(&mut session).run(), 246);
    things.drop().run().expect("dropped");
    let mut session = shop.begin();
    things.insert_one(doc! { "_id": 2 }).session(&mut session).run().expect("staged");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert_transient(session.commit_transaction().run(), 112);
    assert_eq!(things.find_one(doc! {}).run().expect("read"), Some(doc! { "_id": 1 }));
    // A view.
    let database = shop.client.database("shop");
    let mut session = shop.begin();
    shop.collection("shown").insert_one(doc! {}).session(&mut session).run().expect("staged");
    database.create_collection("shown").view_on("things").run().expect("made");
    assert_transient(session.commit_transaction().run(), 112);
    // A database whose name differs in case.
    let mut session = shop.begin();
    let new = shop.client.database("new").collection::<Document>("things");
    new.insert_one(doc! {}).session(&mut session).run().expect("staged");
    shop.client.database("NEW").create_collection("things").run().expect("made");
    assert_transient(session.commit_transaction().run(), 112);
    let mut session = shop.begin();
    shop.client.database("one").create_collection("a").session(&mut session).run().expect("made");
    assert_code(shop.client.database("One").create_collection("b").session(&mut session).run(), 13297);
    // Another transaction.
    let (mut one, mut two) = (shop.begin(), shop.begin());
    for session in [&mut one, &mut two] {
        shop.collection("both").insert_one(doc! {}).session(session).run().expect("staged");
    }
    one.commit_transaction().run().expect("committed");
    assert_transient(two.commit_transaction().run(), 112);
    assert_eq!(shop.collection("both").count_documents(doc! {}).run().expect("counted"), 1);
    verify_clean(&shop.client);
}

#[test]
fn what_a_transaction_cannot_make_is_refused() {
    let shop = Shop::new();
    let database = shop.client.database("shop");
    let there = shop.collection("there");
    there.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
    let refused = |make: &dyn Fn(&mut ClientSession) -> Result<()>| {
        let mut session = shop.begin();
        assert_code(make(&mut session), 263);
    };
    refused(&|session| database.create_collection("v").view_on("there").session(session).run());
    refused(&|session| database.create_collection("c").capped(true).size(4096).session(session).run());
    let number = || AutoIncrement::builder().field("n").build();
    refused(&|session| database.create_collection("n").auto_increment(number()).session(session).run());
    refused(&|session| there.create_index(index("n", false)).session(session).run().map(|_| ()));
    refused(&|session| {
        let new = shop.collection("new");
        new.insert_one(doc! {}).session(&mut *session).run()?;
        new.create_index(index("n", false)).session(session).run().map(|_| ())
    });
    // A command that is wrong by itself leaves the transaction open.
    let mut session = shop.begin();
    let wrong = IndexModel::builder().keys(doc! { "n": "sideways" }).build();
    shop.collection("new").create_index(wrong).session(&mut session).run().expect_err("no such index");
    // The same once more is not an error, and another declaration is.
    database.create_collection("there").session(&mut session).run().expect("it is there");
    let any_case = || Collation::with_locale("en").strength(CollationStrength::Secondary);
    database.create_collection("new").collation(any_case()).session(&mut session).run().expect("made");
    database.create_collection("new").collation(any_case()).session(&mut session).run().expect("it is made");
    shop.collection("new").insert_one(doc! { "name": "Ada" }).session(&mut session).run().expect("staged");
    let found = shop.collection("new").find_one(doc! { "name": "ADA" }).session(&mut session).run();
    assert!(found.expect("read").is_some(), "the collation is the collection's");
    assert_code(database.create_collection("new").session(&mut session).run(), 48);
    assert_code(session.commit_transaction().run(), 251);
    assert_eq!(shop.names(), ["there"]);
    verify_clean(&shop.client);
}

/// New collections are held in memory until the commit, so there is a limit to them.
#[test]
fn a_transaction_makes_only_so_much() {
    let shop = Shop::new();
    let mut session = shop.begin();
    let database = shop.client.database("shop");
    let made = (0..100_000).find_map(|number| {
        let create = database.create_collection(format!("c{number}")).session(&mut session);
        create.run().err().map(|error| (number, error))
    });
    let (number, error) = made.expect("so many are too many");
    assert!(error.code() == Some(257) && number > 1_000, "{number}: {error:?}");
    drop(session);
    assert_eq!(shop.names(), Vec::<String>::new());
}

/// Threads that all write the first document of the same collections.
#[test]
fn many_first_writers_make_one_collection() {
    let shop = Shop::new();
    race(0..4, |thread: i64| {
        for round in 0..10 {
            let things = shop.collection(&format!("things{round}"));
            let document = || doc! { "_id": thread };
            if thread == 0 {
                things.insert_one(document()).run().expect("stored");
                continue;
            }
            let mut session = shop.client.start_session().run().expect("started");
            let done = session.start_transaction().and_run(|session| {
                things.insert_one(document()).session(&mut *session).run()?;
                Ok(())
            });
            done.expect("it is tried again");
        }
    });
    for round in 0..10 {
        let stored = shop.collection(&format!("things{round}")).count_documents(doc! {}).run();
        assert_eq!(stored.expect("counted"), 4);
    }
    verify_clean(&shop.client);
}
