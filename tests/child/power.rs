//! A short workload for a disk whose power fails, or that refuses what is asked of it: a few threads write, also in transactions, draw values,
//! flush, and make and drop an index; then the database is closed. What the storage refuses is no fault. Wrong answers are.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    Client, Collection, Durability, DurabilityTicket, Error, ErrorKind, InsertOneResult, PlantedFault,
    Sequence, SequenceOptions, TRANSIENT_TRANSACTION_ERROR, WriteConcern,
};
use cairndb_tests::choices::{Choices, mix};
use cairndb_tests::journal::Record;
use cairndb_tests::power::{self, FIELD, FIELD_JOURNALED, LOOSE};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal;
use crate::shown::Shown;

/// Tags that one life may use.
const TAGS_PER_LIFE: u64 = 1_000_000;
const TAGS_PER_THREAD: u64 = 10_000;
/// How often the storage may refuse before a thread ends.
const REFUSALS_MAX: usize = 3;

/// What a life is to do.
struct Task {
    seed: u64,
    life: u64,
    threads: u64,
    operations: u64,
    level: Level,
    fault: PlantedFault,
    /// Whether inserts are acknowledged before they are made.
    acknowledges_first: bool,
    /// Whether syncs are said to be done that are not even asked for.
    leaves_syncs_out: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Buffered, and nothing is done but to draw values.
    Values,
    /// In the memory of this process.
    Delayed,
    /// Buffered, where the store would leave it in memory.
    HandedOver,
    Buffered,
    Journaled,
}

struct Own {
    tag: u64,
    version: u64,
    id: Bson,
}

struct Writer<'a> {
    task: &'a Task,
    thread: u64,
    choices: Choices,
    journal: File,
    client: &'a Client,
    tagged: Collection<Document>,
    numbered: Collection<Document>,
    loose: Sequence,
    own: Vec<Own>,
    next_tag: u64,
    next_sync: u64,
    /// A ticket that was requested and is waited for later.
    ticket: Option<(u64, DurabilityTicket)>,
    has_plain_index: bool,
}

/// `child power FOLDER SEED LIFE THREADS OPERATIONS LEVEL FAULT`, without the first word.
pub(crate) fn run(words: &[&str]) -> Outcome<()> {
    let [folder, seed, life, threads, operations, level, fault] = words else {
        return Err(format!("unknown arguments: {words:?}").into());
    };
    let level = match *level {
        "journaled" => Level::Journaled,
        "values" => Level::Values,
        "delayed" => Level::Delayed,
        "handed-over" => Level::HandedOver,
        _ => Level::Buffered,
    };
    let task = Task {
        seed: seed.parse()?,
        life: life.parse()?,
        threads: threads.parse()?,
        operations: operations.parse()?,
        level,
        fault: power::planted(fault).unwrap_or_default(),
        acknowledges_first: *fault == "acknowledged-first",
        leaves_syncs_out: *fault == "syncs-left-out",
    };
    let journal = journal::open()?;
    // A second round after a refusal: only a store that was opened again may write.
    for round in 0..2 {
        match task.live(Path::new(folder), round, &journal) {
            Ok(End::Closed) => return Ok(Record::Closed.write_to(&journal)?),
            Ok(End::Refused) => {}
            Err(fault) => {
                eprintln!("child: {fault}");
                Record::Fault.write_to(&journal)?;
                return Err(fault);
            }
        }
    }
    Ok(())
}

enum End {
    Closed,
    Refused,
}

/// Whether the storage refused, as opposed to a wrong answer.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Io { .. }
            | ErrorKind::NoSpace { .. }
            | ErrorKind::CommitUnknown { .. }
            | ErrorKind::Poisoned { .. }
            | ErrorKind::Storage { .. }
    )
}

impl Task {
    fn options(&self) -> cairndb::ClientBuilder {
        let durability = match self.level {
            Level::Journaled => Durability::Journaled,
            Level::Values => Durability::Buffered { sync_interval: Duration::from_secs(1) },
            Level::Buffered => Durability::Buffered { sync_interval: self.interval(0) },
            Level::Delayed | Level::HandedOver => {
                Durability::Delayed { write_interval: self.interval(1), sync_interval: self.interval(0) }
            }
        };
        Client::builder()
            .memory_budget(8 << 20)
            .index_build_memory(1 << 20)
            .durability(durability)
            .planted_fault(self.fault)
    }

    /// A short interval or a long one, with which nothing is done but what asks for it.
    fn interval(&self, which: u64) -> Duration {
        Duration::from_millis(*Choices::seeded(mix(self.seed) ^ which).pick(&[5, 1000]))
    }

    fn live(&self, folder: &Path, round: u64, journal: &File) -> Outcome<End> {
        let client = match self.options().open(folder) {
            Ok(client) => client,
            Err(error) if is_refusal(&error) => return Ok(End::Refused),
            Err(error) => return Err(format!("the folder does not open: {error:?}").into()),
        };
        let done = self.work(&client, round, journal);
        match done {
            Ok(()) => {}
            Err(fault) => match fault.downcast_ref::<Error>() {
                Some(error) if is_refusal(error) => {}
                _ => return Err(fault),
            },
        }
        match client.close() {
            Ok(()) => Ok(End::Closed),
            Err(error) if is_refusal(&error) => Ok(End::Refused),
            Err(error) => Err(format!("closing said {error:?}").into()),
        }
    }

    fn work(&self, client: &Client, round: u64, journal: &File) -> Outcome<()> {
        prepare(client)?;
        // Before the writers: what there is then has a stream from the first write on, or none.
        let shown = self.is_watched().then(|| Shown::open(client)).transpose()?;
        Record::Opened.write_to(journal)?;
        let mut writers = Vec::new();
        for thread in 0..self.threads {
            writers.push(Writer::new(self, (thread, round), client, journal.try_clone()?)?);
        }
        let are_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ended = SetWhenDropped(&are_done);
            let reader = shown.map(|shown| scope.spawn(|| shown.follow(journal, &are_done)));
            let threads: Vec<_> =
                writers.into_iter().map(|writer| scope.spawn(move || writer.run())).collect();
            let join = |thread: ScopedJoinHandle<'_, Outcome<()>>| {
                thread.join().map_err(|_| "a thread panicked").map_err(Into::into).and_then(|done| done)
            };
            let written: Vec<Outcome<()>> = threads.into_iter().map(join).collect();
            are_done.store(true, Ordering::Release);
            let shown = reader.map_or(Ok(()), join);
            written.into_iter().collect::<Outcome<()>>().and(shown)
        })
    }

    /// Whether a change stream follows what is written. Elsewhere the writes of one document alone need no batch.
    fn is_watched(&self) -> bool {
        self.level != Level::Values && mix(self.seed ^ 3).is_multiple_of(2)
    }
}

fn prepare(client: &Client) -> Outcome<()> {
    workload::tagged(client).create_index(workload::unique_index()).run()?;
    power::make(client)?;
    let database = client.database(power::DATABASE);
    if !database.list_sequences().run()?.iter().any(|name| name == power::SEQUENCE) {
        let options = SequenceOptions::builder().cache_size(10).acquire_size(3).build();
        database.create_sequence(power::SEQUENCE).with_options(options).run()?;
    }
    Ok(())
}

impl<'a> Writer<'a> {
    fn new(task: &'a Task, (thread, round): (u64, u64), client: &'a Client, journal: File) -> Outcome<Self> {
        let tagged = workload::tagged(client);
        let mut own = Vec::new();
        for stored in tagged.find(doc! {}).run()? {
            let stored = stored?;
            let (tag, version) = workload::recognize(&stored)?;
            let id = stored.get("_id").cloned().ok_or("a document without _id")?;
            if tag % task.threads == thread && round == 0 {
                own.push(Own { tag, version, id });
            }
        }
        let names = tagged.list_index_names().run()?;
        let database = client.database(power::DATABASE);
        Ok(Self {
            task,
            thread,
            choices: Choices::seeded(mix(task.seed ^ (thread << 32) ^ (round << 48))),
            journal,
            client,
            tagged,
            numbered: database.collection(power::NUMBERED),
            loose: database.sequence(power::SEQUENCE),
            own,
            next_tag: task.life * TAGS_PER_LIFE + (round * 50 + thread) * TAGS_PER_THREAD,
            next_sync: (round * 50 + thread) * TAGS_PER_THREAD,
            ticket: None,
            has_plain_index: names.iter().any(|name| name == workload::PLAIN_INDEX),
        })
    }

    fn run(mut self) -> Outcome<()> {
        let mut refusals = 0;
        for operation in 0..self.task.operations {
            match self.step(operation) {
                Ok(()) => {}
                Err(fault) => match fault.downcast_ref::<Error>() {
                    Some(error) if is_refusal(error) => {
                        eprintln!("refused: {error:?}");
                        refusals += 1;
                    }
                    _ => return Err(format!("thread {}: {fault}", self.thread).into()),
                },
            }
            if refusals == REFUSALS_MAX {
                break;
            }
        }
        self.read_all()
    }

    fn step(&mut self, operation: u64) -> Outcome<()> {
        if self.task.level == Level::Values {
            return self.take_value();
        }
        // The first thread flushes and changes indexes at fixed moments, so that every workload does.
        if self.thread == 0 && operation % 8 == 4 {
            return Ok(self.client.flush()?);
        }
        if self.thread == 0 && operation % 16 == 7 {
            return self.toggle_index();
        }
        match self.choices.below(21) {
            0..=4 => self.insert_one(),
            5 | 6 | 19 | 20 => self.insert_many(),
            7..=9 => self.replace(),
            10 => self.delete(),
            11 | 12 => self.number(),
            13 | 14 => self.take_value(),
            15 => self.sync(),
            16 | 17 => self.take_or_wait_for_ticket(),
            _ => self.insert_taken_tag(),
        }
    }

    fn tell(&self, record: Record) -> Outcome<()> {
        Ok(record.write_to(&self.journal)?)
    }

    fn concern(&self, tag: u64, version: u64) -> WriteConcern {
        if power::is_journaled(tag, version) { WriteConcern::journaled() } else { self.least() }
    }

    /// The concern of writes that ask for nothing more.
    fn least(&self) -> WriteConcern {
        let is_handed_over = self.task.level == Level::HandedOver;
        if is_handed_over { WriteConcern::buffered() } else { WriteConcern::default() }
    }

    fn insert_one(&mut self) -> Outcome<()> {
        let tag = self.take_tags(1);
        self.tell(Record::Begun { tag, version: 1 })?;
        if self.task.acknowledges_first {
            self.tell(Record::Done { tag, version: 1 })?;
        }
        let insert = self.tagged.insert_one(workload::document(tag, 1)).write_concern(self.concern(tag, 1));
        let insert = match power::token(tag) {
            Some(token) => insert.exactly_once(token),
            None => insert,
        };
        let InsertOneResult { inserted_id: id, .. } = insert.run()?;
        self.tell(Record::Done { tag, version: 1 })?;
        self.own.push(Own { tag, version: 1, id });
        Ok(())
    }

    /// Inserts several documents by one call, or in one transaction.
    fn insert_many(&mut self) -> Outcome<()> {
        let count = 2 + self.choices.below(5);
        let first = self.take_tags(count);
        self.tell(Record::ManyBegun { first, count })?;
        let made = match power::insert_many(self.client, first, count, self.concern(first, 1)) {
            Ok(made) => made,
            // Another thread has made or dropped the index.
            Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) && !is_refusal(&error) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.tell(Record::ManyDone { first, count })?;
        if made.ids.len() as u64 != count || made.was_replayed == Some(true) {
            return Err(format!("the insert of {count} from tag {first} on said {made:?}").into());
        }
        let own = (first..).zip(made.ids).map(|(tag, id)| Own { tag, version: 1, id });
        self.own.extend(own);
        let is_journaled = power::is_journaled(first, 1);
        let course = if is_journaled { FIELD_JOURNALED } else { FIELD };
        made.value.map_or(Ok(()), |value| self.tell(Record::Taken { course, value }))
    }

    fn replace(&mut self) -> Outcome<()> {
        // Removed, and put back only if it is known what became of it.
        let Some(Own { tag, version, id }) = self.take_own() else { return self.insert_one() };
        let version = version + 1;
        self.tell(Record::Begun { tag, version })?;
        let replace = self.tagged.replace_one(doc! { "_id": id.clone() }, workload::body(tag, version));
        let result = replace.write_concern(self.concern(tag, version)).run()?;
        if (result.matched_count, result.modified_count) != (1, 1) {
            return Err(format!("replacing tag {tag} said {result:?}").into());
        }
        self.tell(Record::Done { tag, version })?;
        self.own.push(Own { tag, version, id });
        Ok(())
    }

    fn delete(&mut self) -> Outcome<()> {
        let Some(Own { tag, id, .. }) = self.take_own() else { return self.insert_one() };
        self.tell(Record::Begun { tag, version: 0 })?;
        let delete = self.tagged.delete_one(doc! { "_id": id }).write_concern(self.concern(tag, 0));
        match delete.run()?.deleted_count {
            1 => self.tell(Record::Done { tag, version: 0 }),
            count => Err(format!("deleting tag {tag} said {count}").into()),
        }
    }

    /// Stores a document with a value of its field.
    fn number(&mut self) -> Outcome<()> {
        let is_journaled = self.choices.one_in(3);
        let concern = if is_journaled { WriteConcern::journaled() } else { self.least() };
        let insert = self.numbered.insert_one(doc! { "pad": "p".repeat(40) }).write_concern(concern);
        let value = insert.run()?.last_generate_id.ok_or("a document without a value")?;
        let course = if is_journaled { FIELD_JOURNALED } else { FIELD };
        self.tell(Record::Taken { course, value })
    }

    fn take_value(&mut self) -> Outcome<()> {
        let value = self.loose.next_value().run()?;
        self.tell(Record::Taken { course: LOOSE, value })
    }

    /// Another document with a tag that is taken: the unique index must refuse it.
    fn insert_taken_tag(&mut self) -> Outcome<()> {
        let Some(own) = self.own.last() else { return self.insert_one() };
        match self.tagged.insert_one(workload::body(own.tag, own.version)).run() {
            Ok(_) => Err(format!("tag {} is stored again", own.tag).into()),
            Err(error) if error.is_duplicate_key() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&mut self) -> Outcome<()> {
        let number = self.take_sync_number();
        self.tell(Record::SyncBegun { number })?;
        if !self.task.leaves_syncs_out {
            self.client.sync()?;
        }
        self.tell(Record::SyncDone { number })
    }

    /// Requests a ticket, or waits for the one that was requested before the operations since.
    fn take_or_wait_for_ticket(&mut self) -> Outcome<()> {
        match self.ticket.take() {
            None => {
                let number = self.take_sync_number();
                // Reported before: what is over by then is covered, whatever other threads do meanwhile.
                self.tell(Record::SyncBegun { number })?;
                self.ticket = Some((number, self.client.durability_ticket()?));
                Ok(())
            }
            Some((number, ticket)) => {
                if !self.task.leaves_syncs_out {
                    ticket.wait()?;
                }
                self.tell(Record::SyncDone { number })
            }
        }
    }

    fn take_sync_number(&mut self) -> u64 {
        self.next_sync += 1;
        self.next_sync
    }

    fn toggle_index(&mut self) -> Outcome<()> {
        let exists = !self.has_plain_index;
        self.tell(Record::IndexBegun { exists })?;
        if exists {
            self.tagged.create_index(workload::plain_index()).run()?;
        } else {
            self.tagged.drop_index(workload::PLAIN_INDEX).run()?;
        }
        self.has_plain_index = exists;
        self.tell(Record::IndexDone { exists })
    }

    /// What was acknowledged is read, or the reading fails: nothing is missing, and nothing is older.
    fn read_all(&self) -> Outcome<()> {
        for own in &self.own {
            match self.tagged.find_one(doc! { "_id": own.id.clone() }).run() {
                Ok(Some(found)) if workload::recognize(&found)? == (own.tag, own.version) => {}
                Ok(found) => {
                    return Err(format!("tag {} is version {}, read {found:?}", own.tag, own.version).into());
                }
                Err(error) if is_refusal(&error) => {}
                Err(error) => return Err(format!("reading tag {}: {error:?}", own.tag).into()),
            }
        }
        Ok(())
    }

    fn take_own(&mut self) -> Option<Own> {
        if self.own.is_empty() {
            return None;
        }
        let place = self.choices.index(self.own.len());
        Some(self.own.swap_remove(place))
    }

    fn take_tags(&mut self, count: u64) -> u64 {
        self.next_tag += count;
        self.next_tag - count
    }
}
