//! A migration that is planned, done: what is made in which order, and what is compared in the end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::command::raw;
use crate::failure::Failure;
use crate::figures::{DOCUMENTS, counted};
use crate::migrate::compare::{definition, documents};
use crate::migrate::copy::Copier;
use crate::migrate::differing;
use crate::migrate::insert::Inserter;
use crate::migrate::plan::{Plan, kinds_of};
use crate::migrate::planned::Moved;
use crate::migrate::state::State;
use crate::restore::each::each;
use crate::restore::make::{collection_with, indexes, view};
use crate::restore::tally::{Tally, refusal};
use crate::signals::Signals;
use crate::store::Store;
use crate::talk::{Phases, Reached, Unit, warn};

/// The long phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Copy,
    Compare,
}

/// The existing objects of the target, by database and name.
type Existing = HashSet<(String, String)>;

/// Everything that a migration needs.
pub(super) struct Work<'a> {
    pub(super) source: &'a dyn Store,
    pub(super) target: &'a dyn Store,
    pub(super) plan: &'a Plan,
    pub(super) state: &'a Mutex<State>,
    pub(super) tally: &'a Tally,
    pub(super) already_there: &'a AtomicU64,
    pub(super) signals: &'a Signals,
    pub(super) jobs: u16,
    pub(super) phases: Mutex<Phases<'a, Phase>>,
}

impl Work<'_> {
    /// Makes all of it and compares. A signal ends it between two steps; what was done is in the state.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let done = self.make().and_then(|()| if self.is_over() { Ok(()) } else { self.compare() });
        self.phases.lock().unwrap_or_else(PoisonError::into_inner).finish();
        // Whatever came of it: the next process goes on from here.
        let saved = self.state().save();
        done.and(saved)
    }

    fn make(&self) -> Result<(), Failure> {
        // Said before anything is made: what is there later is this migration's own.
        let names: Vec<String> = self.plan.moved.iter().map(|moved| moved.planned.namespace()).collect();
        self.state().begin(names.iter().map(String::as_str))?;
        let existing = self.existing()?;
        let all: Vec<&Moved> = self.plan.collections().collect();
        for moved in all.iter().take_while(|_| !self.is_over()) {
            if existing.contains(&moved.planned.key()) {
                Tally::add(&self.tally.collections, 1);
            } else {
                let options = moved.options_without_validation()?;
                collection_with(self.target, &moved.planned, &options, false, self.tally)?;
            }
        }
        self.copy(&all)?;
        // After the documents: an index is built faster at once, and a validator would reject what was stored before it.
        self.each(&all, &|moved| {
            indexes(self.target, &moved.planned, moved.planned.metadata()?.indexes, self.tally)?;
            if self.is_over() { Ok(()) } else { self.validate(moved) }
        })?;
        for moved in self.plan.views().take_while(|_| !self.is_over()) {
            if existing.contains(&moved.planned.key()) {
                Tally::add(&self.tally.views, 1);
            } else {
                view(self.target, &moved.planned, false, self.tally)?;
            }
        }
        // The last: from here on the numbers of the target are beyond all that were used.
        for counter in self.plan.counters.iter().take_while(|_| !self.is_over()) {
            counter.write(self.target, self.tally)?;
        }
        for numbered in self.plan.numbered.iter().take_while(|_| !self.is_over()) {
            numbered.make(self.target, self.tally)?;
        }
        // Through a connection each write has waited for a majority, and a cluster may reject the command that syncs it.
        if self.target.folder()?.is_some() { self.target.sync() } else { Ok(()) }
    }

    fn copy(&self, all: &[&Moved]) -> Result<(), Failure> {
        let total = all.iter().map(|moved| moved.documents).sum();
        let done = AtomicU64::new(0);
        let telling = |more| self.show(Phase::Copy, &done, more, total);
        let Self { source, target, tally, already_there, state, signals, jobs, .. } = *self;
        let inserter = Inserter { target, tally, already_there };
        let copier = Copier { source, inserter, state, signals, jobs, telling: &telling };
        for moved in all.iter().take_while(|_| !self.is_over()) {
            copier.copy(moved)?;
        }
        Ok(())
    }

    /// Sets the validator of a collection.
    fn validate(&self, moved: &Moved) -> Result<(), Failure> {
        let Some(command) = moved.validation()? else { return Ok(()) };
        if let Err(failure) = self.target.run(&moved.planned.database, raw(&command)?) {
            let message = refusal(failure)?.message;
            self.tally.leave_out(&format!("{}, the validator: {message}", moved.planned.namespace()));
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), Failure> {
        let all: Vec<&Moved> = self.plan.collections().collect();
        // Both sides are read.
        let total = all.iter().map(|moved| moved.documents * 2).sum();
        let done = AtomicU64::new(0);
        let counting = |more| self.show(Phase::Compare, &done, more, total);
        self.each(&all, &|moved| {
            definition(self.target, moved, self.tally)?;
            let differing = documents(self.source, self.target, moved, self.tally, &counting)?;
            if differing.is_empty() || self.is_over() {
                return Ok(());
            }
            let count = differing::name(self.source, self.target, moved, self.tally, &|| self.is_over())?;
            let namespace = moved.planned.namespace();
            // Not by the tally, which names no more than a hundred.
            warn(&format!("{namespace}: {} differ in all", counted(count, DOCUMENTS)));
            self.tally.differing_documents.fetch_add(count, Ordering::Relaxed);
            Ok(())
        })?;
        for moved in self.plan.views() {
            definition(self.target, moved, self.tally)?;
        }
        for counter in &self.plan.counters {
            counter.compare(self.target, self.tally)?;
        }
        for numbered in &self.plan.numbered {
            numbered.compare(self.target, self.tally)?;
        }
        Ok(())
    }

    /// The objects that exist now in the databases that are written.
    fn existing(&self) -> Result<Existing, Failure> {
        let mut existing = Existing::new();
        let databases: HashSet<&str> =
            self.plan.moved.iter().map(|moved| moved.planned.database.as_str()).collect();
        for database in databases {
            for (name, _) in kinds_of(self.target, database)? {
                existing.insert((database.to_owned(), name));
            }
        }
        Ok(existing)
    }

    fn each<'m>(
        &self,
        all: &[&'m Moved],
        work: &(dyn Fn(&'m Moved) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        each(all, self.jobs, self.tally, &|| self.is_over(), &|moved| work(moved))
    }

    /// Shows that `more` documents are done.
    fn show(&self, phase: Phase, count: &AtomicU64, more: u64, total: u64) {
        let done = count.fetch_add(more, Ordering::Relaxed) + more;
        let mut phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        phases.show(phase, Reached { place: "", done, total, unit: Unit::Documents });
    }

    fn is_over(&self) -> bool {
        self.signals.received().is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
