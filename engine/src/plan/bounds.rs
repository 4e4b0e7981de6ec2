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

/// The `_id` that the filter fixes for a document to be upserted: by a value, `$eq` or an `$in` of one, at the top
/// or under `$and` and an `$or` of one branch, as MongoDB takes it.
///
/// Fails when two are asked for (54), or only a part of one (111).
pub(crate) fn upsert_id(filter: &Document) -> Result<Option<Bson>> {
    let mut wanted: Option<Bson> = None;
    // The filter was parsed, which bounds its depth.
    let mut pending = vec![filter];
    while let Some(level) = pending.pop() {
        for (name, value) in level {
            if name.starts_with("_id.") {
                let message = format!("field '{name}' is a part of '_id', which an upsert must know exactly");
                return Err(Error::command(111, "NotExactValueField", message));
            }
            let branches =
                value.as_array().filter(|branches| name == "$and" || (name == "$or" && branches.len() == 1));
            pending.extend(branches.into_iter().flatten().filter_map(Bson::as_document));
            let Some(value) = Some(value).filter(|_| name == ID_FIELD).and_then(equal_value) else {
                continue;
            };
            if wanted.as_ref().is_some_and(|earlier| earlier != value) {
                let message = "cannot infer query fields to set, path '_id' is matched twice";
                return Err(Error::command(54, "NotSingleValueField", message));
            }
            wanted = Some(value.clone());
        }
    }
    Ok(wanted)
}

/// The value that a condition fixes, if it does.
fn equal_value(condition: &Bson) -> Option<&Bson> {
    if matches!(condition, Bson::RegularExpression(_)) {
        return None;
    }
    let operators =
        condition.as_document().filter(|inner| inner.keys().next().is_some_and(|name| name.starts_with('$')));
    let Some(operators) = operators else { return Some(condition) };
    let one_of = operators
        .get_array("$in")
        .ok()
        .filter(|members| members.len() == 1)
        .and_then(|members| members.first());
    operators.get("$eq").or(one_of.filter(|member| !matches!(member, Bson::RegularExpression(_))))
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

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[track_caller]
    fn check(filter: &Document, expected: std::result::Result<Option<i32>, i32>) {
        let found = upsert_id(filter).map(|id| id.and_then(|id| id.as_i32())).map_err(|error| error.code());
        assert_eq!(found, expected.map_err(Some), "{filter}");
    }

    #[test]
    fn an_upsert_takes_the_id_that_the_filter_fixes() {
        check(&doc! { "_id": 5 }, Ok(Some(5)));
        check(&doc! { "_id": { "$eq": 5, "$gt": 1 } }, Ok(Some(5)));
        check(&doc! { "_id": { "$in": [5] } }, Ok(Some(5)));
        check(&doc! { "$and": [{ "a": 1 }, { "$and": [{ "_id": 5 }] }] }, Ok(Some(5)));
        check(&doc! { "$or": [{ "_id": 5 }] }, Ok(Some(5)));
        check(&doc! { "_id": 5, "$and": [{ "_id": { "$eq": 5 } }] }, Ok(Some(5)));
        check(&doc! { "$or": [{ "_id": 5 }, { "_id": 6 }] }, Ok(None));
        check(&doc! { "_id": { "$gt": 5 } }, Ok(None));
        check(&doc! { "_id": { "$in": [5, 6] } }, Ok(None));
        let pattern = bson::Regex { pattern: bson::cstr!("a").into(), options: bson::cstr!("").into() };
        check(&doc! { "_id": Bson::RegularExpression(pattern) }, Ok(None));
        check(&doc! { "$nor": [{ "_id": 5 }] }, Ok(None));
        check(&doc! { "$and": [{ "_id": 5 }, { "_id": 6 }] }, Err(54));
        check(&doc! { "_id.x": 1 }, Err(111));
    }
}
