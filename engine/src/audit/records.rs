//! Records: each belongs to a collection, is a valid document, is stored under the key of its `_id`, has
//! every entry that it should have, and has no array where its indexes are said to have none.

use std::collections::HashMap;

use base::error::Result;
use index::multikey::ArrayComponents;
use index::validate::validate;
use store::Family;
use store::keys::split_id;
use store::scan::{CacheUse, Scan};

use crate::audit::findings::Findings;
use crate::audit::orphans::Orphans;
use crate::audit::watch::Watch;
use crate::audit::{Audited, Subject, family_name};
use crate::progress::VerifyPhase;
use crate::results::VerifyReport;
use crate::write::entries::stored_entries_of;
use crate::write::prepare::{encoded_id, record_key_of};

/// The number of entries that the records give to each index, by index id.
pub(super) type ExpectedEntries = HashMap<u32, u64>;

/// The purposes of reading the records.
pub(super) struct Found<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) orphans: &'a mut Orphans,
}

pub(super) fn audit(
    subject: &Subject,
    watch: &mut Watch<'_>,
    report: &mut VerifyReport,
    found: &mut Found<'_>,
) -> Result<ExpectedEntries> {
    // Their number is known only if every collection was counted already.
    let counted = subject.collections.values().map(|audited| audited.counted);
    watch.teller.begin(VerifyPhase::Documents, counted.sum::<Option<u64>>().unwrap_or(0));
    let mut expected = ExpectedEntries::new();
    let mut counts: HashMap<u32, u64> = HashMap::new();
    let mut scan = Scan::open(
        &subject.snapshot,
        Family::Records,
        (Vec::new(), None),
        CacheUse::Bypass,
        &subject.operation,
    );
    let mut entered = None;
    while scan.advance()? {
        let owner = split_id(scan.key()).and_then(|(id, _)| subject.collections.get(&id));
        let id = owner.map(|audited| audited.id.0);
        if entered != id {
            entered = id;
            watch.teller.enter(owner.map(|audited| &audited.namespace));
        }
        watch.pass(scan.key().len() + scan.value().len())?;
        let Some(audited) = owner else {
            found.findings.add(
                family_name(Family::Records),
                None,
                scan.key(),
                "the record belongs to no collection",
            );
            continue;
        };
        // Counted before the document is looked at: the counter counts damaged records too.
        *counts.entry(audited.id.0).or_default() += 1;
        report.documents += 1;
        report.document_bytes += scan.value().len() as u64;
        let record = StoredRecord { key: scan.key(), value: scan.value() };
        audit_record(subject, audited, record, &mut expected, found)?;
    }
    watch.teller.end();
    // After the whole scan: only then the number of stored documents is known.
    for audited in subject.collections.values() {
        let stored = counts.get(&audited.id.0).copied().unwrap_or(0);
        if let Some(counted) = audited.counted
            && counted != stored
        {
            let problem = format!("the counter says {counted} documents, {stored} are stored");
            found.findings.add(audited.namespace.to_string(), None, &[], problem);
        }
    }
    Ok(expected)
}

/// A record as it is stored.
#[derive(Clone, Copy)]
struct StoredRecord<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

fn audit_record(
    subject: &Subject,
    audited: &Audited,
    record: StoredRecord<'_>,
    expected: &mut ExpectedEntries,
    found: &mut Found<'_>,
) -> Result<()> {
    let StoredRecord { key, value } = record;
    let Found { findings, orphans } = found;
    let place = || audited.namespace.to_string();
    let document = match validate(value) {
        Ok(document) => document,
        Err(error) => {
            findings.add(place(), None, key, error.to_string());
            return Ok(());
        }
    };
    orphans.see(subject, audited, document.as_raw())?;
    match document.id() {
        None => findings.add(place(), None, key, "the document has no _id"),
        Some(id) => {
            if record_key_of(audited.id, audited.record_keys.long_keys, id) != key {
                findings.add(place(), None, key, "the key is not the one of the document's _id");
            }
            // 4: right after the length of the document. Reads rely on the `_id` being first.
            if document.id_element().is_none_or(|element| element.start != 4) {
                findings.add(place(), None, key, "_id is not the first field");
            }
        }
    }
    // The function of the write path, so that audit and writes cannot have different opinions about entries.
    let drawn =
        match stored_entries_of(audited.indexes.iter().enumerate(), document.as_raw(), encoded_id(key)) {
            Ok(drawn) => drawn,
            Err(error) => {
                findings.add(place(), None, key, format!("the document cannot be indexed: {error}"));
                return Ok(());
            }
        };
    if audited.record_keys.is_shortened(encoded_id(key)) && !audited.record_keys.announced().has_shortened() {
        findings.add(
            place(),
            None,
            key,
            "the key is shortened where the collection is said to have no such key",
        );
    }
    // It lists the arrays and the shortened keys that the catalog does not know of, which a write would have to note.
    for (position, found_marks) in drawn.arrays {
        let Some(index) = position.and_then(|position| audited.indexes.get(position)) else { continue };
        let mut known = index.arrays.announced().into_iter().zip(found_marks);
        let is_array = known.any(|(known, found)| !known.union(ArrayComponents::SHORTENED).covers(found));
        let problem = if is_array {
            "the document has an array where the index is said to have none"
        } else {
            "the document has a shortened key where the index is said to have none"
        };
        findings.add(place(), Some(&index.name), key, problem);
    }
    for entry in drawn.entries {
        let Some(index) = audited.indexes.get(entry.index) else { continue };
        *expected.entry(index.id.0).or_default() += 1;
        let problem = match subject.snapshot.get(Family::Entries, &entry.key)? {
            // The value holds the type bytes, so a document with other types of the same key is found here.
            Some(stored) if stored == entry.value => continue,
            Some(_) => "the entry belongs to another document or has other types",
            None => "the entry is missing",
        };
        findings.add(place(), Some(&index.name), &entry.key, problem);
    }
    Ok(())
}
