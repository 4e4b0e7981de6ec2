//! Makes calls with tokens, until the process is killed.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use cairndb::{Client, Durability, PlantedFault};
use cairndb_tests::choices::{Choices, part};
use cairndb_tests::journal::Record;
use cairndb_tests::spending::{Answer, THREADS, VERSIONS_PER_LIFE, call, course, make};
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, Flaw, told};

/// A thread and its decisions.
struct Writer<'a> {
    client: &'a Client,
    journal: &'a File,
    tag: u64,
    choices: Choices,
    /// Whether what is not journaled may be lost.
    is_delayed: bool,
    flaw: Flaw,
}

pub(crate) fn run(folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
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
    make(&client)?;
    Record::Opened.write_to(&journal)?;
    let (client, journal) = (&client, &journal);
    std::thread::scope(|scope| {
        for tag in 0..THREADS {
            let choices = Choices::seeded(part(seed, tag));
            let writer = Writer { client, journal, tag, choices, is_delayed, flaw };
            scope.spawn(move || told(journal, writer.work(life * VERSIONS_PER_LIFE)));
        }
    });
    Err("every thread met a fault".into())
}

impl Writer<'_> {
    fn work(mut self, first: u64) -> Outcome<()> {
        let (client, tag) = (self.client, self.tag);
        for version in first.. {
            Record::Begun { tag, version }.write_to(self.journal)?;
            if self.flaw == Flaw::AcknowledgeFirst {
                Record::Done { tag, version }.write_to(self.journal)?;
            }
            let is_journaled = self.choices.one_in(4);
            let Answer { value, .. } = call(client, tag, version, is_journaled)?;
            if is_journaled || !self.is_delayed {
                Record::Taken { course: course(tag, version), value }.write_to(self.journal)?;
                Record::Done { tag, version }.write_to(self.journal)?;
            }
        }
        Ok(())
    }
}
