//! A thread of a run: it does random operations, and notes of each what was answered and when.
//!
//! An answer that no store may give at any time (a document in halves, an error that fits nothing) is found here; what
//! depends on other threads is left to the checkers.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{Client, Cursor, Error, ErrorKind, ReturnDocument, Sequence};
use cairndb_tests::choices::Choices;

use crate::histories::history::{Clock, Record, Span};
use crate::histories::lists::{Cut, Image, ListCall};
use crate::histories::order::Versioned;
use crate::histories::places::{PlaceCall, SessionCall};
use crate::histories::store::{
    COUNTERS, GENERATION, KEYS, LISTS, NOW, SESSIONS, Store, all, date, generation, passing_index,
};
use crate::histories::values::CounterCall;

/// The notes of a thread.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) lists: Vec<Record<ListCall>>,
    pub(crate) cuts: Vec<Record<Cut>>,
    pub(crate) counters: Vec<(i32, Record<CounterCall>)>,
    pub(crate) keys: Vec<(i32, Record<PlaceCall>)>,
    pub(crate) ids: Vec<(i32, Record<PlaceCall>)>,
    pub(crate) sessions: Vec<(i32, Record<SessionCall>)>,
    pub(crate) sister: Vec<Record<Versioned>>,
    pub(crate) ordered: Vec<Record<i64>>,
    pub(crate) gapless: Vec<Record<i64>>,
    pub(crate) tickets: Vec<Record<i64>>,
    /// The values that each acquirer got.
    pub(crate) own: Vec<Vec<Record<i64>>>,
    pub(crate) polls_ordered: Vec<Record<BTreeSet<i64>>>,
    pub(crate) polls_gapless: Vec<Record<BTreeSet<i64>>>,
    pub(crate) operations: u64,
    /// The number of times that the store was closed while the thread worked.
    pub(crate) closings: u64,
}

/// The common parts of the threads of a run, through all openings.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// Makes values and `_id`s that are used once.
    pub(crate) serial: AtomicI64,
    /// The generation of the collection that renames replace.
    pub(crate) generation: AtomicU64,
}

/// The reason why a thread does not go on.
pub(crate) enum Stop {
    /// The store was closed. Then the operation has done nothing.
    Closed,
    Found(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        if matches!(error.kind(), ErrorKind::Closed) {
            return Self::Closed;
        }
        Self::Found(format!("unexpected: {error} ({error:?})"))
    }
}

type Done<R = ()> = Result<R, Stop>;

/// A thread at work on an open store.
pub(crate) struct Actor<'a> {
    pub(crate) number: usize,
    pub(crate) shared: &'a Shared,
    pub(crate) store: &'a Store,
    pub(crate) choices: Choices,
    pub(crate) notes: Notes,
    /// Gives values from blocks of its own.
    own: Sequence,
    _acquirer: Client,
    own_values: Vec<Record<i64>>,
    /// A cursor that is read later, and when it was opened.
    kept: Option<(Span, Vec<Document>, Cursor<Document>)>,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(number: usize, shared: &'a Shared, store: &'a Store, choices: Choices) -> Self {
        let acquirer = store.client.acquirer();
        let own = acquirer.database("histories").sequence("own");
        let (notes, own_values) = Default::default();
        Self { number, shared, store, choices, notes, own, _acquirer: acquirer, own_values, kept: None }
    }

    /// Works until `operations` are done, or the store is closed.
    pub(crate) fn work(mut self, operations: u64) -> (Notes, Done) {
        let mut worked = Ok(());
        for _ in 0..operations {
            worked = self.act();
            if worked.is_err() {
                break;
            }
            self.notes.operations += 1;
        }
        if let Err(Stop::Closed) = worked {
            self.notes.closings += 1;
            worked = Ok(());
        }
        // Cursors of a closed store either go on with their snapshot or say that it is closed.
        let drained = match self.drain_kept() {
            Err(Stop::Closed) => Ok(()),
            drained => drained,
        };
        self.notes.own.push(mem::take(&mut self.own_values));
        (self.notes, worked.and(drained))
    }

    fn act(&mut self) -> Done {
        match self.choices.below(100) {
            0..20 => self.append(),
            20..26 => self.read_list(),
            26..36 => self.cut(),
            36..40 => self.keep_cursor(),
            40..58 => self.keys(),
            58..68 => self.ids(),
            68..76 => self.count(),
            76..82 => self.sessions(),
            82..86 => self.read_sister(),
            86..91 => self.number_document(),
            91..95 => self.take_values(),
            _ => self.disturb(),
        }
    }

    /// Runs a call, and says when.
    fn timed<R>(&self, call: impl FnOnce(&Store) -> cairndb::Result<R>) -> Done<(Span, R)> {
        let begun = self.shared.clock.tick();
        let result = call(self.store);
        let ended = self.shared.clock.tick();
        Ok((Span { begun, ended }, result?))
    }

    /// The same, where a key may be taken: then there is no result.
    fn timed_unless_taken<R>(
        &self,
        call: impl FnOnce(&Store) -> cairndb::Result<R>,
    ) -> Done<(Span, Option<R>)> {
        self.timed(|store| match call(store) {
            Err(error) if error.is_duplicate_key() => Ok(None),
            result => result.map(Some),
        })
    }

    fn serial(&self) -> i64 {
        self.shared.serial.fetch_add(1, Ordering::Relaxed)
    }

    fn one_of(&mut self, count: i32) -> i32 {
        i32::try_from(self.choices.below(u64::from(count.unsigned_abs()))).expect("below the count")
    }

    fn append(&mut self) -> Done {
        let (key, value) = (self.one_of(LISTS), self.serial());
        let push = doc! { "$push": { "list": value }, "$inc": { "n": 1_i64 } };
        let form = self.choices.below(3);
        let (span, image) = self.timed(|store| {
            let one = doc! { "_id": key };
            let shown = match form {
                0 => {
                    let result = store.lists.update_one(one, push).run()?;
                    return Ok((result.modified_count == 1).then_some(Image::None));
                }
                1 => store.lists.find_one_and_update(one, push).return_document(ReturnDocument::After),
                _ => store.lists.find_one_and_update(one, push).return_document(ReturnDocument::Before),
            };
            let list = shown.run()?.and_then(|document| list_of(&document).ok()).map(|(_, list)| list);
            Ok(list.map(if form == 1 { Image::After } else { Image::Before }))
        })?;
        let image = image.ok_or_else(|| Stop::Found(format!("the append of {value} missed list {key}")))?;
        self.notes.lists.push(Record::new(span, ListCall::Append { key, value, image }));
        Ok(())
    }

    fn read_list(&mut self) -> Done {
        let key = self.one_of(LISTS);
        let (span, found) = self.timed(|store| store.lists.find_one(doc! { "_id": key }).run())?;
        let found = found.ok_or_else(|| Stop::Found(format!("find_one did not find list {key}")))?;
        let (_, list) = list_of(&found).map_err(Stop::Found)?;
        self.notes.lists.push(Record::new(span, ListCall::Read { key, list }));
        Ok(())
    }

    /// Reads several lists by one snapshot.
    fn cut(&mut self) -> Done {
        let threshold = self.choices.below(20).cast_signed();
        let form = self.choices.below(6);
        let (verb, length_min) = match form {
            0 => ("find", 0),
            1 => ("find with a sort", 0),
            2 => ("aggregate", 0),
            3 => ("aggregate with $group", 0),
            4 => ("find by a range", threshold),
            _ => ("find by a range with a sort", threshold),
        };
        let (span, found) = self.timed(|store| {
            let range = doc! { "n": { "$gte": threshold } };
            match form {
                0 => all(&store.lists),
                1 => store.lists.find(doc! {}).sort(doc! { "n": 1 }).run()?.collect(),
                2 => store.lists.aggregate([doc! { "$sort": { "n": -1 } }]).run()?.collect(),
                3 => {
                    let push = doc! { "$group": { "_id": null, "all": { "$push": "$$ROOT" } } };
                    let stages =
                        [push, doc! { "$unwind": "$all" }, doc! { "$replaceRoot": { "newRoot": "$all" } }];
                    store.lists.aggregate(stages).run()?.collect()
                }
                4 => store.lists.find(range).run()?.collect(),
                _ => store.lists.find(range).sort(doc! { "n": -1 }).run()?.collect(),
            }
        })?;
        self.note_cut(span, verb, &found, length_min.unsigned_abs())
    }

    fn note_cut(&mut self, span: Span, verb: &'static str, found: &[Document], length_min: u64) -> Done {
        let mut cut = Cut { verb, found: BTreeMap::new(), length_min };
        for document in found {
            let (key, list) = list_of(document).map_err(|error| Stop::Found(format!("{verb}: {error}")))?;
            if (list.len() as u64) < length_min {
                return Err(Stop::Found(format!("{verb} found {document}, which is too short")));
            }
            if cut.found.insert(key, list).is_some() {
                return Err(Stop::Found(format!("{verb} at {span:?} found list {key} twice: {found:?}")));
            }
        }
        self.notes.cuts.push(Record::new(span, cut));
        Ok(())
    }

    /// Opens a cursor that is read while others write, reads the one from before to its end, or drops it half read.
    fn keep_cursor(&mut self) -> Done {
        if self.kept.is_some() {
            if self.choices.one_in(4) {
                self.kept = None;
                return Ok(());
            }
            return self.drain_kept();
        }
        let is_sorted = self.choices.one_in(2);
        let (span, cursor) = self.timed(|store| {
            let find = store.lists.find(doc! {}).batch_size(1);
            if is_sorted { find.sort(doc! { "n": 1 }).run() } else { find.run() }
        })?;
        self.kept = Some((span, Vec::new(), cursor));
        Ok(())
    }

    fn drain_kept(&mut self) -> Done {
        let Some((span, mut found, cursor)) = self.kept.take() else { return Ok(()) };
        for document in cursor {
            found.push(document?);
        }
        self.note_cut(span, "a cursor that was kept", &found, 0)
    }

    fn keys(&mut self) -> Done {
        let (key, other, serial) = (self.one_of(KEYS), self.one_of(KEYS), self.serial());
        match self.choices.below(8) {
            0..3 => {
                let document = doc! { "_id": serial, "k": key };
                let (span, taken) = self.timed_unless_taken(|store| store.keys.insert_one(document).run())?;
                self.notes.keys.push((key, Record::new(span, PlaceCall::taken(taken.is_some(), serial))));
            }
            3 => {
                let (span, gone) = self.timed(|store| store.keys.delete_one(doc! { "k": key }).run())?;
                let call = PlaceCall::Cleared(gone.deleted_count == 1);
                self.notes.keys.push((key, Record::new(span, call)));
            }
            4 => {
                let (span, gone) =
                    self.timed(|store| store.keys.find_one_and_delete(doc! { "k": key }).run())?;
                let call = PlaceCall::Freed(holder_of(gone.as_ref(), "_id")?);
                self.notes.keys.push((key, Record::new(span, call)));
            }
            5 => {
                let (span, found) = self.timed(|store| store.keys.find_one(doc! { "k": key }).run())?;
                let call = PlaceCall::Read(holder_of(found.as_ref(), "_id")?);
                self.notes.keys.push((key, Record::new(span, call)));
            }
            6 if key != other => self.move_key(key, other)?,
            _ => self.insert_two(key, other)?,
        }
        Ok(())
    }

    /// Gives the holder of one key another one.
    fn move_key(&mut self, from: i32, to: i32) -> Done {
        let (span, moved) = self.timed_unless_taken(|store| {
            store.keys.find_one_and_update(doc! { "k": from }, doc! { "$set": { "k": to } }).run()
        })?;
        let (was, is) = match moved {
            None => (PlaceCall::Refused, PlaceCall::Refused),
            Some(moved) => match holder_of(moved.as_ref(), "_id")? {
                // A key that no document has says nothing of the other one.
                None => {
                    self.notes.keys.push((from, Record::new(span, PlaceCall::Read(None))));
                    return Ok(());
                }
                Some(holder) => (PlaceCall::Freed(Some(holder)), PlaceCall::Taken(holder)),
            },
        };
        self.notes.keys.extend([(from, Record::new(span, was)), (to, Record::new(span, is))]);
        Ok(())
    }

    /// Inserts two documents by one call, each of which may be rejected.
    fn insert_two(&mut self, one: i32, two: i32) -> Done {
        let (first, second) = (self.serial(), self.serial());
        let documents = [doc! { "_id": first, "k": one }, doc! { "_id": second, "k": two }];
        let (span, stored) =
            self.timed(|store| match store.keys.insert_many(documents).ordered(false).run() {
                Ok(_) => Ok([true, true]),
                Err(error) if error.is_duplicate_key() => {
                    let ErrorKind::InsertMany(refused) = error.kind() else { return Err(error) };
                    Ok([0, 1].map(|position| refused.inserted_ids.contains_key(&position)))
                }
                Err(error) => Err(error),
            })?;
        for ((key, serial), stored) in [(one, first), (two, second)].into_iter().zip(stored) {
            self.notes.keys.push((key, Record::new(span, PlaceCall::taken(stored, serial))));
        }
        Ok(())
    }

    fn ids(&mut self) -> Done {
        let (key, tag) = (self.one_of(KEYS), self.serial());
        let one = || doc! { "_id": key };
        let (span, call) = match self.choices.below(6) {
            0 | 1 => {
                let document = doc! { "_id": key, "tag": tag };
                let (span, taken) = self.timed_unless_taken(|store| store.ids.insert_one(document).run())?;
                (span, PlaceCall::taken(taken.is_some(), tag))
            }
            2 => {
                let (span, gone) = self.timed(|store| store.ids.find_one_and_delete(one()).run())?;
                (span, PlaceCall::Freed(holder_of(gone.as_ref(), "tag")?))
            }
            3 => {
                let replace =
                    |store: &Store| store.ids.replace_one(one(), doc! { "tag": tag }).upsert(true).run();
                let (span, put) = self.timed(replace)?;
                (span, PlaceCall::Put { holder: tag, was_held: put.matched_count == 1 })
            }
            4 => {
                let set = doc! { "$set": { "tag": tag } };
                let (span, was) = self.timed(|store| store.ids.find_one_and_update(one(), set).run())?;
                match holder_of(was.as_ref(), "tag")? {
                    None => (span, PlaceCall::Read(None)),
                    Some(was) => (span, PlaceCall::Passed { from: was, to: tag }),
                }
            }
            _ => {
                let (span, found) = self.timed(|store| store.ids.find_one(one()).run())?;
                (span, PlaceCall::Read(holder_of(found.as_ref(), "tag")?))
            }
        };
        self.notes.ids.push((key, Record::new(span, call)));
        Ok(())
    }

    fn count(&mut self) -> Done {
        let (key, by) = (self.one_of(COUNTERS), 1 + self.choices.below(3));
        let one = || doc! { "_id": key };
        let add = doc! { "$inc": { "n": by.cast_signed() } };
        let (span, call) = match self.choices.below(4) {
            0 => {
                let (span, result) = self.timed(|store| store.counters.update_one(one(), add).run())?;
                if result.modified_count != 1 {
                    return Err(Stop::Found(format!("the addition to counter {key} missed it")));
                }
                (span, CounterCall::AddedUnseen { by })
            }
            1 | 2 => {
                let (span, after) = self.timed(|store| {
                    let add = store.counters.find_one_and_update(one(), add);
                    add.return_document(ReturnDocument::After).run()
                })?;
                (span, CounterCall::Added { by, sum: sum_of(after.as_ref(), key)? })
            }
            _ => {
                let (span, found) = self.timed(|store| store.counters.find_one(one()).run())?;
                (span, CounterCall::Read(sum_of(found.as_ref(), key)?))
            }
        };
        self.notes.counters.push((key, Record::new(span, call)));
        Ok(())
    }

    fn sessions(&mut self) -> Done {
        let key = self.one_of(SESSIONS);
        let is_fresh = self.choices.one_in(2);
        let one = || doc! { "_id": key };
        let (span, call) = match self.choices.below(4) {
            0 => {
                let document = doc! { "_id": key, "at": date(is_fresh) };
                let (span, stored) =
                    self.timed_unless_taken(|store| store.sessions.insert_one(document).run())?;
                (span, SessionCall::Insert { is_fresh, is_stored: stored.is_some() })
            }
            1 | 2 => {
                let set = doc! { "$set": { "at": date(is_fresh) } };
                let (span, result) = self.timed(|store| store.sessions.update_one(one(), set).run())?;
                (span, SessionCall::Set { is_fresh, is_matched: result.matched_count == 1 })
            }
            _ => {
                let (span, found) = self.timed(|store| store.sessions.find_one(one()).run())?;
                let is_fresh = found.map(|found| found.get("at") == Some(&date(true)));
                (span, SessionCall::Read(is_fresh))
            }
        };
        self.notes.sessions.push((key, Record::new(span, call)));
        Ok(())
    }

    fn read_sister(&mut self) -> Done {
        let (span, found) = self.timed(|store| all(&store.sister))?;
        let generations: BTreeSet<Option<i64>> =
            found.iter().map(|document| document.get_i64("generation").ok()).collect();
        match (generations.len(), generations.first(), found.len() as u64) {
            (1, Some(Some(generation)), GENERATION) => {
                self.notes.sister.push(Record::new(span, Versioned::seen(generation.unsigned_abs())));
                Ok(())
            }
            _ => Err(Stop::Found(format!("a renamed collection is not whole: {found:?}"))),
        }
    }

    fn number_document(&mut self) -> Done {
        let is_ordered = self.choices.one_in(2);
        let is_poll = self.choices.one_in(3);
        let collection = |store: &'a Store| if is_ordered { &store.ordered } else { &store.gapless };
        if is_poll {
            let (span, found) = self.timed(|_| all(collection(self.store)))?;
            let numbers = found.iter().map(|document| document.get_i64("n")).collect::<Result<_, _>>();
            let numbers = numbers.map_err(|error| Stop::Found(format!("{error} in {found:?}")))?;
            let polls =
                if is_ordered { &mut self.notes.polls_ordered } else { &mut self.notes.polls_gapless };
            polls.push(Record::new(span, numbers));
            return Ok(());
        }
        let (span, stored) = self.timed(|_| collection(self.store).insert_one(doc! {}).run())?;
        let number = stored.last_generate_id;
        let number = number.ok_or_else(|| Stop::Found("a document was not numbered".to_owned()))?;
        let numbers = if is_ordered { &mut self.notes.ordered } else { &mut self.notes.gapless };
        numbers.push(Record::new(span, number));
        Ok(())
    }

    fn take_values(&mut self) -> Done {
        if self.choices.one_in(2) {
            let (span, value) = self.timed(|_| self.own.next_value().run())?;
            self.own_values.push(Record::new(span, value));
        } else if self.choices.one_in(3) {
            let (span, fetched) = self.timed(|store| store.tickets.fetch(3).run())?;
            self.notes.tickets.extend(fetched.values().map(|value| Record::new(span, value)));
        } else {
            let (span, value) = self.timed(|store| store.tickets.next_value().run())?;
            self.notes.tickets.push(Record::new(span, value));
        }
        Ok(())
    }

    /// Does what the others must not notice.
    fn disturb(&mut self) -> Done {
        let number = self.choices.below(16);
        match number {
            0..4 => {
                self.timed(|store| new_index(store.lists.create_index(passing_index("n")).run())).map(drop)
            }
            4..7 => self.timed(|store| no_index(store.lists.drop_index("n_1").run())).map(drop),
            7 => {
                self.timed(|store| new_index(store.counters.create_index(passing_index("n")).run())).map(drop)
            }
            8 => self.timed(|store| no_index(store.counters.drop_indexes().run())).map(drop),
            9 => self.timed(|store| store.client.flush()).map(drop),
            10 => self.timed(|store| store.client.sync()).map(drop),
            // One thread alone: a pass may be left out while another one runs.
            11..13 if self.number == 0 => self.expire(),
            13..15 if self.number == 0 => self.replace_sister(),
            15 => {
                let (_, report) = self.timed(|store| store.client.verify())?;
                let is_clean = report.is_clean();
                is_clean
                    .then_some(())
                    .ok_or_else(|| Stop::Found(format!("verify found {:?}", report.findings)))
            }
            _ => self.timed(|store| store.keys.list_index_names().run()).map(drop),
        }
    }

    fn expire(&mut self) -> Done {
        let now = DateTime::from_millis(NOW);
        let (span, _) = self.timed(|store| store.client.expire_documents().now(now).run())?;
        let pass = |key| (key, Record::new(span, SessionCall::Pass));
        self.notes.sessions.extend((0..SESSIONS).map(pass));
        Ok(())
    }

    /// Renames a new generation over the collection.
    fn replace_sister(&mut self) -> Done {
        let next = self.shared.generation.load(Ordering::Relaxed) + 1;
        self.timed(|store| {
            // A generation that a closed store left behind.
            store.next.drop().run()?;
            store.next.insert_many(generation(next)).run()
        })?;
        let (span, ()) = self.timed(|store| store.next.rename("sister").drop_target(true).run())?;
        self.shared.generation.store(next, Ordering::Relaxed);
        self.notes.sister.push(Record::new(span, Versioned::Made(next)));
        Ok(())
    }
}

/// A build of an index that may be dropped meanwhile.
fn new_index<R>(result: cairndb::Result<R>) -> cairndb::Result<()> {
    const INDEX_BUILD_ABORTED: i32 = 276;
    match result {
        Err(error) if error.code() != Some(INDEX_BUILD_ABORTED) => Err(error),
        _ => Ok(()),
    }
}

/// A removal of an index that may be gone.
fn no_index(result: cairndb::Result<()>) -> cairndb::Result<()> {
    const INDEX_NOT_FOUND: i32 = 27;
    match result {
        Err(error) if error.code() == Some(INDEX_NOT_FOUND) => Ok(()),
        result => result,
    }
}

/// The key and the values of a list, whose length its document says too.
pub(crate) fn list_of(document: &Document) -> Result<(i32, Vec<i64>), String> {
    let parts = || {
        let values: Option<Vec<i64>> = document.get_array("list").ok()?.iter().map(Bson::as_i64).collect();
        let values =
            values.filter(|values| document.get_i64("n").ok() == i64::try_from(values.len()).ok())?;
        Some((document.get_i32("_id").ok()?, values))
    };
    parts().ok_or_else(|| format!("{document} is in halves"))
}

fn holder_of(document: Option<&Document>, field: &str) -> Done<Option<i64>> {
    let holder = document.map(|document| document.get_i64(field)).transpose();
    holder.map_err(|error| Stop::Found(format!("{error}: {document:?}")))
}

fn sum_of(document: Option<&Document>, key: i32) -> Done<u64> {
    let sum = document.and_then(|document| document.get_i64("n").ok());
    sum.map(i64::unsigned_abs)
        .ok_or_else(|| Stop::Found(format!("counter {key} was not found: {document:?}")))
}
