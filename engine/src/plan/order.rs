//! The requested order of a search, and its hint.
//!
//! Whether an order needs a sort depends on the plan: records are in the order of their `_id`s, entries in that of their
//! index. `$natural`, as a sort or as a hint, requests the records in a direction. `min` and `max` request a range of the
//! keys that the hint names.

use base::codes::refused;
use base::error::Result;
use bson::{Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::{Collation, SIMPLE, has_text};
use index::key::Direction;
use index::order::compare;
use index::spec::IndexSpec;
use query::code::Code;
use query::planner::{self, EntryRange};
use query::sort::Sort;

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::options::Hint;
use crate::plan::bounds::ID_FIELD;

/// The requested order and plan of a search. By default it requests nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    sort: Option<Sort>,
    /// The direction of `$natural`, which requests a scan of the records.
    natural: Option<Direction>,
    hint: Option<Hint>,
    /// The first key to read. Absent for no bound.
    min: Option<Document>,
    /// The first key that is not read any more. Absent for no bound.
    max: Option<Document>,
    /// The comparison of strings.
    collation: Collation,
}

impl Order {
    /// The order that a sort and a hint request.
    pub(crate) fn of(sort: Option<&Document>, hint: Option<&Hint>) -> Result<Self> {
        Self::collated(sort, hint, &Collation::simple())
    }

    /// The order that a sort and a hint request, with texts by a collation.
    pub(crate) fn collated(
        sort: Option<&Document>,
        hint: Option<&Hint>,
        collation: &Collation,
    ) -> Result<Self> {
        let parse = |sort| {
            let sort = Sort::parse(&RawDocumentBuf::try_from(sort)?)?;
            // Two `_id`s are never the same bytes, and may still be the same to a language.
            let sort = if collation.is_simple() { sort.up_to("_id") } else { sort };
            Ok::<_, base::error::Error>(sort.with_collation(collation))
        };
        let sort = sort.map(parse).transpose()?;
        let hinted = hint.and_then(|hint| match hint {
            Hint::Keys(keys) => natural(keys),
            Hint::Name(_) => None,
        });
        // If both are `$natural`, the direction of the sort wins.
        let natural = sort.as_ref().and_then(Sort::natural).or(hinted);
        // A `$natural` sort and `{}` have no fields to sort by, and are then no sort for the planner.
        let sort = sort.filter(|sort| !sort.is_empty());
        let collation = collation.clone();
        Ok(Self { sort, natural, hint: hint.cloned(), min: None, max: None, collation })
    }

    /// Adds a range of keys. As in MongoDB, an empty document bounds nothing.
    pub(crate) fn within(self, min: Option<&Document>, max: Option<&Document>) -> Result<Self> {
        let min = min.filter(|bound| !bound.is_empty());
        let max = max.filter(|bound| !bound.is_empty());
        if let (Some(min), Some(max)) = (min, max)
            && !min.keys().eq(max.keys())
        {
            return Err(refused(
                Code::KEY_BOUNDS_FIELDS_DIFFER,
                "min and max must have the same field names",
            ));
        }
        Ok(Self { min: min.cloned(), max: max.cloned(), ..self })
    }

    /// Whether a range of keys is requested.
    pub(crate) fn has_range(&self) -> bool {
        self.min.is_some() || self.max.is_some()
    }

    /// The sort. Returns `None` if there are no fields to sort by.
    pub(crate) fn sort(&self) -> Option<&Sort> {
        self.sort.as_ref()
    }

    /// The direction in which documents are requested as they were inserted. Returns `None` if another order may do.
    pub(crate) fn natural(&self) -> Option<Direction> {
        self.natural
    }

    /// Whether the hint names the index on `_id`, which is the records.
    pub(crate) fn names_ids(&self) -> bool {
        let names_ids = |hint| matches!(resolve(hint, &[], &SIMPLE), Ok(planner::Hint::Records(_)));
        self.natural.is_none() && self.hint.as_ref().is_some_and(names_ids)
    }

    /// The hint for the planner. Fails if it names no index.
    pub(crate) fn planner_hint(&self, indexes: &[Index]) -> Result<Option<planner::Hint>> {
        match (self.natural, &self.hint) {
            (Some(direction), _) => Ok(Some(planner::Hint::Records(direction))),
            (None, None) => Ok(None),
            (None, Some(hint)) => resolve(hint, indexes, &self.collation).map(Some),
        }
    }

    /// The range of keys for the planner. Fails if the hint names no index whose fields the bounds have.
    pub(crate) fn planner_range(&self, indexes: &[Index]) -> Result<Option<EntryRange>> {
        if !self.has_range() {
            return Ok(None);
        }
        if self.natural.is_some() {
            return Err(refused(
                Code::NO_QUERY_EXECUTION_PLANS,
                "min and max are incompatible with $natural: the records have no keys but their `_id`s",
            ));
        }
        let Some(hint) = &self.hint else {
            return Err(refused(
                Code::KEY_BOUNDS_WITHOUT_HINT,
                "min and max need a hint that names the index of their fields",
            ));
        };
        let mut keys = &SIMPLE;
        let fields: Vec<(&str, Direction)> = match resolve(hint, indexes, &self.collation)? {
            planner::Hint::Records(_) => vec![(ID_FIELD, Direction::Ascending)],
            // A wildcard index has no fields that a bound could name.
            planner::Hint::Index(at) => {
                let spec = indexes.get(at).map(|index| &index.spec).filter(|spec| spec.wildcard().is_none());
                keys = spec.map_or(keys, IndexSpec::collation);
                let fields = spec.into_iter().flat_map(IndexSpec::fields);
                fields.map(|field| (field.path.as_str(), field.direction)).collect()
            }
        };
        let key = |bound: &Option<Document>| {
            let key = bound.as_ref().map(|bound| key_of(bound, &fields)).transpose()?;
            key.map(|key| self.in_keys(&key, keys)).transpose()
        };
        let range = EntryRange { min: key(&self.min)?, max: key(&self.max)? };
        let directions: Vec<Direction> = fields.iter().map(|(_, direction)| *direction).collect();
        if range.order(&directions).is_ge() {
            return Err(refused(
                Code::KEY_BOUNDS_EMPTY,
                "the key of min does not come before the key of max in the hinted index",
            ));
        }
        Ok(Some(range))
    }

    /// A key of a bound as an index with a collation has it. Rejects texts if the index has them in another order than the
    /// search.
    fn in_keys(&self, key: &[RawBson], keys: &Collation) -> Result<Vec<RawBson>> {
        if self.collation != *keys && key.iter().any(|value| has_text(value.as_raw_bson_ref())) {
            return Err(refused(
                Code::KEY_BOUNDS_NOT_OF_INDEX,
                "the bounds have strings, and the hinted index compares strings by another collation than the search",
            ));
        }
        Ok(key.iter().map(|value| keys.key_form(value.as_raw_bson_ref()).into_owned()).collect())
    }
}

/// The values of a bound, which must have exactly the fields of the index, in their order.
fn key_of(bound: &Document, fields: &[(&str, Direction)]) -> Result<Vec<RawBson>> {
    if !bound.keys().eq(fields.iter().map(|(path, _)| path)) {
        let expected: Vec<&str> = fields.iter().map(|(path, _)| *path).collect();
        return Err(refused(
            Code::KEY_BOUNDS_NOT_OF_INDEX,
            format!(
                "the bound {bound} does not have the fields of the hinted index: {}",
                expected.join(", ")
            ),
        ));
    }
    Ok(RawDocumentBuf::try_from(bound)?
        .iter_elements()
        .map(|element| Ok::<_, bson::error::Error>(RawBson::from(element?.value()?)))
        .collect::<bson::error::Result<_>>()?)
}

/// Rejects a hint that names no index.
pub(crate) fn check_hint(hint: Option<&Hint>, indexes: &[Index]) -> Result<()> {
    hint.map_or(Ok(()), |hint| resolve(hint, indexes, &SIMPLE).map(|_| ()))
}

/// The plan that a hint requests of a search with a collation: an index by its name or its keys, or the records.
fn resolve(hint: &Hint, indexes: &[Index], collation: &Collation) -> Result<planner::Hint> {
    let found = match hint {
        // The index on `_id` is the records themselves.
        Hint::Name(name) if name == ID_INDEX_NAME => return Ok(planner::Hint::Records(Direction::Ascending)),
        Hint::Name(name) => indexes.iter().position(|index| index.name == *name),
        Hint::Keys(keys) => {
            if let Some(direction) = natural(keys) {
                return Ok(planner::Hint::Records(direction));
            }
            let keys = RawDocumentBuf::try_from(keys)?;
            // Numbers of different types that are equal are the same direction.
            let is_same = |pattern: &RawDocument| {
                compare(RawBsonRef::Document(&keys), RawBsonRef::Document(pattern)).is_eq()
            };
            if is_same(&bson::rawdoc! { "_id": 1 }) {
                return Ok(planner::Hint::Records(Direction::Ascending));
            }
            // Several indexes may share their keys. One with the same order of texts and with all documents answers more.
            let same = indexes.iter().enumerate().filter(|(_, index)| is_same(index.spec.keys()));
            let lacks =
                |index: &Index| (index.spec.collation() != collation, index.settings.partial.is_some());
            same.min_by_key(|(_, index)| lacks(index)).map(|(at, _)| at)
        }
    };
    found.map(planner::Hint::Index).ok_or_else(|| {
        let shown = match hint {
            Hint::Name(name) => name.clone(),
            Hint::Keys(keys) => keys.to_string(),
        };
        refused(
            Code::BAD_VALUE,
            format!("hint {shown}: hint provided does not correspond to an existing index"),
        )
    })
}

/// The direction of a hint `{$natural: 1}` or `{$natural: -1}`.
fn natural(keys: &Document) -> Option<Direction> {
    let direction = keys.get("$natural").filter(|_| keys.len() == 1)?;
    // The number can have any type, as in MongoDB.
    let number = direction.as_f64().or_else(|| direction.as_i32().map(f64::from));
    let number =
        number.or_else(|| direction.as_i64().and_then(|number| i32::try_from(number).ok()).map(f64::from))?;
    match number {
        1.0 => Some(Direction::Ascending),
        -1.0 => Some(Direction::Descending),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn natural_asks_for_records_whether_it_sorts_or_hints() {
        let hint = |sort: Option<Document>, hint: Option<Hint>| {
            let order = Order::of(sort.as_ref(), hint.as_ref()).expect("an order");
            (order.planner_hint(&[]).expect("no index is named"), order.sort().is_some())
        };
        let records = |direction| Some(planner::Hint::Records(direction));
        assert_eq!(hint(Some(doc! { "$natural": -1 }), None), (records(Direction::Descending), false));
        let natural = Hint::Keys(doc! { "$natural": -1.0 });
        assert_eq!(hint(None, Some(natural.clone())), (records(Direction::Descending), false));
        assert_eq!(hint(Some(doc! { "a": 1 }), Some(natural)), (records(Direction::Descending), true));
        assert_eq!(hint(Some(doc! {}), None), (None, false));
        let id = Hint::Keys(doc! { "_id": 1_i64 });
        assert_eq!(hint(Some(doc! { "a": 1 }), Some(id)), (records(Direction::Ascending), true));
    }

    #[test]
    fn a_hint_must_name_an_index() {
        for hint in
            [Hint::Name("a_1".to_owned()), Hint::Keys(doc! { "a": 1 }), Hint::Keys(doc! { "$natural": 2 })]
        {
            assert_eq!(check_hint(Some(&hint), &[]).expect_err("refused").code(), Some(2));
        }
        assert!(check_hint(Some(&Hint::Name("_id_".to_owned())), &[]).is_ok());
    }
}
