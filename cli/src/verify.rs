//! `cairn verify`: everything in a folder is read and compared, and what is wrong is printed.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::{Document, doc};
use cairndb::{Finding, VerifyPhase, VerifyReport};

use crate::failure::{Exit, Failure};
use crate::figures::{COLLECTIONS, DOCUMENTS, ENTRIES, FILES, FINDINGS, Noun, counted, counted_were, size};
use crate::output::print_lines;
use crate::signals::Signals;
use crate::store::folder::not_opened;
use crate::store::open_folder_for_reading;
use crate::talk::{Phases, Reached, Report, Talk, Unit};

/// Reads everything in a folder, and finds what is damaged.
///
/// It compares documents, index entries, sequences, and the checksums of all files. Another process may write to the folder meanwhile. Each finding is a line on standard output, and the exit status is
/// 4 if there are any, or if the folder cannot be opened because of its damage.
///
/// A server's store is verified in its folder, not through its socket.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn verify shop-data
  cairn verify shop-data --bytes-per-second 20000000
      slowly, so that the disk is left to others")]
pub(crate) struct Arguments {
    /// The folder of the store.
    folder: PathBuf,
    /// Read at most this many bytes a second.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    bytes_per_second: Option<u64>,
    /// Read the checksums of all files too, which is done in any case.
    #[arg(long)]
    checksums: bool,
    /// Bytes for the store's cache.
    #[arg(long, value_name = "BYTES")]
    memory: Option<usize>,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports. Returns the exit status if there are findings.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    if arguments.checksums {
        arguments.talk.detail("checksums are always read");
    }
    let started = Instant::now();
    let verified = Signals::watch().and_then(|signals| {
        // A signal that came after the end has ended nothing.
        verify(arguments, &signals)
            .or_else(|failure| signals.judge(Err(failure), "interrupted: not everything was read"))
    });
    let (found, done) = match verified {
        Ok(found) if found.is_clean() => (found, Ok(())),
        Ok(found) => {
            let findings = found.findings.len() as u64 + found.findings_omitted;
            let more = if found.findings_omitted > 0 { ", not all of them listed" } else { "" };
            let findings = counted(findings, FINDINGS);
            (found, Err(Failure::new(Exit::Different, format!("{findings}{more}"))))
        }
        Err(failure) => (VerifyReport::default(), Err(failure)),
    };
    // The status reports findings also if they cannot be printed.
    let done = if arguments.talk.json { done } else { done.and(print_findings(&found)) };
    let mut report = Report {
        command: "verify",
        elapsed: started.elapsed(),
        counts: vec![
            ("collections", found.collections),
            ("documents", found.documents),
            ("documentBytes", found.document_bytes),
            ("indexes", found.indexes),
            ("entries", found.entries),
            ("sequences", found.sequences),
            ("files", found.files),
            ("fileBytes", found.file_bytes),
            ("findingsOmitted", found.findings_omitted),
        ],
        names: Vec::new(),
        found: vec![("findings", found.findings.iter().map(document).collect())],
        failure: done.err(),
    };
    arguments.talk.report(&mut report, false);
    if report.failure.is_none() {
        arguments.talk.say(&format!(
            "verified {} in {}, {} and {} of {}: nothing is wrong",
            counted(found.documents, DOCUMENTS),
            counted(found.collections, COLLECTIONS),
            counted(found.entries, ENTRIES),
            counted(found.files, FILES),
            size(found.file_bytes)
        ));
    }
    let orphans = found.orphans.len() as u64 + found.orphans_omitted;
    if orphans > 0 {
        let take = if orphans == 1 { "takes" } else { "take" };
        let orphans = counted_were(orphans, Noun("upload of a file", "uploads of files"));
        arguments.talk.say(&format!("{orphans} cut short and {take} space: see remove_orphans"));
    }
    report.failure.map_or(Ok(()), Err)
}

fn print_findings(found: &VerifyReport) -> Result<(), Failure> {
    print_lines(found.findings.iter().map(line)).map(drop)
}

fn verify(arguments: &Arguments, signals: &Signals) -> Result<VerifyReport, Failure> {
    let opened = open_folder_for_reading("verify", &arguments.folder, arguments.memory, &signals.token)?;
    let client = match opened {
        Ok(client) => client,
        // An error that keeps a store from being opened is a finding.
        Err(error) if error.is_corruption() => return Err(Failure::new(Exit::Different, error.to_string())),
        Err(error) => return Err(not_opened(&arguments.folder, error)),
    };
    let mut shown = Phases::of(&arguments.talk);
    let mut verification = client.verification().progress(|at| {
        let unit = unit_of(at.phase);
        shown.show(at.phase, Reached { place: &at.namespace, done: at.done, total: at.total, unit });
    });
    if let Some(bytes) = arguments.bytes_per_second {
        verification = verification.bytes_per_second(bytes);
    }
    let verified = verification.run();
    shown.finish();
    Ok(verified?)
}

/// The unit of a phase of a verification.
pub(crate) fn unit_of(phase: VerifyPhase) -> Unit {
    match phase {
        VerifyPhase::Files => Unit::Bytes,
        VerifyPhase::Entries => Unit::Entries,
        VerifyPhase::Documents | _ => Unit::Documents,
    }
}

/// A finding as a line: where, and what.
fn line(finding: &Finding) -> String {
    let mut line = finding.place.clone();
    // Writing to a string does not fail.
    if let Some(index) = &finding.index {
        let _ = write!(line, ", index {index}");
    }
    if let Some(file) = &finding.file {
        let _ = write!(line, ", {}", file.display());
    }
    if let Some(offset) = finding.offset {
        let _ = write!(line, " at byte {offset}");
    }
    if !finding.key.is_empty() {
        let _ = write!(line, ", key {}", finding.key);
    }
    let _ = write!(line, ": {}", finding.problem);
    line
}

/// A finding in the report.
fn document(finding: &Finding) -> Document {
    let mut document = doc! { "place": finding.place.as_str(), "problem": finding.problem.as_str() };
    if let Some(index) = &finding.index {
        document.insert("index", index.as_str());
    }
    if let Some(file) = &finding.file {
        document.insert("file", file.display().to_string());
    }
    if let Some(offset) = finding.offset {
        document.insert("offset", i64::try_from(offset).unwrap_or(i64::MAX));
    }
    if !finding.key.is_empty() {
        document.insert("key", finding.key.as_str());
    }
    document
}
