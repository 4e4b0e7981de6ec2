//! Entries: each belongs to an index and to a document that has it.
//!
//! The records' side has looked up every entry that should be there. When an index holds just as many, the two sets
//! are equal; only when it holds another number is each entry led back to its document.

use std::collections::HashMap;

use bson::RawDocument;

use crate::audit::findings::Findings;
use crate::audit::records::ExpectedEntries;
use crate::audit::{Audited, Subject, family_name};
use crate::error::Result;
use crate::results::VerifyReport;
use crate::storage::Family;
use crate::storage::keys::split_id;
use crate::storage::scan::{CacheUse, Scan};
use crate::write::entries::{bounds, entries_of, split};

pub(super) fn audit(
    subject: &Subject,
    expected: &ExpectedEntries,
    report: &mut VerifyReport,
    findings: &mut Findings,
) -> Result<()> {
    let found = count(subject, report, findings)?;
    for audited in subject.collections.values() {
        for (position, index) in audited.indexes.iter().enumerate() {
            let counts = (expected.get(&index.id.0), found.get(&index.id.0));
            if counts.0.unwrap_or(&0) != counts.1.unwrap_or(&0) {
                name_orphans(subject, (audited, position), findings)?;
            }
        }
    }
    Ok(())
}

/// How many entries each index holds, by index id.
fn count(subject: &Subject, report: &mut VerifyReport, findings: &mut Findings) -> Result<HashMap<u32, u64>> {
    let mut found: HashMap<u32, u64> = HashMap::new();
    let mut scan = Scan::open(&subject.snapshot, Family::Entries, (Vec::new(), None), CacheUse::Bypass);
    while scan.advance()? {
        match split_id(scan.key()) {
            Some((id, _)) if found.contains_key(&id) || subject.index(id).is_some() => {
                *found.entry(id).or_default() += 1;
                report.entries += 1;
            }
            Some((id, _)) if subject.building.contains(&id) => {}
            _ => {
                findings.add(family_name(Family::Entries), None, scan.key(), "the entry belongs to no index");
            }
        }
    }
    Ok(found)
}

fn name_orphans(
    subject: &Subject,
    (audited, position): (&Audited, usize),
    findings: &mut Findings,
) -> Result<()> {
    let Some(index) = audited.indexes.get(position) else { return Ok(()) };
    let mut scan = Scan::open(&subject.snapshot, Family::Entries, bounds(index.id), CacheUse::Bypass);
    while scan.advance()? {
        if let Some(problem) = orphan((subject, audited), position, &scan)? {
            let place = audited.namespace.to_string();
            findings.add(place, Some(&index.name), scan.key(), problem);
        }
    }
    Ok(())
}

fn orphan(
    (subject, audited): (&Subject, &Audited),
    position: usize,
    scan: &Scan,
) -> Result<Option<&'static str>> {
    let Some(index) = audited.indexes.get(position) else { return Ok(None) };
    let Some(parts) = split(index, scan.key(), scan.value()) else {
        return Ok(Some("the bytes are not an entry of this index"));
    };
    let key = [&audited.id.prefix()[..], parts.id].concat();
    let Some(record) = subject.snapshot.get(Family::Records, &key)? else {
        return Ok(Some("the entry's document does not exist"));
    };
    let Ok(document) = RawDocument::from_bytes(&record) else { return Ok(None) };
    let drawn = entries_of(&audited.indexes, document, parts.id).unwrap_or_default();
    if drawn.entries.iter().any(|entry| entry.index == position && entry.key == scan.key()) {
        return Ok(None);
    }
    Ok(Some("the entry's document does not have this key"))
}
