//! Which documents an operation selects: its filter, with values for the variables of expressions.
//!
//! A filter that fixes the `_id` selects one record at most. A filter that is nothing but an `_id` is not even parsed: a
//! record with this key matches it.

use std::sync::Arc;

use base::error::Result;
use bson::{Bson, DateTime, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::key::{self, Direction, FIELD_BYTES_MAX, LongKeys};
use index::order::compare;
use query::expression::Variables;
use query::filter::Filter;
use query::operation::OperationContext;
use smallvec::SmallVec;
use store::keys::CollectionId;

use crate::plan::bounds::{Equality, is_only_equalities, only_equality, point_id};

/// The key of the one record that can match.
pub(crate) type PointKey = SmallVec<[u8; 32]>;

/// The encoded `_id` that a filter fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<'a>(&'a [u8]);

/// The clock of an operation and its context: what its expressions get besides the documents.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) now: DateTime,
    pub(crate) operation: OperationContext,
    /// The comparison of strings.
    pub(crate) collation: Collation,
}

impl Moment {
    fn variables(self) -> Variables {
        Variables::new(self.now).within(self.operation).with_collation(self.collation)
    }
}

/// A parsed filter with its variables. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    /// Absent if the filter is nothing but the `_id` of `point`, and a record with this key has it.
    filter: Option<Arc<Filter>>,
    variables: Variables,
    /// The encoded `_id` that every match has.
    point: Option<PointKey>,
}

impl Selector {
    /// Parses a filter and the variables of `let`, and reads the clock.
    pub(crate) fn parse(
        filter: &Document,
        let_vars: Option<&Document>,
        operation: OperationContext,
        collation: Collation,
    ) -> Result<Self> {
        Self::parse_at(filter, let_vars, Moment { now: DateTime::now(), operation, collation })
    }

    /// Parses a filter and the variables of `let` at a given time. An operation reads the clock once: its other parts with
    /// expressions, such as a projection or an update, use the [`variables`](Self::variables) of this selector.
    pub(crate) fn parse_at(filter: &Document, let_vars: Option<&Document>, moment: Moment) -> Result<Self> {
        // `let` is parsed even if the filter does not use it, because it may be malformed.
        // Not for a text by the rules of a language: then several records may match.
        let point = point_id(filter, &moment.collation);
        if let (Some(id), None, 1) = (point, let_vars, filter.len()) {
            let point = encoded(id);
            // The key of a longer one may be shortened, and then its document has the last word.
            if point.len() <= FIELD_BYTES_MAX {
                return Ok(Self { filter: None, variables: moment.variables(), point: Some(point) });
            }
        }
        Self::with_variables(filter, variables(let_vars, moment)?)
    }

    /// Parses a filter and the variables of `let`, and reads the clock. Even a filter that fixes the `_id` is planned then: its
    /// record is not looked up.
    pub(crate) fn parse_planned(
        filter: &Document,
        let_vars: Option<&Document>,
        operation: OperationContext,
        collation: Collation,
    ) -> Result<Self> {
        let moment = Moment { now: DateTime::now(), operation, collation };
        Ok(Self { point: None, ..Self::with_variables(filter, variables(let_vars, moment)?)? })
    }

    /// Parses a filter whose variables are parsed already.
    pub(crate) fn with_variables(filter: &Document, variables: Variables) -> Result<Self> {
        let parsed = match only_equality(filter) {
            // The most frequent filter needs no bytes of its document.
            Some(Equality { field, value }) => Filter::equality(field, value, &variables)?,
            None => Filter::parse_with(&RawDocumentBuf::try_from(filter)?, &variables)?,
        };
        let point = point_id(filter, variables.collation()).map(encoded);
        Ok(Self { filter: Some(Arc::new(parsed)), variables, point })
    }

    /// The filter that every document matches.
    #[cfg(test)]
    pub(crate) fn everything() -> Result<Self> {
        Self::everything_within(OperationContext::default())
    }

    /// The filter that every document matches, for an operation.
    pub(crate) fn everything_within(operation: OperationContext) -> Result<Self> {
        Self::parse(&Document::new(), None, operation, Collation::simple())
    }

    /// Whether a stored document matches. If the filter is nothing but an `_id`, the document must be the one that was found
    /// by [`record_key`](Self::record_key).
    #[inline]
    pub(crate) fn matches(&self, document: &RawDocument) -> Result<bool> {
        match &self.filter {
            None => Ok(true),
            Some(filter) => Ok(filter.try_matches(document, &self.variables)?),
        }
    }

    /// The key of the only record that can match. Returns `None` if the filter does not fix the `_id`.
    pub(crate) fn record_key(&self, collection: CollectionId, long_keys: LongKeys) -> Option<PointKey> {
        self.point().map(|point| point.record_key(collection, long_keys))
    }

    /// The `_id` that the filter fixes. Returns `None` if it does not fix one.
    pub(crate) fn point(&self) -> Option<Point<'_>> {
        self.point.as_deref().map(Point)
    }

    /// The filter. Returns `None` if it is nothing but an `_id` of usual length.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_deref()
    }

    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }
}

impl Point<'_> {
    /// The key of the record with that `_id` in a collection.
    pub(crate) fn record_key(self, collection: CollectionId, long_keys: LongKeys) -> PointKey {
        // Prefix and encoded `_id`: the layout of record keys in `store::keys`.
        let mut key = PointKey::from_slice(&collection.prefix());
        match long_keys.digest(self.0) {
            None => key.extend_from_slice(self.0),
            Some(digest) => {
                key.extend_from_slice(self.0.get(..FIELD_BYTES_MAX).unwrap_or_default());
                key.extend_from_slice(&digest);
            }
        }
        key
    }
}

/// The variables of expressions: those of `let`, and the clock.
pub(crate) fn variables(let_vars: Option<&Document>, moment: Moment) -> Result<Variables> {
    let variables = moment.variables();
    match let_vars {
        None => Ok(variables),
        Some(let_vars) => Ok(variables.with_let(&RawDocumentBuf::try_from(let_vars)?)?),
    }
}

/// Whether a filter is equality on exactly the fields of a unique index, with the values of a key that was found in use. If
/// so, another writer has inserted a document that the filter matches: the operation finds it when it is repeated. `in_key`
/// gives what the key has for a value of the filter, or `None` if it cannot determine.
pub(crate) fn is_equality_on_key(
    filter: &Document,
    key_pattern: &Document,
    key_value: &Document,
    in_key: &dyn Fn(RawBsonRef<'_>) -> Option<Bson>,
) -> Result<bool> {
    // `equalities` also returns the equalities of a filter that has other conditions besides them.
    if !is_only_equalities(filter) {
        return Ok(false);
    }
    let parsed = Filter::parse(&RawDocumentBuf::try_from(filter)?)?;
    let equalities = parsed.equalities();
    let taken = RawDocumentBuf::try_from(key_value)?;
    let is_taken = |path: &str, value: RawBsonRef<'_>| {
        let asked = in_key(value).and_then(|asked| RawBson::try_from(asked).ok());
        let taken = taken.get(path).ok().flatten();
        taken.zip(asked).is_some_and(|(taken, asked)| compare(taken, asked.as_raw_bson_ref()).is_eq())
    };
    // The same number and every path found: the filter fixes these fields, each once, and no other.
    Ok(equalities.len() == key_pattern.len()
        && key_pattern.keys().all(|path| equalities.iter().any(|(asked, _)| asked.as_str() == path))
        && equalities.iter().all(|(path, value)| is_taken(path.as_str(), *value)))
}

/// The bytes of an `_id` in a record's key.
fn encoded(id: RawBsonRef<'_>) -> PointKey {
    let mut bytes = Vec::with_capacity(32);
    key::encode(id, Direction::Ascending, &mut bytes);
    // A long one is not copied.
    if bytes.len() > FIELD_BYTES_MAX { PointKey::from_vec(bytes) } else { PointKey::from_slice(&bytes) }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    /// Checks a filter against the key `{a: 5}`.
    #[track_caller]
    fn check(filter: &Document, expected: bool) {
        let as_it_is = |asked: RawBsonRef<'_>| Bson::try_from(asked).ok();
        let asked = is_equality_on_key(filter, &doc! { "a": 1 }, &doc! { "a": 5 }, &as_it_is);
        let asked = asked.expect("a filter");
        assert_eq!(asked, expected, "{filter}");
    }

    #[test]
    fn a_filter_asks_for_a_key_by_equality_on_just_its_fields() {
        check(&doc! { "a": 5 }, true);
        check(&doc! { "a": { "$eq": 5.0 } }, true);
        check(&doc! { "$and": [{ "a": { "$in": [5] } }] }, true);
        check(&doc! { "a": 6 }, false);
        check(&doc! { "a": 5, "b": 1 }, false);
        check(&doc! { "a": 5, "b": { "$gt": 1 } }, false);
        check(&doc! { "b": 5 }, false);
        check(&doc! { "a": { "$gte": 5, "$lte": 5 } }, false);
        check(&doc! { "$or": [{ "a": 5 }, { "a": 6 }] }, false);
        check(&doc! {}, false);
    }

    #[test]
    fn a_plain_id_leads_to_one_record() {
        let point = |filter: Document| {
            Selector::parse(&filter, None, OperationContext::default(), Collation::simple())
                .expect("a filter")
                .point
                .is_some()
        };
        assert!(point(doc! { "_id": 1 }));
        assert!(point(doc! { "a": { "$gt": 1 }, "_id": "x" }));
        assert!(!point(doc! { "_id": { "$gt": 1 } }));
        assert!(!point(doc! { "_id": Bson::Null }));
        assert!(!point(doc! { "$or": [{ "_id": 1 }] }));
    }
}
