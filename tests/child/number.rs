//! Numbers documents and draws values until the process is killed, or until the storage rejects.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{
    AutoIncrement, Client, Collection, Contract, Error, ErrorKind, Sequence, TRANSIENT_TRANSACTION_ERROR,
    WriteConcern,
};
use cairndb_tests::choices::{Choices, part};
use cairndb_tests::journal::Record;
use cairndb_tests::numbered::{Course, Progression, REFUSED_ID};
use cairndb_tests::{scratch, workload};

use crate::Outcome;
use crate::journal;

/// Far more than fits under any limit that a test sets.
const WRITES_MAX: u64 = 1_000_000;

struct Track {
    course: Course,
    number: u64,
    collection: Collection<Document>,
    sequence: Sequence,
    /// The furthest value that this thread brought and that was stored.
    brought: Option<i64>,
    /// The last value that this thread was given.
    last: i64,
}

struct Numberer {
    thread: u64,
    client: Client,
    choices: Choices,
    journal: File,
    tracks: Vec<Track>,
    /// Whether values come from blocks of its own, which need not lie beyond what others bring.
    own_blocks: bool,
}

pub(crate) fn run(folder: &Path, seed: u64) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    let client = workload::options(&mut choices).open(folder)?;
    let journal = journal::open()?;
    for course in Course::all() {
        course.create(&client)?;
    }
    let threads = 1 + choices.below(6);
    let mut numberers = Vec::new();
    for thread in 0..threads {
        numberers.push(Numberer::new(thread, seed, &client, journal.try_clone()?));
    }
    Record::Opened.write_to(&journal)?;
    std::thread::scope(|scope| {
        for numberer in numberers {
            scope.spawn(|| numberer.run());
        }
    });
    Err("every thread met a fault".into())
}

impl Numberer {
    fn new(thread: u64, seed: u64, client: &Client, journal: File) -> Self {
        let own_blocks = thread % 3 == 2;
        let client = if own_blocks { client.acquirer() } else { client.clone() };
        let track = |(number, course): (u64, Course)| Track {
            course,
            number,
            collection: course.collection(&client),
            sequence: course.sequence(&client),
            brought: None,
            last: course.direction(),
        };
        let tracks = (0..).zip(Course::all()).map(track).collect();
        Self { thread, client, choices: Choices::seeded(part(seed, thread)), journal, tracks, own_blocks }
    }

    fn run(mut self) {
        if let Err(fault) = self.work() {
            eprintln!("child, thread {}: {fault}", self.thread);
            // A parent that is gone closed the journal; no process needs to know then.
            let _ = Record::Fault.write_to(&self.journal);
        }
    }

    /// Works for ever, or until the database does what it must not.
    fn work(&mut self) -> Outcome<()> {
        loop {
            let place = self.choices.index(self.tracks.len());
            let Some(track) = self.tracks.get_mut(place) else { continue };
            let document = || doc! { "pad": "p".repeat(20) };
            match self.choices.below(36) {
                0..=9 => {
                    let insert = track.collection.insert_one(document());
                    let is_journaled = self.choices.one_in(16);
                    let insert =
                        if is_journaled { insert.write_concern(WriteConcern::journaled()) } else { insert };
                    let values = insert.run()?.last_generate_id.into_iter().collect();
                    track.take(values, &self.journal, self.own_blocks)?;
                }
                10..=15 => {
                    let batch = vec![document(); 1 + self.choices.index(10)];
                    let insert = track.collection.insert_many(batch).ordered(self.choices.one_in(2));
                    let result = insert.run()?;
                    let mut values: Vec<_> = result.generated.into_iter().collect();
                    values.sort_unstable_by_key(|(position, _)| *position);
                    let values = values.iter().filter_map(|(_, values)| values.get("n")).collect();
                    track.take(values, &self.journal, self.own_blocks)?;
                }
                16..=19 => track.bring(&mut self.choices)?,
                20..=22 => track.be_refused()?,
                23..=28 => {
                    let next = track.sequence.next_value().write_concern(WriteConcern::journaled());
                    Record::Taken { course: SEQUENCES + track.number, value: next.run()? }
                        .write_to(&self.journal)?;
                }
                29 | 30 => {
                    for value in track.sequence.fetch(4).run()?.values() {
                        Record::Taken { course: SEQUENCES + track.number, value }.write_to(&self.journal)?;
                    }
                }
                31..=34 => {
                    let values = track.insert_in_transaction(&self.client, &mut self.choices)?;
                    track.take(values, &self.journal, self.own_blocks)?;
                }
                _ => {
                    // All blocks are given up by a change, and acquired again.
                    let size = track.sequence.snapshot().run()?.cache_size;
                    let size = track.course.other_size(size.into());
                    let options = cairndb::SequenceOptions::builder().cache_size(size).build();
                    track.sequence.alter(options).run()?;
                }
            }
        }
    }
}

/// Courses are counted from here where the sequence beside the collection is meant.
const SEQUENCES: u64 = 1000;

impl Track {
    fn take(&mut self, values: Vec<i64>, journal: &File, own_blocks: bool) -> Outcome<()> {
        for value in values {
            let direction = self.course.direction();
            // A sequence that starts over comes by what was brought again.
            let is_watched = !own_blocks && self.course.way != Progression::Cycled;
            if let Some(brought) =
                self.brought.filter(|brought| is_watched && (value - brought) * direction <= 0)
            {
                return Err(
                    format!("{}: {value} was given after {brought} was stored", self.course.name()).into()
                );
            }
            self.last = value;
            Record::Taken { course: self.number, value }.write_to(journal)?;
        }
        Ok(())
    }

    /// Inserts documents in a transaction. Returns their values if it was committed.
    fn insert_in_transaction(&mut self, client: &Client, choices: &mut Choices) -> Outcome<Vec<i64>> {
        let mut session = client.start_session().run()?;
        session.start_transaction().run()?;
        let mut values = Vec::new();
        for _ in 0..=choices.below(3) {
            let inserted =
                self.collection.insert_one(doc! { "in": "transaction" }).session(&mut session).run();
            match inserted {
                Ok(inserted) => values.extend(inserted.last_generate_id),
                Err(error) => return aborted(error),
            }
        }
        if choices.one_in(3) {
            session.abort_transaction().run()?;
            return Ok(Vec::new());
        }
        session.commit_transaction().run().map_or_else(aborted, |()| Ok(values))
    }

    /// Inserts a value that lies ahead, or behind.
    fn bring(&mut self, choices: &mut Choices) -> Outcome<()> {
        if !self.course.takes_values() {
            return Ok(());
        }
        let steps = choices.below(30).cast_signed() - 5;
        let value = self.course.behind(self.last) + 2 * steps * self.course.direction();
        self.collection.insert_one(doc! { "n": value }).run()?;
        let direction = self.course.direction();
        if self.brought.is_none_or(|brought| (value - brought) * direction > 0) {
            self.brought = Some(value);
        }
        Ok(())
    }

    /// Inserts documents with an `_id` that is taken, alone and within a batch.
    fn be_refused(&mut self) -> Outcome<()> {
        let refused = || doc! { "_id": REFUSED_ID };
        must_be_duplicate(self.collection.insert_one(refused()).run().err())?;
        must_be_duplicate(
            self.collection.insert_many([doc! {}, refused(), doc! {}]).ordered(false).run().err(),
        )
    }
}

/// A transaction that may be tried again has stored nothing.
fn aborted(error: Error) -> Outcome<Vec<i64>> {
    if error.contains_label(TRANSIENT_TRANSACTION_ERROR) { Ok(Vec::new()) } else { Err(error.into()) }
}

fn must_be_duplicate(error: Option<Error>) -> Outcome<()> {
    match error {
        Some(error) if error.is_duplicate_key() => Ok(()),
        other => Err(format!("not a duplicate key: {other:?}").into()),
    }
}

/// Draws values, or numbers documents, each in a transaction or not, until the storage rejects; prints one word and a value a line.
pub(crate) fn fill(folder: &str, what: &str) -> Outcome<()> {
    let client = scratch::small().open(folder)?;
    let database = client.database("test");
    database.create_sequence("singles").with_options(sizes(1)).run()?;
    database.create_sequence("thousands").run()?;
    let (singles, thousands) = (database.sequence("singles"), database.sequence("thousands"));
    let given = thousands.next_value().run()?;
    let things = scratch::things(&client);
    let (wanted, is_within) = what.strip_suffix("-within").map_or((what, false), |wanted| (wanted, true));
    let contract = Contract::ALL.into_iter().find(|contract| contract.name() == wanted);
    if let Some(contract) = contract {
        let field =
            AutoIncrement::builder().field("n").contract(contract).cache_size(2).acquire_size(2).build();
        things.create_auto_increment(field).run()?;
    }
    let padding = "x".repeat(1000);
    let write = || match contract {
        Some(_) if is_within => {
            let mut session = client.start_session().run()?;
            session.start_transaction().run()?;
            let insert = things.insert_one(doc! { "padding": &padding });
            let inserted = insert.session(&mut session).run()?;
            session.commit_transaction().run()?;
            Ok(inserted.last_generate_id.unwrap_or(0))
        }
        Some(_) => Ok(things.insert_one(doc! { "padding": &padding }).run()?.last_generate_id.unwrap_or(0)),
        None => singles.next_value().run(),
    };
    let (mut last, mut first) = (0, None);
    for _ in 0..WRITES_MAX {
        match write() {
            Ok(value) => last = value,
            Err(error) => {
                first = Some(error);
                break;
            }
        }
    }
    let first = first.ok_or("the storage never refused a write")?;
    let mut out = io::stdout();
    writeln!(out, "last {last}")?;
    writeln!(out, "given {given}")?;
    writeln!(out, "first {}", name(Some(&first)))?;
    writeln!(out, "again {}", name(write().err().as_ref()))?;
    writeln!(out, "single {}", name(singles.next_value().run().err().as_ref()))?;
    writeln!(out, "block {}", name(thousands.next_value().run().err().as_ref()))?;
    writeln!(out, "alter {}", name(singles.alter(sizes(5)).run().err().as_ref()))?;
    writeln!(out, "restart {}", name(singles.restart(1).run().err().as_ref()))?;
    writeln!(out, "set {}", name(singles.set_current_value(1 << 40).run().err().as_ref()))?;
    writeln!(out, "drop {}", name(database.drop_sequence("singles").run().err().as_ref()))?;
    writeln!(out, "truncate {}", name(things.truncate().run().err().as_ref()))?;
    writeln!(out, "close {}", name(client.close().err().as_ref()))?;
    Ok(())
}

fn sizes(size: i64) -> cairndb::SequenceOptions {
    cairndb::SequenceOptions::builder().cache_size(size).acquire_size(size).build()
}

fn name(error: Option<&Error>) -> &'static str {
    match error {
        None => "succeeded",
        Some(error) if matches!(error.kind(), ErrorKind::CommitUnknown { .. }) => "CommitUnknown",
        Some(error) if matches!(error.kind(), ErrorKind::Poisoned { .. }) => "Poisoned",
        Some(error) if error.code() == Some(26) => "NamespaceNotFound",
        Some(_) => "another",
    }
}
