//! `cairn salvage`: what is whole in a damaged folder, in a new one.

use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::{Document, doc};
use cairndb::{ErrorKind, SalvageReport, SalvagedCollection};

use crate::failure::{Exit, Failure};
use crate::figures::{COLLECTIONS, DOCUMENTS, Noun, count, counted, size, were};
use crate::output::print_lines;
use crate::signals::Signals;
use crate::store::folder::not_opened;
use crate::store::{folder_alone, refuse_absent_server};
use crate::talk::{Report, Talk};

/// Copies what is whole in a damaged folder into a new one.
///
/// For a folder that does not open any more, or in which `cairn verify` finds damaged files, if there is no backup.
/// Nothing in it is changed. All tables and logs are read block by block and record by record, past what is damaged;
/// indexes are built again, sequences go on after every value that was used, and the new folder is verified before it
/// has its name.
///
/// Each collection, and everything that could not be read, is a line on standard output. The exit status is 3 if
/// anything was lost, or may be older than it was.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn salvage shop-data shop-new
  cairn salvage shop-data shop-new --json > salvaged.json")]
pub(crate) struct Arguments {
    /// The damaged folder. No other process may have it open.
    folder: PathBuf,
    /// The folder to make.
    new: PathBuf,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports. Returns the exit status if something was lost.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let salvaged = Signals::watch().and_then(|signals| {
        // A signal that came after the end has ended nothing: the new folder is there.
        salvage(arguments, &signals)
            .or_else(|failure| signals.judge(Err(failure), "interrupted: nothing was salvaged"))
    });
    let (found, done) = match salvaged {
        Ok(found) if found.is_complete() => (found, Ok(())),
        Ok(found) => (
            found,
            Err(Failure::new(Exit::Partly, "not everything could be salvaged, or is known to be new")),
        ),
        Err(failure) => (SalvageReport::default(), Err(failure)),
    };
    // The status reports a loss also if it cannot be printed.
    let done = if arguments.talk.json { done } else { done.and(print_lines(lines(&found)).map(drop)) };
    let sum = |count: fn(&SalvagedCollection) -> u64| found.collections.iter().map(count).sum::<u64>();
    let documents = sum(|collection| collection.documents);
    let lost = found.lost_writes.iter().map(|lost| {
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        doc! { "from": number(lost.from), "to": number(lost.to) }
    });
    let mut report = Report {
        command: "salvage",
        elapsed: started.elapsed(),
        counts: vec![
            ("documents", documents),
            ("documentBytes", sum(|collection| collection.document_bytes)),
            ("mayBeOld", sum(|collection| collection.may_be_old)),
            ("refused", sum(|collection| collection.refused)),
            ("sequences", found.sequences),
            ("unreadableOmitted", found.unreadable_omitted),
        ],
        names: Vec::new(),
        found: vec![
            ("collections", found.collections.iter().map(collection).collect()),
            ("unreadable", found.unreadable.iter().map(unreadable).collect()),
            ("lostWrites", lost.collect()),
            ("notes", found.notes.iter().map(|note| doc! { "note": note.as_str() }).collect()),
        ],
        failure: done.err(),
    };
    arguments.talk.report(&mut report, false);
    if matches!(&report.failure, None | Some(Failure { exit: Exit::Partly, .. })) {
        let new = arguments.new.display();
        let (documents, collections) =
            (counted(documents, DOCUMENTS), counted(found.collections.len() as u64, COLLECTIONS));
        arguments.talk.say(&format!("salvaged {documents} in {collections} into {new}"));
    }
    report.failure.map_or(Ok(()), Err)
}

fn salvage(arguments: &Arguments, signals: &Signals) -> Result<SalvageReport, Failure> {
    let folder = folder_alone("salvage", &arguments.folder)?;
    if !folder.is_dir() {
        return Err(Failure::new(Exit::NoStore, format!("there is no folder {}", folder.display())));
    }
    refuse_absent_server(&arguments.new)?;
    let mut progress = arguments.talk.progress(None);
    let salvaged = cairndb::salvage(folder, &arguments.new)
        .cancellation(&signals.token)
        .progress(|done| progress.set(done))
        .run();
    progress.finish();
    salvaged.map_err(|error| {
        if matches!(error.kind(), ErrorKind::InvalidArgument { .. }) {
            return Failure::usage(error.to_string());
        }
        not_opened(&arguments.folder, error)
    })
}

/// The salvaged and lost parts, for people.
fn lines(report: &SalvageReport) -> Vec<String> {
    let mut lines = Vec::new();
    for collection in &report.collections {
        let SalvagedCollection { namespace, documents, may_be_old, refused, .. } = collection;
        let mut line = format!("{namespace}: {}", counted(*documents, DOCUMENTS));
        if *may_be_old > 0 {
            line = format!("{line}, {} of them may be older than they were", count(*may_be_old));
        }
        if *refused > 0 {
            let are = if *refused == 1 { "is" } else { "are" };
            line = format!("{line}, {} {} damaged and {are} left out", count(*refused), were(*refused));
        }
        if collection.is_renamed {
            line = format!("{line}; its name is lost");
        }
        lines.push(line);
        let left_out = collection.refusals.iter().map(|refusal| {
            let (key, reason) = (&refusal.key, &refusal.reason);
            format!("{namespace}, key {key}: left out: {reason}")
        });
        lines.extend(left_out);
        let indexes = collection.lost_indexes.iter();
        lines.extend(
            indexes.map(|lost| format!("{namespace}, index {}: not built: {}", lost.name, lost.reason)),
        );
    }
    lines.extend(report.unreadable.iter().map(|lost| {
        let (file, place) = (lost.file.display(), lost.place.as_deref().map(|place| format!(" of {place}")));
        let (bytes, offset, reason) = (size(lost.bytes), lost.offset, &lost.reason);
        format!("{file}: {bytes} at {offset}{} cannot be read: {reason}", place.unwrap_or_default())
    }));
    if report.unreadable_omitted > 0 {
        let more = counted(report.unreadable_omitted, Noun("more place", "more places"));
        lines.push(format!("{more} cannot be read"));
    }
    lines.extend(
        report.lost_writes.iter().map(|lost| format!("the writes {} to {} are lost", lost.from, lost.to)),
    );
    lines.extend(report.notes.iter().cloned());
    lines
}

/// A collection in the report.
fn collection(collection: &SalvagedCollection) -> Document {
    let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
    let lost = collection
        .lost_indexes
        .iter()
        .map(|lost| doc! { "name": lost.name.as_str(), "reason": lost.reason.as_str() });
    doc! {
        "namespace": collection.namespace.as_str(),
        "isRenamed": collection.is_renamed,
        "documents": count(collection.documents),
        "mayBeOld": count(collection.may_be_old),
        "refused": count(collection.refused),
        "indexes": collection.indexes.clone(),
        "lostIndexes": lost.collect::<Vec<_>>(),
    }
}

/// Bytes that cannot be read, in the report.
fn unreadable(lost: &cairndb::UnreadableBytes) -> Document {
    let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
    let mut document = doc! {
        "file": lost.file.display().to_string(),
        "offset": count(lost.offset),
        "bytes": count(lost.bytes),
        "reason": lost.reason.as_str(),
    };
    if let Some(place) = &lost.place {
        document.insert("place", place.as_str());
    }
    document
}
