//! Entries: each belongs to an index, and to a document that has it.
//!
//! The audit of the records has looked up every entry that should exist. If an index has just as many
//! entries, the two sets are equal. Only if the numbers differ is each entry traced to its document.

use std::collections::HashMap;

use base::error::Result;
use bson::RawDocument;
use store::Family;
use store::keys::split_id;
use store::scan::{CacheUse, Scan};

use crate::audit::findings::Findings;
use crate::audit::records::ExpectedEntries;
use crate::audit::watch::Watch;
use crate::audit::{Audited, Subject, family_name};
use crate::progress::VerifyPhase;
use crate::results::VerifyReport;
use crate::write::entries::{bounds, split, stored_entries_of};

pub(super) fn audit(
    subject: &Subject,
    expected: &ExpectedEntries,
    watch: &mut Watch<'_>,
    report: &mut VerifyReport,
    findings: &mut Findings,
) -> Result<()> {
    watch.teller.begin(VerifyPhase::Entries, expected.values().sum());
    let found = count(subject, watch, report, findings)?;
    watch.teller.end();
    for audited in subject.collections.values() {
        for (position, index) in audited.indexes.iter().enumerate() {
            let counts = (expected.get(&index.id.0), found.get(&index.id.0));
            // An index without entries is in neither map.
            if counts.0.unwrap_or(&0) != counts.1.unwrap_or(&0) {
                name_orphans(subject, audited, position, findings)?;
            }
        }
    }
    Ok(())
}

/// The number of entries of each index, by index id.
fn count(
    subject: &Subject,
    watch: &mut Watch<'_>,
    report: &mut VerifyReport,
    findings: &mut Findings,
) -> Result<HashMap<u32, u64>> {
    let mut found: HashMap<u32, u64> = HashMap::new();
    let mut scan = Scan::open(
        &subject.snapshot,
        Family::Entries,
        (Vec::new(), None),
        CacheUse::Bypass,
        &subject.operation,
    );
    let mut entered = None;
    while scan.advance()? {
        let id = split_id(scan.key()).map(|(id, _)| id);
        if entered != id {
            entered = id;
            let owner = id.and_then(|id| subject.index(id));
            watch.teller.enter(owner.map(|(audited, _)| &audited.namespace));
        }
        watch.pass(scan.key().len() + scan.value().len())?;
        match id {
            Some(id) if found.contains_key(&id) || subject.index(id).is_some() => {
                *found.entry(id).or_default() += 1;
                report.entries += 1;
            }
            // Insertion orders are audited by themselves: see `order`.
            Some(id) if subject.is_order(id) => {}
            // An unfinished build: its entries are removed at the next open, or belong to the index when it
            // is done.
            Some(id) if subject.building.contains(&id) => {}
            _ => {
                findings.add(family_name(Family::Entries), None, scan.key(), "the entry belongs to no index");
            }
        }
    }
    Ok(found)
}

/// Adds a finding for every entry of the index at `position` that its document does not have.
fn name_orphans(
    subject: &Subject,
    audited: &Audited,
    position: usize,
    findings: &mut Findings,
) -> Result<()> {
    let Some(index) = audited.indexes.get(position) else { return Ok(()) };
    let mut scan = Scan::open(
        &subject.snapshot,
        Family::Entries,
        bounds(index.id),
        CacheUse::Bypass,
        &subject.operation,
    );
    while scan.advance()? {
        if let Some(problem) = orphan(subject, audited, position, &scan)? {
            let place = audited.namespace.to_string();
            findings.add(place, Some(&index.name), scan.key(), problem);
        }
    }
    Ok(())
}

/// The problem of the current entry of a scan. Returns `None` if its document has it.
fn orphan(
    subject: &Subject,
    audited: &Audited,
    position: usize,
    scan: &Scan,
) -> Result<Option<&'static str>> {
    let Some(index) = audited.indexes.get(position) else { return Ok(None) };
    let Some(parts) = split(index, scan.key(), scan.value()) else {
        return Ok(Some("the bytes are not an entry of this index"));
    };
    let key = [&audited.id.prefix()[..], parts.id].concat();
    // An entry carries the encoded `_id`, from which the key of its record is made without decoding.
    let Some(record) = subject.snapshot.get(Family::Records, &key)? else {
        return Ok(Some("the entry's document does not exist"));
    };
    // A record that is not a document is a finding of the records.
    let Ok(document) = RawDocument::from_bytes(&record) else { return Ok(None) };
    // The function that wrote the entry, so that audit and write path cannot have different opinions.
    let drawn = stored_entries_of([(position, index)], document, parts.id).unwrap_or_default();
    if drawn.entries.iter().any(|entry| entry.key == scan.key()) {
        return Ok(None);
    }
    Ok(Some("the entry's document does not have this key"))
}
