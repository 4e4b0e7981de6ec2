//! A database in memory for each schedule, threads of the checker, and how scenarios are run.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Cursor, Error, ErrorKind, IndexModel, IndexOptions, PlantedFault};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

use crate::schedules::Schedules;

/// How many schedules of each kind a scenario gets, unless the variable says otherwise.
const SCHEDULES: usize = 150;
/// How many schedules at once are tried for a planted fault, and how often.
const PLANTED_SCHEDULES: usize = 20;
const PLANTED_PARTS: u64 = 100;
/// How many threads PCT lets overtake.
const PCT_DEPTH: usize = 3;
/// The threads of a scenario call RocksDB, which needs more than the checker's default.
const STACK_BYTES: usize = 2 << 20;
/// The memory of a store, as small as it may be: each schedule makes one.
const MEMORY_BUDGET: usize = 16 << 20;

/// What went wrong in one schedule. Empty if all properties held.
pub(crate) type Findings = Vec<String>;

/// A database, and what its users found.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: Client,
    findings: Arc<Mutex<Findings>>,
}

/// One thread of a scenario.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

impl World {
    pub(crate) fn new(fault: PlantedFault) -> Self {
        let builder = Client::builder().in_memory(true).memory_budget(MEMORY_BUDGET).planted_fault(fault);
        let client = builder.open("").expect("a database in memory");
        Self { client, findings: Arc::default() }
    }

    /// A database in a folder, whose writes are synced where they ask for it.
    pub(crate) fn within(folder: &Path, fault: PlantedFault) -> Self {
        let builder = Client::builder().memory_budget(MEMORY_BUDGET).planted_fault(fault);
        let client = builder.open(folder.join("db")).expect("a new database");
        Self { client, findings: Arc::default() }
    }

    pub(crate) fn collection(&self, name: &str) -> Collection<Document> {
        self.client.database("app").collection(name)
    }

    pub(crate) fn things(&self) -> Collection<Document> {
        self.collection("things")
    }

    /// Documents `{_id, a: 1}` with these `_id`s.
    pub(crate) fn filled(&self, name: &str, ids: impl IntoIterator<Item = i32>) {
        let documents = ids.into_iter().map(|id| doc! { "_id": id, "a": 1 });
        self.collection(name).insert_many(documents).run().expect("nothing is there yet");
    }

    pub(crate) fn index(&self, path: &str, unique: bool) -> Result<(), Error> {
        let options = IndexOptions::builder().unique(unique).build();
        let model = IndexModel::builder().keys(doc! { path: 1 }).options(options).build();
        self.things().create_index(model).run().map(|_| ())
    }

    /// A thread that works on the world.
    pub(crate) fn thread(&self, work: impl FnOnce(&Self) + Send + 'static) -> Body {
        let world = self.clone();
        Box::new(move || work(&world))
    }

    /// Notes what must not be.
    pub(crate) fn found(&self, finding: impl Display) {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).push(finding.to_string());
    }

    pub(crate) fn expect(&self, holds: bool, finding: impl FnOnce() -> String) {
        if !holds {
            self.found(finding());
        }
    }

    /// The documents that a search finds. An error of it is a finding.
    pub(crate) fn read(&self, cursor: Result<Cursor<Document>, Error>) -> Vec<Document> {
        let documents = cursor.and_then(Iterator::collect);
        documents.unwrap_or_else(|error: Error| {
            self.found(error);
            Vec::new()
        })
    }

    /// All things by their `_id`s.
    pub(crate) fn documents(&self) -> BTreeMap<String, Document> {
        let key = |document: &Document| document.get("_id").map(Bson::to_string).unwrap_or_default();
        let documents = self.read(self.things().find(doc! {}).run());
        documents.into_iter().map(|document| (key(&document), document)).collect()
    }

    /// What was found, with what `verify` finds at the end.
    pub(crate) fn findings(&self) -> Findings {
        match self.client.verify() {
            Ok(report) => report.findings.iter().for_each(|finding| self.found(format!("{finding:?}"))),
            Err(error) => self.expect(matches!(error.kind(), ErrorKind::Closed), || error.to_string()),
        }
        std::mem::take(&mut *self.findings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs the threads beside each other to their end.
pub(crate) fn beside(threads: Vec<Body>) {
    let threads: Vec<_> = threads.into_iter().map(|body| shuttle::thread::spawn(body)).collect();
    for thread in threads {
        thread.join().expect("no thread fails");
    }
}

/// Whether a write was done. Any other error than that of a key in use is a finding.
pub(crate) fn is_done<T>(world: &World, result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) if error.is_duplicate_key() => false,
        Err(error) => {
            world.found(error);
            false
        }
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config
}

/// No schedule finds anything. The seed, which the harness prints where a test fails, tries the same ones again; a panic makes the
/// checker print the one schedule.
#[track_caller]
pub(crate) fn holds(scenario: fn(PlantedFault) -> Findings) {
    fn run(scheduler: impl Scheduler + 'static, scenario: fn(PlantedFault) -> Findings) {
        Runner::new(scheduler, config()).run(move || {
            let findings = scenario(PlantedFault::None);
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
    let Schedules { count, seed } = Schedules::given_or(SCHEDULES);
    run(RandomScheduler::new_from_seed(seed, count), scenario);
    run(PctScheduler::new_from_seed(seed, PCT_DEPTH, count), scenario);
}

/// Some schedule finds the planted fault: one at random, or one with few switches.
#[track_caller]
pub(crate) fn finds(fault: PlantedFault, scenario: fn(PlantedFault) -> Findings) {
    let found = Arc::new(AtomicBool::new(false));
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let note = Arc::clone(&found);
        Runner::new(scheduler, config()).run(move || {
            if !scenario(fault).is_empty() {
                note.store(true, Ordering::Relaxed);
            }
        });
    };
    // In parts, because most faults are found by one of the first schedules.
    for part in 0..PLANTED_PARTS {
        run(Box::new(RandomScheduler::new_from_seed(part, PLANTED_SCHEDULES)));
        run(Box::new(PctScheduler::new_from_seed(part, PCT_DEPTH, PLANTED_SCHEDULES)));
        if found.load(Ordering::Relaxed) {
            return;
        }
    }
    panic!("no schedule finds {fault:?}");
}
