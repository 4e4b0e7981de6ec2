//! `cairn restore`: a dump in mongodump's format, made in a store.

mod differing;
mod directory;
pub(crate) mod each;
mod file;
pub(crate) mod integer;
pub(crate) mod load;
pub(crate) mod make;
pub(crate) mod numbers;
mod options;
pub(crate) mod plan;
mod reading;
mod source;
pub(crate) mod tally;
pub(crate) mod verify;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cairndb::bson::Document;

pub(crate) use crate::restore::options::Arguments;

use crate::aside;
use crate::dumped::{DumpPlace, DumpedKind};
use crate::failure::{Exit, Failure};
use crate::figures::{DIFFERENCES, counted, in_time};
use crate::fingerprint::Fingerprint;
use crate::patterns::renamed;
use crate::restore::differing::Differing;
use crate::restore::each::each;
use crate::restore::load::{Loaded, Loader};
use crate::restore::make::Existing;
use crate::restore::numbers::{IfThere, Numbering};
use crate::restore::plan::{Plan, Planned};
use crate::restore::source::Source;
use crate::restore::tally::Tally;
use crate::sign::Sign;
use crate::signals::Signals;
use crate::store::{Store, UserThere, check_place, open_for_writing};
use crate::talk::{Report, Unit, warn};

/// The number of collections that are named that a restore left as they were.
const NAMED_MAX: usize = 3;
/// The name of the work of a restore that did nothing.
const NOTHING: &str = "nothing";

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let tally = Tally::default();
    let done = Signals::watch().and_then(|signals| {
        let done = Restore { arguments, tally: &tally, signals: &signals }.run();
        signals.judge(done, "interrupted: begin again with --drop")
    });
    report(arguments, &tally, started.elapsed(), done.and_then(|()| judged(&tally)))
}

/// The verdict on a restore that came to its end.
fn judged(tally: &Tally) -> Result<(), Failure> {
    let differences = tally.differences.load(Ordering::Relaxed);
    if differences > 0 {
        let message = format!("the store and the dump have {}", counted(differences, DIFFERENCES));
        return Err(Failure::new(Exit::Different, message));
    }
    match tally.left_behind() {
        Some(left_behind) => Err(Failure::new(Exit::Partly, format!("{left_behind} not restored"))),
        None => Ok(()),
    }
}

fn report(
    arguments: &Arguments,
    tally: &Tally,
    elapsed: Duration,
    done: Result<(), Failure>,
) -> Result<(), Failure> {
    let told = Some(tally.told()).filter(|told| !told.is_empty()).unwrap_or_else(|| NOTHING.to_owned());
    let mut report = Report {
        command: "restore",
        elapsed,
        counts: tally.counts(),
        names: Vec::new(),
        found: Vec::new(),
        failure: done.err(),
    };
    let is_failed =
        |failure: &&mut Failure| matches!(failure.exit, Exit::Failed | Exit::NoStore) && told != NOTHING;
    if let Some(failure) = report.failure.as_mut().filter(is_failed) {
        failure.message = format!("{}: restored until then: {told}", failure.message);
    }
    arguments.talk.report(&mut report, false);
    let is_done =
        matches!(&report.failure, None | Some(Failure { exit: Exit::Partly | Exit::Different, .. }));
    if is_done {
        let documents = tally.documents.load(Ordering::Relaxed);
        let verb = if arguments.dry_run { "read" } else { "restored" };
        arguments.talk.say(&format!("{verb} {told}, {}", in_time(documents, elapsed)));
    }
    report.failure.take().map_or(Ok(()), Err)
}

struct Restore<'a> {
    arguments: &'a Arguments,
    tally: &'a Tally,
    signals: &'a Signals,
}

impl Restore<'_> {
    fn run(&self) -> Result<(), Failure> {
        let arguments = self.arguments;
        // All that a dump says of itself is read before the store is opened or made.
        let (mut source, described) = Source::open(arguments, self.signals)?;
        let mut plan = Plan::new(described, arguments)?;
        source.check(&plan)?;
        let sequences = source.carried.take().map(|carried| carried.sequences).unwrap_or_default();
        let numberings = self.numberings(sequences)?;
        let is_any = plan.all().next().is_some() || !plan.left_out.is_empty() || !numberings.is_empty();
        arguments.namespaces.check_chosen(is_any, "the dump")?;
        if numberings.is_empty() {
            plan.check_any()?;
        }
        for left_out in &plan.left_out {
            self.tally.leave_out(left_out);
        }
        let store: Option<Arc<dyn Store>> = if arguments.dry_run {
            check_place(&arguments.store)?;
            None
        } else {
            Some(open_for_writing(&arguments.store, &arguments.access, self.signals, &mut warn)?.into())
        };
        let mut sign = store.map(|store| Sign::new(store, self.signals));
        let done = self.fill(sign.as_mut(), &mut source, &mut plan, numberings);
        let Some(sign) = sign else { return done };
        let done = Self::leave_old(sign.store(), &plan, &done).and(done);
        sign.end(&done);
        done
    }

    /// Makes all of the plan, or reads the dump alone without a store.
    fn fill(
        &self,
        mut sign: Option<&mut Sign>,
        source: &mut Source,
        plan: &mut Plan,
        numberings: Vec<Numbering>,
    ) -> Result<(), Failure> {
        let arguments = self.arguments;
        let existing = sign.as_mut().map(|sign| self.begin(sign, plan, &numberings)).transpose()?;
        let store = sign.map(|sign| sign.store());
        let count = plan.planned.len();
        let fingerprint = |planned: &Option<Planned>| {
            planned.as_ref().filter(|_| arguments.verify).map(|_| Fingerprint::new(count))
        };
        let fingerprints = plan.planned.iter().map(fingerprint).collect();
        let mut loaded = Loaded { fingerprints, sequences: None };
        let mut progress = arguments.talk.progress_of(source.len, Unit::Bytes);
        let loading = Loader {
            store,
            tally: self.tally,
            signals: self.signals,
            jobs: arguments.jobs,
            user_there: if arguments.drop { UserThere::Replace } else { UserThere::Refuse },
        };
        let read = loading.load(source, plan, &mut loaded, &mut progress);
        progress.finish();
        read?;
        let (Some(store), Some(mut existing)) = (store, existing) else { return Ok(()) };
        let numberings = match loaded.sequences.take() {
            Some(later) => self.numberings(later)?,
            None => numberings,
        };
        self.finish(store, plan, &mut existing, &numberings)?;
        store.sync()?;
        if arguments.verify && !self.is_over() {
            self.verify(store, plan, &loaded, &numberings)?;
        }
        Ok(())
    }

    /// Removes what was to replace a collection and did not, and says that the old one stays.
    fn leave_old(store: &dyn Store, plan: &Plan, done: &Result<(), Failure>) -> Result<(), Failure> {
        let mut kept = Vec::new();
        for planned in plan.all() {
            let Some(aside) = &planned.aside else { continue };
            kept.push(planned.namespace());
            if let Err(failure) = aside::remove(store, &planned.database, aside) {
                warn(&format!("{}.{aside} is left, and of no use: {}", planned.database, failure.message));
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let more = match kept.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<&str> = kept.iter().take(NAMED_MAX).map(String::as_str).collect();
        let shown = format!("{}{more}", named.join(", "));
        let stays =
            format!("{shown} {} before", if kept.len() == 1 { "is as it was" } else { "are as they were" });
        match done {
            Err(failure) => {
                Err(Failure { message: format!("{}; {stays}", failure.message), ..failure.clone() })
            }
            // A signal is reported in its own words.
            Ok(()) => Err(Failure::new(Exit::Failed, stays)),
        }
    }

    /// Checks what is there, and makes the collections.
    fn begin(&self, sign: &mut Sign, plan: &mut Plan, numberings: &[Numbering]) -> Result<Existing, Failure> {
        let (arguments, store) = (self.arguments, sign.store());
        if plan.all().any(|planned| planned.kind == DumpedKind::Users) {
            // Through a connection it is an error, before anything is made.
            store.users()?;
        }
        let mut existing = make::check(store, plan, arguments)?;
        if !arguments.drop && !arguments.into_existing {
            for numbering in numberings {
                numbering.check(store)?;
            }
        }
        if arguments.drop {
            make::set_aside(sign, plan, &mut existing)?;
        }
        let store = sign.store();
        for planned in &mut plan.planned {
            let is_meant = |planned: &&Planned| planned.kind == DumpedKind::Collection;
            let Some(one) = planned.as_ref().filter(is_meant).filter(|_| !self.is_over()) else { continue };
            if !make::collection(store, one, &existing, self.tally)? {
                // Nothing of it can be restored, and the others can.
                *planned = None;
            }
        }
        Ok(existing)
    }

    /// Makes all that comes after the documents.
    fn finish(
        &self,
        store: &dyn Store,
        plan: &mut Plan,
        existing: &mut Existing,
        numberings: &[Numbering],
    ) -> Result<(), Failure> {
        let collections: Vec<&Planned> = plan.collections().collect();
        self.each(&collections, &|planned| {
            if !self.arguments.no_indexes {
                let indexes = make::prepared_indexes(planned, self.arguments)?;
                make::indexes(store, planned, indexes, self.tally)?;
            }
            // A field that was there before the documents would have rejected or replaced what they bring.
            if self.arguments.no_sequences || self.is_over() {
                Ok(())
            } else {
                numbers::fields(store, planned, self.tally)
            }
        })?;
        if self.is_over() {
            return Ok(());
        }
        // All that the dump has of collections is there now.
        make::put_in_place(store, plan)?;
        if self.arguments.drop {
            make::drop_for_views(store, plan, existing)?;
        }
        let if_there = if self.arguments.drop {
            IfThere::Drop
        } else if self.arguments.into_existing {
            IfThere::Advance
        } else {
            IfThere::Refuse
        };
        for numbering in numberings.iter().take_while(|_| !self.is_over()) {
            numbering.make(store, if_there, self.tally)?;
        }
        if self.is_over() { Ok(()) } else { make::views(store, plan, existing, self.tally) }
    }

    fn verify(
        &self,
        store: &dyn Store,
        plan: &Plan,
        loaded: &Loaded,
        numberings: &[Numbering],
    ) -> Result<(), Failure> {
        let both = plan.planned.iter().zip(&loaded.fingerprints).enumerate();
        let both: Vec<(usize, &Planned, &Fingerprint)> = both
            .filter_map(|(at, (planned, dumped))| Some((at, planned.as_ref()?, dumped.as_ref()?)))
            .filter(|(_, planned, _)| planned.kind == DumpedKind::Collection)
            .collect();
        let differing = Mutex::new(Vec::new());
        self.each(&both, &|&(at, planned, dumped)| {
            let parts = verify::collection(store, planned, dumped, self.arguments, self.tally)?;
            if !parts.is_empty() {
                differing.lock().unwrap_or_else(PoisonError::into_inner).push(Differing { at, parts });
            }
            Ok(())
        })?;
        let differing = differing.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A pipe cannot be read again.
        let place = self.arguments.place()?;
        if !differing.is_empty() && place != DumpPlace::Standard {
            let (mut source, _) = Source::open(self.arguments, self.signals)?;
            differing::name(store, &mut source, plan, &differing, self.tally)?;
        }
        for numbering in numberings {
            verify::sequence(store, numbering, self.tally)?;
        }
        Ok(())
    }

    /// Does the work for each, several at once.
    fn each<T: Sync>(
        &self,
        all: &[T],
        work: &(dyn Fn(&T) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        each(all, self.arguments.jobs, self.tally, &|| self.is_over(), work)
    }

    /// The sequences that are meant, under the names that they get.
    fn numberings(&self, sequences: Vec<(String, Vec<Document>)>) -> Result<Vec<Numbering>, Failure> {
        let arguments = self.arguments;
        let mut numberings = Vec::new();
        let each = sequences.into_iter().flat_map(|(database, snapshots)| {
            snapshots.into_iter().map(move |snapshot| (database.clone(), snapshot))
        });
        for (database, snapshot) in each.filter(|_| !arguments.no_sequences) {
            let name = snapshot.get_str("Name").unwrap_or_default();
            if !name.is_empty() && arguments.namespaces.has(&database, name) {
                let (database, name) = renamed(&arguments.rename, &database, name)?;
                numberings.push(Numbering { database, name, snapshot });
            }
        }
        Ok(numberings)
    }

    fn is_over(&self) -> bool {
        self.signals.received().is_some()
    }
}
