//! The catalog entry: one small BSON document for each collection, under its id in family `meta`.
//!
//! ```text
//! { db: string, name: string, indexes: [ { id: int64, name: string, key: document, unique: bool, sparse: bool } ] }
//! ```
//! Stored bytes may be damaged, so decoding checks everything and names what is wrong.

use bson::{Bson, Document, doc};
use index::spec::{IndexSpec, Sparseness, SpecOptions, Uniqueness};

use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::Index;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::storage::Family;
use crate::storage::keys::{CollectionId, IndexId};

pub(crate) fn encode(namespace: &Namespace, indexes: &[Index]) -> Result<Vec<u8>> {
    let indexes: Vec<Bson> = indexes.iter().map(|index| Bson::Document(encode_index(index))).collect();
    Ok(doc! { "db": &namespace.db, "name": &namespace.coll, "indexes": indexes }.to_vec()?)
}

pub(crate) fn decode(id: CollectionId, value: &[u8]) -> Result<CollectionState> {
    let damaged = |reason: String| Error::corruption(Family::Meta.name(), &id.catalog_key(), reason);
    let valid = index::validate::validate(value).map_err(|error| damaged(error.to_string()))?;
    let entry = Document::try_from(valid.as_raw()).map_err(|error| damaged(error.to_string()))?;
    let text = |field: &str| {
        entry.get_str(field).map(str::to_owned).map_err(|_| damaged(format!("{field} is not a string")))
    };
    let namespace =
        Namespace::parse(&text("db")?, &text("name")?).map_err(|error| damaged(error.to_string()))?;
    let listed = entry.get_array("indexes").map_err(|_| damaged("indexes is not an array".to_owned()))?;
    let indexes =
        listed.iter().map(|index| decode_index(index).map_err(&damaged)).collect::<Result<Vec<_>>>()?;
    Ok(CollectionState::new(id, namespace, indexes))
}

fn encode_index(index: &Index) -> Document {
    doc! {
        "id": i64::from(index.id.0),
        "name": &index.name,
        "key": index.key_pattern(),
        "unique": index.spec.is_unique(),
        "sparse": index.spec.is_sparse(),
    }
}

fn decode_index(index: &Bson) -> std::result::Result<Index, String> {
    let fields = index.as_document().ok_or("an index is not a document")?;
    let id = fields
        .get_i64("id")
        .ok()
        .and_then(|id| u32::try_from(id).ok())
        .ok_or("an index's id is not an unsigned 32-bit number")?;
    let name = fields.get_str("name").map_err(|_| "an index's name is not a string")?.to_owned();
    let keys =
        fields.get_document("key").map_err(|_| format!("the key of index {name} is not a document"))?;
    let flag =
        |field| fields.get_bool(field).map_err(|_| format!("{field} of index {name} is not a boolean"));
    let keys = bson::RawDocumentBuf::try_from(keys).map_err(|error| error.to_string())?;
    let options = SpecOptions {
        uniqueness: if flag("unique")? { Uniqueness::Unique } else { Uniqueness::NotUnique },
        sparseness: if flag("sparse")? { Sparseness::Sparse } else { Sparseness::NotSparse },
    };
    let spec = IndexSpec::parse(&keys, options).map_err(|error| error.to_string())?;
    Ok(Index { id: IndexId(id), name, spec })
}
