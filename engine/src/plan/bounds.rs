//! Spans of keys within bounds, and filters that fix the `_id`.

use std::ops::Range;

use bson::{Bson, Document, RawBsonRef, rawdoc};
use index::interval::Intervals;
use index::key::Direction;
use index::range::{Exactness, KeyRange, KeyRanges, key_ranges};
use index::spec::{IndexSpec, SpecOptions};

use crate::catalog::indexes::Index;
use crate::error::{Error, Result};
use crate::storage::keys::{CollectionId, ID_BYTES};

/// The name of the field that records stand under.
pub(crate) const ID_FIELD: &str = "_id";

/// Keys of one collection's records, or of one index's entries, that can lead to a match: disjoint spans, taken one by one
/// from either end.
#[derive(Clone, Debug)]
pub(crate) struct KeySpans {
    /// What all keys start with, and the first key after all that do.
    prefix: [u8; ID_BYTES],
    end: Vec<u8>,
    /// Ranges of what follows the prefix; absent for all keys.
    ranges: Option<KeyRanges>,
    /// Whether each range holds one key at most, and that is the range's start.
    are_keys: bool,
    /// Positions of the ranges that were not taken yet.
    left: Range<usize>,
}

/// A span of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySpan {
    /// One key, which may be absent.
    Key(Vec<u8>),
    /// The keys from the first up to but without the second.
    Between(Vec<u8>, Vec<u8>),
}

impl KeySpans {
    /// The records of a collection whose `_id`s lie within `ids`.
    pub(crate) fn of_records(ids: &Intervals, collection: CollectionId) -> Result<Self> {
        let (prefix, end) = (collection.prefix(), collection.end());
        if ids.is_all() {
            return Ok(Self { prefix, end, ranges: None, are_keys: false, left: 0..1 });
        }
        let spec = IndexSpec::parse(&rawdoc! { "_id": 1 }, SpecOptions::default())
            .map_err(|error| Error::invalid_argument(error.to_string()))?;
        let ranges = key_ranges(&spec, std::slice::from_ref(ids));
        let are_keys = ranges.are_points();
        Ok(Self { prefix, end, are_keys, left: 0..ranges.len(), ranges: Some(ranges) })
    }

    /// The entries of an index within bounds on its fields, and whether all of those lie within.
    pub(crate) fn of_entries(index: &Index, bounds: &[Intervals]) -> (Self, Exactness) {
        let ranges = key_ranges(&index.spec, bounds);
        let exactness = ranges.exactness();
        // The key of a unique entry is its fields; another one ends with the document's `_id`.
        let are_keys = index.spec.is_unique() && ranges.are_points();
        let (prefix, end) = (index.id.prefix(), index.id.end());
        (Self { prefix, end, are_keys, left: 0..ranges.len(), ranges: Some(ranges) }, exactness)
    }

    /// Takes the next span of a walk.
    pub(crate) fn take(&mut self, direction: Direction) -> Option<KeySpan> {
        let position = match direction {
            Direction::Ascending => self.left.next(),
            Direction::Descending => self.left.next_back(),
        }?;
        let Some(ranges) = &self.ranges else {
            return Some(KeySpan::Between(self.prefix.to_vec(), self.end.clone()));
        };
        let KeyRange { start, end } = ranges.get(position)?;
        let start = [&self.prefix[..], &start].concat();
        if self.are_keys {
            return Some(KeySpan::Key(start));
        }
        let end = end.map_or_else(|| self.end.clone(), |end| [&self.prefix[..], &end].concat());
        Some(KeySpan::Between(start, end))
    }
}

/// The value that a filter fixes for the `_id` by a field `{_id: value}`, which leads to one record.
///
/// Values with a meaning of their own in a filter are left to the general way: operator documents, regular
/// expressions, and null, which also matches what has no `_id`.
pub(crate) fn point_id(filter: &Document) -> Option<RawBsonRef<'_>> {
    let value = filter.get(ID_FIELD)?;
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

/// Whether a filter is nothing but equalities: by a value, `$eq` or an `$in` of one, at the top or under `$and` and an
/// `$or` of one branch.
pub(crate) fn asks_only_equality(filter: &Document) -> bool {
    // The filter was parsed, which bounds its depth.
    let mut pending = vec![filter];
    while let Some(level) = pending.pop() {
        for (name, value) in level {
            let branches = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let is_asked = match name.as_str() {
                "$and" => true,
                "$or" => branches.len() == 1,
                "$comment" => continue,
                name if name.starts_with('$') => false,
                _ if equal_value(value).is_some() => continue,
                _ => false,
            };
            if !is_asked {
                return false;
            }
            pending.extend(branches.iter().filter_map(Bson::as_document));
        }
    }
    true
}

/// The value that a condition fixes, if it does.
fn equal_value(condition: &Bson) -> Option<&Bson> {
    if matches!(condition, Bson::RegularExpression(_)) {
        return None;
    }
    let operators =
        condition.as_document().filter(|inner| inner.keys().next().is_some_and(|name| name.starts_with('$')));
    let Some(operators) = operators else { return Some(condition) };
    let one_of = operators.get_array("$in").ok().filter(|members| members.len() == 1);
    let member = one_of.and_then(|members| members.first());
    let only = Some(operators).filter(|operators| operators.len() == 1)?;
    only.get("$eq").or(member.filter(|member| !matches!(member, Bson::RegularExpression(_))))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[track_caller]
    fn check(filter: &Document, expected: bool) {
        assert_eq!(asks_only_equality(filter), expected, "{filter}");
    }

    #[test]
    fn equalities_are_told_from_everything_else() {
        check(&doc! {}, true);
        check(&doc! { "_id": 5, "a.b": { "c": 1 } }, true);
        check(&doc! { "a": { "$eq": 5 }, "$comment": "why" }, true);
        check(&doc! { "$and": [{ "a": 1 }, { "$or": [{ "b": { "$in": [5] } }] }] }, true);
        check(&doc! { "a": { "$eq": 5, "$gt": 1 } }, false);
        check(&doc! { "$or": [{ "a": 5 }, { "a": 6 }] }, false);
        check(&doc! { "a": { "$in": [5, 6] } }, false);
        check(&doc! { "$nor": [{ "a": 5 }] }, false);
        let pattern = bson::Regex { pattern: bson::cstr!("a").into(), options: bson::cstr!("").into() };
        check(&doc! { "a": Bson::RegularExpression(pattern) }, false);
    }
}
