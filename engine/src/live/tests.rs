//! After every batch the set is the result of the search, in the snapshot of the batch's round.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base::namespace::Namespace;
use bson::{Document, RawBsonRef, doc, rawdoc};
use store::write::{Batch, CommitLevel};

use crate::changes::event::{Event, EventKind};
use crate::client::Client;
use crate::collection::Collection;
use crate::fixture::syncing_late;
use crate::live::LiveChange;
use crate::live::typed::LiveQuery;
use crate::options::{Collation, CollationStrength, IndexModel, IndexOptions, PlantedFault};
use crate::streams::Followed;
use crate::write::prepare::record_key;

const RUNS: u64 = 60;
const STEPS: u64 = 40;
const QUERIES: u64 = 4;
const DOCUMENTS: u64 = 24;
/// Later than the first sync of a store that syncs once a second.
const SYNCED_BY: Duration = Duration::from_millis(1500);
/// Nothing lasts as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Decisions of a seed.
struct Choices(u64);

impl Choices {
    /// A number below `bound`, by `SplitMix64`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn small(&mut self) -> i32 {
        i32::try_from(self.below(6)).expect("a small number")
    }

    fn id(&mut self) -> i32 {
        i32::try_from(self.below(DOCUMENTS)).expect("a small number")
    }
}

/// A live query, with what its caller knows of the result.
struct Watched {
    query: LiveQuery<Document>,
    filter: Document,
    sort: Document,
    skip: u64,
    limit: i64,
    projection: Document,
    known: BTreeMap<i32, Document>,
    reads: u64,
}

fn id_of(document: &Document) -> i32 {
    document.get_i32("_id").expect("an _id")
}

impl Watched {
    fn open(things: &Collection<Document>, choices: &mut Choices) -> Result<Self, String> {
        let filter = match choices.below(6) {
            0 => doc! {},
            1 => doc! { "a": { "$gte": choices.small() } },
            2 => doc! { "tags": choices.small() },
            3 => doc! { "a": { "$lt": 4 }, "name": "x" },
            4 => doc! { "_id": choices.id() },
            _ => doc! { "$or": [{ "a": choices.small() }, { "tags": { "$exists": false } }] },
        };
        let (limit, skip) =
            if choices.below(3) == 0 { (1 + choices.below(5), choices.below(3)) } else { (0, 0) };
        let sort = match choices.below(3) {
            0 if limit == 0 => doc! {},
            0 | 1 => doc! { "a": -1, "_id": 1 },
            _ => doc! { "_id": -1 },
        };
        let projection = if choices.below(3) == 0 {
            doc! { "a": 1 }
        } else {
            doc! {}
        };
        let limit = i64::try_from(limit).expect("a small number");
        let search = things.find(filter.clone()).sort(sort.clone()).projection(projection.clone());
        let mut query = search.limit(limit).skip(skip).live().map_err(|error| error.to_string())?;
        // Rounds are short here.
        query.raw.at_once = usize::try_from(1 + choices.below(4)).expect("a small number");
        Ok(Self { query, filter, sort, skip, limit, projection, known: BTreeMap::new(), reads: 0 })
    }

    /// Follows what is there to be read, and looks at each batch.
    fn follow(&mut self) -> Result<(), String> {
        let failed = |error: crate::Error| error.to_string();
        loop {
            let Some(batch) = self.query.raw.advance().map_err(failed)? else {
                if !self.query.raw.is_behind() {
                    return Ok(());
                }
                self.reads += 1;
                if self.reads.is_multiple_of(3) {
                    self.query.raw.grow_old();
                    thread::yield_now();
                }
                continue;
            };
            let changes = batch.decode::<Document>().map_err(failed)?;
            for change in changes {
                let is_right = match &change {
                    LiveChange::Entered(document) => {
                        self.known.insert(id_of(document), document.clone()).is_none()
                    }
                    LiveChange::Changed(document) => {
                        let before = self.known.insert(id_of(document), document.clone());
                        before.is_some_and(|before| before != *document)
                    }
                    LiveChange::Left(id) => self.known.remove(&id.as_i32().expect("a number")).is_some(),
                    LiveChange::Invalidated => false,
                };
                if !is_right {
                    return Err(format!("{:?}: {change:?} with {:?}", self.filter, self.known));
                }
            }
            if !self.query.raw.is_result_of_round().map_err(failed)? {
                return Err(format!("{:?}: the set is not the result of its round", self.filter));
            }
        }
    }

    /// Compares what the caller knows with the search as it is now.
    fn compare(&self, things: &Collection<Document>) -> Result<(), String> {
        let search = things.find(self.filter.clone()).sort(self.sort.clone());
        let search = search.projection(self.projection.clone()).limit(self.limit).skip(self.skip);
        let found = search.run().and_then(Iterator::collect::<crate::Result<Vec<_>>>);
        let found: BTreeMap<_, _> = found
            .map_err(|error| error.to_string())?
            .into_iter()
            .map(|document| (id_of(&document), document))
            .collect();
        if found == self.known {
            return Ok(());
        }
        Err(format!(
            "{:?} by {:?}, {} from {}: it is {found:?}, and was followed to {:?}",
            self.filter, self.sort, self.limit, self.skip, self.known
        ))
    }
}

/// Writes something.
fn write(things: &Collection<Document>, choices: &mut Choices) -> crate::Result<()> {
    let id = choices.id();
    let document = |choices: &mut Choices| {
        let name = if choices.below(2) == 0 { "x" } else { "X" };
        let mut document = doc! { "_id": id, "a": choices.small(), "name": name };
        if choices.below(3) > 0 {
            document.insert("tags", vec![choices.small(), choices.small()]);
        }
        document
    };
    match choices.below(8) {
        0 | 1 => drop(things.replace_one(doc! { "_id": id }, document(choices)).upsert(true).run()?),
        2 => drop(things.delete_one(doc! { "_id": id }).run()?),
        3 => drop(things.update_one(doc! { "_id": id }, doc! { "$inc": { "a": 1 } }).run()?),
        4 => {
            let many = doc! { "$set": { "a": choices.small() } };
            things.update_many(doc! { "tags": choices.small() }, many).run()?;
        }
        5 => drop(things.delete_many(doc! { "a": choices.small(), "_id": { "$gt": id } }).run()?),
        6 if choices.below(8) == 0 => drop(things.truncate().run()?),
        _ => drop(things.update_one(doc! { "_id": id }, doc! { "$set": { "a": 3 } }).upsert(true).run()?),
    }
    Ok(())
}

/// Makes a collection, with indexes of several kinds.
fn prepared(client: &Client, choices: &mut Choices) -> crate::Result<Collection<Document>> {
    let database = client.database("test");
    match choices.below(4) {
        // It is made by the first write.
        0 => {}
        1 => {
            let collation = Collation::with_locale("en").strength(CollationStrength::Secondary);
            database.create_collection("things").collation(collation).run()?;
        }
        _ => database.create_collection("things").run()?,
    }
    let things = database.collection("things");
    if database.list_collection_names().run()?.is_empty() {
        return Ok(things);
    }
    for keys in [doc! { "a": 1 }, doc! { "tags": 1, "a": -1 }, doc! { "name": 1 }] {
        if choices.below(2) == 0 {
            things.create_index(IndexModel::builder().keys(keys).build()).run()?;
        }
    }
    if choices.below(2) == 0 {
        let partial = IndexOptions::builder().partial_filter_expression(doc! { "a": { "$gte": 2 } }).build();
        let index = IndexModel::builder().keys(doc! { "a": -1, "_id": 1 }).options(partial);
        things.create_index(index.build()).run()?;
    }
    Ok(things)
}

/// A run of a seed. What is returned as an error is a broken promise.
fn run(seed: u64, fault: PlantedFault) -> Result<(), String> {
    let failed = |error: crate::Error| format!("seed {seed}: {error}");
    let mut choices = Choices(seed);
    let client = Client::builder().in_memory(true).planted_fault(fault).open("").map_err(failed)?;
    let things = prepared(&client, &mut choices).map_err(failed)?;
    let has_collection = !client.database("test").list_collection_names().run().map_err(failed)?.is_empty();
    let mut queries = Vec::new();
    for step in 0..STEPS {
        let is_time = (step * QUERIES).is_multiple_of(STEPS);
        if is_time {
            queries.push(Watched::open(&things, &mut choices)?);
        }
        for _ in 0..=choices.below(4) {
            write(&things, &mut choices).map_err(failed)?;
        }
        if has_collection && choices.below(20) == 0 {
            let index = IndexModel::builder().keys(doc! { "a": 1, "tags": 1 }).build();
            things.create_index(index).run().map_err(failed)?;
        }
        for query in &mut queries {
            if choices.below(2) == 0 {
                query.follow().map_err(|found| format!("seed {seed}: {found}"))?;
                query.compare(&things).map_err(|found| format!("seed {seed}: {found}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_set_is_the_result_of_its_search() {
    for seed in 0..RUNS {
        run(seed, PlantedFault::None).unwrap_or_else(|found| panic!("{found}"));
    }
}

#[test]
fn a_document_that_left_without_a_word_is_found() {
    let found = (0..RUNS).find_map(|seed| run(seed, PlantedFault::LeftForgotten).err());
    assert!(found.is_some_and(|found| found.contains("was followed to")));
}

/// Rounds come while threads write, and several writes are in one.
#[test]
fn sets_beside_writers_are_results_of_their_rounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("opened");
    let mut choices = Choices(7);
    let things = prepared(&client, &mut choices).expect("prepared");
    let mut queries: Vec<_> =
        (0..QUERIES).map(|_| Watched::open(&things, &mut choices).expect("opened")).collect();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                let things = things.clone();
                scope.spawn(move || {
                    let mut choices = Choices(seed);
                    for _ in 0..400 {
                        write(&things, &mut choices).expect("written");
                    }
                })
            })
            .collect();
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            client.sync().expect("synced");
            for query in &mut queries {
                query.follow().unwrap_or_else(|found| panic!("{found}"));
            }
        }
    });
    // The round of a writer that was at work at a sync comes with the next one.
    let began = Instant::now();
    loop {
        client.sync().expect("synced");
        for query in &mut queries {
            query.follow().unwrap_or_else(|found| panic!("{found}"));
        }
        let Some(found) = queries.iter().find_map(|query| query.compare(&things).err()) else { break };
        assert!(began.elapsed() < PATIENCE, "{found}");
    }
    assert!(client.verify().expect("verified").is_clean());
}

/// A snapshot is newer than its watermark, and has events of later positions. One of an earlier position was left out if the rest of the
/// round came with a later one.
#[test]
fn a_round_that_is_given_back_is_read_again_from_its_watermark() {
    let client = Client::builder().in_memory(true).open("").expect("opened");
    client.database("test").create_collection("things").run().expect("made");
    let things = client.database("test").collection::<Document>("things");
    let mut choices = Choices(0);
    let mut watched = Watched::open(&things, &mut choices).expect("opened");
    watched.query = things.find(doc! {}).live().expect("opened");
    watched.query.raw.at_once = 2;
    (watched.filter, watched.sort, watched.limit, watched.skip) = (doc! {}, doc! {}, 0, 0);
    watched.follow().expect("an empty result");
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let (log, storage) = (&engine.catalog.log, engine.storage(&database));
    let namespace = Namespace { db: "test".to_owned(), coll: "things".to_owned() };
    let state = engine.catalog.find(&namespace).expect("made");
    // Below the watermark, so that there is a round.
    things.insert_one(doc! { "_id": 50 }).run().expect("stored");
    let (document, before) = (rawdoc! { "_id": 100 }, log.last());
    thread::scope(|scope| {
        let (go_on, waits) = mpsc::channel::<()>();
        let writer = scope.spawn(|| {
            let waits = waits;
            let mut batch = Batch::new(&database);
            batch.put_new_record(&record_key(&state, RawBsonRef::Int32(100)), document.as_bytes());
            let mut event = Event::new(EventKind::Insert, state.id, "test.things");
            event.full = Some(&document);
            batch.add_event(event.encode());
            log.write(storage, batch, |batch| {
                waits.recv().expect("told to go on");
                storage.store.commit(batch, CommitLevel::Buffered)
            })
        });
        while log.last() == before {
            thread::yield_now();
        }
        things.insert_many((0..10).map(|id| doc! { "_id": id })).run().expect("stored");
        assert!(watched.query.raw.advance().expect("read").is_none() && watched.query.raw.is_behind());
        go_on.send(()).expect("it waits");
        writer.join().expect("no panic").expect("written");
        watched.query.raw.grow_old();
    });
    watched.follow().expect("a result");
    watched.compare(&things).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(watched.known.len(), 12);
}

/// Whether a live query shows a write before it is on stable storage.
fn shows_early(fault: PlantedFault) -> bool {
    let (_folder, client) = syncing_late(fault);
    let things = client.database("test").collection::<Document>("things");
    let engine = client.shared().engine();
    let began = Instant::now();
    // After which write of the store each document was there.
    let mut written = Vec::new();
    let mut query = None;
    for id in 0.. {
        things.insert_one(doc! { "_id": id }).run().expect("stored");
        written.push(engine.store.enter().expect("open").latest_sequence());
        let query = query.get_or_insert_with(|| things.find(doc! {}).live().expect("opened"));
        let batch = query.raw.advance().expect("read");
        let shown = batch.map(|batch| batch.decode::<Document>().expect("decoded")).unwrap_or_default();
        let ids = shown.into_iter().filter_map(|change| match change {
            LiveChange::Entered(document) => usize::try_from(id_of(&document)).ok(),
            LiveChange::Changed(_) | LiveChange::Left(_) | LiveChange::Invalidated => None,
        });
        // Asked after the look: a sync may have come in between.
        let durable = engine.store.durable_sequence();
        if ids.filter_map(|id| written.get(id)).any(|written| durable < *written) {
            return true;
        }
        if id > 0 && durable >= written.first().copied().unwrap_or(0) && began.elapsed() > SYNCED_BY {
            break;
        }
    }
    false
}

/// Neither the first result nor a later one.
#[test]
fn nothing_is_shown_before_it_is_on_stable_storage() {
    assert!(!shows_early(PlantedFault::None));
    // On a busy machine a sync comes between the batch and the look.
    assert!((0..10).any(|_| shows_early(PlantedFault::EventsShownEarly)));
}
