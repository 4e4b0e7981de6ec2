//! `cairn watch`: the changes of a collection, a database or a whole store, as lines of JSON.

mod resume;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::argument::content;
use crate::clause;
use crate::command::raw;
use crate::extended_json::{Mode, write_document};
use crate::failure::{Exit, Failure};
use crate::figures::{EVENTS, counted};
use crate::output::{Written, print};
use crate::signals::Signals;
use crate::store::{Access, Documents, open_for_reading};
use crate::talk::{Report, Talk};
use crate::watch::resume::ResumeFile;

/// The time that one call waits for an event.
const WAIT: Duration = Duration::from_secs(1);
/// The most that is printed at once, before the resume file follows.
const BATCH_BYTES: usize = 1 << 20;
/// The interval at which the resume file follows changes of other collections.
const IDLE_SAVE: Duration = Duration::from_secs(10);

/// Prints changes as they happen, each as a line of JSON.
///
/// The store is a Unix socket or a URI of a server that is a replica set, or a folder. A folder is read as it is now: the events that
/// are there are printed, and none is waited for.
///
/// A line is printed once its change is on stable storage. With `--resume-file` a later run goes on after the last line of the one
/// before, however that has ended: the file is written after the lines, so a run that is killed in between prints them again, and no
/// line is left out. Each line has a token of its own in `_id`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn watch shop.sock shop.orders
      what happens to the orders, until Ctrl-C
  cairn watch shop.sock shop --resume-file shop.token >> shop.ndjson
      all of a database, without a gap from run to run
  cairn watch shop.sock shop.orders --full-document update-lookup \\
    --pipeline '[{$match: {\"fullDocument.total\": {$gt: 100}}}]'
      the large ones, with the documents of updates")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// A database and a collection with a dot between them, or a database. Without it the changes of all databases are printed.
    #[arg(value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Send the events through these stages, in Extended JSON or as in `cairn shell`; `@FILE` reads a file, and `-` standard input.
    #[arg(long, value_name = "STAGES", help_heading = "Which events")]
    pipeline: Option<String>,
    /// Print collections, indexes and views that are created, changed or dropped, too.
    #[arg(long, help_heading = "Which events")]
    expanded: bool,
    /// Go on where the run before has stopped, and keep in this file where that is.
    #[arg(long, value_name = "FILE", help_heading = "Which events")]
    resume_file: Option<PathBuf>,
    /// End when no event is left, and wait for none.
    #[arg(long, help_heading = "Which events")]
    until_now: bool,
    /// Print the documents of updates as well.
    #[arg(long, value_name = "WHICH", value_enum, help_heading = "Output")]
    full_document: Option<FullDocument>,
    /// Print the documents as they were before their changes as well.
    #[arg(long, value_name = "WHICH", value_enum, help_heading = "Output")]
    full_document_before: Option<FullDocumentBefore>,
    /// Write canonical Extended JSON, which keeps every type.
    #[arg(long, help_heading = "Output")]
    canonical: bool,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Which document of an update is printed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FullDocument {
    /// The document as it is when the event is read.
    UpdateLookup,
    /// The one that the update has left, if the collection keeps it.
    WhenAvailable,
    /// The one that the update has left; without it the command fails.
    Required,
}

/// Whether the document before a change is printed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FullDocumentBefore {
    /// If the collection keeps it.
    WhenAvailable,
    /// Without it the command fails.
    Required,
}

/// Runs the command and reports.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut printed = 0;
    let done = Signals::watch().and_then(|signals| {
        let done = watch(arguments, &signals, &mut printed);
        signals.judge(done, format!("interrupted after {}", counted(printed, EVENTS)))
    });
    let mut report = Report {
        command: "watch",
        elapsed: started.elapsed(),
        counts: vec![("events", printed)],
        names: Vec::new(),
        found: Vec::new(),
        failure: done.err(),
    };
    arguments.talk.report(&mut report, true);
    report.failure.take().map_or(Ok(()), Err)
}

fn watch(arguments: &Arguments, signals: &Signals, printed: &mut u64) -> Result<(), Failure> {
    // Everything that can be wrong with the command line is found before anything is opened or made.
    let mut file = arguments.resume_file.as_deref().map(ResumeFile::open).transpose()?;
    let (database, command) = arguments.command(file.as_ref().and_then(ResumeFile::token), signals)?;
    let talk = &arguments.talk;
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut |line| talk.warn(line))?;
    let stream = store.stream(database, command)?;
    let mode = if arguments.canonical { Mode::Canonical } else { Mode::Relaxed };
    // Nothing comes to a folder that is open for reading.
    let ends = arguments.until_now || store.is_of_one_moment();
    let mut out = Printer { stream, mode, printed, bytes: Vec::new(), saved: Instant::now() };
    // A run that is killed before the first event has begun here.
    if let (Some(file), Some(token)) = (&mut file, out.stream.resume_token()) {
        file.save(&token)?;
    }
    while signals.received().is_none() {
        let time = if store.is_of_one_moment() { Duration::ZERO } else { WAIT };
        let (began, before) = (Instant::now(), out.stream.resume_token());
        match out.print_next(file.as_mut(), time)? {
            Reached::Nothing if ends => {
                // An answer without events that came at once may be one about a part of the log, if its token says so.
                let has_waited = !time.is_zero() && began.elapsed() >= time / 2;
                let token = out.stream.resume_token();
                if has_waited || token == before {
                    if let (Some(file), Some(token)) = (&mut file, token) {
                        file.save(&token)?;
                    }
                    return Ok(());
                }
            }
            Reached::Events | Reached::Nothing => {}
            Reached::End | Reached::Unread => return Ok(()),
        }
    }
    Ok(())
}

impl Arguments {
    /// The database and the command whose result the events are.
    fn command(
        &self,
        token: Option<&Document>,
        signals: &Signals,
    ) -> Result<(&str, RawDocumentBuf), Failure> {
        let mut options = doc! {};
        if let Some(full) = self.full_document {
            options.insert(
                "fullDocument",
                match full {
                    FullDocument::UpdateLookup => "updateLookup",
                    FullDocument::WhenAvailable => "whenAvailable",
                    FullDocument::Required => "required",
                },
            );
        }
        if let Some(before) = self.full_document_before {
            options.insert(
                "fullDocumentBeforeChange",
                match before {
                    FullDocumentBefore::WhenAvailable => "whenAvailable",
                    FullDocumentBefore::Required => "required",
                },
            );
        }
        if self.expanded {
            options.insert("showExpandedEvents", true);
        }
        if let Some(token) = token {
            // Not `resumeAfter`: the last event may be the end of a stream.
            options.insert("startAfter", token.clone());
        }
        let namespace = self.namespace.as_deref();
        if namespace.is_none() {
            options.insert("allChangesForCluster", true);
        }
        let mut stages = vec![doc! { "$changeStream": options }.into()];
        if let Some(pipeline) = &self.pipeline {
            stages.extend(clause::array("--pipeline", &content("--pipeline", pipeline, signals)?, signals)?);
        }
        let (database, collection) = match namespace.map(|name| (name, name.split_once('.'))) {
            None => ("admin", None),
            Some((name, None)) if !name.is_empty() => (name, None),
            Some((_, Some((database, collection)))) if !database.is_empty() && !collection.is_empty() => {
                (database, Some(collection))
            }
            Some((name, _)) => {
                return Err(Failure::usage(format!("{name:?} is neither a DB.COLLECTION nor a DB")));
            }
        };
        let target = collection.map_or(Bson::Int32(1), Bson::from);
        let mut command = doc! { "aggregate": target };
        command.extend(doc! { "pipeline": stages, "cursor": {} });
        Ok((database, raw(&command)?))
    }
}

/// Puts what was printed on stable storage, if it goes to a file.
fn sync_lines() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io("standard output", &error);
    let lines = File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    if lines.metadata().map_err(failed)?.is_file() { lines.sync_data().map_err(failed) } else { Ok(()) }
}

/// The result of a call.
enum Reached {
    Events,
    /// No event came in its time.
    Nothing,
    /// No event comes any more: the collection or the database is gone.
    End,
    /// The reader of the lines has closed the pipe.
    Unread,
}

struct Printer<'a> {
    stream: Box<dyn Documents>,
    mode: Mode,
    printed: &'a mut u64,
    bytes: Vec<u8>,
    saved: Instant,
}

impl Printer<'_> {
    /// Prints the events that are there, or the first ones that come in a time, and keeps in the file how far it is then.
    fn print_next(&mut self, file: Option<&mut ResumeFile>, time: Duration) -> Result<Reached, Failure> {
        let mut token = None;
        let read = self.gather(time, &mut token);
        if !self.bytes.is_empty() && print(&self.bytes)? != Written::Whole {
            return Ok(Reached::Unread);
        }
        let has_events = !std::mem::take(&mut self.bytes).is_empty();
        if let Some(file) = file {
            if let Some(token) = token {
                // The file must not be on stable storage before the lines are.
                sync_lines()?;
                file.save(&token)?;
            } else if self.saved.elapsed() >= IDLE_SAVE
                && let Some(token) = self.stream.resume_token()
            {
                file.save(&token)?;
                self.saved = Instant::now();
            }
        }
        read?;
        Ok(match (has_events, self.stream.is_following()) {
            (true, _) => Reached::Events,
            (false, true) => Reached::Nothing,
            (false, false) => Reached::End,
        })
    }

    /// Appends the lines of events, and sets the token of the last one.
    fn gather(&mut self, time: Duration, token: &mut Option<RawDocumentBuf>) -> Result<(), Failure> {
        let mut time = time;
        while self.bytes.len() < BATCH_BYTES && self.stream.advance_within(time)? {
            let event = self.stream.current();
            let own = event.get_document("_id").map_err(|error| {
                Failure::new(Exit::Failed, format!("an event without a resume token: {error}"))
            })?;
            *token = Some(own.to_owned());
            write_document(&mut self.bytes, event, self.mode)?;
            self.bytes.push(b'\n');
            *self.printed += 1;
            // Events that are there are printed before more are waited for.
            time = Duration::ZERO;
        }
        Ok(())
    }
}
