//! The line of a build, read from top to bottom: begin, load, follow, finish. What it wrote is removed if it ends earlier.

use std::sync::Arc;
use std::time::Duration;

use base::error::Result;
use query::operation::OperationContext;
use store::handles::Storage;
use store::snapshot::Snapshot;

use crate::catalog::builds::{Build, BuildEnd};
use crate::catalog::change::{self, BuildIds, refuse_expiry};
use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::Index;
use crate::catalog::names::Catalog;
use crate::one_line::OneLine;
use crate::progress::IndexBuildPhase;
use crate::write::index_build::building::Building;
use crate::write::index_build::follow::{Follower, Pace};
use crate::write::index_build::load::load;
use crate::write::index_build::report::{Callback, Report};
use crate::write::index_definition::{self, IndexDefinition, Presence};

/// The interval in which the caller of an index that another thread builds checks whether its own time is over.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// The weight of the notes that may be left so that the build can end: they are read while no write to the collection
/// runs, in a few milliseconds.
const REST_WEIGHT_MAX: u64 = 512 << 10;
/// More rounds than this are a sign that writers note as fast as the build reads.
const ROUNDS_ENOUGH: u32 = 8;

/// The index to build, and the means.
#[derive(Clone, Copy)]
pub(crate) struct BuildRequest<'a> {
    pub(crate) storage: Storage<'a>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) collection: &'a CollectionState,
    pub(crate) definition: &'a IndexDefinition,
    /// The number of bytes of keys that are sorted in memory.
    pub(crate) memory: usize,
    pub(crate) operation: &'a OperationContext,
}

/// The outcome of a call that asked for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The collection has the index.
    Present,
    /// The collection has changed, or another thread's build has ended: the caller must look again.
    Changed,
}

/// Builds an index unless the collection has it, and reports to `callback` how far it is. That the index is there is written and not
/// yet synced when this returns.
pub(crate) fn create(request: BuildRequest<'_>, callback: Option<&mut Callback<'_>>) -> Result<Outcome> {
    let BuildRequest { storage, collection, .. } = request;
    refuse_expiry(collection, request.definition.settings.expire_after_seconds)?;
    // Looked at first without reserving ids, which costs a sync.
    if is_present(request, &[])? {
        return Ok(Outcome::Present);
    }
    let running = collection.builds.list();
    if is_present(request, &running)? {
        return wait_for_other(request, &running);
    }
    let ids = request.catalog.begin_index(storage)?;
    // Entries may be put into the folder as tables, which no crash removes, so the marks must be durable before them.
    storage.store.sync_written(storage.database)?;
    let long_keys = collection.record_keys.long_keys;
    let index = index_definition::index(request.definition.clone(), ids.index, long_keys);
    let build = Build::new(index, ids.log);
    // From here on every write notes what it changes. Asked again under the lock of the builds: another thread may have
    // begun the same one since.
    let admit = |running: &[Arc<Build>]| Ok(!is_present(request, running)?);
    let begun = match collection.builds.begin(storage, build, admit) {
        Ok(Some(begun)) => begun,
        refused => {
            abandon(storage, ids);
            return refused.map(|_| Outcome::Changed);
        }
    };
    let (build, snapshot) = begun;
    let mut running = Running { storage, collection, build, ids, is_finished: false };
    // A drop that did not see the build has retired the state before it looked for builds.
    if collection.is_retired() {
        return Ok(Outcome::Changed);
    }
    match running.run(request, snapshot, callback) {
        // The documents that were read are out of date. The build begins again with the documents that are left.
        Err(_) if running.build.ended() == Some(BuildEnd::RecordsRemoved) => Ok(Outcome::Changed),
        done => done.map(|()| Outcome::Present),
    }
}

/// Whether the collection has the index, or one of `running` is it.
///
/// # Errors
/// If one of them contradicts the definition.
fn is_present(request: BuildRequest<'_>, running: &[Arc<Build>]) -> Result<bool> {
    let published = request.collection.indexes();
    let known: Vec<Index> =
        published.iter().cloned().chain(running.iter().map(|build| build.index.clone())).collect();
    Ok(index_definition::compare(request.definition, &known)? == Presence::Identical)
}

/// Waits for the build of the same index by another thread.
fn wait_for_other(request: BuildRequest<'_>, running: &[Arc<Build>]) -> Result<Outcome> {
    let same = running.iter().find(|build| build.index.name == request.definition.name);
    while let Some(build) = same.filter(|build| request.collection.builds.has(build)) {
        request.operation.look()?;
        request.collection.builds.wait(build, WAIT_INTERVAL);
    }
    Ok(Outcome::Changed)
}

/// A build that writers know of. Dropping it before it is finished removes what it wrote.
struct Running<'a> {
    storage: Storage<'a>,
    collection: &'a CollectionState,
    build: Arc<Build>,
    ids: BuildIds,
    is_finished: bool,
}

impl Running<'_> {
    fn run(
        &mut self,
        request: BuildRequest<'_>,
        snapshot: Arc<Snapshot>,
        callback: Option<&mut Callback<'_>>,
    ) -> Result<()> {
        let build = Arc::clone(&self.build);
        let BuildRequest { storage, collection, operation, .. } = request;
        let building = Building { storage, collection, build: &build, operation };
        let mut report = Report::begin(&build, &collection.namespace, callback);
        load(&building, &snapshot, request.memory, &mut report)?;
        let mut follower = Follower::starting_at(&building, snapshot);
        let mut pace = Pace::Free;
        let (mut rest_max, mut rounds) = (REST_WEIGHT_MAX, 0);
        loop {
            if build.noted() <= rest_max {
                if self.finish(&building, &mut follower, rest_max)? {
                    report.end();
                    return Ok(());
                }
                rounds = ROUNDS_ENOUGH;
            }
            // A machine that is so busy may never come to the end otherwise. Then writers wait longer, once.
            rounds += 1;
            if rounds > ROUNDS_ENOUGH {
                (rest_max, rounds) = (rest_max.saturating_mul(2), 0);
            }
            let before = build.noted();
            report.phase(IndexBuildPhase::Following, 0);
            let (round, later) = build.end_round(storage);
            follower.follow(round, later, pace, Some(&mut report))?;
            // Each round is to be shorter than the one before, or there would be no end.
            pace = if build.noted() > before / 2 { Pace::HoldingUp } else { Pace::Free };
        }
    }

    /// Reads the rest while no write to the collection runs, and adds the index to the catalog. Returns `false` without
    /// doing anything if there is too much left.
    fn finish(
        &mut self,
        building: &Building<'_>,
        follower: &mut Follower<'_>,
        rest_max: u64,
    ) -> Result<bool> {
        let Building { storage, collection, build, .. } = *building;
        let mut definition = collection.enter_alone(building.operation)?;
        building.look()?;
        // Asked when the build began, and again: the collection may have become a capped one since.
        refuse_expiry(collection, build.index.settings.expire_after_seconds)?;
        // Writers that were running when the gate was asked for may have written much. Twice the bound is for what all
        // others wrote meanwhile.
        if build.noted() > 2 * rest_max {
            return Ok(false);
        }
        let (round, last) = build.end_round(storage);
        follower.follow(round, last, Pace::Free, None)?;
        follower.refuse_duplicates()?;
        change::finish_index(storage, collection, &mut definition, &build.index, self.ids)?;
        // Before the gate is let go: a note that came later would never be removed.
        collection.builds.remove(build);
        self.is_finished = true;
        Ok(true)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        {
            // No writer is between its look at the builds and its commit, so no note comes after the removal.
            let _latched = self.storage.store.latches.lock_all();
            self.collection.builds.remove(&self.build);
        }
        abandon(self.storage, self.ids);
        tracing::info!(namespace = %OneLine(&self.collection.namespace), index = %OneLine(&self.build.index.name), "index build ended early");
    }
}

fn abandon(storage: Storage<'_>, ids: BuildIds) {
    // Whatever cannot be removed now, because the disk is full for example, is removed by the next open.
    let abandoned = change::abandon_index(storage, ids);
    if let Err(error) = abandoned.and_then(|()| storage.store.sync_written(storage.database)) {
        tracing::warn!(error = %OneLine(error), "entries of an abandoned index build stay until the next open");
    }
}
