//! The documents that differ, where hashes have shown that some do: both sides are read again, and only what is in a part
//! that differs is remembered.

use std::collections::{BTreeMap, HashSet};

use cairndb::bson::{RawDocument, RawDocumentBuf, cstr, doc};
use formats::dump::reader::Piece;

use crate::command::raw;
use crate::extended_json::{Mode, write_value};
use crate::failure::Failure;
use crate::fingerprint::{hash, part_of};
use crate::restore::plan::{Plan, Planned};
use crate::restore::source::Source;
use crate::restore::tally::Tally;
use crate::store::Store;

/// Documents of the dump that are remembered, of all collections. Of more only the number of parts is reported.
const REMEMBERED_MAX: usize = 100_000;
/// The limit of the memory for the `_id`s of these.
const REMEMBERED_BYTES_MAX: usize = 16 << 20;

/// The parts of a collection that differ.
#[derive(Debug)]
pub(super) struct Differing {
    /// The position of the collection in the dump.
    pub(super) at: usize,
    pub(super) parts: HashSet<usize>,
}

/// The hashes of documents, by the bytes of their `_id`.
type Hashes = BTreeMap<Vec<u8>, u128>;

/// Names the documents that only one side has, or that are not the same.
pub(super) fn name(
    store: &dyn Store,
    source: &mut Source,
    plan: &Plan,
    differing: &[Differing],
    tally: &Tally,
) -> Result<(), Failure> {
    let mut dumped: Vec<Hashes> = differing.iter().map(|_| Hashes::new()).collect();
    let (mut document, mut remembered, mut bytes) = (Vec::new(), 0, 0);
    while let Some(piece) = source.next(plan, &mut document)? {
        let Piece::Document(at) = piece else { continue };
        let Some((one, hashes)) = differing.iter().zip(&mut dumped).find(|(one, _)| one.at == at) else {
            continue;
        };
        if let Some(id) = id_of(&document).filter(|_| one.parts.contains(&part_of(&document))) {
            remembered += 1;
            bytes += id.len();
            if remembered > REMEMBERED_MAX || bytes > REMEMBERED_BYTES_MAX {
                return Ok(());
            }
            hashes.insert(id, hash(&document));
        }
    }
    for (one, hashes) in differing.iter().zip(dumped) {
        if let Some(planned) = plan.planned.get(one.at).and_then(Option::as_ref) {
            compare(store, planned, one, hashes, tally)?;
        }
    }
    Ok(())
}

/// Reads the collection of the store. What is left of the dump's then is not in the store.
fn compare(
    store: &dyn Store,
    planned: &Planned,
    differing: &Differing,
    mut dumped: Hashes,
    tally: &Tally,
) -> Result<(), Failure> {
    let namespace = planned.namespace();
    let named =
        |id: &[u8], what: &str| tally.name_difference(&format!("{namespace}, _id {}: it {what}", shown(id)));
    let mut documents = store.stream(&planned.database, raw(&doc! { "find": planned.name.as_str() })?)?;
    while documents.advance()? {
        let document = documents.current().as_bytes();
        let Some(id) = id_of(document).filter(|_| differing.parts.contains(&part_of(document))) else {
            continue;
        };
        match dumped.remove(&id) {
            None => named(&id, "is not in the dump"),
            Some(expected) if expected != hash(document) => named(&id, "is not the same as in the dump"),
            Some(_) => {}
        }
    }
    for id in dumped.keys() {
        named(id, "is not in the store");
    }
    Ok(())
}

/// The `_id` alone, as a document.
fn id_of(document: &[u8]) -> Option<Vec<u8>> {
    let id = RawDocument::from_bytes(document).ok()?.get("_id").ok()??;
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!("_id"), id);
    Some(alone.into_bytes())
}

fn shown(id: &[u8]) -> String {
    let mut text = Vec::new();
    if let Some(value) = RawDocument::from_bytes(id).ok().and_then(|id| id.get("_id").ok()?) {
        // A value too deep to be shown cannot be an `_id` of a stored document.
        let _ = write_value(&mut text, value, Mode::Relaxed);
    }
    String::from_utf8_lossy(&text).into_owned()
}
