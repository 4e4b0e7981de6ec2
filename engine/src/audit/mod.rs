//! Proof that what is stored agrees with itself: every record with its key and its entries, every entry with
//! its record, counts with records, keys with the catalog, the catalog with what is in memory.
//!
//! It works on one snapshot while writing goes on, and is what `verify` runs, what a backup must pass, and the oracle
//! of the crash and fuzz suites. A disagreement is a finding, not an error: the audit goes on to the end.

mod catalog;
mod entries;
mod findings;
mod records;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::audit::findings::Findings;
use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::Index;
use crate::catalog::load::tagged_entries;
use crate::catalog::sequence_entry::Identity;
use crate::catalog::sequences::AutoFields;
use crate::error::Result;
use crate::results::VerifyReport;
use crate::shared::Shared;
use crate::storage::keys::{META_BUILDING, SequenceId};
use crate::storage::snapshot::Snapshot;
use crate::storage::{Database, Family};

/// A collection as it was when the snapshot was taken.
struct Audited {
    state: Arc<CollectionState>,
    indexes: Arc<[Index]>,
    fields: Arc<AutoFields>,
    /// The counter at that moment, if it was known.
    counted: Option<u64>,
}

/// Everything that the audit looks at, frozen at one moment.
struct Subject {
    snapshot: Arc<Snapshot>,
    collections: HashMap<u32, Audited>,
    sequences: HashMap<SequenceId, Identity>,
    /// Indexes that are being built, or whose build was cut short: their entries belong to nobody yet.
    building: HashSet<u32>,
}

impl Subject {
    /// For the length of this call no write is under way, so that counters and snapshot agree.
    fn freeze(shared: &Shared, database: &Arc<Database>) -> Result<Self> {
        let _catalog = shared.catalog.freeze();
        let states = shared.catalog.collections();
        let gates: Vec<_> = states.iter().map(|state| state.enter_alone()).collect();
        let snapshot = Snapshot::take(database);
        let audited = states.iter().zip(&gates).map(|(state, definition)| {
            let audited = Audited {
                state: Arc::clone(state),
                indexes: Arc::clone(&definition.indexes),
                fields: Arc::clone(&definition.fields),
                counted: state.count.known(),
            };
            (state.id.0, audited)
        });
        let sequences = shared.catalog.sequences.all();
        let identities = sequences.iter().map(|state| (state.identity.id, state.identity.clone()));
        let building = tagged_entries(&snapshot, META_BUILDING)?.into_iter().map(|(id, _)| id).collect();
        Ok(Self { collections: audited.collect(), sequences: identities.collect(), snapshot, building })
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
    let expected = records::audit(&subject, &mut report, &mut findings)?;
    entries::audit(&subject, &expected, &mut report, &mut findings)?;
    findings.report_into(&mut report);
    Ok(report)
}

/// Where a finding lies when no collection owns the key.
fn family_name(family: Family) -> String {
    format!("column family {}", family.name())
}
