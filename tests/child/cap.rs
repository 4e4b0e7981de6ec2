//! Fills a capped collection, and converts another, until the process is killed.

use std::fs::File;
use std::path::Path;

use cairndb::Client;
use cairndb_tests::capping::{CONVERTED, NUMBERED, convert, last, prepare, store};
use cairndb_tests::choices::Choices;
use cairndb_tests::journal::Record;
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, Flaw, told};

/// The most documents of one call.
const MANY: u64 = 60;

pub(crate) fn run(folder: &Path, seed: u64, flaw: Flaw) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    let client = workload::options(&mut choices).open(folder)?;
    let journal = journal::open()?;
    prepare(&client)?;
    Record::Opened.write_to(&journal)?;
    let (client, journal) = (&client, &journal);
    std::thread::scope(|scope| {
        scope.spawn(move || told(journal, number(client, journal, &mut choices, flaw)));
        scope.spawn(move || told(journal, convert_again(client, journal)));
    });
    Err("every thread met a fault".into())
}

fn number(client: &Client, journal: &File, choices: &mut Choices, flaw: Flaw) -> Outcome<()> {
    let mut stored = last(client)?;
    loop {
        let count = if choices.one_in(3) { choices.below(MANY) + 1 } else { 1 };
        let record = |is_done| {
            let (tag, version) = (NUMBERED, stored + count);
            if is_done { Record::Done { tag, version } } else { Record::Begun { tag, version } }
        };
        record(false).write_to(journal)?;
        if flaw == Flaw::AcknowledgeFirst {
            record(true).write_to(journal)?;
        }
        store(client, stored + 1, stored + count)?;
        record(true).write_to(journal)?;
        stored += count;
    }
}

fn convert_again(client: &Client, journal: &File) -> Outcome<()> {
    for version in 1.. {
        Record::Begun { tag: CONVERTED, version }.write_to(journal)?;
        convert(client)?;
        Record::Done { tag: CONVERTED, version }.write_to(journal)?;
    }
    Ok(())
}
