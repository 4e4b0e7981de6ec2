//! `cairn stats`: what is in a store, how much room it uses, and what a server does.

mod look;
mod tables;
mod watch;

use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::Bson;

use crate::aside::is_aside;
use crate::failure::Failure;
use crate::figures::{LINES, counted};
use crate::output::print;
use crate::signals::Signals;
use crate::stats::look::{Looked, Scope, look};
use crate::stats::watch::watch;
use crate::store::{Access, open_for_reading};
use crate::talk::{Report, Talk};

/// Shows sizes of collections and indexes, sequences, and files.
///
/// The store is a folder, a Unix socket or a URI. A folder may be open in another process meanwhile; what is shown is its
/// state at one moment, and the next value of a sequence is then the one after all that the process has reserved.
///
/// Numbers of documents are exact, and sizes estimates: of each collection a thousand documents are read. What a folder
/// cannot determine is how often its indexes were used, and what a connection cannot determine is which files there are; a line on
/// standard error says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn stats shop-data
      all collections, indexes, sequences and files of a folder
  cairn stats shop.sock shop.orders --json
      one collection of a running server, with the uses of its indexes
  cairn stats shop.sock --watch 5
      what the server does, a line every five seconds")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// A database, or a collection in it, if not everything is meant.
    #[arg(value_name = "DB[.COLLECTION]")]
    scope: Option<String>,
    /// Print what the server does per second, a line every SECONDS seconds, until a signal comes.
    #[arg(long, value_name = "SECONDS", conflicts_with = "scope", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let (mut looked, mut lines) = (Looked::default(), 0);
    let done = Signals::watch().and_then(|signals| {
        let done = stats(arguments, &signals, &mut looked, &mut lines);
        let ended = match arguments.watch {
            Some(_) => format!("interrupted after {}", counted(lines, LINES)),
            None => "interrupted: not everything was looked at".to_owned(),
        };
        signals.judge(done, ended)
    });
    let (counts, found) = if arguments.watch.is_some() {
        (vec![("lines", lines)], Vec::new())
    } else {
        (looked.counts(), looked.found())
    };
    let mut report = Report {
        command: "stats",
        elapsed: started.elapsed(),
        counts,
        names: Vec::new(),
        found,
        failure: done.err(),
    };
    // The lines of `--watch` are documents with `--json`.
    arguments.talk.report(&mut report, arguments.watch.is_some());
    report.failure.map_or(Ok(()), Err)
}

fn stats(
    arguments: &Arguments,
    signals: &Signals,
    looked: &mut Looked,
    lines: &mut u64,
) -> Result<(), Failure> {
    // An error of the command line is found before anything is opened.
    let scope = arguments.scope.as_deref().map_or(Ok(Scope::default()), Scope::parse)?;
    let talk = &arguments.talk;
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut |line| talk.warn(line))?;
    if let Some(seconds) = arguments.watch {
        if store.folder()?.is_some() {
            return Err(Failure::usage(
                "--watch counts what a server does: give its socket or URI, as a folder is looked at as it is at one moment",
            ));
        }
        return watch(&*store, seconds, signals, talk.json, lines);
    }
    look(&*store, scope, signals, looked)?;
    // A signal has ended the look, and a table of half of it would say that there is no more.
    if signals.received().is_none() && !talk.json {
        print(tables::text(looked).as_bytes())?;
        talk.detail(looked.unanswered().1);
    }
    looked.collections.iter().filter(|facts| is_aside(&facts.listed.name)).for_each(|facts| {
        talk.warn(&format!(
            "{}.{} was to replace another collection: if no import or restore is at work on it, it was killed, and you may drop what is left",
            facts.database, facts.listed.name
        ));
    });
    Ok(())
}

impl Looked {
    /// The question that this kind of store cannot answer: its name in the report, and a line for people.
    fn unanswered(&self) -> (&'static str, &'static str) {
        if self.folder.is_some() {
            (
                "indexUses",
                "how often indexes were used is counted by the process that has the store open: ask its socket",
            )
        } else {
            ("folder", "files and format are seen in the folder alone: give the folder that the server has")
        }
    }

    fn found(&self) -> Vec<(&'static str, Bson)> {
        let mut found = vec![
            ("collections", self.collections.iter().map(look::Facts::document).collect()),
            ("sequences", self.positions.iter().map(look::position).collect()),
        ];
        if let Some(scrub) = &self.scrub {
            found.push(("scrub", scrub.clone().into()));
        }
        if let Some(log) = &self.change_log {
            found.push(("changeLog", log.clone().into()));
        }
        if let Some(transactions) = &self.transactions {
            found.push(("transactions", transactions.clone().into()));
        }
        if let Some(folder) = &self.folder {
            found.push(("folder", look::folder(folder).into()));
        }
        found.push(("notAnswered", Bson::Array(vec![self.unanswered().0.into()])));
        found
    }
}
