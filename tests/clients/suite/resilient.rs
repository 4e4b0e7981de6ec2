//! Counting exactly once over a network that loses requests and answers.
//!
//! A write that failed may have been done, so each counting is two writes that may be repeated: the first notes a token,
//! once however often it is asked to, the second removes the token and counts, in one update. A client that gives up halfway
//! leaves the token behind, and a nightly run finishes for them. The proxy loses requests and answers of both writes in
//! every way, and says which: what the counter must be is known, not guessed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use cairndb_clients::cairn::{Cairn, uri};
use cairndb_clients::proxy::{Cut, Proxy};
use cairndb_tests::race::race;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use mongodb::sync::{Client, Collection};

/// The losses of a write that is tried twice, and whether it was done and whether the client knows.
const LOSSES: [(&[Cut], bool, bool); 7] = [
    (&[Cut::Nothing], true, true),
    (&[Cut::BeforeDelivery, Cut::Nothing], true, true),
    (&[Cut::AfterExecution, Cut::Nothing], true, true),
    (&[Cut::BeforeDelivery, Cut::AfterExecution], true, false),
    (&[Cut::AfterExecution, Cut::BeforeDelivery], true, false),
    (&[Cut::AfterExecution, Cut::WithinReply], true, false),
    (&[Cut::BeforeDelivery, Cut::WithinRequest], false, false),
];

/// A counter behind a proxy of its own, which does to the updates what is planned.
struct Counter {
    name: String,
    plan: Arc<Mutex<VecDeque<Cut>>>,
    pages: Collection<Document>,
    client: Client,
    _proxy: Proxy,
}

impl Counter {
    fn new(cairn: &Cairn, name: String) -> Self {
        let plan = Arc::new(Mutex::new(VecDeque::new()));
        let planned = Arc::clone(&plan);
        let proxy = Proxy::start(cairn.address(), move |command| match command {
            "update" => planned.lock().expect("no thread fails").pop_front().unwrap_or(Cut::Nothing),
            _ => Cut::Nothing,
        });
        let client = Client::with_uri_str(format!("{}&retryWrites=false", uri(proxy.address())));
        let client = client.expect("the URI is one");
        let pages = client.database("site").collection::<Document>("pages");
        pages.insert_one(doc! { "_id": &name, "visits": 0, "pending": [] }).run().expect("it is new");
        Self { name, plan, pages, client, _proxy: proxy }
    }

    fn will(&self, cuts: &[Cut]) {
        let mut plan = self.plan.lock().expect("no thread fails");
        assert!(plan.is_empty(), "what was planned before has happened");
        plan.extend(cuts);
    }

    fn note(&self, token: ObjectId) -> Result<()> {
        let change = doc! { "$addToSet": { "pending": token } };
        retry_once(|| self.pages.update_one(doc! { "_id": &self.name }, change.clone()).run().map(drop))
    }

    fn count(&self, token: ObjectId) -> Result<()> {
        let which = doc! { "_id": &self.name, "pending": token };
        let change = doc! { "$pull": { "pending": token }, "$inc": { "visits": 1 } };
        retry_once(|| self.pages.update_one(which.clone(), change.clone()).run().map(drop))
    }

    /// Finishes what others began.
    fn clean_up(&self) -> Result<()> {
        let pipeline = [
            doc! { "$match": { "_id": &self.name, "pending": { "$ne": [] } } },
            doc! { "$project": { "pending": 1 } },
            doc! { "$unwind": "$pending" },
            doc! { "$project": { "_id": 0, "token": "$pending" } },
        ];
        let left = self.pages.aggregate(pipeline).run()?.collect::<Result<Vec<_>>>()?;
        left.iter()
            .try_for_each(|left| self.count(left.get_object_id("token").expect("tokens are ObjectIds")))
    }

    /// The count, and the number of pending tokens.
    fn state(&self) -> (i32, usize) {
        let page = self.pages.find_one(doc! { "_id": &self.name }).run();
        let page = page.expect("an answer").expect("it was inserted");
        let pending = page.get_array("pending").expect("an array");
        (page.get_i32("visits").expect("a small number"), pending.len())
    }
}

fn retry_once(write: impl Fn() -> Result<()>) -> Result<()> {
    write().or_else(|_| write())
}

#[test]
fn whatever_is_lost_is_counted_once() {
    let cairn = Cairn::start();
    let all = LOSSES.iter().flat_map(|of_note| LOSSES.iter().map(move |of_count| (*of_note, *of_count)));
    race(all.enumerate(), |(place, ((note, is_noted, knows_noted), (count, is_counted, knows_counted)))| {
        let counter = Counter::new(&cairn, format!("page {place}"));
        let token = ObjectId::new();
        counter.will(note);
        assert_eq!(counter.note(token).is_ok(), knows_noted, "{note:?}");
        assert_eq!(counter.state(), (0, usize::from(is_noted)), "{note:?}");
        // A client that does not know that the token is there does not count.
        let mut is_done = false;
        if knows_noted {
            counter.will(count);
            assert_eq!(counter.count(token).is_ok(), knows_counted, "{count:?}");
            is_done = is_counted;
        }
        assert_eq!(
            counter.state(),
            (i32::from(is_done), usize::from(is_noted && !is_done)),
            "{note:?} {count:?}"
        );
        // The night has its own losses: the run is repeated until it comes to its end.
        counter.will(count);
        if counter.clean_up().is_err() {
            counter.clean_up().unwrap();
        }
        assert_eq!(counter.state(), (i32::from(is_noted), 0), "{note:?} {count:?}");
        counter.client.shutdown().immediate(true).run();
    });
    cairn.stop();
}

#[test]
fn counting_that_is_merely_repeated_counts_twice() {
    let cairn = Cairn::start();
    let counter = Counter::new(&cairn, "home".to_owned());
    counter.will(&[Cut::AfterExecution]);
    let count = || counter.pages.update_one(doc! {}, doc! { "$inc": { "visits": 1 } }).run().map(drop);
    retry_once(count).unwrap();
    assert_eq!(counter.state().0, 2, "the proxy loses answers, and this is what the tokens are for");
    counter.will(&[Cut::BeforeDelivery, Cut::BeforeDelivery]);
    retry_once(count).expect_err("both requests were lost");
    assert_eq!(counter.state().0, 2);
    counter.client.shutdown().immediate(true).run();
    cairn.stop();
}
