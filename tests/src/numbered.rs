//! The numbered collections and sequences of the crash suite: every contract, size and direction.
//!
//! Generated values are odd, because every course starts at an odd value and steps by two; values that documents bring
//! are even. So the two never meet, and a generated value that comes again is a fault whatever the order of events was,
//! unless the sequence started over as often.

use std::collections::BTreeMap;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Sequence, SequenceOptions, SequenceSnapshot};

/// The collection with the document of each rejected insert.
pub const REFUSED_ID: &str = "refused";
/// The limit by which the reserve of a course grows by changes.
const GROWTH_MAX: i64 = 100;

/// Reserves and blocks of a course.
const SIZES: [(i64, i64); 3] = [(1, 1), (10, 3), (1000, 1000)];

/// The values of a course, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progression {
    /// 1, 3, 5.
    Up,
    /// -1, -3, -5.
    Down,
    /// As up, and starts over at the end.
    Cycled,
}

/// A numbered collection, and a sequence of the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The promise.
    pub contract: Contract,
    /// The order of its values.
    pub way: Progression,
    cache: i64,
    acquire: i64,
}

impl Course {
    /// All of them; their places are the numbers that a journal calls them by.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for contract in Contract::ALL {
            for way in [Progression::Up, Progression::Down, Progression::Cycled] {
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
            Progression::Up | Progression::Cycled => 1,
            Progression::Down => -1,
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
        // Nothing is lost by what a kill left undone: the sequence, made last, says that all is there.
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
        if self.way == Progression::Cycled {
            options.extend(doc! { "MaxValue": self.limit(), "Cycled": true });
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

    /// Whether documents may bring values. Where none does, each value of each cycle of a gapless course must be there.
    pub fn takes_values(&self) -> bool {
        self.contract != Contract::Gapless || self.way != Progression::Cycled
    }

    /// The value at which it starts over, if it is cycled: so near that it does in every run, and behind the largest
    /// reserve.
    fn limit(&self) -> i64 {
        2 * (self.cache + 2 * GROWTH_MAX) - 1
    }

    /// Another size for its reserve.
    pub fn other_size(&self, size: i64) -> i64 {
        if size < self.cache + GROWTH_MAX { size + 1 } else { self.cache }
    }

    /// The number of times that a value can have been given: once in each cycle that came to it. No value beyond the
    /// reserve was.
    fn times_max(&self, snapshot: &SequenceSnapshot, value: i64) -> u64 {
        if snapshot.initial {
            return 0;
        }
        let is_reached = (value - snapshot.current_value) * self.direction() <= 0;
        u64::from(snapshot.cycled_count.unsigned_abs()) + u64::from(is_reached)
    }

    /// Checks that no value was given more often than the sequence went around.
    pub fn check_given(
        &self,
        snapshot: &SequenceSnapshot,
        given: impl IntoIterator<Item = (i64, u64)>,
    ) -> Result<(), String> {
        let too_often = given.into_iter().find(|(value, times)| *times > self.times_max(snapshot, *value));
        too_often.map_or(Ok(()), |(value, times)| {
            Err(format!("{}: {value} was given {times} times, and it stands at {snapshot:?}", self.name()))
        })
    }

    /// Checks that no generated value is there more often than the sequence went around, and that a gapless course has
    /// no gap but in front of a value that a document brought.
    pub fn check(&self, client: &Client, stored: &[(i64, bool)]) -> Result<(), String> {
        let snapshot =
            self.collection(client).auto_increment("n").snapshot().map_err(|error| format!("{error:?}"))?;
        let mut generated = BTreeMap::new();
        for (value, _) in stored.iter().filter(|(_, brought)| !brought) {
            *generated.entry(*value).or_default() += 1;
        }
        self.check_given(&snapshot, generated.clone())?;
        match (self.contract, self.way) {
            (Contract::Gapless, Progression::Cycled) => self.check_whole_cycles(&snapshot, &generated),
            (Contract::Gapless, Progression::Up | Progression::Down) => self.check_gapless(stored),
            _ => Ok(()),
        }
    }

    /// Checks that every value is there as often as the sequence came to it.
    fn check_whole_cycles(
        &self,
        snapshot: &SequenceSnapshot,
        generated: &BTreeMap<i64, u64>,
    ) -> Result<(), String> {
        let times = |value| generated.get(&value).copied().unwrap_or(0);
        let missing =
            (1..=self.limit()).step_by(2).find(|value| times(*value) < self.times_max(snapshot, *value));
        missing.map_or(Ok(()), |value| {
            Err(format!("{}: {value} is stored {} times, {snapshot:?}", self.name(), times(value)))
        })
    }

    /// Checks that each value follows the one before it, or one that a document brought.
    fn check_gapless(&self, stored: &[(i64, bool)]) -> Result<(), String> {
        let name = self.name();
        let mut before = -self.direction();
        // Values before the start move nothing.
        for (value, brought) in stored.iter().filter(|(value, _)| value * self.direction() > 0) {
            let next =
                if before % 2 == 0 { before + self.direction() } else { before + 2 * self.direction() };
            if !brought && *value != next {
                return Err(format!("{name}: {value} follows {before}"));
            }
            before = *value;
        }
        Ok(())
    }
}
