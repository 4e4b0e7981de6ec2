//! Which documents an operation is about: its filter, with values for the variables of expressions.
//!
//! A filter that fixes the `_id` leads to one record. One that is nothing but an `_id` is not even parsed: the
//! record's key says all.

use std::sync::Arc;

use bson::{DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::{self, Direction};
use index::order::compare;
use query::expression::Variables;
use query::filter::Filter;
use query::operation::OperationContext;
use smallvec::SmallVec;

use crate::error::Result;
use crate::plan::bounds::{asks_only_equality, point_id};
use crate::storage::keys::CollectionId;

/// The key of the one record that can match.
pub(crate) type PointKey = SmallVec<[u8; 32]>;

/// The encoded `_id` that a filter fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<'a>(&'a [u8]);

/// When an operation reads the clock, and what it may use.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) now: DateTime,
    pub(crate) operation: OperationContext,
}

impl Moment {
    fn variables(self) -> Variables {
        Variables::new(self.now).within(self.operation)
    }
}

/// A filter, ready to be asked. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    /// Absent where the filter is nothing but the `_id` of `point`.
    filter: Option<Arc<Filter>>,
    variables: Variables,
    /// The encoded `_id` that every match has.
    point: Option<PointKey>,
}

impl Selector {
    /// Reads a filter and the variables of `let`, and the clock, for an operation.
    pub(crate) fn parse(
        filter: &Document,
        let_vars: Option<&Document>,
        operation: OperationContext,
    ) -> Result<Self> {
        Self::parse_at(filter, let_vars, Moment { now: DateTime::now(), operation })
    }

    /// Reads a filter and the variables of `let`. An operation reads the clock once: what else has expressions beside
    /// the filter, a projection or an update, takes this selector's [`variables`](Self::variables).
    pub(crate) fn parse_at(filter: &Document, let_vars: Option<&Document>, moment: Moment) -> Result<Self> {
        let point = point_id(filter);
        if let (Some(id), None, 1) = (point, let_vars, filter.len()) {
            return Ok(Self { filter: None, variables: moment.variables(), point: Some(encoded(id)) });
        }
        Self::with_variables(filter, variables(let_vars, moment)?)
    }

    /// Reads a filter over variables that were read before.
    pub(crate) fn with_variables(filter: &Document, variables: Variables) -> Result<Self> {
        let parsed = Filter::parse_with(&RawDocumentBuf::try_from(filter)?, &variables)?;
        Ok(Self { filter: Some(Arc::new(parsed)), variables, point: point_id(filter).map(encoded) })
    }

    /// The filter that asks nothing.
    pub(crate) fn everything() -> Result<Self> {
        Self::everything_within(OperationContext::default())
    }

    /// The filter that asks nothing, for an operation.
    pub(crate) fn everything_within(operation: OperationContext) -> Result<Self> {
        Self::parse(&Document::new(), None, operation)
    }

    /// Whether a stored document of the collection matches. Where the filter is nothing but an `_id`, the document is
    /// one that stands under it.
    #[inline]
    pub(crate) fn matches(&self, document: &RawDocument) -> Result<bool> {
        match &self.filter {
            None => Ok(true),
            Some(filter) => Ok(filter.try_matches(document, &self.variables)?),
        }
    }

    /// The key of the only record that can match, if the filter fixes the `_id`.
    pub(crate) fn record_key(&self, collection: CollectionId) -> Option<PointKey> {
        self.point().map(|point| point.record_key(collection))
    }

    /// The `_id` that the filter fixes, if it does.
    pub(crate) fn point(&self) -> Option<Point<'_>> {
        self.point.as_deref().map(Point)
    }

    /// The filter, unless it is nothing but an `_id`.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_deref()
    }

    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }
}

impl Point<'_> {
    /// The key of the record with that `_id` in a collection.
    pub(crate) fn record_key(self, collection: CollectionId) -> PointKey {
        let mut key = PointKey::from_slice(&collection.prefix());
        key.extend_from_slice(self.0);
        key
    }
}

/// The clock, and the variables of `let`.
pub(crate) fn variables(let_vars: Option<&Document>, moment: Moment) -> Result<Variables> {
    let variables = moment.variables();
    match let_vars {
        None => Ok(variables),
        Some(let_vars) => Ok(variables.with_let(&RawDocumentBuf::try_from(let_vars)?)?),
    }
}

/// Whether a filter asks for just the fields of a unique key, and for the values that were found taken: then another
/// writer put a document there that the filter finds.
pub(crate) fn asks_for_key(filter: &Document, key_pattern: &Document, key_value: &Document) -> Result<bool> {
    if !asks_only_equality(filter) {
        return Ok(false);
    }
    let parsed = Filter::parse(&RawDocumentBuf::try_from(filter)?)?;
    let equalities = parsed.equalities();
    let taken = RawDocumentBuf::try_from(key_value)?;
    let is_taken = |path: &str, value: RawBsonRef<'_>| {
        taken.get(path).ok().flatten().is_some_and(|taken| compare(taken, value).is_eq())
    };
    Ok(equalities.len() == key_pattern.len()
        && key_pattern.keys().all(|path| equalities.iter().any(|(asked, _)| asked.as_str() == path))
        && equalities.iter().all(|(path, value)| is_taken(path.as_str(), *value)))
}

fn encoded(id: RawBsonRef<'_>) -> PointKey {
    let mut bytes = Vec::with_capacity(32);
    key::encode(id, Direction::Ascending, &mut bytes);
    PointKey::from_slice(&bytes)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;

    /// What is asked of whoever has `a`.
    #[track_caller]
    fn check(filter: &Document, expected: bool) {
        let asked = asks_for_key(filter, &doc! { "a": 1 }, &doc! { "a": 5 }).expect("a filter");
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
            Selector::parse(&filter, None, OperationContext::default()).expect("a filter").point.is_some()
        };
        assert!(point(doc! { "_id": 1 }));
        assert!(point(doc! { "a": { "$gt": 1 }, "_id": "x" }));
        assert!(!point(doc! { "_id": { "$gt": 1 } }));
        assert!(!point(doc! { "_id": Bson::Null }));
        assert!(!point(doc! { "$or": [{ "_id": 1 }] }));
    }
}
