//! Gapless counters by MongoDB's driver, on `cairn serve --replica-set` in place of a cluster: several clients insert, some of their
//! inserts are rejected, and no number is missing or there twice.

use std::sync::atomic::{AtomicI32, Ordering};

use bson::{Document, doc};
use cairndb_clients::cairn::{Cairn, uri};
use cairndb_counters::{Numbered, Numbers, cluster};
use cairndb_tests::race::race;

use crate::killed::under_kills;
use crate::transactions::{REPLICA_SET, lossy};

const THREADS: i32 = 4;
/// Inserts of a thread.
const INSERTS: i32 = 20;

/// The state that the threads work on.
struct Bills {
    client: cluster::Client,
    /// The documents that were stored, as their inserts say.
    stored: AtomicI32,
}

impl Bills {
    fn new(place: &str) -> Self {
        let client = cluster::Client::with_uri_str(place).expect("a URI");
        let counter = |id: &str| {
            doc! {
                "_id": id, "seq": 0_i64, "inc": 1_i64, "min": 1_i64, "max": i64::MAX, "cycled": false, "contract": "gapless",
                "block": 1_i64,
            }
        };
        let mut field = counter("bills.n");
        field.extend(doc! { "database": "shop", "collection": "bills", "field": "n" });
        let counters = client.database("shop").collection::<Document>("counters");
        counters.insert_many([field, counter("alone")]).run().expect("inserted");
        // Made before: of two transactions that would make it one is rejected.
        client.database("shop").create_collection("bills").run().expect("made");
        Self { client, stored: AtomicI32::new(0) }
    }

    /// Inserts one by one and several at once. Some have an `_id` that is taken, and the numbers that they got are given back.
    fn insert(&self, thread: i32) {
        let bills = self.client.database("shop").collection::<Document>("bills");
        for round in 0..INSERTS {
            let id = 1000 * thread + 10 * round;
            if round % 3 == 0 {
                let done = bills.insert_many_numbered([doc! { "_id": id }, doc! { "_id": id + 1 }]);
                let done = done.unwrap_or_else(|error| panic!("{id}: {error}"));
                let numbers = [0, 1].map(|at| done.generated.get(&at).and_then(|of| of.get("n").copied()));
                assert!(matches!(numbers, [Some(one), Some(other)] if other == one + 1), "{numbers:?}");
                self.stored.fetch_add(2, Ordering::Relaxed);
            } else {
                let done = bills.insert_one_numbered(doc! { "_id": id });
                done.unwrap_or_else(|error| panic!("{id}: {error}"));
                self.stored.fetch_add(1, Ordering::Relaxed);
            }
            if round % 4 == 1 {
                let again = bills.insert_one_numbered(doc! { "_id": id }).expect_err("the _id is taken");
                assert!(again.is_duplicate_key(), "{again}");
                let many = [doc! { "_id": id + 5 }, doc! { "_id": id }];
                let again = bills.insert_many_numbered(many).expect_err("one of them is taken");
                assert!(again.is_duplicate_key(), "{again}");
            }
        }
    }

    /// The numbers are those from 1 to the number of documents, each once, and as many values are drawn.
    #[track_caller]
    fn assert_whole(&self) {
        let shop = self.client.database("shop");
        let found = shop.collection::<Document>("bills").find(doc! {}).sort(doc! { "n": 1 }).run();
        let found: Result<Vec<Document>, _> = found.expect("a cursor").collect();
        let numbers: Vec<i64> =
            found.expect("read").iter().map(|bill| bill.get_i64("n").expect("a number")).collect();
        let stored = i64::from(self.stored.load(Ordering::Relaxed));
        assert_eq!(numbers, (1..=stored).collect::<Vec<_>>());
        let counter = shop.collection::<Document>("counters").find_one(doc! { "_id": "bills.n" }).run();
        assert_eq!(counter.expect("read").expect("it is there").get_i64("seq").ok(), Some(stored));
    }
}

#[test]
fn gapless_numbers_of_several_clients_have_no_hole() {
    let cairn = Cairn::start_with(&REPLICA_SET);
    let bills = Bills::new(&cairn.uri());
    race(0..THREADS, |thread: i32| bills.insert(thread));
    bills.assert_whole();
    // A value that is drawn alone.
    let shop = bills.client.database("shop");
    let values = race(0..THREADS, |_| [(); 10].map(|()| shop.next_value("alone").expect("a value")));
    let mut values: Vec<i64> = values.into_iter().flatten().collect();
    values.sort_unstable();
    assert_eq!(values, (1..=10 * i64::from(THREADS)).collect::<Vec<_>>());
    cairn.stop();
}

#[test]
fn gapless_numbers_have_no_hole_whatever_is_lost() {
    let cairn = Cairn::start_with(&REPLICA_SET);
    let proxy = lossy(&cairn);
    let bills = Bills::new(&uri(proxy.address()));
    bills.insert(1);
    bills.assert_whole();
    drop(proxy);
    cairn.stop();
}

#[test]
fn gapless_numbers_have_no_hole_though_the_server_is_killed() {
    under_kills(|place| {
        let bills = Bills::new(place);
        bills.insert(1);
        bills.assert_whole();
    });
}
