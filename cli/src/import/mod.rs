//! `cairn import`: documents from files of other programs into a collection.

mod batch;
mod columns;
mod counts;
mod doubt;
mod earlier;
mod ending;
mod feed;
mod foresee;
mod identity;
mod input;
mod options;
mod rejects;
mod replace;
mod run;
mod trail;
mod write;

use std::time::Instant;

pub(crate) use crate::import::options::Arguments;

use crate::failure::{Exit, Failure};
use crate::figures::in_time;
use crate::import::counts::Counts;
use crate::import::input::Input;
use crate::import::rejects::Rejects;
use crate::import::run::Importer;
use crate::signals::Signals;
use crate::talk::{Report, warn};

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut rejects = Rejects::new(
        arguments.rejects.clone(),
        arguments.max_rejects,
        arguments.overwrite,
        arguments.dry_run,
    );
    if arguments.resume {
        rejects.keep_own();
    }
    let mut importer = Importer::new(arguments, rejects);
    let done = Signals::watch().and_then(|signals| {
        let done = import(arguments, &mut importer, &signals);
        let finished = importer.finish();
        signals.judge(done.and(finished), "interrupted")
    });
    let failure = match done {
        Ok(()) => importer.rejected(),
        Err(failure) => Some(importer.told(failure)),
    };
    let elapsed = started.elapsed();
    let mut report = Report {
        command: "import",
        elapsed,
        counts: importer.counts.list(),
        names: importer.rejects.made().map(|path| ("rejects", path.display().to_string())).collect(),
        found: Vec::new(),
        failure,
    };
    arguments.talk.report(&mut report, false);
    let Counts { read, .. } = importer.counts;
    let counts = importer.counts.told(arguments.dry_run);
    if importer.was_done {
        arguments.talk.say(&format!("everything was imported before, and nothing now: {counts}"));
    } else if report.failure.is_none() {
        // A failure has the counts in its own words.
        arguments.talk.say(&format!("{counts}, {}", in_time(read, elapsed)));
    }
    // The work that a signal ended may not be known to be done: the same command then says that it is.
    if report.failure.as_ref().is_none_or(|failure| failure.exit == Exit::Partly)
        && let Err(failure) = importer.forget()
    {
        warn(&format!("everything is imported, but the file with the state stays: {failure}"));
    }
    report.failure.map_or(Ok(()), Err)
}

fn import(arguments: &Arguments, importer: &mut Importer<'_>, signals: &Signals) -> Result<(), Failure> {
    // Everything that can be wrong with the command line is found before anything is opened or made.
    let target = arguments.target()?;
    let columns = arguments.table.check()?;
    let inputs = Input::of(&arguments.files)?;
    importer.run(&inputs, &target, &columns, signals)
}
