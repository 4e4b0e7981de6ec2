//! `cairn migrate`: a store moved to a MongoDB cluster, or back, and compared.

mod cluster;
mod compare;
mod copy;
mod counters;
mod differing;
mod insert;
mod numbers;
mod options;
mod plan;
mod planned;
mod remark;
mod rule;
mod state;
mod trial;
mod work;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document};

pub(crate) use crate::migrate::options::Arguments;

use crate::failure::{Exit, Failure};
use crate::figures::{
    COLLECTIONS, DOCUMENTS, Noun, SEQUENCES, VIEWS, count, counted, counted_were, in_time, list,
};
use crate::migrate::options::Direction;
use crate::migrate::plan::{Ends, Plan};
use crate::migrate::planned::Moved;
use crate::migrate::remark::{Level, Remark};
use crate::migrate::state::{State, beside};
use crate::migrate::work::Work;
use crate::output::print_lines;
use crate::restore::tally::Tally;
use crate::signals::Signals;
use crate::store::{
    Store, check_place, is_absent, open_existing, open_for_reading, open_for_writing, open_server,
};
use crate::talk::{Phases, Report, warn};

/// The name of the objects of a database that are moved.
const COLLECTIONS_AND_VIEWS: Noun = Noun("collection or view", "collections and views");

/// The result of a migration.
#[derive(Default)]
struct Told {
    tally: Tally,
    already_there: AtomicU64,
    cluster: Option<String>,
    collections: Vec<Document>,
    remarks: Vec<Remark>,
    counters: u64,
    numbered: u64,
    /// Whether all was done, and compared.
    is_finished: bool,
}

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut told = Told::default();
    let done = Signals::watch().and_then(|signals| {
        let done = migrate(arguments, &signals, &mut told);
        if told.is_finished {
            // The signal came too late to end anything.
            return done;
        }
        signals.judge(done, "interrupted: give the same command again to continue")
    });
    told.report(arguments, started.elapsed(), done)
}

/// Both sides, open. The source of a migration to a cluster is the store.
struct Opened {
    store: Option<Box<dyn Store>>,
    cluster: Box<dyn Store>,
}

fn open(arguments: &Arguments, signals: &Signals) -> Result<Opened, Failure> {
    let option = if arguments.direction() == Direction::ToCluster { "--to" } else { "--from" };
    let cluster = open_server(option, Path::new(arguments.cluster()), &arguments.access, signals, &mut warn)?;
    let access = arguments.access.with_password_file(arguments.store_password_file.as_deref());
    let name = arguments.store.as_path();
    let store = match (arguments.plan, arguments.direction()) {
        // Nothing is made for a plan.
        (true, Direction::FromCluster) if is_absent(name) => {
            check_place(name)?;
            None
        }
        (true, _) => Some(open_for_reading(name, &access, signals, &mut warn)?),
        // For this process alone, so that no other writes to it meanwhile.
        (false, Direction::ToCluster) => Some(open_existing(name, &access, signals, &mut warn)?),
        (false, Direction::FromCluster) => Some(open_for_writing(name, &access, signals, &mut warn)?),
    };
    Ok(Opened { store, cluster })
}

fn migrate(arguments: &Arguments, signals: &Signals, told: &mut Told) -> Result<(), Failure> {
    // Everything that can be wrong with the command line is found before anything is opened or made.
    arguments.counters()?;
    let path = arguments.state.clone().map_or_else(|| beside(&arguments.store), Ok);
    let identity = arguments.identity();
    // A plan needs no file.
    let path = if arguments.plan { path.unwrap_or_default() } else { path? };
    let mut state = State::look(&path, &identity)?;
    let opened = open(arguments, signals)?;
    if !arguments.plan {
        state = State::open(&path, &identity)?;
    }
    let (store, cluster) = (opened.store.as_deref(), &*opened.cluster);
    // A store that is absent can only be moved to.
    let ends = match store.filter(|_| arguments.direction() == Direction::ToCluster) {
        Some(source) => Ends { source, target: Some(cluster) },
        None => Ends { source: cluster, target: store },
    };
    let plan = Plan::of(ends, arguments, &state)?;
    told.take(&plan)?;
    let (blockers, unsupported) = (plan.count_of(Level::Blocker), plan.count_of(Level::Unsupported));
    if arguments.plan {
        told.print(arguments, &plan)?;
    } else {
        told.say(arguments, &plan);
    }
    let is_stopped = blockers > 0 || unsupported > 0 && (arguments.plan || !arguments.skip_unsupported);
    if is_stopped {
        let skip = if unsupported > 0 { ", or continue without these by --skip-unsupported" } else { "" };
        let message = format!("the migration does not begin: {}{skip}", hindrances(blockers, unsupported));
        return Err(Failure::new(Exit::Different, message));
    }
    let Some(target) = ends.target.filter(|_| !arguments.plan) else { return Ok(()) };
    told.tally.left_out.fetch_add(unsupported, Ordering::Relaxed);
    let state = Mutex::new(state);
    let work = Work {
        source: ends.source,
        target,
        plan: &plan,
        state: &state,
        tally: &told.tally,
        already_there: &told.already_there,
        signals,
        jobs: arguments.jobs,
        phases: Mutex::new(Phases::of(&arguments.talk)),
    };
    work.run()?;
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if signals.received().is_some() {
        return Ok(());
    }
    told.is_finished = true;
    told.judge(state)
}

impl Told {
    fn take(&mut self, plan: &Plan) -> Result<(), Failure> {
        let (version, topology) = (&plan.cluster.version, plan.cluster.topology.name());
        self.cluster = Some(format!("MongoDB {version}, {topology}"));
        self.collections = plan.moved.iter().map(Moved::document).collect::<Result<_, _>>()?;
        self.remarks.clone_from(&plan.remarks);
        (self.counters, self.numbered) = (plan.counters.len() as u64, plan.numbered.len() as u64);
        Ok(())
    }

    /// Reports a migration that came to its end. Without differences nothing is left to go on with.
    fn judge(&self, state: State) -> Result<(), Failure> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let differences = load(&self.tally.differences);
        if differences > 0 {
            let shown = state.path().display();
            return Err(Failure::new(
                Exit::Different,
                format!(
                    "both sides have {differences} differences: the same command compares again; to copy again, remove \
                     {shown} and drop what is in the target"
                ),
            ));
        }
        state.end()?;
        match self.tally.left_behind() {
            Some(left_behind) => Err(Failure::new(Exit::Partly, format!("{left_behind} not carried"))),
            None => Ok(()),
        }
    }

    /// The lines of a plan.
    fn lines(&self, arguments: &Arguments, plan: &Plan) -> Vec<String> {
        let documents: u64 = plan.moved.iter().map(|moved| moved.documents).sum();
        let (collections, views) = (plan.collections().count(), plan.views().count());
        let way = if arguments.direction() == Direction::ToCluster { "to" } else { "from" };
        let cluster = self.cluster.as_deref().unwrap_or_default();
        let mut lines = vec![format!(
            "{} with about {}, and {}, {way} {cluster}",
            counted(collections as u64, COLLECTIONS),
            counted(documents, DOCUMENTS),
            counted(views as u64, VIEWS)
        )];
        lines.extend(self.collections.iter().map(collection_line));
        lines
    }

    /// Prints the plan, which is what was asked for.
    fn print(&self, arguments: &Arguments, plan: &Plan) -> Result<(), Failure> {
        if arguments.talk.json {
            return Ok(());
        }
        let lines = self.lines(arguments, plan);
        print_lines(lines.into_iter().chain(self.remarks.iter().map(Remark::line))).map(drop)
    }

    /// Prints the plan at the head of a migration.
    fn say(&self, arguments: &Arguments, plan: &Plan) {
        for line in self.lines(arguments, plan) {
            arguments.talk.say(&line);
        }
        for remark in &self.remarks {
            if remark.level == Level::Note {
                arguments.talk.say(&remark.line());
            } else {
                warn(&remark.line());
            }
        }
    }

    fn report(
        &self,
        arguments: &Arguments,
        elapsed: Duration,
        done: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        let mut counts = tally.counts();
        counts.extend([
            ("alreadyThere", load(&self.already_there)),
            ("differingDocuments", load(&tally.differing_documents)),
        ]);
        let mut report = Report {
            command: "migrate",
            elapsed,
            counts,
            names: self.cluster.iter().map(|cluster| ("cluster", cluster.clone())).collect(),
            found: vec![
                ("moved", Bson::Array(self.collections.iter().cloned().map(Bson::Document).collect())),
                (
                    "plan",
                    Bson::Array(self.remarks.iter().map(Remark::document).map(Bson::Document).collect()),
                ),
            ],
            failure: done.err(),
        };
        let documents = load(&tally.documents);
        let is_begun = load(&tally.collections) + documents > 0;
        let is_failed =
            |failure: &&mut Failure| matches!(failure.exit, Exit::Failed | Exit::NoStore) && is_begun;
        if let Some(failure) = report.failure.as_mut().filter(is_failed) {
            let message = &failure.message;
            failure.message = format!(
                "{message}: {} copied until then; give the same command again to continue",
                counted_were(documents, DOCUMENTS)
            );
        }
        arguments.talk.report(&mut report, false);
        let is_done = matches!(&report.failure, None | Some(Failure { exit: Exit::Partly, .. }));
        if is_done && !arguments.plan {
            let of = list(&[
                (self.collections.len() as u64, COLLECTIONS_AND_VIEWS),
                (documents, DOCUMENTS),
                (self.counters + self.numbered, SEQUENCES),
            ]);
            let of = if of.is_empty() { "nothing" } else { &of };
            let in_time = in_time(documents, elapsed);
            arguments.talk.say(&format!("migrated {of}; both sides are the same, {in_time}"));
        }
        report.failure.take().map_or(Ok(()), Err)
    }
}

/// The reasons that keep a migration from beginning.
fn hindrances(blockers: u64, unsupported: u64) -> String {
    let keep = if blockers == 1 { "keeps" } else { "keep" };
    let are = if unsupported == 1 { "is" } else { "are" };
    let blockers = counted(blockers, Noun("thing", "things"));
    format!("{blockers} {keep} it from that, and {} {are} not supported", count(unsupported))
}

fn collection_line(one: &Document) -> String {
    let text = |name: &str| one.get_str(name).unwrap_or_default().to_owned();
    let (source, target) = (text("source"), text("target"));
    let mut line = format!("  {source}");
    // Writing to a string cannot fail.
    if source != target {
        let _ = write!(line, " as {target}");
    }
    if text("kind") == "view" {
        return line + ": a view";
    }
    let documents = one.get_i64("documents").unwrap_or_default();
    let documents = counted(u64::try_from(documents).unwrap_or_default(), DOCUMENTS);
    let _ = write!(line, ": about {documents}");
    let indexes = one.get_array("indexes").map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = indexes.iter().filter_map(Bson::as_str).filter(|name| *name != "_id_").collect();
    if !names.is_empty() {
        let _ = write!(line, ", indexes {}", names.join(", "));
    }
    if one.get_bool("validator").unwrap_or(false) {
        line.push_str(", a validator");
    }
    line
}
