//! `cairn compact`: gives the room of what was deleted back to the disk.

use std::path::PathBuf;
use std::time::Instant;

use crate::failure::Failure;
use crate::figures::size;
use crate::listing::is_cairndb;
use crate::signals::Signals;
use crate::store::{Access, CompactedBytes, namespace, open_existing};
use crate::talk::{Progress, Report, Talk, Unit, warn};

/// Gives the room of deleted documents back to the disk.
///
/// So it does with that of replaced documents and dropped collections. The store does it by itself in the course of later writes; this does it now, for one collection with its indexes, or for
/// everything. Tables are written again, which uses space for a few of them meanwhile. Through a server reads and writes go
/// on; a folder must not be open in another process.
///
/// A signal ends it after the part that is under way. What is done stays so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn compact shop-data
  cairn compact shop-data shop.orders
      one collection, and its indexes
  cairn compact shop.sock shop.orders --json
      the store of a running server")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// The collection; without it everything.
    #[arg(value_name = "DB.COLLECTION")]
    namespace: Option<String>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let compacted = Signals::watch().and_then(|signals| {
        // A signal that came after the end has ended nothing.
        compact(arguments, &signals)
            .or_else(|failure| signals.judge(Err(failure), "interrupted: what was compacted stays so"))
    });
    let (bytes, failure) = match compacted {
        Ok(bytes) => (bytes, None),
        Err(failure) => (CompactedBytes::default(), Some(failure)),
    };
    let CompactedBytes { before, after } = bytes;
    let mut report = Report {
        command: "compact",
        elapsed: started.elapsed(),
        counts: vec![
            ("bytesBefore", before),
            ("bytesAfter", after),
            ("bytesFreed", before.saturating_sub(after)),
        ],
        names: Vec::new(),
        found: Vec::new(),
        failure,
    };
    arguments.talk.report(&mut report, false);
    if report.failure.is_none() {
        let store = arguments.store.to_string_lossy();
        let what = arguments.namespace.as_deref().unwrap_or(&store);
        arguments.talk.say(&format!(
            "compacted {what}: {} of tables before, {} after",
            size(before),
            size(after)
        ));
    }
    report.failure.map_or(Ok(()), Err)
}

fn compact(arguments: &Arguments, signals: &Signals) -> Result<CompactedBytes, Failure> {
    let namespace = arguments.namespace.as_deref().map(namespace).transpose()?;
    let store = open_existing(&arguments.store, &arguments.access, signals, &mut warn)?;
    // The bar is made when it is known how much there is to do.
    let mut shown: Option<Progress> = None;
    let mut tell = |done, total| {
        shown.get_or_insert_with(|| arguments.talk.progress_of(total, Unit::Bytes)).set(done);
    };
    let compacted = store.compact(namespace, signals, &mut tell);
    if let Some(progress) = shown {
        progress.finish();
    }
    match compacted {
        // A server of MongoDB compacts no more than one collection.
        Err(failure) if namespace.is_none() && !is_cairndb(&*store).unwrap_or(true) => {
            let message = format!("{}; the server is MongoDB's: give DB.COLLECTION", failure.message);
            Err(Failure { message, ..failure })
        }
        compacted => compacted,
    }
}
