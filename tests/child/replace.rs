//! Replaces a collection by `$out`, and merges into another by `$merge`, until the process is killed.

use std::fs::File;
use std::path::Path;

use cairndb::Client;
use cairndb_tests::choices::Choices;
use cairndb_tests::journal::Record;
use cairndb_tests::replacing::{GENERATIONS_PER_LIFE, MERGED, PLACED, merge, place, source};
use cairndb_tests::workload;

use crate::Outcome;
use crate::journal::{self, Flaw, told};

pub(crate) fn run(folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    let client = workload::options(&mut choices).open(folder)?;
    let journal = journal::open()?;
    source(&client)?;
    Record::Opened.write_to(&journal)?;
    let (client, journal) = (&client, &journal);
    std::thread::scope(|scope| {
        for tag in [PLACED, MERGED] {
            let first = life * GENERATIONS_PER_LIFE;
            scope.spawn(move || told(journal, write(client, journal, (tag, first), flaw)));
        }
    });
    Err("every thread met a fault".into())
}

fn write(client: &Client, journal: &File, (tag, first): (u64, u64), flaw: Flaw) -> Outcome<()> {
    for version in first.. {
        Record::Begun { tag, version }.write_to(journal)?;
        if flaw == Flaw::AcknowledgeFirst {
            Record::Done { tag, version }.write_to(journal)?;
        }
        if tag == PLACED {
            place(client, version)?;
        } else {
            merge(client, version)?;
        }
        Record::Done { tag, version }.write_to(journal)?;
    }
    Ok(())
}
