//! Threads that each write one version after the other, at any level of durability, until the process is killed.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use cairndb::{Client, Durability, PlantedFault};
use cairndb_tests::choices::{Choices, part};
use cairndb_tests::journal::Record;
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, Flaw, told};

/// The work of the threads.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) threads: u64,
    pub(crate) versions_per_life: u64,
    /// Makes what they write to.
    pub(crate) make: fn(&Client) -> Outcome<()>,
    /// Writes a version of a thread, journaled if that is set. Returns the answer, if it is to be remembered.
    pub(crate) write: fn(&Client, u64, u64, bool) -> Outcome<Option<Record>>,
}

/// A thread and its decisions.
struct Writer<'a> {
    work: Work,
    client: &'a Client,
    journal: &'a File,
    tag: u64,
    choices: Choices,
    /// Whether what is not journaled may be lost.
    is_delayed: bool,
    flaw: Flaw,
}

impl Work {
    pub(crate) fn run(self, folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
        let mut choices = Choices::seeded(seed);
        let mut options = workload::options(&mut choices);
        if flaw == Flaw::TokensApart {
            options = options.planted_fault(PlantedFault::TokensApart);
        }
        let is_delayed = choices.one_in(4);
        if is_delayed {
            let (write_interval, sync_interval) = (Duration::from_millis(5), Duration::from_millis(50));
            options = options.durability(Durability::Delayed { write_interval, sync_interval });
        }
        let client = options.open(folder)?;
        let journal = journal::open()?;
        (self.make)(&client)?;
        Record::Opened.write_to(&journal)?;
        let (client, journal) = (&client, &journal);
        std::thread::scope(|scope| {
            for tag in 0..self.threads {
                let choices = Choices::seeded(part(seed, tag));
                let writer = Writer { work: self, client, journal, tag, choices, is_delayed, flaw };
                scope.spawn(move || told(journal, writer.write_from(life * self.versions_per_life)));
            }
        });
        Err("every thread met a fault".into())
    }
}

impl Writer<'_> {
    fn write_from(mut self, first: u64) -> Outcome<()> {
        let tag = self.tag;
        for version in first.. {
            Record::Begun { tag, version }.write_to(self.journal)?;
            if self.flaw == Flaw::AcknowledgeFirst {
                Record::Done { tag, version }.write_to(self.journal)?;
            }
            let is_journaled = self.choices.one_in(4);
            let answer = (self.work.write)(self.client, tag, version, is_journaled)?;
            if is_journaled || !self.is_delayed {
                answer.map_or(Ok(()), |answer| answer.write_to(self.journal))?;
                Record::Done { tag, version }.write_to(self.journal)?;
            }
        }
        Ok(())
    }
}
