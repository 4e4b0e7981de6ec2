//! Index definition and the build of an index over the documents that are there already.
//!
//! The build runs with the collection's gate held exclusively: no write can pass it by. Its entries carry an id
//! that no catalog entry names until all of them are written, so a build that was cut short is invisible, and the
//! next open removes it.

use std::collections::HashSet;

use bson::{Document, RawDocumentBuf};
use index::error::Error as IndexError;
use index::spec::{IndexSpec, Sparseness, SpecOptions, Uniqueness};

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::document::decode::stored;
use crate::error::{Error, Result, WriteError};
use crate::options::IndexModel;
use crate::storage::Family;
use crate::storage::keys::IndexId;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;
use crate::storage::write::Batch;
use crate::write::Target;
use crate::write::entries::entries_of;
use crate::write::insert::{is_unique, taken_entry};
use crate::write::prepare::encoded_id;

/// Secondary indexes a collection may have: MongoDB's 64, less the one on `_id`.
const INDEXES_MAX: usize = 63;
const INDEX_NAME_BYTES_MAX: usize = 127;
const COMMIT_BYTES_MAX: usize = 1 << 20;

/// A checked definition.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) spec: IndexSpec,
}

/// What a definition means beside the indexes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is to be built.
    New,
    /// The same index is there already.
    Present,
}

/// Checks a model; `None` for the index on `_id`, which every collection has.
pub(crate) fn parse(model: &IndexModel) -> Result<Option<Definition>> {
    let options = model.options.clone().unwrap_or_default();
    if is_id_pattern(&model.keys) {
        return parse_id_index(options.name.as_deref(), options.sparse).map(|()| None);
    }
    let keys = RawDocumentBuf::try_from(&model.keys)?;
    let spec_options = SpecOptions {
        uniqueness: if options.unique == Some(true) { Uniqueness::Unique } else { Uniqueness::NotUnique },
        sparseness: if options.sparse == Some(true) { Sparseness::Sparse } else { Sparseness::NotSparse },
    };
    let spec = IndexSpec::parse(&keys, spec_options).map_err(|error| refusal(&error))?;
    let name = options.name.unwrap_or_else(|| spec.default_name());
    if name.is_empty() || name == "*" || name == ID_INDEX_NAME || name.contains('\0') {
        return Err(cannot_create(format!("the index name {name:?} is not allowed for {}", model.keys)));
    }
    if name.len() > INDEX_NAME_BYTES_MAX {
        let bytes = name.len();
        return Err(cannot_create(format!("the index name {name:?} has {bytes} bytes, the limit is 127")));
    }
    Ok(Some(Definition { name, spec }))
}

/// Compares a definition with the indexes that are there.
pub(crate) fn compare(definition: &Definition, indexes: &[Index]) -> Result<Standing> {
    let Definition { name, spec } = definition;
    if let Some(existing) = indexes.iter().find(|index| index.name == *name) {
        if existing.spec == *spec {
            return Ok(Standing::Present);
        }
        return Err(Error::command(
            86,
            format!("an index named {name} exists with other keys or options: {}", existing.key_pattern()),
        ));
    }
    if let Some(existing) = indexes.iter().find(|index| index.spec.fields() == spec.fields()) {
        return Err(Error::command(
            85,
            format!("index already exists with a different name or options: {}", existing.name),
        ));
    }
    if indexes.len() >= INDEXES_MAX {
        return Err(cannot_create(format!("add index {name} fails, too many indexes: the limit is 64")));
    }
    Ok(Standing::New)
}

/// Writes the entries of every document. `target.indexes` holds just the index that is built.
pub(crate) fn build(target: Target<'_>) -> Result<()> {
    let snapshot = Snapshot::take(target.database);
    let collection = target.collection.id;
    let bounds = (collection.prefix().to_vec(), Some(collection.end()));
    let mut scan = Scan::open(&snapshot, Family::Records, bounds, CacheUse::Bypass);
    let mut batch = Batch::new(target.database);
    let mut pending: HashSet<Vec<u8>> = HashSet::new();
    while scan.advance()? {
        let document = stored(scan.key(), scan.value())?;
        let id = encoded_id(scan.key());
        for entry in entries_of(target.indexes, document, id).map_err(|error| failed(target, &error))? {
            let taken =
                |key: &[u8]| Ok::<bool, Error>(pending.contains(key) || target.exists(Family::Entries, key)?);
            if is_unique(target, &entry) {
                if taken(&entry.key)? {
                    return Err(failed(target, &taken_entry(target, &entry, id)));
                }
                pending.insert(entry.key.clone());
            }
            batch.put(Family::Entries, &entry.key, &entry.value);
        }
        if batch.bytes() >= COMMIT_BYTES_MAX {
            target.store.commit(std::mem::replace(&mut batch, Batch::new(target.database)), target.level)?;
            pending.clear();
        }
    }
    target.store.commit(batch, target.level)
}

/// The index that a definition becomes.
pub(crate) fn index(definition: Definition, id: IndexId) -> Index {
    Index { id, name: definition.name, spec: definition.spec }
}

fn is_id_pattern(keys: &Document) -> bool {
    keys.len() == 1
        && keys.get("_id").is_some_and(|direction| {
            direction.as_i32() == Some(1) || direction.as_i64() == Some(1) || direction.as_f64() == Some(1.0)
        })
}

fn parse_id_index(name: Option<&str>, sparse: Option<bool>) -> Result<()> {
    if sparse == Some(true) {
        return Err(Error::command(197, "the _id index cannot be sparse"));
    }
    match name {
        None | Some(ID_INDEX_NAME) => Ok(()),
        Some(other) => Err(cannot_create(format!("the _id index is named {ID_INDEX_NAME}, not {other:?}"))),
    }
}

fn refusal(error: &IndexError) -> Error {
    cannot_create(error.to_string())
}

fn cannot_create(message: String) -> Error {
    Error::command(67, message)
}

fn failed(target: Target<'_>, error: &WriteError) -> Error {
    let namespace = &target.collection.namespace;
    let message = format!("Index build failed: {namespace}: {}", error.message);
    Error::write(Box::new(WriteError { message, ..error.clone() })).into_command().in_namespace(namespace)
}
