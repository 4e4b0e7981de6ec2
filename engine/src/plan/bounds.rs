//! Bounds as spans of keys, and filters that fix the `_id` or other fields by equality.

use std::ops::Range;

use base::error::{Error, Result};
use bson::raw::RawBinaryRef;
use bson::{Binary, Bson, Document, RawBsonRef, rawdoc};
use index::collation::{Collation, SIMPLE};
use index::interval::Intervals;
use index::key::{Direction, LongKeys};
use index::range::{Exactness, KeyRange, KeyRanges, key_ranges};
use index::spec::{IndexSpec, SpecOptions};
use store::keys::CollectionId;

use crate::catalog::indexes::Index;

/// The name of the field that is the key of records.
pub(crate) const ID_FIELD: &str = "_id";

/// The keys of a collection's records, or of an index's entries, that are within bounds. They are disjoint spans, which
/// are handed out one by one from either end.
#[derive(Clone, Debug)]
pub(crate) struct KeySpans {
    /// The prefix of all keys. Without ranges it is the first key.
    prefix: Vec<u8>,
    /// The first key after all keys with the prefix.
    end: Vec<u8>,
    /// The ranges of what follows the prefix. Absent for all keys.
    ranges: Option<KeyRanges>,
    /// Whether each range holds at most one key, which is then the start of the range.
    are_keys: bool,
    /// The indexes of the ranges that are not handed out yet.
    left: Range<usize>,
}

/// A span of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySpan {
    /// One key, which need not exist.
    Key(Vec<u8>),
    /// The keys from the first one, inclusive, up to the second, exclusive.
    Between(Vec<u8>, Vec<u8>),
}

impl KeySpans {
    /// The records of a collection whose `_id`s are within `ids`.
    pub(crate) fn of_records(ids: &Intervals, collection: CollectionId, long_keys: LongKeys) -> Result<Self> {
        let (prefix, end) = (collection.prefix().to_vec(), collection.end());
        if ids.is_all() {
            return Ok(Self { prefix, end, ranges: None, are_keys: false, left: 0..1 });
        }
        // Records are ordered by `_id`, so their ranges are those of an index on it.
        let spec = IndexSpec::parse(&rawdoc! { "_id": 1 }, SpecOptions::default())
            .map_err(|error| Error::invalid_argument(error.to_string()))?;
        let ranges = key_ranges(&spec.with_long_keys(long_keys), std::slice::from_ref(ids));
        let are_keys = ranges.are_points();
        Ok(Self { prefix, end, are_keys, left: 0..ranges.len(), ranges: Some(ranges) })
    }

    /// The entries of an index within bounds on its fields, and whether all keys of the spans are within the bounds.
    pub(crate) fn of_entries(index: &Index, bounds: &[Intervals]) -> (Self, Exactness) {
        let ranges = key_ranges(&index.spec, bounds);
        let exactness = ranges.exactness();
        // The key of a unique entry is its fields alone. Other entries have the `_id` as well, so the fields are only the
        // start of several keys.
        let are_keys = index.spec.is_unique() && ranges.are_points();
        let (prefix, end) = (index.id.prefix().to_vec(), index.id.end());
        (Self { prefix, end, are_keys, left: 0..ranges.len(), ranges: Some(ranges) }, exactness)
    }

    /// All keys from `start` up to but without `end`.
    pub(crate) fn between(start: Vec<u8>, end: Vec<u8>) -> Self {
        Self { prefix: start, end, ranges: None, are_keys: false, left: 0..1 }
    }

    /// One span.
    pub(crate) fn one(span: KeySpan) -> Self {
        match span {
            KeySpan::Between(start, end) => Self::between(start, end),
            KeySpan::Key(key) => Self { are_keys: true, ..Self::between(key, Vec::new()) },
        }
    }

    /// Hands out the next span of a walk in a direction. Returns `None` if no span is left.
    pub(crate) fn take(&mut self, direction: Direction) -> Option<KeySpan> {
        let position = match direction {
            Direction::Ascending => self.left.next(),
            Direction::Descending => self.left.next_back(),
        }?;
        let Some(ranges) = &self.ranges else {
            let (prefix, end) = (self.prefix.clone(), self.end.clone());
            return Some(if self.are_keys { KeySpan::Key(prefix) } else { KeySpan::Between(prefix, end) });
        };
        let KeyRange { start, end } = ranges.get(position)?;
        let start = [&self.prefix[..], &start].concat();
        if self.are_keys {
            return Some(KeySpan::Key(start));
        }
        // A range without an end goes up to the last key with the prefix.
        let end = end.map_or_else(|| self.end.clone(), |end| [&self.prefix[..], &end].concat());
        Some(KeySpan::Between(start, end))
    }
}

/// The `_id` that a filter fixes by a field `{_id: value}`, so that it matches one record at most. Returns `None` for all
/// other filters, and for values that are not [found by their key alone](Collation::finds_by_key): records have the keys of the
/// simple collation, and the filter compares by `collation`.
pub(crate) fn point_id<'f>(filter: &'f Document, collation: &Collation) -> Option<RawBsonRef<'f>> {
    point_value(filter.get(ID_FIELD)?, collation)
}

/// The field and the value of a filter that is nothing but `{field: value}`. Returns `None` for the types and names for which
/// that is more than the equality of one field.
pub(crate) fn only_equality(filter: &Document) -> Option<Equality<'_>> {
    let (name, value) = filter.iter().next().filter(|_| filter.len() == 1)?;
    // A path may lead through arrays, `$` is the start of an operator, and no field has a zero byte in its name.
    let is_field = !name.contains(['.', '\0']) && !name.starts_with('$');
    // Indexes with another collation are not asked by this value.
    Some(Equality { field: name, value: point_value(value, &SIMPLE).filter(|_| is_field)? })
}

/// A filter that is nothing but `{field: value}`.
#[derive(Clone, Copy)]
pub(crate) struct Equality<'f> {
    pub(crate) field: &'f str,
    pub(crate) value: RawBsonRef<'f>,
}

/// A value as what a filter compares with, if it is found by its key alone.
fn point_value<'v>(value: &'v Bson, collation: &Collation) -> Option<RawBsonRef<'v>> {
    scalar(value).filter(|value| collation.finds_by_key(*value))
}

/// A value that has no parts, as raw BSON.
fn scalar(value: &Bson) -> Option<RawBsonRef<'_>> {
    match value {
        Bson::ObjectId(id) => Some(RawBsonRef::ObjectId(*id)),
        Bson::String(text) => Some(RawBsonRef::String(text)),
        Bson::Int32(number) => Some(RawBsonRef::Int32(*number)),
        Bson::Int64(number) => Some(RawBsonRef::Int64(*number)),
        Bson::Double(number) => Some(RawBsonRef::Double(*number)),
        Bson::Boolean(flag) => Some(RawBsonRef::Boolean(*flag)),
        Bson::DateTime(date) => Some(RawBsonRef::DateTime(*date)),
        Bson::Timestamp(timestamp) => Some(RawBsonRef::Timestamp(*timestamp)),
        Bson::Decimal128(number) => Some(RawBsonRef::Decimal128(*number)),
        Bson::Binary(Binary { subtype, bytes }) => {
            Some(RawBsonRef::Binary(RawBinaryRef { subtype: *subtype, bytes }))
        }
        Bson::Document(_)
        | Bson::Array(_)
        | Bson::Null
        | Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Symbol(_)
        | Bson::Undefined
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => None,
    }
}

/// Whether a filter consists of equalities only: by a value, by `$eq` or by an `$in` of one value, at the top level, in an
/// `$and`, or in an `$or` of one branch.
pub(crate) fn is_only_equalities(filter: &Document) -> bool {
    // A list in place of a recursion. It stays short, because the filter was parsed, which limits its size and depth.
    let mut pending = vec![filter];
    while let Some(level) = pending.pop() {
        for (name, value) in level {
            let branches = value.as_array().map(Vec::as_slice).unwrap_or_default();
            // `true` means that the branches are looked at next.
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

/// The value that a condition fixes. Returns `None` if it is not an equality.
fn equal_value(condition: &Bson) -> Option<&Bson> {
    if matches!(condition, Bson::RegularExpression(_)) {
        return None;
    }
    // A document without operators is a value.
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
        assert_eq!(is_only_equalities(filter), expected, "{filter}");
    }

    #[test]
    fn an_id_that_its_key_finds_is_one_lookup() {
        let by_key = |id: Bson| point_id(&doc! { "_id": id }, &SIMPLE).is_some();
        let uuid = Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] };
        let decimal: bson::Decimal128 = "1.0".parse().expect("a number");
        for id in [Bson::Int32(1), "x".into(), Bson::Binary(uuid), Bson::Decimal128(decimal)] {
            assert!(by_key(id.clone()), "{id}");
        }
        for id in
            [Bson::Null, Bson::Array(vec![]), doc! { "$gt": 1 }.into(), doc! { "x": 1 }.into(), Bson::MinKey]
        {
            assert!(!by_key(id.clone()), "{id}");
        }
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
