//! Proof that what is stored agrees with itself: every record with its key and its entries, every entry with
//! its record, counts with records, keys with the catalog, the catalog with what is in memory.
//!
//! It works on one snapshot while writing goes on: what the snapshot says of collections is what its records and entries
//! are held against. What is in memory is compared with what is stored, one collection after the other. It is what `verify` runs, what a backup must pass, and the oracle
//! of the crash and fuzz suites. A disagreement is a finding, not an error: the audit goes on to the end.

mod catalog;
mod entries;
mod findings;
mod memory;
mod records;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sequence::auto_increment::Field;

use crate::audit::findings::Findings;
use crate::catalog::collection::CollectionState;
use crate::catalog::entry::{self, CollectionEntry};
use crate::catalog::indexes::Index;
use crate::catalog::load::tagged_entries;
use crate::catalog::sequence_entry::Identity;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::results::VerifyReport;
use crate::shared::Shared;
use crate::storage::keys::{CollectionId, META_BUILDING, META_COLLECTION, SequenceId};
use crate::storage::latch::LatchSet;
use crate::storage::snapshot::Snapshot;
use crate::storage::{Database, Family};

/// A collection as the snapshot has it.
struct Audited {
    id: CollectionId,
    namespace: Namespace,
    indexes: Vec<Index>,
    fields: Vec<(Field, SequenceId)>,
    /// The counter at that moment, if it was known.
    counted: Option<u64>,
}

/// What there was at one moment, on the disk and in memory.
struct Subject {
    snapshot: Arc<Snapshot>,
    /// What the snapshot has, by id.
    collections: HashMap<u32, Audited>,
    /// Collections that the snapshot has and that cannot be read, with the reason.
    unreadable: Vec<(CollectionId, Error)>,
    /// Those collections as they are in memory. Their definitions may change after the snapshot.
    states: Vec<Arc<CollectionState>>,
    sequences: HashMap<SequenceId, Identity>,
    /// Indexes that are being built, or whose build was cut short: their entries belong to nobody yet.
    building: HashSet<u32>,
}

impl Subject {
    /// Keeps collections and sequences from coming and going for the length of this call, and writes from being
    /// committed while the snapshot is taken, which is a moment. No operation has to end first.
    fn freeze(shared: &Shared, database: &Arc<Database>) -> Result<Self> {
        let _catalog = shared.catalog.freeze();
        let states = shared.catalog.collections();
        let (snapshot, counts) = {
            let _counters: Vec<_> = states.iter().map(|state| state.count.hold()).collect();
            let _latched = shared.store.latches.lock(&LatchSet::all());
            let counts: HashMap<u32, Option<u64>> =
                states.iter().map(|state| (state.id.0, state.count.known())).collect();
            (Snapshot::take(database), counts)
        };
        let sequences = shared.catalog.sequences.all();
        let identities = sequences.iter().map(|state| (state.identity.id, state.identity.clone()));
        let building = tagged_entries(&snapshot, META_BUILDING)?.into_iter().map(|(id, _)| id).collect();
        let (mut collections, mut unreadable) = (HashMap::new(), Vec::new());
        for (id, value) in tagged_entries(&snapshot, META_COLLECTION)? {
            let collection = CollectionId(id);
            match entry::decode(collection, &value) {
                Ok(CollectionEntry { namespace, indexes, fields }) => {
                    let counted = counts.get(&id).copied().flatten();
                    let audited = Audited { id: collection, namespace, indexes, fields, counted };
                    collections.insert(id, audited);
                }
                Err(error) => unreadable.push((collection, error)),
            }
        }
        Ok(Self { snapshot, collections, unreadable, states, sequences: identities.collect(), building })
    }

    /// The index with that id, and its collection.
    fn index(&self, id: u32) -> Option<(&Audited, usize)> {
        self.collections.values().find_map(|audited| {
            let position = audited.indexes.iter().position(|index| index.id.0 == id)?;
            Some((audited, position))
        })
    }
}

/// Audits the whole database.
pub(crate) fn verify(shared: &Shared, database: &Arc<Database>) -> Result<VerifyReport> {
    let subject = Subject::freeze(shared, database)?;
    let mut findings = Findings::default();
    let mut report = VerifyReport {
        collections: subject.collections.len() as u64,
        indexes: subject.collections.values().map(|audited| audited.indexes.len() as u64).sum(),
        ..VerifyReport::default()
    };
    catalog::audit(&subject, &mut report, &mut findings)?;
    memory::audit(&subject, database, &mut findings)?;
    let expected = records::audit(&subject, &mut report, &mut findings)?;
    entries::audit(&subject, &expected, &mut report, &mut findings)?;
    findings.report_into(&mut report);
    Ok(report)
}

/// Where a finding lies when no collection owns the key.
fn family_name(family: Family) -> String {
    format!("column family {}", family.name())
}
