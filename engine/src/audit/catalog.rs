//! The catalog: what `meta` says of collections, indexes and sequences agrees with itself and with what is in memory.

use std::collections::{HashMap, HashSet};

use crate::audit::findings::Findings;
use crate::audit::{Subject, family_name};
use crate::catalog::entry;
use crate::catalog::load::{sequence_entries, tagged_entries};
use crate::catalog::sequence_entry::{Identity, decode_definition, decode_gap, decode_mark};
use crate::error::Result;
use crate::results::VerifyReport;
use crate::storage::Family;
use crate::storage::keys::{
    CollectionId, META_COLLECTION, META_GAP, META_MARK, META_NEXT_ID, META_NEXT_SEQUENCE, META_SEQUENCE,
    SequenceId, split_sequence,
};
use crate::storage::scan::{CacheUse, Scan};

pub(super) fn audit(subject: &Subject, report: &mut VerifyReport, findings: &mut Findings) -> Result<()> {
    audit_collections(subject, findings)?;
    let next_gaps = audit_sequences(subject, report, findings)?;
    audit_gaps(subject, &next_gaps, findings)
}

/// Every entry is the collection that is in memory, under a name of its own and an id below the next one.
fn audit_collections(subject: &Subject, findings: &mut Findings) -> Result<()> {
    let next = next_number(subject, META_NEXT_ID)?.unwrap_or(1);
    let mut names = HashSet::new();
    let mut seen = HashSet::new();
    for (id, value) in tagged_entries(&subject.snapshot, META_COLLECTION)? {
        let key = CollectionId(id).catalog_key();
        let mut add = |problem: String| findings.add(family_name(Family::Meta), None, &key, problem);
        let entry = match entry::decode(CollectionId(id), &value) {
            Ok(entry) => entry,
            Err(error) => {
                add(error.to_string());
                continue;
            }
        };
        let highest = entry.indexes.iter().map(|index| index.id.0).chain([id]).max().unwrap_or(id);
        if u64::from(highest) >= next {
            add(format!("the id {highest} is in use, and the next free one is said to be {next}"));
        }
        if !names.insert(entry.namespace.to_string()) {
            add(format!("two collections are named {}", entry.namespace));
        }
        let Some(audited) = subject.collections.get(&id) else {
            add(format!("the collection {} is stored and not in memory", entry.namespace));
            continue;
        };
        seen.insert(id);
        if audited.state.namespace != entry.namespace {
            add(format!("{} is named {} in memory", entry.namespace, audited.state.namespace));
        }
        let stored = entry.indexes.iter().map(|index| index.id);
        if !stored.eq(audited.indexes.iter().map(|index| index.id)) {
            add("the stored indexes are not those in memory".to_owned());
        }
        let fields = entry.fields.iter().map(|(field, id)| (field, *id));
        let bound = audited.fields.iter().map(|field| (&field.field, field.state.identity.id));
        if !fields.eq(bound) {
            add("the stored auto-increment fields are not those in memory".to_owned());
        }
    }
    for (id, audited) in subject.collections.iter().filter(|(id, _)| !seen.contains(*id)) {
        let key = CollectionId(*id).catalog_key();
        findings.add(audited.state.namespace.to_string(), None, &key, "the collection has no stored entry");
    }
    Ok(())
}

/// Every definition has a mark, an owner if it numbers a field, an id below the next one, and is in memory. Gives the
/// number of the next gap by sequence.
fn audit_sequences(
    subject: &Subject,
    report: &mut VerifyReport,
    findings: &mut Findings,
) -> Result<HashMap<SequenceId, u64>> {
    let next = next_number(subject, META_NEXT_SEQUENCE)?.unwrap_or(1);
    let mut next_gaps = HashMap::new();
    let place = || family_name(Family::Meta);
    for (id, value) in sequence_entries(&subject.snapshot, META_MARK)? {
        match decode_mark(id, &value) {
            Ok(mark) => drop(next_gaps.insert(id, mark.next_gap)),
            Err(error) => findings.add(place(), None, &id.mark_key(), error.to_string()),
        }
    }
    let mut defined = HashSet::new();
    for (id, value) in sequence_entries(&subject.snapshot, META_SEQUENCE)? {
        report.sequences += 1;
        defined.insert(id);
        let problem = match decode_definition(id, &value) {
            Ok((identity, ..)) => sequence_problem(subject, &identity),
            Err(error) => Some(error.to_string()),
        };
        let key = id.definition_key();
        if let Some(problem) = problem {
            findings.add(place(), None, &key, problem);
        }
        if !next_gaps.contains_key(&id) {
            findings.add(place(), None, &key, "the sequence has no mark");
        }
        if id.0 >= next {
            let problem = format!("the id {} is in use, and the next free one is said to be {next}", id.0);
            findings.add(place(), None, &key, problem);
        }
    }
    for id in next_gaps.keys().filter(|id| !defined.contains(*id)) {
        findings.add(place(), None, &id.mark_key(), "the mark belongs to no sequence");
    }
    for id in subject.sequences.keys().filter(|id| !defined.contains(*id)) {
        findings.add(place(), None, &id.definition_key(), "the sequence is in memory and not stored");
    }
    Ok(next_gaps)
}

fn sequence_problem(subject: &Subject, stored: &Identity) -> Option<String> {
    match subject.sequences.get(&stored.id) {
        None => return Some(format!("the sequence {} is stored and not in memory", stored.name)),
        Some(known) if known != stored => {
            return Some(format!("the sequence {} is {} in memory", stored.name, known.name));
        }
        Some(_) => {}
    }
    let owner = stored.owner?;
    let fields = subject.collections.get(&owner.0).map(|audited| audited.fields.iter());
    let bound = fields.is_some_and(|mut fields| fields.any(|field| field.state.identity.id == stored.id));
    (!bound).then(|| format!("no field of the collection {owner} is numbered by {}", stored.name))
}

/// Every gap belongs to a sequence and has a number below its next one.
fn audit_gaps(
    subject: &Subject,
    next_gaps: &HashMap<SequenceId, u64>,
    findings: &mut Findings,
) -> Result<()> {
    let bounds = (vec![META_GAP], Some(vec![META_GAP + 1]));
    let mut scan = Scan::open(&subject.snapshot, Family::Meta, bounds, CacheUse::Bypass);
    while scan.advance()? {
        let parts = split_sequence(scan.key());
        let number = parts.and_then(|(_, rest)| <[u8; 8]>::try_from(rest).ok()).map(u64::from_be_bytes);
        let next = parts.and_then(|(id, _)| next_gaps.get(&id));
        let problem = match (next, number) {
            (Some(next), Some(number)) if number < *next => {
                decode_gap(scan.key(), scan.value()).err().map(|error| error.to_string())
            }
            (Some(_), Some(number)) => Some(format!("gap {number} is not counted in the mark")),
            (Some(_), None) => Some("the key is not that of a gap".to_owned()),
            (None, _) => Some("the gap belongs to no sequence".to_owned()),
        };
        if let Some(problem) = problem {
            findings.add(family_name(Family::Meta), None, scan.key(), problem);
        }
    }
    Ok(())
}

fn next_number(subject: &Subject, key: &[u8]) -> Result<Option<u64>> {
    let bounds = (key.to_vec(), Some([key, &[0]].concat()));
    let mut scan = Scan::open(&subject.snapshot, Family::Meta, bounds, CacheUse::Bypass);
    if !scan.advance()? {
        return Ok(None);
    }
    Ok(Some(scan.value().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
}
