//! The insertion orders of capped collections: each document has one position, each position one document, and the state says
//! how many there are.

use base::error::Result;
use store::Family;
use store::keys::{ID_BYTES, OrderId, position_of};
use store::scan::{CacheUse, Scan};

use crate::audit::findings::Findings;
use crate::audit::watch::Watch;
use crate::audit::{Audited, Subject};
use crate::catalog::capped::OrderState;
use crate::write::prepare::encoded_id;

pub(super) fn audit(subject: &Subject, watch: &mut Watch<'_>, findings: &mut Findings) -> Result<()> {
    for audited in subject.collections.values() {
        if let Some(capped) = audited.capped {
            watch.teller.enter(Some(&audited.namespace));
            audit_one(&Order { subject, audited, id: capped.order }, watch, findings)?;
        }
    }
    Ok(())
}

/// An order that is audited.
struct Order<'a> {
    subject: &'a Subject,
    audited: &'a Audited,
    id: OrderId,
}

fn audit_one(order: &Order<'_>, watch: &mut Watch<'_>, findings: &mut Findings) -> Result<()> {
    let state_key = order.id.state_key();
    let place = || order.audited.namespace.to_string();
    let stored = order.subject.snapshot.get(Family::Entries, &state_key)?;
    let state = match stored.map(|value| OrderState::decode(order.id, &value)) {
        Some(Ok(state)) => state,
        Some(Err(error)) => {
            findings.add(place(), None, &state_key, error.to_string());
            return Ok(());
        }
        None => {
            findings.add(place(), None, &state_key, "the state of the insertion order is missing");
            return Ok(());
        }
    };
    // Both ways: a document without a position would never go, and a position without a document would end a read.
    let (documents, bytes) = audit_documents(order, watch, findings)?;
    audit_positions(order, state, watch, findings)?;
    if (state.documents, state.bytes) != (documents, bytes) {
        let problem = format!(
            "the insertion order says {} documents of {} bytes, {documents} of {bytes} are stored",
            state.documents, state.bytes
        );
        findings.add(place(), None, &state_key, problem);
    }
    Ok(())
}

/// Checks that every document has a position. Returns how many documents there are, and their bytes.
fn audit_documents(order: &Order<'_>, watch: &mut Watch<'_>, findings: &mut Findings) -> Result<(u64, u64)> {
    let collection = order.audited.id;
    let bounds = (collection.prefix().to_vec(), Some(collection.end()));
    let mut scan = Scan::open(
        &order.subject.snapshot,
        Family::Records,
        bounds,
        CacheUse::Bypass,
        &order.subject.operation,
    );
    let (mut documents, mut bytes) = (0, 0);
    while scan.advance()? {
        watch.pass(scan.key().len() + scan.value().len())?;
        // Counted before they are looked at, as the state counts them.
        documents += 1;
        bytes += scan.value().len() as u64;
        if order
            .subject
            .snapshot
            .get(Family::Entries, &order.id.document_key(encoded_id(scan.key())))?
            .is_none()
        {
            let problem = "the document has no position in the insertion order";
            findings.add(order.audited.namespace.to_string(), None, scan.key(), problem);
        }
    }
    Ok((documents, bytes))
}

/// Checks that positions and documents name each other, and that their documents exist.
fn audit_positions(
    order: &Order<'_>,
    state: OrderState,
    watch: &mut Watch<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let snapshot = &order.subject.snapshot;
    let (start, _) = order.id.positions_from(0);
    let mut scan = Scan::open(
        snapshot,
        Family::Entries,
        (start, Some(order.id.end())),
        CacheUse::Bypass,
        &order.subject.operation,
    );
    // After the tag: the `_id` of a document, which has its position as the value.
    let id_at = ID_BYTES + 1;
    while scan.advance()? {
        watch.pass(scan.key().len() + scan.value().len())?;
        let (key, value) = (scan.key(), scan.value());
        // A key that is not a position in this range is a document: the state is before it.
        let problem = if let Some(position) = position_of(key) {
            let named = snapshot.get(Family::Entries, &order.id.document_key(value))?;
            if !(state.first..state.next).contains(&position) {
                Some("the position is not between the first and the next one")
            } else if named.as_deref() != Some(&position.to_be_bytes()[..]) {
                Some("the document of the position has another position")
            } else {
                None
            }
        } else {
            let id = key.get(id_at..).unwrap_or_default();
            let position = <[u8; 8]>::try_from(value).ok().map(u64::from_be_bytes);
            let named =
                position.map(|position| snapshot.get(Family::Entries, &order.id.position_key(position)));
            let record = [&order.audited.id.prefix()[..], id].concat();
            if named.transpose()?.flatten().as_deref() != Some(id) {
                Some("the position of the document is that of another one")
            } else if snapshot.get(Family::Records, &record)?.is_none() {
                Some("the position's document does not exist")
            } else {
                None
            }
        };
        if let Some(problem) = problem {
            findings.add(order.audited.namespace.to_string(), None, key, problem);
        }
    }
    Ok(())
}
