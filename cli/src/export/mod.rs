//! `cairn export`: the documents of a collection in a format that other programs read.

mod choice;
mod command;
pub(crate) mod form;
mod table;

#[cfg(feature = "shell")]
pub(crate) use self::table::Table;

use std::path::{Path, PathBuf};
use std::time::Instant;

use cairndb::bson::{RawDocument, doc};

use crate::command::{count, raw};
use crate::extended_json::Mode;
use crate::failure::{Exit, Failure};
use crate::figures::{DOCUMENTS, counted, in_time, size};
use crate::format::Format;
use crate::listing::check_collection;
use crate::output::{Output, Written};
use crate::signals::Signals;
use crate::store::{Access, Store, namespace, open_for_reading};
use crate::talk::{Report, Talk};

/// Documents are named on standard error up to this many; the report counts all.
const NAMED_MAX: u64 = 100;

/// Writes documents of a collection to a file or standard output.
///
/// The store is a folder, a Unix socket or a URI. A folder may be open in another process meanwhile; what is
/// written is its state at one moment.
///
/// Canonical Extended JSON and BSON keep every type. Relaxed Extended JSON, which is what `ndjson` and `json`
/// are without `--canonical`, is for people: int32, int64 and double of equal value look the same.
///
/// A document with something that the format cannot carry is written without it, counted as lossy and named on
/// standard error, and the exit status is 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn export shop-data shop.orders orders.ndjson.gz --canonical
      a compressed copy from which every type comes back
  cairn export shop-data shop.orders --sort '{\"_id\": -1}' | head -3
      looks at the newest orders
  cairn export shop.sock shop.orders orders.csv \\
    --fields _id,customer.name,total
      columns for a spreadsheet, from a running server
  cairn export mongodb://ada@db.example/ shop.orders --pipeline @totals.json \\
    --password-file ada.txt")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// The database and the collection, with a dot between them.
    #[arg(value_name = "DB.COLLECTION")]
    namespace: String,
    /// The file to make, or `-` for standard output. The endings `.gz` and `.zst` compress.
    file: Option<PathBuf>,
    /// The format. Without it that of the file's name, else `ndjson`: Extended JSON with a document on each line.
    #[arg(long, help_heading = "Output")]
    format: Option<Format>,
    /// Write canonical Extended JSON, which keeps every type.
    #[arg(long, help_heading = "Output")]
    canonical: bool,
    /// Write each field on a line of its own; in the format `json` alone.
    #[arg(long, help_heading = "Output")]
    pretty: bool,
    #[command(flatten)]
    selection: command::Selection,
    /// The columns of CSV and TSV, dotted paths separated by commas; without it, or with `auto`, the paths of the first
    /// 1,000 documents, or of the first 16 MiB.
    #[arg(long, value_name = "PATHS", help_heading = "Output")]
    fields: Option<String>,
    /// Put an apostrophe before texts and names of columns in CSV and TSV that begin with `=`, `+`, `-`, `@`, a tab or a
    /// line end, which spreadsheets would run as formulas.
    #[arg(long, help_heading = "Output")]
    for_spreadsheets: bool,
    /// Replace the file if it is there.
    #[arg(long, help_heading = "Output")]
    overwrite: bool,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

impl Arguments {
    /// The file, unless documents go to standard output.
    fn file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| *file != Path::new("-"))
    }
}

/// The documents that have been written so far.
#[derive(Default)]
struct Counts {
    exported: u64,
    bytes: u64,
    lossy: u64,
    is_wanted: bool,
}

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut counts = Counts { is_wanted: true, ..Counts::default() };
    let done = Signals::watch().and_then(|signals| {
        let done = export(arguments, &signals, &mut counts);
        signals.judge(done, format!("interrupted after {}", counted(counts.exported, DOCUMENTS)))
    });
    let done = done.map_err(|failure| failure.after(counts.exported, "read"));
    let done = done.and_then(|()| match counts.lossy {
        0 => Ok(()),
        lossy => Err(Failure::new(Exit::Partly, lossy_documents(lossy))),
    });
    let elapsed = started.elapsed();
    let mut report = Report {
        command: "export",
        elapsed,
        counts: vec![("exported", counts.exported), ("bytes", counts.bytes), ("lossy", counts.lossy)],
        names: Vec::new(),
        found: Vec::new(),
        failure: done.err(),
    };
    arguments.talk.report(&mut report, arguments.file().is_none());
    let written =
        matches!(&report.failure, None | Some(Failure { exit: Exit::Partly, .. })) && counts.is_wanted;
    if written {
        let (documents, bytes) = (counted(counts.exported, DOCUMENTS), size(counts.bytes));
        let in_time = in_time(counts.exported, elapsed);
        arguments.talk.say(&format!("exported {documents}, {bytes}, {in_time}"));
    }
    report.failure.take().map_or(Ok(()), Err)
}

/// Says how many documents an output has not as they are.
pub(crate) fn lossy_documents(lossy: u64) -> String {
    let contain = if lossy == 1 { "contains" } else { "contain" };
    format!("{} {contain} values that the format cannot represent", counted(lossy, DOCUMENTS))
}

fn export(arguments: &Arguments, signals: &Signals, counts: &mut Counts) -> Result<(), Failure> {
    // Everything that can be wrong with the command line is found before anything is opened or made.
    let (database, collection) = namespace(&arguments.namespace)?;
    let mut form = choice::form(arguments)?;
    let command = arguments.selection.command(collection, signals)?;
    let talk = &arguments.talk;
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut |line| talk.warn(line))?;
    check_collection(&*store, database, collection)?;
    let total =
        if arguments.selection.is_everything() { estimate(&*store, database, collection) } else { None };
    let mut progress = talk.progress(total);
    talk.detail(&format!("on {database}: {command:?}"));
    let mut documents = store.stream(database, command)?;
    let mut output = Output::open(arguments.file(), arguments.overwrite)?;
    let mut bytes = Vec::new();
    form.begin(&mut bytes);
    while signals.received().is_none() && documents.advance()? {
        let document = documents.current();
        if let Some(reason) = form.write(&mut bytes, document)? {
            counts.lossy += 1;
            name_lossy(document, &reason, counts.lossy, talk);
        }
        counts.exported += 1;
        progress.set(counts.exported);
        if !flush(&mut output, &mut bytes, counts)? {
            return Ok(());
        }
    }
    progress.finish();
    if signals.received().is_some() {
        // The output is dropped unfinished, which removes a partial file; a pipe has whole documents.
        return flush(&mut output, &mut bytes, counts).map(drop);
    }
    form.end(&mut bytes)?;
    if flush(&mut output, &mut bytes, counts)? {
        counts.is_wanted = output.finish()? == Written::Whole;
    }
    Ok(())
}

/// Writes and empties `bytes`. Returns whether more is wanted.
fn flush(output: &mut Output, bytes: &mut Vec<u8>, counts: &mut Counts) -> Result<bool, Failure> {
    counts.is_wanted = output.write(bytes)? == Written::Whole;
    counts.bytes += bytes.len() as u64;
    bytes.clear();
    Ok(counts.is_wanted)
}

/// About how many documents there are. An error is left for the read that follows.
fn estimate(store: &dyn Store, database: &str, collection: &str) -> Option<u64> {
    let reply = store.run(database, raw(&doc! { "count": collection }).ok()?).ok()?;
    count(&reply, "n")
}

fn name_lossy(document: &RawDocument, reason: &str, lossy: u64, talk: &Talk) {
    if lossy > NAMED_MAX {
        return;
    }
    let mut id = Vec::new();
    match document.get("_id") {
        // A value too deep to be shown cannot be an `_id` of a stored document.
        Ok(Some(value)) => drop(crate::extended_json::write_value(&mut id, value, Mode::Relaxed)),
        Ok(None) | Err(_) => id.extend_from_slice(b"none"),
    }
    talk.warn(&format!("_id {}: {reason}", String::from_utf8_lossy(&id)));
    if lossy == NAMED_MAX {
        talk.warn("further documents are counted and not named");
    }
}
