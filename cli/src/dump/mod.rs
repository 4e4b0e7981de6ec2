//! `cairn dump`: collections in mongodump's format, with what only CairnDB has where mongorestore does not look.

mod archive;
pub(crate) mod catalog;
mod directory;
mod options;
mod work;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use formats::dump::archive::{Declared, Header};
use formats::dump::prelude::{Carried, Moment, Prelude};

pub(crate) use crate::dump::options::Arguments;

use crate::command::{count, raw};
use crate::dump::archive::{Archive, sequences_field};
use crate::dump::catalog::{Catalog, Found, sequences, server_version};
use crate::dump::directory::Directory;
use crate::dump::work::{Counts, Dump, Work};
use crate::dumped::{DumpPlace, DumpedKind};
use crate::failure::{Exit, Failure};
use crate::figures::{
    self, COLLECTIONS, DOCUMENTS, SEQUENCES, VIEWS, counted, counted_were, in_time, list, size,
};
use crate::output::{Output, Written};
use crate::signals::Signals;
use crate::store::{Store, open_for_reading};
use crate::talk::Report;

/// The name of the tool that wrote a dump.
const TOOL: &str = concat!("cairn ", env!("CARGO_PKG_VERSION"));

/// The result of a dump.
#[derive(Default)]
struct Told {
    counts: Counts,
    sequences: u64,
    left_out: Vec<String>,
    moment: Option<Moment>,
}

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut told = Told::default();
    let done = Signals::watch().and_then(|signals| {
        let done = dump(arguments, &signals, &mut told);
        signals.judge(done, "interrupted: nothing was dumped")
    });
    let read = told.counts.documents.load(Ordering::Relaxed);
    let done = done.map_err(|failure| failure.after(read, "read"));
    let done = done.and_then(|()| match told.left_out.len() {
        0 => Ok(()),
        left_out => Err(Failure::new(
            Exit::Partly,
            format!("{} left out", counted_were(left_out as u64, COLLECTIONS)),
        )),
    });
    told.report(arguments, started.elapsed(), done)
}

impl Told {
    fn report(
        &self,
        arguments: &Arguments,
        elapsed: Duration,
        done: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let (collections, views) = (load(&self.counts.collections), load(&self.counts.views));
        let (documents, bytes) = (load(&self.counts.documents), load(&self.counts.bytes));
        let mut report = Report {
            command: "dump",
            elapsed,
            counts: vec![
                ("collections", collections),
                ("views", views),
                ("documents", documents),
                ("bytes", bytes),
                ("sequences", self.sequences),
                ("leftOut", self.left_out.len() as u64),
            ],
            names: self.moment.map(|moment| ("moment", moment.name().to_owned())).into_iter().collect(),
            found: Vec::new(),
            failure: done.err(),
        };
        let is_output_taken = arguments.place().is_ok_and(|place| place == DumpPlace::Standard);
        arguments.talk.report(&mut report, is_output_taken);
        let is_done = matches!(&report.failure, None | Some(Failure { exit: Exit::Partly, .. }));
        if is_done && !self.counts.is_unwanted.load(Ordering::Relaxed) {
            let of = list(&[(collections, COLLECTIONS), (views, VIEWS), (self.sequences, SEQUENCES)]);
            let of = if of.is_empty() { String::new() } else { format!("{of}, ") };
            let (documents, in_time) = (counted(documents, DOCUMENTS), in_time(documents, elapsed));
            arguments.talk.say(&format!("dumped {of}{documents}, {}, {in_time}", size(bytes)));
        }
        report.failure.take().map_or(Ok(()), Err)
    }
}

fn dump(arguments: &Arguments, signals: &Signals, told: &mut Told) -> Result<(), Failure> {
    // Everything that can be wrong with the command line is found before anything is opened or made.
    let (place, filter) = (arguments.place()?, arguments.filter(signals)?);
    let talk = &arguments.talk;
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut |line| talk.warn(line))?;
    let store = &*store;
    let moment = if store.is_of_one_moment() { Moment::One } else { Moment::Each };
    told.moment = Some(moment);
    let mut catalog = Catalog::read(store, &arguments.namespaces)?;
    if arguments.users {
        // Asked for now: through a connection it is an error, before anything is made.
        store.users()?;
        catalog.add_users();
    }
    catalog.check_chosen(store, &arguments.namespaces)?;
    check_filter(&catalog, filter.as_ref())?;
    for left_out in &catalog.left_out {
        talk.warn(left_out);
    }
    let total = if filter.is_none() { estimate(store, &catalog.found) } else { None };
    let progress = arguments.talk.progress(total);
    let work = Work {
        store,
        found: &catalog.found,
        filter: filter.as_ref(),
        signals,
        counts: &told.counts,
        progress: Mutex::new(progress),
    };
    let dumped = Dumped { arguments, work, catalog: &catalog, moment };
    told.sequences = match place {
        DumpPlace::Directory(name) => dumped.directory(name)?,
        DumpPlace::Archive(name) => dumped.archive(Some(name))?,
        DumpPlace::Standard => dumped.archive(None)?,
    };
    told.left_out = catalog.left_out;
    Ok(())
}

/// A dump of a store that was looked at.
struct Dumped<'a> {
    arguments: &'a Arguments,
    work: Work<'a>,
    catalog: &'a Catalog,
    moment: Moment,
}

impl Dumped<'_> {
    /// Dumps into a directory. Returns how many sequences were dumped.
    fn directory(&self, name: &Path) -> Result<u64, Failure> {
        let arguments = self.arguments;
        let directory = Directory::begin(self.work.store, name, arguments.overwrite, arguments.gzip)?;
        self.run(&directory)?;
        if self.work.signals.received().is_some() {
            return Ok(0);
        }
        let prelude = Prelude {
            server_version: server_version(self.work.store)?,
            tool_version: TOOL.to_owned(),
            // After the documents, which may have values of sequences.
            carried: Some(self.carried()?),
        };
        let carried = prelude.carried.as_ref();
        let sequences =
            carried.map_or(0, |carried| carried.sequences.iter().map(|(_, all)| all.len() as u64).sum());
        directory.finish(&prelude)?;
        Ok(sequences)
    }

    fn archive(&self, name: Option<&Path>) -> Result<u64, Failure> {
        let (arguments, store) = (self.arguments, self.work.store);
        let declared = self.catalog.found.iter().map(|found| declared(store, found));
        let declared = declared.collect::<Result<Vec<_>, _>>()?;
        let carried = self.carried()?;
        let sequences = carried.sequences.iter().map(|(_, all)| all.len() as u64).sum();
        let header = Header {
            concurrent_collections: i32::from(arguments.jobs),
            server_version: server_version(store)?,
            tool_version: TOOL.to_owned(),
            carried: Some(carried.to_document()),
        };
        let last = || Ok(sequences_field(&self.sequences()?));
        let last = (self.moment == Moment::Each).then_some(&last as &archive::LastCarried<'_>);
        let output = Output::open_plain(name, arguments.overwrite)?;
        let archive = Archive::begin(output, arguments.gzip, &header, &declared, last)?;
        self.run(&archive)?;
        if self.work.signals.received().is_none() && archive.finish()? == Written::NotWanted {
            self.work.counts.is_unwanted.store(true, Ordering::Relaxed);
        }
        Ok(sequences)
    }

    fn run(&self, dump: &dyn Dump) -> Result<(), Failure> {
        let ran = self.work.run(dump, self.arguments.jobs);
        if let Ok(progress) = self.work.progress.lock() {
            progress.finish();
        }
        ran
    }

    fn carried(&self) -> Result<Carried, Failure> {
        Ok(Carried { tool: TOOL.to_owned(), moment: self.moment, sequences: self.sequences()? })
    }

    fn sequences(&self) -> Result<Vec<(String, Vec<Document>)>, Failure> {
        sequences(self.work.store, &self.catalog.databases, &self.arguments.namespaces)
    }
}

fn declared(store: &dyn Store, found: &Found) -> Result<Declared, Failure> {
    Ok(Declared {
        database: found.database.clone(),
        collection: found.name.clone(),
        metadata: found.metadata(store, found.numbered(store)?)?,
        kind: if found.kind == DumpedKind::View { "view" } else { "collection" }.to_owned(),
    })
}

/// A filter is for one collection: of several, each would need its own.
fn check_filter(catalog: &Catalog, filter: Option<&Document>) -> Result<(), Failure> {
    let is_one = matches!(catalog.found.as_slice(), [Found { kind: DumpedKind::Collection, .. }]);
    if filter.is_none() || is_one {
        return Ok(());
    }
    let count = catalog.found.len();
    Err(Failure::usage(format!(
        "--filter is for one collection, and {} would be dumped: give --include",
        figures::count(count as u64)
    )))
}

/// About how many documents there are. An error is left for the reads that follow.
fn estimate(store: &dyn Store, found: &[Found]) -> Option<u64> {
    let collections = found.iter().filter(|found| found.kind == DumpedKind::Collection);
    let one = |found: &Found| {
        let reply = store.run(&found.database, raw(&doc! { "count": found.name.as_str() }).ok()?).ok()?;
        count(&reply, "n")
    };
    collections.map(one).sum()
}
