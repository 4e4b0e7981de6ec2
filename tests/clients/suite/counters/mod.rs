//! `cairndb-counters`: one program on a store of CairnDB and on a cluster, whose part a server of CairnDB plays that is reached
//! by MongoDB's driver. Here the server is not a replica set and has no transactions: of gapless counters the rejection is shown.

mod gapless;

use std::collections::BTreeSet;
use std::thread;

use bson::{Bson, Document, doc};
use cairndb::{AutoIncrement, Contract, Generated, SequenceOptions, SequenceOptionsBuilder};
use cairndb_counters::cluster;
use cairndb_counters::{ErrorKind, Numbered, Numbers, Result};
use cairndb_server::{RunningServer, Server};

/// A server of an empty store, as a cluster.
struct Cluster {
    uri: String,
    client: cluster::Client,
    _server: RunningServer,
    store: cairndb::Client,
}

impl Cluster {
    fn new() -> Self {
        let store = cairndb::Client::in_memory().expect("made");
        let server = Server::builder(store.clone()).tcp("127.0.0.1:0".parse().expect("an address"));
        let server = server.spawn().expect("it listens");
        let uri = format!("mongodb://{}/", server.local_addr().expect("an address"));
        let client = cluster::Client::with_uri_str(&uri).expect("a URI");
        Self { uri, client, _server: server, store }
    }

    /// Makes a counter as `cairn migrate` does, by default an unused one that counts from 1 by blocks of 4.
    fn counter(&self, id: &str, more: Document) {
        let mut counter = doc! {
            "_id": id, "seq": 0_i64, "inc": 1_i64, "min": 1_i64, "max": i64::MAX, "cycled": false, "contract": "fast",
            "block": 4_i64,
        };
        if let Some((collection, field)) = id.split_once('.') {
            counter.extend(doc! { "database": "shop", "collection": collection, "field": field });
        }
        counter.extend(more);
        self.client
            .database("shop")
            .collection::<Document>("counters")
            .insert_one(counter)
            .run()
            .expect("inserted");
    }

    fn shop(&self) -> cluster::Database {
        self.client.database("shop")
    }

    fn seq(&self, id: &str) -> i64 {
        let counters = self.shop().collection::<Document>("counters");
        let counter = counters.find_one(doc! { "_id": id }).run().expect("found").expect("it is there");
        counter.get_i64("seq").expect("an integer")
    }

    fn stored(&self) -> Vec<Document> {
        let orders = self.store.database("shop").collection::<Document>("orders");
        orders.find(doc! {}).run().expect("found").map(|one| one.expect("read")).collect()
    }
}

fn embedded() -> cairndb::Database {
    cairndb::Client::in_memory().expect("made").database("shop")
}

/// Everything that a call says, in words.
fn told<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} {}", error.sequoia_code(), error.is_duplicate_key()),
    }
}

/// The values that a sequence gives to a program, one by one and in blocks.
fn sequence_program(shop: &impl Numbers, name: &str) -> Vec<String> {
    let mut lines: Vec<String> = (0..7).map(|_| told(shop.next_value(name))).collect();
    lines.push(told(shop.fetch(name, 3)));
    lines.push(told(shop.fetch(name, 0)));
    lines.push(told(shop.next_value("absent")));
    lines
}

#[track_caller]
fn same_sequence(options: SequenceOptionsBuilder, counter: Document) {
    let shop = embedded();
    shop.create_sequence("s").with_options(options.build()).run().expect("made");
    let cluster = Cluster::new();
    cluster.counter("s", counter);
    assert_eq!(sequence_program(&cluster.shop(), "s"), sequence_program(&shop, "s"));
}

#[test]
fn sequences_give_the_same_as_in_a_store() {
    let options = || SequenceOptions::builder().cache_size(4).acquire_size(4);
    same_sequence(options(), doc! {});
    same_sequence(options().start_value(70).increment(5), doc! { "seq": 65_i64, "inc": 5_i64 });
    let down = doc! { "seq": 2_i64, "inc": -3_i64, "min": i64::MIN, "max": -1_i64 };
    same_sequence(options().increment(-3), down);
    same_sequence(options().max_value(6), doc! { "max": 6_i64 });
}

#[test]
fn a_counter_that_starts_over_gives_the_same_as_a_sequence() {
    let options = || SequenceOptions::builder().cache_size(2).acquire_size(2).cycled(true);
    same_sequence(options().max_value(5), doc! { "max": 5_i64, "cycled": true, "block": 2_i64 });
    let down =
        doc! { "seq": 1_i64, "inc": -2_i64, "min": -6_i64, "max": -1_i64, "cycled": true, "block": 2_i64 };
    same_sequence(options().increment(-2).min_value(-6), down);
}

/// The results of inserts in a program, and the stored documents.
fn insert_program(orders: &impl Numbered<Document>) -> Vec<String> {
    let one = |document: Document| told(orders.insert_one_numbered(document).map(|done| done.generated));
    let many = |documents: Vec<Document>| {
        told(orders.insert_many_numbered(documents).map(|done| {
            let generated: std::collections::BTreeMap<_, _> = done.generated.into_iter().collect();
            (done.inserted_ids.len(), generated)
        }))
    };
    vec![
        one(doc! { "_id": 1 }),
        one(doc! { "_id": 2, "m": { "a": 1 } }),
        one(doc! { "_id": 3, "m": { "n": 10 } }),
        one(doc! { "_id": 4 }),
        one(doc! { "_id": 5, "m": { "n": "text" } }),
        one(doc! { "_id": 6, "m": { "n": null } }),
        one(doc! { "_id": 7, "m": 5 }),
        one(doc! { "_id": 1 }),
        many(vec![
            doc! { "_id": 10 },
            doc! { "_id": 11, "m": { "n": 90 } },
            doc! { "_id": 12 },
            doc! { "_id": 13 },
        ]),
        many(vec![doc! { "_id": 20 }, doc! { "_id": 21, "m": [] }]),
        one(doc! { "_id": 30 }),
    ]
}

#[test]
fn fields_number_themselves_as_in_a_store_in_every_mode() {
    let modes = [
        ("default", Generated::Default),
        ("strict", Generated::Strict),
        ("always", Generated::Always),
        ("alwaysStrict", Generated::AlwaysStrict),
    ];
    for (name, mode) in modes {
        for on_null in [false, true] {
            let shop = embedded();
            let field = AutoIncrement::builder().field("m.n").generated(mode).generate_on_null(on_null);
            let field = field.cache_size(1).acquire_size(1).build();
            shop.create_collection("orders").auto_increment(field).run().expect("made");
            let cluster = Cluster::new();
            let field = doc! { "field": "m.n", "generated": name, "generateOnNull": on_null, "block": 1_i64 };
            cluster.counter("orders.m.n", field);
            let orders = shop.collection::<Document>("orders");
            let expected = insert_program(&orders);
            assert_eq!(insert_program(&cluster.shop().collection("orders")), expected, "{name} {on_null}");
            let stored: Vec<Document> =
                orders.find(doc! {}).run().expect("found").map(|one| one.expect("read")).collect();
            assert_eq!(cluster.stored(), stored, "{name} {on_null}");
        }
    }
}

#[test]
fn values_are_given_once_to_all_threads_of_all_processes() {
    let cluster = Cluster::new();
    cluster.counter("tickets", doc! { "block": 7_i64 });
    // Clients that share nothing are as processes.
    let clients: Vec<cluster::Client> =
        (0..3).map(|_| cluster::Client::with_uri_str(&cluster.uri).expect("a URI")).collect();
    let values: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|at| {
                let shop = clients.get(at % 3).expect("it is there").database("shop");
                scope.spawn(move || {
                    let one = |_| shop.next_value("tickets").expect("a value");
                    (0..50).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let distinct: BTreeSet<i64> = values.iter().copied().collect();
    assert_eq!(distinct.len(), 300);
    let greatest = distinct.last().copied().expect("one");
    assert!((300..=321).contains(&greatest), "{greatest}: blocks are used up before others are taken");
}

#[test]
fn a_number_that_is_taken_is_passed() {
    let cluster = Cluster::new();
    cluster.counter("orders.n", doc! {});
    let orders = cluster.shop().collection::<Document>("orders");
    let unique =
        doc! { "createIndexes": "orders", "indexes": [{ "key": { "n": 1 }, "name": "n", "unique": true }] };
    cluster.shop().run_command(unique).run().expect("made");
    // By another way, past the counter.
    orders
        .insert_many([doc! { "_id": 1, "n": 1_i64 }, doc! { "_id": 2, "n": 2_i64 }])
        .run()
        .expect("inserted");
    let inserted = orders.insert_one_numbered(doc! { "_id": 3 }).expect("inserted");
    assert_eq!(inserted.generated.get("n"), Some(&5), "the block of 1 to 4 is given up");
    let again = orders.insert_one_numbered(doc! { "_id": 3 }).expect_err("the _id is taken");
    assert!(again.is_duplicate_key());
}

#[test]
fn a_counter_that_was_declared_anew_is_read_again() {
    let cluster = Cluster::new();
    cluster.counter("s", doc! { "block": 2_i64 });
    let shop = cluster.shop();
    assert_eq!(shop.fetch("s", 2).expect("two"), [1, 2]);
    let counters = shop.collection::<Document>("counters");
    let change = doc! { "$set": { "inc": 10_i64, "seq": 100.0, "block": 1 } };
    counters.update_one(doc! { "_id": "s" }, change).run().expect("changed");
    assert_eq!(shop.fetch("s", 2).expect("two"), [110, 120]);
    counters.delete_one(doc! { "_id": "s" }).run().expect("deleted");
    assert_eq!(shop.next_value("s").expect_err("gone").sequoia_code(), Some(-324));
}

#[test]
fn counters_may_be_in_one_collection() {
    let cluster = Cluster::new();
    let counters = cluster.client.database("numbers").collection::<Document>("all");
    let counter = doc! {
        "_id": "t", "seq": 41_i64, "inc": 1_i64, "min": 1_i64, "max": 50_i64, "cycled": false, "contract": "fast", "block": 1_i64,
    };
    counters.insert_one(counter).run().expect("inserted");
    let client = cluster::Client::with_uri_str(&cluster.uri).expect("a URI").with_counters("numbers", "all");
    assert_eq!(client.database("shop").next_value("t").expect("a value"), 42);
}

#[test]
fn what_has_no_counterpart_is_refused() {
    let cluster = Cluster::new();
    cluster.counter("o", doc! { "contract": "ordered" });
    cluster.counter("g", doc! { "contract": "gapless" });
    cluster.counter("bills.n", doc! { "contract": "gapless" });
    cluster.counter("events.n", doc! { "contract": "ordered" });
    let shop = cluster.shop();
    let refused = shop.next_value("o").expect_err("refused");
    assert!(
        matches!(refused.kind(), ErrorKind::Unsupported(_)) && refused.to_string().contains("change streams")
    );
    let events = shop.collection::<Document>("events");
    assert!(events.insert_one_numbered(doc! {}).expect_err("refused").to_string().contains("change streams"));
    // A value that is drawn alone is one, and no block.
    assert_eq!((shop.next_value("g").expect("a value"), cluster.seq("g")), (1, 1));
    assert_eq!(shop.fetch("g", 3).expect("three"), [2, 3, 4]);
    let bills = shop.collection::<Document>("bills");
    let refused = bills.insert_one_numbered(doc! {}).expect_err("refused");
    assert!(refused.to_string().contains("use a replica set"), "{refused}");
    assert_eq!((cluster.seq("bills.n"), bills.count_documents(doc! {}).run().expect("counted")), (0, 0));
}

#[test]
fn a_gapless_field_of_a_store_has_no_hole() {
    let shop = embedded();
    let field = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
    shop.create_collection("bills").auto_increment(field).run().expect("made");
    let bills = shop.collection::<Document>("bills");
    let first = bills.insert_one_numbered(doc! { "_id": 1 }).expect("inserted");
    assert_eq!((first.inserted_id, first.generated.get("n").copied()), (Bson::Int32(1), Some(1)));
    assert!(bills.insert_one_numbered(doc! { "_id": 1 }).expect_err("taken").is_duplicate_key());
    assert_eq!(bills.insert_one_numbered(doc! { "_id": 2 }).expect("inserted").generated.get("n"), Some(&2));
}
