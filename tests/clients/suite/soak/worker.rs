//! One client of the soak: what it does, and what it remembers of the answers it got.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cairndb_tests::choices::Choices;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, Result};
use mongodb::sync::{Client, Collection, Database};

use crate::soak::lasting::goes_on;

/// The number of documents that a worker keeps.
const KEPT_MAX: usize = 200;
/// The server no longer knows the cursor: it was idle for too long.
const CURSOR_NOT_FOUND: i32 = 43;
/// No such collection exists.
const NAMESPACE_NOT_FOUND: i32 = 26;

pub(crate) struct Worker {
    client: Client,
    shop: Database,
    things: Collection<Document>,
    place: i64,
    choices: Choices,
    remembered: Remembered,
}

/// The knowledge of a worker at its end.
#[derive(Default)]
pub(crate) struct Remembered {
    /// The number of commands that were answered.
    pub(crate) answered: u64,
    /// The number of times that its counter was certainly counted up.
    pub(crate) counted: u64,
    /// The number of times that the outcome is unknown.
    pub(crate) unknown: u64,
    /// Documents that were acknowledged and not deleted again.
    pub(crate) kept: Vec<ObjectId>,
    /// The values that it was given of a sequence.
    pub(crate) tickets: Vec<i64>,
}

impl Worker {
    pub(crate) fn new(uri: &str, place: u64, seed: u64) -> Self {
        let client = Client::with_uri_str(uri).expect("the URI is one");
        let shop = client.database("shop");
        let things = shop.collection("things");
        let choices = Choices::seeded(seed.wrapping_add(place + 1));
        Self { client, shop, things, place: place.cast_signed(), choices, remembered: Remembered::default() }
    }

    /// Works until the end, and until connections were cut, of which `cuts` is the number.
    pub(crate) fn run_until(mut self, end: Instant, cuts: &AtomicU64) -> Remembered {
        while goes_on(end, self.remembered.answered > 0 && cuts.load(Ordering::Relaxed) > 0) {
            match self.step() {
                Ok(()) => self.remembered.answered += 1,
                Err(error) => assert!(is_of_the_network(&error), "worker {}: {error:?}", self.place),
            }
        }
        self.client.shutdown().immediate(true).run();
        self.remembered
    }

    fn step(&mut self) -> Result<()> {
        match self.choices.below(10) {
            0 | 1 => self.count(),
            2 | 3 => self.insert(),
            4 => self.take_tickets(),
            5 => self.walk(),
            6 => self.delete(),
            7 => self.group(),
            8 => self.change(),
            _ => self.look(),
        }
    }

    fn count(&mut self) -> Result<()> {
        let counters = self.shop.collection::<Document>("counters");
        let counted = counters
            .find_one_and_update(doc! { "_id": self.place }, doc! { "$inc": { "n": 1_i64 } })
            .upsert(true)
            .run();
        match counted {
            Ok(_) => self.remembered.counted += 1,
            Err(_) => self.remembered.unknown += 1,
        }
        counted.map(drop)
    }

    fn insert(&mut self) -> Result<()> {
        if self.remembered.kept.len() >= KEPT_MAX {
            return self.delete();
        }
        let ids: Vec<ObjectId> = (0..=self.choices.below(20)).map(|_| ObjectId::new()).collect();
        let documents =
            ids.iter().map(|id| doc! { "_id": id, "worker": self.place, "text": "x".repeat(500) });
        self.things.insert_many(documents).run()?;
        self.remembered.kept.extend(ids);
        Ok(())
    }

    fn take_tickets(&mut self) -> Result<()> {
        let reply = self.shop.run_command(doc! { "sequenceNext": "tickets", "n": 3 }).run()?;
        let first = reply.get_i64("NextValue").expect("a value");
        let taken = i64::from(reply.get_i32("ReturnNum").expect("how many"));
        self.remembered.tickets.extend(first..first + taken);
        Ok(())
    }

    /// Reads some batches, and often not all: the rest of the cursor is the driver's to end.
    fn walk(&mut self) -> Result<()> {
        let len = self.choices.index(60);
        let cursor = self.things.find(doc! { "worker": self.place }).batch_size(5).run()?;
        cursor.take(len).try_for_each(|thing| thing.map(drop))
    }

    fn delete(&mut self) -> Result<()> {
        let kept = &mut self.remembered.kept;
        let gone = kept.split_off(kept.len() / 2);
        self.things.delete_many(doc! { "_id": { "$in": gone } }).run().map(drop)
    }

    fn group(&mut self) -> Result<()> {
        let pipeline = [
            doc! { "$match": { "worker": { "$lte": self.place } } },
            doc! { "$group": { "_id": "$worker", "n": { "$sum": 1 } } },
        ];
        self.things.aggregate(pipeline).batch_size(3).run()?.try_for_each(|group| group.map(drop))
    }

    fn change(&mut self) -> Result<()> {
        let change = doc! { "$set": { "seen": self.choices.below(1000).cast_signed() } };
        self.things.update_many(doc! { "worker": self.place }, change).run().map(drop)
    }

    fn look(&mut self) -> Result<()> {
        self.things.count_documents(doc! { "worker": self.place }).run()?;
        self.shop.list_collection_names().run()?;
        self.things.list_index_names().run().map(drop)
    }
}

/// Whether this is what a connection that dies may lead to.
fn is_of_the_network(error: &Error) -> bool {
    let kind = error.kind.as_ref();
    if let ErrorKind::Command(refusal) = kind {
        // The collection is there as soon as the first insert arrives.
        return refusal.code == CURSOR_NOT_FOUND || refusal.code == NAMESPACE_NOT_FOUND;
    }
    matches!(
        kind,
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::ServerSelection { .. }
    )
}
