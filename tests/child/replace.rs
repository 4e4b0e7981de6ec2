//! Replaces a collection by `$out`, and merges into another by `$merge`, until the process is killed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use cairndb::Client;
use cairndb_tests::choices::Choices;
use cairndb_tests::journal::Record;
use cairndb_tests::replacing::{GENERATIONS_PER_LIFE, MERGED, PLACED, merge, place, source};
use cairndb_tests::workload;

use crate::Outcome;

/// A fault that is built in, to show that the suite finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    AcknowledgeFirst,
}

pub(crate) fn run(folder: &Path, (seed, life): (u64, u64), flaw: Flaw) -> Outcome<()> {
    let mut choices = Choices::seeded(seed);
    let client = workload::options(&mut choices).open(folder)?;
    let journal = File::from(io::stdout().as_fd().try_clone_to_owned()?);
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

fn told(journal: &File, outcome: Outcome<()>) {
    if let Err(fault) = outcome {
        eprintln!("child: {fault}");
        // A parent that is gone took the journal with it; no process needs to know then.
        let _ = Record::Fault.write_to(journal);
    }
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
