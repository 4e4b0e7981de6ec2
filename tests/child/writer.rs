//! Writes from several threads until the process is killed. Each thread has tags of its own, so that the order
//! of its journal is the order of its writes; one collection gets the same ids from all.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Error, WriteConcern};
use cairndb_tests::choices::{Choices, part};
use cairndb_tests::journal::Record;
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, Flaw};

/// Tags that one life may use.
const TAGS_PER_LIFE: u64 = 100_000_000;
const TAGS_PER_THREAD: u64 = 10_000_000;
/// Documents of a thread from which on it deletes as often as it inserts.
const DOCUMENTS_ENOUGH: usize = 400;

/// A stored document of a thread's own.
struct Own {
    tag: u64,
    version: u64,
    id: Bson,
}

struct Writer {
    thread: u64,
    flaw: Flaw,
    choices: Choices,
    journal: File,
    tagged: Collection<Document>,
    contended: Collection<Document>,
    own: Vec<Own>,
    next_tag: u64,
    next_contended: u64,
    has_plain_index: bool,
}

pub(crate) fn run(folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    let client = workload::options(&mut choices).open(folder)?;
    let journal = journal::open()?;
    let threads = 1 + choices.below(8);
    let mut writers = Vec::new();
    for thread in 0..threads {
        writers.push(Writer::new((thread, threads), (seed, life), flaw, &client, journal.try_clone()?)?);
    }
    Record::Opened.write_to(&journal)?;
    std::thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.run());
        }
    });
    Err("every thread met a fault".into())
}

impl Writer {
    fn new(
        (thread, threads): (u64, u64),
        (seed, life): (u64, u64),
        flaw: Flaw,
        client: &Client,
        journal: File,
    ) -> Outcome<Self> {
        let tagged = workload::tagged(client);
        tagged.create_index(workload::unique_index()).run()?;
        let names = tagged.list_index_names().run()?;
        let mut own = Vec::new();
        for stored in tagged.find(doc! {}).run()? {
            let stored = stored?;
            let (tag, version) = workload::recognize(&stored)?;
            let id = stored.get("_id").cloned().ok_or("a document without _id")?;
            if tag % threads == thread {
                own.push(Own { tag, version, id });
            }
        }
        let first = life * TAGS_PER_LIFE;
        Ok(Self {
            thread,
            flaw,
            choices: Choices::seeded(part(seed, thread)),
            journal,
            tagged,
            contended: workload::contended(client),
            own,
            next_tag: first + thread * TAGS_PER_THREAD,
            next_contended: first,
            has_plain_index: names.iter().any(|name| name == workload::PLAIN_INDEX),
        })
    }

    fn run(mut self) {
        if let Err(fault) = self.work() {
            eprintln!("child, thread {}: {fault}", self.thread);
            // A parent that is gone closed the journal; no process needs to know then.
            let _ = self.tell(Record::Fault);
        }
    }

    /// Writes for ever, or until the database does what it must not.
    fn work(&mut self) -> Outcome<()> {
        loop {
            match self.choices.below(64) {
                0..=27 if self.own.len() < DOCUMENTS_ENOUGH => self.insert_one()?,
                28..=33 if self.own.len() < DOCUMENTS_ENOUGH => self.insert_many()?,
                0..=45 => self.replace()?,
                46..=53 => self.delete()?,
                54..=58 => self.contend()?,
                59..=62 => self.insert_taken_tag()?,
                _ if self.thread == 0 => self.toggle_index()?,
                _ => self.read()?,
            }
        }
    }

    fn insert_one(&mut self) -> Outcome<()> {
        let tag = self.take_tags(1);
        self.tell(Record::Begun { tag, version: 1 })?;
        if self.flaw == Flaw::AcknowledgeFirst {
            self.tell(Record::Done { tag, version: 1 })?;
        }
        let insert = self.tagged.insert_one(workload::document(tag, 1));
        let insert =
            if self.choices.one_in(16) { insert.write_concern(WriteConcern::journaled()) } else { insert };
        let id = insert.run()?.inserted_id;
        self.tell(Record::Done { tag, version: 1 })?;
        self.own.push(Own { tag, version: 1, id });
        Ok(())
    }

    fn insert_many(&mut self) -> Outcome<()> {
        let count = 2 + self.choices.below(40);
        let first = self.take_tags(count);
        self.tell(Record::ManyBegun { first, count })?;
        let tags = first..first + count;
        let insert = self.tagged.insert_many(tags.clone().map(|tag| workload::document(tag, 1)));
        let mut ids: HashMap<usize, Bson> = insert.ordered(self.choices.one_in(2)).run()?.inserted_ids;
        self.tell(Record::ManyDone { first, count })?;
        for (position, tag) in tags.enumerate() {
            let id = ids.remove(&position).ok_or("an insert without an id")?;
            self.own.push(Own { tag, version: 1, id });
        }
        Ok(())
    }

    fn replace(&mut self) -> Outcome<()> {
        let Some(place) = self.choose_own() else { return Ok(()) };
        let Some(own) = self.own.get_mut(place) else { return Ok(()) };
        own.version += 1;
        let (tag, version, filter) = (own.tag, own.version, doc! { "_id": own.id.clone() });
        self.tell(Record::Begun { tag, version })?;
        let result = self.tagged.replace_one(filter, workload::body(tag, version)).run()?;
        if (result.matched_count, result.modified_count) != (1, 1) {
            return Err(format!("replacing tag {tag} said {result:?}").into());
        }
        self.tell(Record::Done { tag, version })
    }

    fn delete(&mut self) -> Outcome<()> {
        let Some(place) = self.choose_own() else { return Ok(()) };
        let own = self.own.swap_remove(place);
        self.tell(Record::Begun { tag: own.tag, version: 0 })?;
        let deleted = self.tagged.delete_one(doc! { "_id": own.id }).run()?.deleted_count;
        if deleted != 1 {
            return Err(format!("deleting tag {} said {deleted}", own.tag).into());
        }
        self.tell(Record::Done { tag: own.tag, version: 0 })
    }

    /// Every thread inserts the same ids, in the same order.
    fn contend(&mut self) -> Outcome<()> {
        let id = self.next_contended;
        self.next_contended += 1;
        let document = doc! { "_id": id.cast_signed(), "thread": self.thread.cast_signed() };
        match self.contended.insert_one(document).run() {
            Ok(_) => self.tell(Record::Won { id, thread: self.thread }),
            Err(error) => must_be_duplicate(&error),
        }
    }

    /// Another document with a tag that is taken: the unique index must reject it.
    fn insert_taken_tag(&mut self) -> Outcome<()> {
        let Some(place) = self.choose_own() else { return Ok(()) };
        let Some(own) = self.own.get(place) else { return Ok(()) };
        match self.tagged.insert_one(workload::body(own.tag, own.version)).run() {
            Ok(result) => {
                Err(format!("tag {} is stored again, under {}", own.tag, result.inserted_id).into())
            }
            Err(error) => must_be_duplicate(&error),
        }
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

    /// A thread reads what it wrote.
    fn read(&mut self) -> Outcome<()> {
        let Some(place) = self.choose_own() else { return Ok(()) };
        let Some(own) = self.own.get(place) else { return Ok(()) };
        let found = self.tagged.find_one(doc! { "_id": own.id.clone() }).run()?;
        let found = found.ok_or_else(|| format!("tag {} is not found", own.tag))?;
        if workload::recognize(&found)? != (own.tag, own.version) {
            return Err(format!("tag {} is not version {}: {found}", own.tag, own.version).into());
        }
        Ok(())
    }

    fn choose_own(&mut self) -> Option<usize> {
        (!self.own.is_empty()).then(|| self.choices.index(self.own.len()))
    }

    fn take_tags(&mut self, count: u64) -> u64 {
        self.next_tag += count;
        self.next_tag - count
    }

    fn tell(&self, record: Record) -> Outcome<()> {
        Ok(record.write_to(&self.journal)?)
    }
}

fn must_be_duplicate(error: &Error) -> Outcome<()> {
    if error.is_duplicate_key() { Ok(()) } else { Err(format!("not a duplicate key: {error:?}").into()) }
}
