//! Makes TTL passes until the process is killed, while other threads write documents that expire and documents that do not,
//! and one builds and drops an index.

use std::fs::File;
use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};
use cairndb_tests::choices::{Choices, part};
use cairndb_tests::expiring::{self, AGED, INSERTED, RESCUED};
use cairndb_tests::journal::Record;
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, told};

/// Tags that one life may use.
const TAGS_PER_LIFE: u64 = 10_000_000;
const TAGS_PER_THREAD: u64 = 1_000_000;
/// Documents of a thread from which on it deletes more than it inserts.
const DOCUMENTS_ENOUGH: usize = 200;

/// A fault that is built in, to show that the suite finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    AcknowledgePassFirst,
    AcknowledgeIndexFirst,
}

/// A stored document of a thread's own. A pass may have deleted it.
#[derive(Clone, Copy)]
struct Own {
    tag: u64,
    version: u64,
}

struct Writer {
    choices: Choices,
    journal: File,
    events: Collection<Document>,
    own: Vec<Own>,
    next_tag: u64,
}

pub(crate) fn run(folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    // The passes are made here: one of the client's thread is not in the journal.
    let client = workload::options(&mut choices).ttl_interval(None).open(folder)?;
    let journal = journal::open()?;
    let threads = 1 + choices.below(4);
    let mut writers = Vec::new();
    for thread in 0..threads {
        writers.push(Writer::new((thread, threads), (seed, life), &client, journal.try_clone()?)?);
    }
    Record::Opened.write_to(&journal)?;
    let (client, journal) = (&client, &journal);
    std::thread::scope(|scope| {
        for mut writer in writers {
            scope.spawn(move || told(journal, writer.work()));
        }
        scope.spawn(|| told(journal, make_passes(client, journal, flaw)));
        scope.spawn(|| told(journal, toggle_index(client, journal, (seed, flaw))));
    });
    Err("every thread met a fault".into())
}

/// Makes passes for ever.
fn make_passes(client: &Client, journal: &File, flaw: Flaw) -> Outcome<()> {
    loop {
        Record::PassBegun.write_to(journal)?;
        if flaw == Flaw::AcknowledgePassFirst {
            Record::PassDone.write_to(journal)?;
        }
        client.expire_documents().run()?;
        Record::PassDone.write_to(journal)?;
    }
}

/// Builds and drops an index for ever.
fn toggle_index(client: &Client, journal: &File, (seed, flaw): (u64, Flaw)) -> Outcome<()> {
    let mut choices = Choices::seeded(!seed);
    let events = expiring::events(client);
    let mut exists = events.list_index_names().run()?.iter().any(|name| name == expiring::TOGGLED_INDEX);
    loop {
        exists = !exists;
        Record::IndexBegun { exists }.write_to(journal)?;
        if flaw == Flaw::AcknowledgeIndexFirst {
            Record::IndexDone { exists }.write_to(journal)?;
        }
        if exists {
            events.create_index(expiring::toggled_index(choices.number())).run()?;
        } else {
            events.drop_index(expiring::TOGGLED_INDEX).run()?;
        }
        Record::IndexDone { exists }.write_to(journal)?;
    }
}

impl Writer {
    fn new(
        (thread, threads): (u64, u64),
        (seed, life): (u64, u64),
        client: &Client,
        journal: File,
    ) -> Outcome<Self> {
        let events = expiring::events(client);
        let mut own = Vec::new();
        let fixed = expiring::FIXED_TAGS.cast_signed();
        for stored in events.find(doc! { "_id": { "$lt": fixed } }).run()? {
            let (tag, version) = expiring::recognize(&stored?)?;
            if tag % threads == thread {
                own.push(Own { tag, version });
            }
        }
        let choices = Choices::seeded(part(seed, thread));
        let next_tag = life * TAGS_PER_LIFE + thread * TAGS_PER_THREAD;
        Ok(Self { choices, journal, events, own, next_tag })
    }

    /// Writes for ever, or until the database does what it must not.
    fn work(&mut self) -> Outcome<()> {
        loop {
            match self.choices.below(32) {
                0..=9 if self.own.len() < DOCUMENTS_ENOUGH => self.insert_one()?,
                10..=12 if self.own.len() < DOCUMENTS_ENOUGH => self.insert_many()?,
                0..=17 => self.change(RESCUED)?,
                18..=23 => self.change(AGED)?,
                _ => self.delete()?,
            }
        }
    }

    fn insert_one(&mut self) -> Outcome<()> {
        let tag = self.take_tags(1);
        self.tell(Record::Begun { tag, version: INSERTED })?;
        self.events.insert_one(expiring::document(tag, INSERTED)).run()?;
        self.own.push(Own { tag, version: INSERTED });
        self.tell(Record::Done { tag, version: INSERTED })
    }

    fn insert_many(&mut self) -> Outcome<()> {
        let count = 2 + self.choices.below(40);
        let first = self.take_tags(count);
        self.tell(Record::ManyBegun { first, count })?;
        let tags = first..first + count;
        self.events.insert_many(tags.clone().map(|tag| expiring::document(tag, INSERTED))).run()?;
        self.own.extend(tags.map(|tag| Own { tag, version: INSERTED }));
        self.tell(Record::ManyDone { first, count })
    }

    /// Moves the date of a document, which may have expired meanwhile.
    fn change(&mut self, version: u64) -> Outcome<()> {
        // A rescue is a race with the passes, which only a document that was just inserted has not lost yet.
        let newest = self.own.len().saturating_sub(1);
        let Some(place) = self.choose_own().map(|place| if version == RESCUED { newest } else { place })
        else {
            return Ok(());
        };
        let own = self.own.swap_remove(place);
        let tag = own.tag;
        if own.version == version {
            self.own.push(own);
            return Ok(());
        }
        self.tell(Record::Begun { tag, version })?;
        let filter = doc! { "_id": tag.cast_signed() };
        let result = self.events.replace_one(filter, expiring::document(tag, version)).run()?;
        match (result.matched_count, result.modified_count) {
            (1, 1) => {
                self.own.push(Own { tag, version });
                self.tell(Record::Done { tag, version })
            }
            (0, 0) if expiring::is_expiring(tag, own.version) => self.tell(Record::Done { tag, version: 0 }),
            _ => Err(format!("replacing version {} of tag {tag} said {result:?}", own.version).into()),
        }
    }

    fn delete(&mut self) -> Outcome<()> {
        let Some(place) = self.choose_own() else { return Ok(()) };
        let Own { tag, version } = self.own.swap_remove(place);
        self.tell(Record::Begun { tag, version: 0 })?;
        let deleted = self.events.delete_one(doc! { "_id": tag.cast_signed() }).run()?.deleted_count;
        if deleted != 1 && !expiring::is_expiring(tag, version) {
            return Err(format!("deleting version {version} of tag {tag} said {deleted}").into());
        }
        self.tell(Record::Done { tag, version: 0 })
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
