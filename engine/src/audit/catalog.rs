//! The catalog: the entries of collections, indexes and sequences in `meta` agree with each other and with
//! the state in memory.

use std::collections::{HashMap, HashSet};

use base::error::Result;
use store::Family;
use store::keys::{
    CollectionId, META_GAP, META_MARK, META_NEXT_ID, META_NEXT_SEQUENCE, META_SEQUENCE, SequenceId,
    split_sequence,
};
use store::scan::{CacheUse, Scan};

use crate::audit::findings::Findings;
use crate::audit::{Subject, family_name};
use crate::catalog::load::sequence_entries;
use crate::catalog::sequence_entry::{Identity, decode_definition, decode_gap, decode_mark};
use crate::results::VerifyReport;

pub(super) fn audit(subject: &Subject, report: &mut VerifyReport, findings: &mut Findings) -> Result<()> {
    audit_collections(subject, findings)?;
    let next_gaps = audit_sequences(subject, report, findings)?;
    audit_gaps(subject, &next_gaps, findings)
}

/// Checks that every entry can be read, has a name of its own and ids below the next free one, and is a
/// collection in memory.
fn audit_collections(subject: &Subject, findings: &mut Findings) -> Result<()> {
    let next = next_number(subject, META_NEXT_ID)?.unwrap_or(1);
    let mut names = HashSet::new();
    let known: HashSet<u32> = subject.states.iter().map(|state| state.id.0).collect();
    for (id, error) in &subject.unreadable {
        findings.add(family_name(Family::Meta), None, &id.catalog_key(), error.to_string());
    }
    for (id, audited) in &subject.collections {
        let key = audited.id.catalog_key();
        let mut add = |problem: String| findings.add(family_name(Family::Meta), None, &key, problem);
        // Collections, indexes and insertion orders share one series of ids.
        let order = audited.capped.map(|capped| capped.order.0);
        let ids = audited.indexes.iter().map(|index| index.id.0).chain(order);
        let highest = ids.chain([*id]).max().unwrap_or(*id);
        if u64::from(highest) >= next {
            add(format!("the id {highest} is in use, and the next free one is said to be {next}"));
        }
        if !names.insert(audited.namespace.to_string()) {
            add(format!("two collections are named {}", audited.namespace));
        }
        if !known.contains(id) {
            add(format!("the collection {} is stored and not in memory", audited.namespace));
        }
    }
    for (id, namespace) in &subject.views {
        let key = CollectionId(*id).catalog_key();
        let mut add = |problem: String| findings.add(family_name(Family::Meta), None, &key, problem);
        if u64::from(*id) >= next {
            add(format!("the id {id} is in use, and the next free one is said to be {next}"));
        }
        if !names.insert(namespace.to_string()) {
            add(format!("two collections or views are named {namespace}"));
        }
        if !subject.known_views.contains(id) {
            add(format!("the view {namespace} is stored and not in memory"));
        }
    }
    // A view has nothing but its entry, so its name is known from nowhere else.
    for id in subject.known_views.iter().filter(|id| !subject.views.contains_key(*id)) {
        let key = CollectionId(*id).catalog_key();
        findings.add(family_name(Family::Meta), None, &key, "a view in memory has no stored entry");
    }
    // A collection whose entry cannot be read has its finding already.
    let unreadable: HashSet<u32> = subject.unreadable.iter().map(|(id, _)| id.0).collect();
    for state in &subject.states {
        if !subject.collections.contains_key(&state.id.0) && !unreadable.contains(&state.id.0) {
            let key = state.id.catalog_key();
            findings.add(state.namespace.to_string(), None, &key, "the collection has no stored entry");
        }
    }
    Ok(())
}

/// Checks that every definition has a mark, an id below the next free one, an owner if it numbers a field,
/// and is a sequence in memory. Returns the number of the next gap of each sequence.
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
            // An unreadable mark leaves no number, and the definition below gets a second finding.
            Ok(mark) => drop(next_gaps.insert(id, mark.next_gap)),
            Err(error) => findings.add(place(), None, &id.mark_key(), error.to_string()),
        }
    }
    // All marks are read before any definition, because each definition is checked for its mark.
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

/// The disagreement of a stored sequence with memory or with its collection, if there is one.
fn sequence_problem(subject: &Subject, stored: &Identity) -> Option<String> {
    match subject.sequences.get(&stored.id) {
        None => return Some(format!("the sequence {} is stored and not in memory", stored.name)),
        Some(known) if known != stored => {
            return Some(format!("the sequence {} is {} in memory", stored.name, known.name));
        }
        Some(_) => {}
    }
    // A sequence without an owner was made by a user, and numbers no field.
    let owner = stored.owner?;
    let fields = subject.collections.get(&owner.0).map(|audited| audited.fields.iter());
    let bound = fields.is_some_and(|mut fields| fields.any(|(_, sequence)| *sequence == stored.id));
    (!bound).then(|| format!("no field of the collection {owner} is numbered by {}", stored.name))
}

/// Checks that every gap belongs to a sequence and has a number below the next one.
fn audit_gaps(
    subject: &Subject,
    next_gaps: &HashMap<SequenceId, u64>,
    findings: &mut Findings,
) -> Result<()> {
    let bounds = (vec![META_GAP], Some(vec![META_GAP + 1]));
    let mut scan = Scan::open(&subject.snapshot, Family::Meta, bounds, CacheUse::Bypass, &subject.operation);
    while scan.advance()? {
        let parts = split_sequence(scan.key());
        let number = parts.and_then(|(_, rest)| <[u8; 8]>::try_from(rest).ok()).map(u64::from_be_bytes);
        let next = parts.and_then(|(id, _)| next_gaps.get(&id));
        let problem = match (next, number) {
            // Only a gap that may exist is decoded: the others are wrong whatever they contain.
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

/// The next free number that is stored under `key`.
fn next_number(subject: &Subject, key: &[u8]) -> Result<Option<u64>> {
    let bounds = (key.to_vec(), Some([key, &[0]].concat()));
    let mut scan = Scan::open(&subject.snapshot, Family::Meta, bounds, CacheUse::Bypass, &subject.operation);
    if !scan.advance()? {
        return Ok(None);
    }
    // Big-endian, of 4 or 8 bytes: the next id of collections is shorter than that of sequences.
    Ok(Some(scan.value().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
}
