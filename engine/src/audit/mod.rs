//! The audit of a database: it proves that what is stored agrees with itself. It compares records with their
//! keys and entries, entries with their records, counters with records, keys with the catalog, and the
//! catalog with the state in memory. The checksums of all files are read beside that.
//!
//! It works on one snapshot while writes go on: records and entries are compared with the collections of that
//! snapshot, and the state in memory with the catalog, one collection after the other. `verify` runs it, a
//! backup must pass it, and it judges the crash and fuzz suites. A disagreement is a finding and not an
//! error: the audit continues to the end.

mod catalog;
mod changes;
mod entries;
mod files;
mod findings;
mod memory;
mod order;
mod orphans;
pub(crate) mod outcomes;
mod records;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::error::{Error, Result};
use base::namespace::Namespace;
use query::operation::OperationContext;
use sequence::auto_increment::Field;
use store::keys::{CollectionId, META_BUILDING, META_COLLECTION, SequenceId};
use store::snapshot::Snapshot;
use store::{Database, Family};

pub(crate) use crate::audit::files::{add_flaw, folder_view, verify_files};
use crate::audit::findings::Findings;
use crate::audit::watch::Damage;
pub(crate) use crate::audit::watch::{Callback, Watch};
use crate::catalog::capped::Capped;
use crate::catalog::collection::CollectionState;
use crate::catalog::entry::{self, CollectionEntry, Entry, ViewEntry};
use crate::catalog::indexes::Index;
use crate::catalog::load::tagged_entries;
use crate::catalog::record_keys::RecordKeys;
use crate::catalog::sequence_entry::Identity;
use crate::results::VerifyReport;
use crate::shared::Shared;
use crate::uploads::Claimed;

/// A collection as it is in the snapshot.
struct Audited {
    id: CollectionId,
    namespace: Namespace,
    indexes: Vec<Index>,
    fields: Vec<(Field, SequenceId)>,
    capped: Option<Capped>,
    record_keys: RecordKeys,
    /// The counter of documents at that moment, if it was known.
    counted: Option<u64>,
}

/// The subject of an audit: the state on disk and in memory at one moment.
struct Subject {
    snapshot: Arc<Snapshot>,
    /// The operation that the audit is a part of.
    operation: OperationContext,
    /// The collections of the snapshot, by id.
    collections: HashMap<u32, Audited>,
    /// The names of the views of the snapshot, by id.
    views: HashMap<u32, Namespace>,
    /// The ids of the same views in memory.
    known_views: HashSet<u32>,
    /// The collections of the snapshot whose entries cannot be read, with the reason.
    unreadable: Vec<(CollectionId, Error)>,
    /// The same collections in memory. Their definitions may change after the snapshot.
    states: Vec<Arc<CollectionState>>,
    sequences: HashMap<SequenceId, Identity>,
    /// The indexes that are being built, or whose build was cut short. No collection has their entries yet.
    building: HashSet<u32>,
    /// The files whose chunks this process was writing or removing at that moment.
    uploading: Claimed,
}

impl Subject {
    /// Makes the snapshot. No collection or sequence is added or removed during this call, and no write is
    /// committed at the moment of the snapshot. No running operation has to end first.
    fn freeze(shared: &Shared, database: &Arc<Database>, operation: &OperationContext) -> Result<Self> {
        let _catalog = shared.catalog.freeze();
        let states = shared.catalog.collections();
        let known_views = shared.catalog.views().iter().map(|view| view.id.0).collect();
        let (snapshot, counts, uploading) = {
            // A truncate commits without latches but holds the counter, and every other write holds a latch.
            // With both held, counters and snapshot show the same writes.
            let _counters: Vec<_> = states.iter().map(|state| state.count.hold()).collect();
            let _latched = shared.store.latches.lock_all();
            let counts: HashMap<u32, Option<u64>> =
                states.iter().map(|state| (state.id.0, state.count.known())).collect();
            // An upload has a claim before its first chunk and until after the document of its file, and while the latches are
            // held it writes neither. So these are all whose chunks the snapshot shows without it.
            (Snapshot::take(database), counts, shared.uploads.claimed())
        };
        let sequences = shared.catalog.sequences.all();
        let identities = sequences.iter().map(|state| (state.identity.id, state.identity.clone()));
        // Read from the snapshot like everything below, so that a build that ends meanwhile is not half seen.
        let building = tagged_entries(&snapshot, META_BUILDING)?.into_iter().map(|(id, _)| id).collect();
        let (mut collections, mut views, mut unreadable) = (HashMap::new(), HashMap::new(), Vec::new());
        for (id, value) in tagged_entries(&snapshot, META_COLLECTION)? {
            let collection = CollectionId(id);
            match entry::decode(collection, &value) {
                Ok(Entry::View(ViewEntry { namespace, .. })) => drop(views.insert(id, namespace)),
                Ok(Entry::Collection(entry)) => {
                    let counted = counts.get(&id).copied().flatten();
                    let CollectionEntry {
                        namespace,
                        indexes,
                        fields,
                        capped,
                        record_keys,
                        validation: _,
                        collation: _,
                        clustered: _,
                        is_logged: _,
                        keeps_images: _,
                    } = entry.with_fault(database.fault());
                    let audited =
                        Audited { id: collection, namespace, indexes, fields, capped, record_keys, counted };
                    collections.insert(id, audited);
                }
                Err(error) => unreadable.push((collection, error)),
            }
        }
        let sequences = identities.collect();
        Ok(Self {
            snapshot,
            operation: operation.clone(),
            collections,
            views,
            known_views,
            unreadable,
            states,
            sequences,
            building,
            uploading,
        })
    }

    /// The collection of the index with this id, and the position of the index in it.
    fn index(&self, id: u32) -> Option<(&Audited, usize)> {
        self.collections.values().find_map(|audited| {
            let position = audited.indexes.iter().position(|index| index.id.0 == id)?;
            Some((audited, position))
        })
    }

    /// Whether the id is that of the insertion order of a capped collection.
    fn is_order(&self, id: u32) -> bool {
        self.collections.values().any(|audited| audited.capped.is_some_and(|capped| capped.order.0 == id))
    }
}

/// Audits the whole database, without its files.
pub(crate) fn verify(
    shared: &Shared,
    database: &Arc<Database>,
    watch: &mut Watch<'_>,
    damage: Damage,
) -> Result<VerifyReport> {
    let subject = Subject::freeze(shared, database, watch.operation)?;
    let (mut findings, mut orphans) = (Findings::default(), orphans::Orphans::default());
    let mut report = VerifyReport {
        collections: subject.collections.len() as u64,
        indexes: subject.collections.values().map(|audited| audited.indexes.len() as u64).sum(),
        ..VerifyReport::default()
    };
    // The catalog first: its findings explain those that follow from them in records and entries.
    let audited = catalog::audit(&subject, &mut report, &mut findings);
    as_far_as_read(audited, &mut findings)?;
    let audited = memory::audit(&subject, database, &mut findings);
    as_far_as_read(audited, &mut findings)?;
    let mut found = records::Found { findings: &mut findings, orphans: &mut orphans };
    let audited = records::audit(&subject, watch, &mut report, &mut found);
    // Only all records together say which entries there must be.
    if let Some(expected) = as_far_as_read(audited, &mut findings)? {
        let audited = entries::audit(&subject, &expected, watch, &mut report, &mut findings);
        as_far_as_read(audited, &mut findings)?;
    }
    // By itself: it needs no record but those of capped collections.
    let audited = order::audit(&subject, watch, &mut findings);
    as_far_as_read(audited, &mut findings)?;
    let audited = outcomes::audit(&subject, database, watch, damage, &mut findings);
    as_far_as_read(audited, &mut findings)?;
    let audited = changes::audit(&subject, database, &mut findings);
    as_far_as_read(audited, &mut findings)?;
    findings.report_into(&mut report);
    orphans.report_into(&mut report);
    Ok(report)
}

/// The report of an audit that damage, or a disk that gives not everything, has kept from its beginning: this is its finding. Which
/// file it is, is for [`verify_files`] to say.
pub(crate) fn damage_as_finding(error: Error) -> Result<VerifyReport> {
    let (mut findings, mut report) = (Findings::default(), VerifyReport::default());
    as_far_as_read(Err::<(), _>(error), &mut findings)?;
    findings.report_into(&mut report);
    Ok(report)
}

/// The result of a part of the audit. Returns `None` if damage, or a disk that gives not everything, has ended it:
/// then that is a finding, and the other parts go on.
fn as_far_as_read<T>(audited: Result<T>, findings: &mut Findings) -> Result<Option<T>> {
    match audited {
        Ok(audited) => Ok(Some(audited)),
        Err(error) if error.is_corruption() || error.is_unreadable() => {
            let problem = format!("documents and entries could not be read to their end: {error}");
            findings.add("database".to_owned(), None, &[], problem);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The place of a finding whose key belongs to no collection.
fn family_name(family: Family) -> String {
    format!("column family {}", family.name())
}
