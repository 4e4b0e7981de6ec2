//! Key ranges of a filter's conditions on `_id`.

use bson::{Bson, Document, RawBsonRef, rawdoc};
use index::range::key_ranges;
use index::spec::{IndexSpec, SpecOptions};
use query::filter::{Arrays, Filter};

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::error::{Error, Result};
use crate::options::Hint;
use crate::storage::keys::CollectionId;

const ID_FIELD: &str = "_id";

/// Where the matching records lie: disjoint ranges of record keys, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordRanges {
    pub(crate) ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RecordRanges {
    /// The ranges that can hold documents matching the filter.
    pub(crate) fn of(filter: &Filter, collection: CollectionId) -> Result<Self> {
        let bounds = filter.intervals(ID_FIELD, Arrays::Absent);
        if bounds.is_all() {
            return Ok(Self { ranges: vec![(collection.prefix().to_vec(), collection.end())] });
        }
        let spec = IndexSpec::parse(&rawdoc! { "_id": 1 }, SpecOptions::default())
            .map_err(|error| Error::invalid_argument(error.to_string()))?;
        let prefix = collection.prefix();
        let ranges = key_ranges(&spec, &[bounds]).ranges.into_iter().map(|range| {
            let end = range.end.map_or_else(|| collection.end(), |end| [&prefix[..], &end].concat());
            ([&prefix[..], &range.start].concat(), end)
        });
        Ok(Self { ranges: ranges.collect() })
    }
}

/// The value of a filter that is nothing but `{_id: value}`, which needs no plan.
///
/// Values with a meaning of their own in a filter are left to the general way: operator documents, regular
/// expressions, and null, which also matches what has no `_id`.
pub(crate) fn point_id(filter: &Document) -> Option<RawBsonRef<'_>> {
    let mut fields = filter.iter();
    let (name, value) = fields.next().filter(|_| filter.len() == 1)?;
    if name != ID_FIELD {
        return None;
    }
    match value {
        Bson::ObjectId(id) => Some(RawBsonRef::ObjectId(*id)),
        Bson::String(text) => Some(RawBsonRef::String(text)),
        Bson::Int32(number) => Some(RawBsonRef::Int32(*number)),
        Bson::Int64(number) => Some(RawBsonRef::Int64(*number)),
        Bson::Double(number) => Some(RawBsonRef::Double(*number)),
        Bson::Boolean(flag) => Some(RawBsonRef::Boolean(*flag)),
        Bson::DateTime(date) => Some(RawBsonRef::DateTime(*date)),
        Bson::Document(_)
        | Bson::Array(_)
        | Bson::Null
        | Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Timestamp(_)
        | Bson::Binary(_)
        | Bson::Symbol(_)
        | Bson::Decimal128(_)
        | Bson::Undefined
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => None,
    }
}

/// The `_id` that every match has, from a top-level `{_id: value}` or `{_id: {$eq: value}}`.
pub(crate) fn equal_id(filter: &Document) -> Option<&Bson> {
    let value = filter.get(ID_FIELD)?;
    let Some(inner) = value.as_document() else { return Some(value) };
    match inner.keys().next() {
        Some(name) if name == "$eq" && inner.len() == 1 => inner.get(name),
        Some(name) if name.starts_with('$') => None,
        _ => Some(value),
    }
}

/// Refuses a hint that cannot be honored; the index on `_id` is the one that reads use.
pub(crate) fn check_hint(hint: Option<&Hint>, indexes: &[Index]) -> Result<()> {
    let (shown, is_id, is_known) = match hint {
        None => return Ok(()),
        Some(Hint::Name(name)) => {
            (name.clone(), name == ID_INDEX_NAME, indexes.iter().any(|index| index.name == *name))
        }
        Some(Hint::Keys(keys)) => (
            keys.to_string(),
            *keys == bson::doc! { ID_FIELD: 1 } || *keys == bson::doc! { "$natural": 1 },
            indexes.iter().any(|index| index.key_pattern() == *keys),
        ),
    };
    if is_id {
        return Ok(());
    }
    let fault = if is_known {
        "reads by secondary indexes are not supported yet"
    } else {
        "hint provided does not correspond to an existing index"
    };
    Err(Error::command(2, "BadValue", format!("hint {shown}: {fault}")))
}
