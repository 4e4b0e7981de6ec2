//! The records that an earlier process has imported, looked for in the store before an import continues. The state is
//! beside the input, and stays when a store is removed: lines that it passes over would then be missing.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{RawBsonRef, doc};
use query::code::Code;

use crate::command::raw;
use crate::failure::Failure;
use crate::import::counts::Counts;
use crate::import::write::{Mode, Target};
use crate::store::{Store, is_no_store};

/// The identity of a collection: one that is dropped and created again has another.
pub(super) type CollectionUuid = String;

/// The part of an earlier process's import that is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Store,
    Collection,
    /// There is another collection of that name.
    SameCollection,
    Documents,
}

impl Missing {
    /// The message about the missing part.
    pub(super) fn told(self, store: &Path, target: &Target) -> String {
        let namespace = format!("{}.{}", target.database, target.collection);
        match self {
            Self::Store => format!("there is no store {}", store.display()),
            Self::Collection => format!("the store has no collection {namespace}"),
            Self::SameCollection => format!("the collection {namespace} was created again since"),
            Self::Documents => format!("the collection {namespace} is empty"),
        }
    }
}

/// Returns `Missing::Store` if an earlier process wrote to a folder that has no store now: opening it for the import would make one.
pub(super) fn missing_store(store: &Path, counts: &Counts) -> Option<Missing> {
    (has_reached(counts) && is_no_store(store)).then_some(Missing::Store)
}

/// Returns what is missing of the collection if an earlier process wrote to it. `known` is its UUID of that time.
pub(super) fn missing_in(
    store: &dyn Store,
    target: &Target,
    counts: &Counts,
    known: Option<&CollectionUuid>,
) -> Result<Option<Missing>, Failure> {
    if !has_reached(counts) {
        return Ok(None);
    }
    let Some(uuid) = uuid(store, target)? else { return Ok(Some(Missing::Collection)) };
    if known.is_some_and(|known| !known.is_empty() && !uuid.is_empty() && *known != uuid) {
        return Ok(Some(Missing::SameCollection));
    }
    // A delete leaves no documents on purpose.
    if target.mode == Mode::Delete || has_documents(store, target)? {
        return Ok(None);
    }
    Ok(Some(Missing::Documents))
}

/// The UUID of the collection in base64, empty if the store returns none. Returns `None` without a collection.
pub(super) fn uuid(store: &dyn Store, target: &Target) -> Result<Option<CollectionUuid>, Failure> {
    let name = target.collection.as_str();
    let list = raw(&doc! { "listCollections": 1, "filter": { "name": name } })?;
    let mut listed = match store.stream(&target.database, list) {
        Ok(listed) => listed,
        // A user who may write need not be allowed to ask.
        Err(failure) if failure.code == Some(Code::UNAUTHORIZED.number()) => {
            return Ok(Some(CollectionUuid::new()));
        }
        Err(failure) => return Err(failure),
    };
    if !listed.advance()? {
        return Ok(None);
    }
    let told = listed.current().get_document("info").ok().and_then(|info| info.get("uuid").ok().flatten());
    let Some(RawBsonRef::Binary(uuid)) = told else { return Ok(Some(CollectionUuid::new())) };
    let bytes = if uuid.subtype == BinarySubtype::Uuid { uuid.bytes } else { &[] };
    Ok(Some(STANDARD.encode(bytes)))
}

/// Whether an earlier process has found or left anything in the collection.
fn has_reached(counts: &Counts) -> bool {
    let Counts { inserted, matched, upserted, deleted, already_there, skipped, .. } = *counts;
    inserted + matched + upserted + deleted + already_there + skipped > 0
}

fn has_documents(store: &dyn Store, target: &Target) -> Result<bool, Failure> {
    let find = raw(&doc! { "find": target.collection.as_str(), "limit": 1 })?;
    store.stream(&target.database, find)?.advance()
}
