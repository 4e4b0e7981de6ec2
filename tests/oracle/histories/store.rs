//! The collections and sequences of a run, from one opening of the folder to its closing.

use std::time::Duration;

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{
    AutoIncrement, Client, Collection, Contract, Durability, IndexModel, IndexOptions, PlantedFault, Sequence,
};
use cairndb_tests::scratch::{Scratch, small_with_cache};

/// The numbers of lists, counters, keys and sessions. Few, so that threads meet.
pub(crate) const LISTS: i32 = 4;
pub(crate) const COUNTERS: i32 = 2;
pub(crate) const KEYS: i32 = 4;
pub(crate) const SESSIONS: i32 = 3;
/// The documents of one generation of the collection that is replaced by renames.
pub(crate) const GENERATION: u64 = 5;
/// The moment of all passes over expired documents, in milliseconds.
pub(crate) const NOW: i64 = 1_000_000_000;

pub(crate) struct Store {
    pub(crate) lists: Collection<Document>,
    pub(crate) counters: Collection<Document>,
    /// With a unique field `k`.
    pub(crate) keys: Collection<Document>,
    /// With few `_id`s that many want.
    pub(crate) ids: Collection<Document>,
    /// With a TTL index on `at`.
    pub(crate) sessions: Collection<Document>,
    /// The collection that renames replace, and in which the next generation is made.
    pub(crate) sister: Collection<Document>,
    pub(crate) next: Collection<Document>,
    /// Documents with a number: by an ordered sequence, and by a gapless one.
    pub(crate) ordered: Collection<Document>,
    pub(crate) gapless: Collection<Document>,
    pub(crate) tickets: Sequence,
    pub(crate) client: Client,
}

/// The way in which a folder is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) is_journaled: bool,
    pub(crate) fault: PlantedFault,
    /// Of the history.
    pub(crate) number: u64,
}

impl Store {
    pub(crate) fn open(scratch: &Scratch, opening: Opening) -> cairndb::Result<Self> {
        let durability = if opening.is_journaled {
            Durability::Journaled
        } else {
            Durability::Buffered { sync_interval: Duration::from_millis(20) }
        };
        // Passes by hand only: the history must know of them.
        // With a cache of records, with one that has no room, and with none.
        let options = small_with_cache(opening.number)
            .durability(durability)
            .ttl_interval(None)
            .planted_fault(opening.fault);
        let client = options.open(scratch.path())?;
        let database = client.database("histories");
        let collection = |name| database.collection::<Document>(name);
        Ok(Self {
            lists: collection("lists"),
            counters: collection("counters"),
            keys: collection("keys"),
            ids: collection("ids"),
            sessions: collection("sessions"),
            sister: collection("sister"),
            next: collection("next"),
            ordered: collection("ordered"),
            gapless: collection("gapless"),
            tickets: database.sequence("tickets"),
            client,
        })
    }

    /// Makes everything that a new folder lacks.
    pub(crate) fn fill(&self) -> cairndb::Result<()> {
        let list = |id| doc! { "_id": id, "list": Bson::Array(Vec::new()), "n": 0_i64 };
        self.lists.insert_many((0..LISTS).map(list)).run()?;
        self.counters.insert_many((0..COUNTERS).map(|id| doc! { "_id": id, "n": 0_i64 })).run()?;
        let unique = IndexOptions::builder().unique(true).build();
        self.keys.create_index(IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build()).run()?;
        let expiring = IndexOptions::builder().expire_after(Duration::ZERO).build();
        let expiring = IndexModel::builder().keys(doc! { "at": 1 }).options(expiring).build();
        self.sessions.create_index(expiring).run()?;
        self.sister.insert_many(generation(0)).run()?;
        let database = self.client.database("histories");
        for (name, contract) in [("ordered", Contract::Ordered), ("gapless", Contract::Gapless)] {
            let field = AutoIncrement::builder().field("n").contract(contract).build();
            database.create_collection(name).auto_increment(field).run()?;
        }
        database.create_sequence("tickets").run()?;
        database.create_sequence("own").run()?;
        Ok(())
    }
}

/// The documents of one generation.
pub(crate) fn generation(number: u64) -> Vec<Document> {
    let number = number.cast_signed();
    (0..GENERATION.cast_signed()).map(|id| doc! { "_id": id, "generation": number }).collect()
}

/// The date of a session: one that has passed at [`NOW`], or not.
pub(crate) fn date(is_fresh: bool) -> Bson {
    Bson::DateTime(DateTime::from_millis(if is_fresh { NOW + 1_000_000 } else { NOW - 1_000_000 }))
}

/// The index that comes and goes while others use it.
pub(crate) fn passing_index(field: &str) -> IndexModel {
    IndexModel::builder().keys(doc! { field: 1 }).build()
}

/// All documents of a collection.
pub(crate) fn all(collection: &Collection<Document>) -> cairndb::Result<Vec<Document>> {
    collection.find(Document::new()).run()?.collect()
}
