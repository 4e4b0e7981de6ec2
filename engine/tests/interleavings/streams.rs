//! Change streams beside writers: positions, rounds, and the switching on of the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{ChangeStream, ChangeStreamEvent, OperationType, PlantedFault, WriteConcern};

use crate::ROUNDS;
use crate::world::{Findings, World, beside, finds, holds, is_done};

type Stream = ChangeStream<ChangeStreamEvent<Document>>;

/// The documents of a collection by their keys, kept up to date by a stream.
#[derive(Default)]
struct Copy {
    documents: BTreeMap<String, Document>,
    /// How many events it has applied.
    applied: usize,
}

impl Copy {
    /// Reads what is there, which may already have what a stream shows later.
    fn of(world: &World) -> Self {
        Self { documents: world.documents(), applied: 0 }
    }

    /// Applies the events that are there. Each counts a number of its document up by one.
    fn follow(&mut self, world: &World, stream: &mut Stream) {
        loop {
            let event = match stream.next_if_any() {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(error) => return world.found(error),
            };
            self.applied += 1;
            let id = event.document_key.as_ref().and_then(|key| key.get("_id")).map(ToString::to_string);
            let id = id.unwrap_or_default();
            let told = match &event.operation_type {
                OperationType::Update => event.update_description.map(|update| update.updated_fields),
                _ => event.full_document,
            };
            let told = told.and_then(|told| told.get_i32("a").ok());
            let known = self.documents.get(&id).and_then(|known| known.get_i32("a").ok());
            let follows = told.zip(known).is_none_or(|(told, known)| told <= known + 1);
            world.expect(follows, || format!("{id} is {told:?} after {known:?}"));
            let made = self.documents.entry(id).or_default();
            made.insert("a", told.unwrap_or_default());
        }
    }

    /// Each document has what it has in the store.
    fn check(&self, world: &World) {
        let stored = world.documents();
        let number = |document: &Document| document.get_i32("a").ok();
        let known: Vec<_> = self.documents.iter().map(|(id, known)| (id, number(known))).collect();
        let stored: Vec<_> = stored.iter().map(|(id, stored)| (id, number(stored))).collect();
        world.expect(known == stored, || format!("the copy has {known:?} where {stored:?} is stored"));
    }
}

fn watched(world: &World) -> Stream {
    let things = world.things();
    things.watch().max_await_time(Duration::ZERO).run().expect("an open client")
}

/// Adds to a document that all writers share, and to one of its own.
fn count(world: &World, own: i32, concern: &WriteConcern) {
    let things = world.things();
    for id in [0, own] {
        let one = doc! { "$inc": { "a": 1 } };
        let update = things.update_one(doc! { "_id": id }, one).upsert(true);
        is_done(world, update.write_concern(concern.clone()).run());
    }
}

/// Writers, and a reader whose copy is what is stored at the end.
fn streams_beside_writers(fault: PlantedFault) -> Findings {
    follow(World::new(fault), &WriteConcern::default())
}

fn follow(world: World, concern: &WriteConcern) -> Findings {
    world.filled("things", [0]);
    let stream = Arc::new(Mutex::new((watched(&world), Copy::of(&world))));
    let write = |own: i32| {
        let concern = concern.clone();
        world.thread(move |world| (0..ROUNDS).for_each(|_| count(world, own, &concern)))
    };
    let reading = Arc::clone(&stream);
    let read = world.thread(move |world| {
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, copy) = &mut *reading;
        for _ in 0..2 * ROUNDS {
            copy.follow(world, stream);
            // Passes the time of a reader.
            world.things().find_one(doc! {}).run().expect("a search");
        }
    });
    beside(vec![write(1), write(2), read]);
    let mut reading = stream.lock().unwrap_or_else(PoisonError::into_inner);
    let (stream, copy) = &mut *reading;
    copy.follow(&world, stream);
    copy.check(&world);
    let written = 2 * 2 * ROUNDS.unsigned_abs() as usize;
    world.expect(copy.applied == written, || format!("{} events of {written} writes", copy.applied));
    world.findings()
}

#[test]
fn a_stream_shows_each_write_once_and_in_order() {
    holds(streams_beside_writers);
}

#[test]
fn planted_streams_that_pass_writers_at_work_are_found() {
    finds(PlantedFault::HolesPassed, streams_beside_writers);
}

/// The log is switched on by two streams beside writers. What is read then and followed from there is what is stored at the end.
fn switching_on(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [0, 1, 2]);
    let opened = Arc::new(Mutex::new(Vec::new()));
    let watch = || {
        let opened = Arc::clone(&opened);
        world.thread(move |world| {
            let stream = watched(world);
            let copy = Copy::of(world);
            opened.lock().unwrap_or_else(PoisonError::into_inner).push((stream, copy));
        })
    };
    let write = |own: i32| world.thread(move |world| count(world, own, &WriteConcern::default()));
    beside(vec![write(1), watch(), write(2), watch()]);
    let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    for (stream, copy) in &mut *opened {
        copy.follow(&world, stream);
        copy.check(&world);
    }
    world.expect(opened.len() == 2, || format!("{} streams were opened", opened.len()));
    drop(opened);
    world.findings()
}

#[test]
fn no_write_is_missed_while_the_log_is_switched_on() {
    holds(switching_on);
}

#[test]
fn planted_switches_that_pass_collections_by_are_found() {
    finds(PlantedFault::CollectionsPassedBy, switching_on);
}

/// A stream beside journaled writes, after which no other sync comes.
fn synced_by_writers(fault: PlantedFault) -> Findings {
    let folder = tempfile::tempdir().expect("a folder");
    follow(World::within(folder.path(), fault), &WriteConcern::journaled())
}

/// Rounds of syncs: a stream shows what journaled writes have written once they are over.
#[test]
fn what_is_synced_is_shown_without_another_sync() {
    holds(synced_by_writers);
}

#[test]
fn planted_streams_that_wait_for_another_sync_are_found() {
    finds(PlantedFault::RoundsOfSyncsAlone, synced_by_writers);
}
