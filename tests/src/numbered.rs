//! The numbered collections and sequences of the crash suite: every contract, size and direction.
//!
//! Generated values are odd, because every course starts at an odd value and steps by two; values that documents bring
//! are even. So the two never meet, and a generated value that comes twice is a fault whatever the order of events was.

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Sequence, SequenceOptions};

/// The collection with the document of each refused insert.
pub const REFUSED_ID: &str = "refused";
/// Far beyond what any run takes, so that a cycled course never starts over.
const LIMIT: i64 = 1 << 40;

/// Reserves and blocks of a course.
const SIZES: [(i64, i64); 3] = [(1, 1), (10, 3), (1000, 1000)];

/// Which way a course goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// 1, 3, 5.
    Up,
    /// -1, -3, -5.
    Down,
    /// As up, and would start over at the end.
    Cycled,
}

/// A numbered collection, and a sequence of the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// What is promised.
    pub contract: Contract,
    /// Which way it goes.
    pub way: Way,
    cache: i64,
    acquire: i64,
}

impl Course {
    /// All of them; their places are the numbers that a journal calls them by.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for contract in Contract::ALL {
            for way in [Way::Up, Way::Down, Way::Cycled] {
                all.extend(SIZES.map(|(cache, acquire)| Self { contract, way, cache, acquire }));
            }
        }
        all
    }

    /// Its name: that of the collection, and of the sequence.
    pub fn name(&self) -> String {
        format!("{}-{:?}-{}-{}", self.contract.name(), self.way, self.cache, self.acquire)
    }

    /// 1 if it ascends, else -1.
    pub fn direction(&self) -> i64 {
        match self.way {
            Way::Up | Way::Cycled => 1,
            Way::Down => -1,
        }
    }

    /// The numbered collection.
    pub fn collection(&self, client: &Client) -> Collection<Document> {
        client.database("numbered").collection(&self.name())
    }

    /// The sequence beside it.
    pub fn sequence(&self, client: &Client) -> Sequence {
        client.database("numbered").sequence(&self.name())
    }

    /// Makes collection, index and sequence, unless they are there.
    pub fn create(&self, client: &Client) -> cairndb::Result<()> {
        let database = client.database("numbered");
        let names = database.list_sequences().run()?;
        if names.contains(&self.name()) {
            return Ok(());
        }
        let field = AutoIncrement::try_from(
            self.options().into_iter().chain(doc! { "Field": "n" }).collect::<Document>(),
        )?;
        let created = database.create_collection(self.name()).auto_increment(field).run();
        created.or_else(|error| if error.code() == Some(48) { Ok(()) } else { Err(error) })?;
        // Nothing is lost by what a kill left undone: the sequence, made last, tells that all is there.
        match self.collection(client).insert_one(doc! { "_id": REFUSED_ID, "n": null }).run() {
            Err(error) if !error.is_duplicate_key() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let options = SequenceOptions::try_from(self.options())?;
        database.create_sequence(self.name()).with_options(options).run()
    }

    fn options(&self) -> Document {
        let mut options = doc! {
            "Contract": self.contract.name(),
            "CacheSize": self.cache,
            "AcquireSize": self.acquire,
            "Increment": 2 * self.direction(),
            "StartValue": self.direction(),
        };
        if self.way == Way::Cycled {
            options.extend(doc! { "MaxValue": LIMIT, "Cycled": true });
        }
        options
    }

    /// The even value behind an odd one.
    pub fn behind(&self, odd: i64) -> i64 {
        odd + self.direction()
    }

    /// Reads the values of all documents, in the order of the course, with whether a document brought it.
    pub fn stored(&self, client: &Client) -> cairndb::Result<Vec<(i64, bool)>> {
        let mut stored = Vec::new();
        for document in self.collection(client).find(doc! { "_id": { "$ne": REFUSED_ID } }).run()? {
            let document = document?;
            let value = document.get_i64("n").unwrap_or_default();
            stored.push((value, value % 2 == 0));
        }
        stored.sort_unstable_by_key(|(value, _)| value * self.direction());
        Ok(stored)
    }

    /// Checks that no generated value is there twice, that a gapless course has no gap but in front of a value that a
    /// document brought, and that what comes next lies beyond all.
    pub fn check(&self, client: &Client, stored: &[(i64, bool)]) -> Result<(), String> {
        let name = self.name();
        let mut before = -self.direction();
        // What lies before the start moves nothing.
        for (value, brought) in stored.iter().filter(|(value, _)| value * self.direction() > 0) {
            if *value == before && !brought {
                return Err(format!("{name}: {value} is stored twice"));
            }
            let next =
                if before % 2 == 0 { before + self.direction() } else { before + 2 * self.direction() };
            if self.contract == Contract::Gapless && !brought && *value != next {
                return Err(format!("{name}: {value} follows {before}"));
            }
            before = *value;
        }
        let snapshot =
            self.collection(client).auto_increment("n").snapshot().map_err(|error| format!("{error:?}"))?;
        let mark = snapshot.current_value;
        let generated = stored.iter().rev().find(|(_, brought)| !brought).map(|(value, _)| *value);
        match generated {
            Some(value) if snapshot.initial || (mark - value) * self.direction() < 0 => {
                Err(format!("{name}: {value} is stored, and the sequence stands at {mark}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
