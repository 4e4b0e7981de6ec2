//! Sorts: the order of documents.
//!
//! A [`Sort`] is parsed once and gives a [`SortKey`] for each document: bytes that compare as the documents
//! do. [`Sorter`](collect::Sorter) collects documents and returns them in order, all of them or the first
//! few; [`SpillingSorter`](spilling::SpillingSorter) does so beyond memory, by temporary files.
//!
//! The invariant: the order is that of an index on the same fields. An array is sorted by its lowest element
//! if the field ascends and by its highest if it descends. An empty array counts as undefined, and a missing
//! field as null. If several fields go through the same array, their values come from the same element.

pub mod collect;
pub mod error;
mod key;
pub mod spilling;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};
use index::collation::Collation;
use index::extract::{ExtractedKeys, extract};
use index::key::{Direction, decode};
use index::path::FieldPath;

use crate::path::parse_path;
use crate::sort::error::Error;
use crate::sort::key::{Field, FieldsIndex, KeyEncoder, Order};
use crate::value::{describe, integer};

/// The most fields of a sort: as many as an index may have, since an index of the same fields gives its
/// order.
const SORT_FIELDS_MAX: usize = 32;

const NATURAL: &str = "$natural";

/// An order of documents, parsed once.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::sort::Sort;
///
/// let sort = Sort::parse(&rawdoc! { "age": -1, "name": 1 })?;
/// let older = sort.key(&rawdoc! { "age": 41, "name": "Una" })?;
/// let younger = sort.key(&rawdoc! { "age": 30, "name": "Ada" })?;
/// assert!(older < younger);
/// # Ok::<(), cairndb_query::sort::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sort {
    order: Order,
    collation: Collation,
}

/// The position of a document in a sort. Keys of the same sort compare as the documents do.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::sort::Sort;
///
/// let sort = Sort::parse(&rawdoc! { "scores": -1 })?;
/// // An array is sorted by its highest element in descending order.
/// assert!(sort.key(&rawdoc! { "scores": [1, 9] })? < sort.key(&rawdoc! { "scores": 8 })?);
/// # Ok::<(), cairndb_query::sort::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

impl SortKey {
    /// The key as bytes, which compare as the keys do.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Sort {
    /// Parses a sort: paths with 1 or -1, or `$natural` alone.
    ///
    /// # Errors
    /// For a path or a direction that is rejected, a field given twice, and too many fields.
    pub fn parse(sort: &RawDocument) -> Result<Self, Error> {
        let mut parts = Vec::new();
        for (position, element) in sort.iter_elements().enumerate() {
            let part = element.and_then(|element| Ok((element.key().as_str(), element.value()?)));
            parts.push(part.map_err(|_| Error::InvalidBson { position })?);
        }
        // `$natural` is the order of storage. It replaces an order by fields, so both together have no
        // meaning.
        if let Some((_, value)) = parts.iter().find(|(name, _)| *name == NATURAL) {
            if parts.len() > 1 {
                return Err(Error::NaturalCompound);
            }
            let direction = direction(*value);
            let direction = direction.ok_or_else(|| Error::NaturalDirection { found: describe(*value) })?;
            return Ok(Self { order: Order::Natural(direction), collation: Collation::simple() });
        }
        if parts.len() > SORT_FIELDS_MAX {
            return Err(Error::TooManyFields { count: parts.len(), limit: SORT_FIELDS_MAX });
        }
        let mut fields: Vec<Field> = Vec::with_capacity(parts.len());
        for (name, value) in parts {
            let (path, direction) = parse_part(name, value)?;
            if fields.iter().any(|field| field.path() == &path) {
                return Err(Error::FieldTwice { field: name.to_owned() });
            }
            fields.push(Field::new(path, direction));
        }
        let order = Order::Fields { fields, index: FieldsIndex::default() };
        Ok(Self { order, collation: Collation::simple() })
    }

    /// The direction of `$natural`, or `None` for a sort by fields.
    ///
    /// The keys of such a sort are all equal, so the documents must be read in this direction.
    pub fn natural(&self) -> Option<Direction> {
        match &self.order {
            Order::Natural(direction) => Some(*direction),
            Order::Fields { .. } => None,
        }
    }

    /// The fields with their directions, the most important one first. `$natural` has none.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&FieldPath, Direction)> {
        let fields = match &self.order {
            Order::Natural(_) => &[],
            Order::Fields { fields, .. } => fields.as_slice(),
        };
        fields.iter().map(|field| (field.path(), field.direction()))
    }

    /// Whether the sort has no field, so that documents in any order are sorted. `$natural` has none either.
    pub fn is_empty(&self) -> bool {
        self.fields().len() == 0
    }

    /// The same order, with texts by a collation.
    pub fn with_collation(mut self, collation: &Collation) -> Self {
        // Both ways to a key: the direct one, and that of an index.
        if let Order::Fields { fields, index } = &mut self.order
            && !collation.is_simple()
        {
            for field in fields {
                field.with_collation(collation);
            }
            *index = FieldsIndex::default();
            self.collation = collation.clone();
        }
        self
    }

    /// The order's comparison of strings.
    pub(crate) fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The same order for documents of which no two share the value at `unique`: what comes after that field decides
    /// nothing, and is left out.
    ///
    /// Asking for it all the same would reject documents whose later fields lie in different arrays, but only where a
    /// plan sorts; where the documents come in order they would be found.
    pub fn up_to(mut self, unique: &str) -> Self {
        if let Order::Fields { fields, index } = &mut self.order
            && let Some(place) = fields.iter().position(|field| field.path().as_str() == unique)
            && place + 1 < fields.len()
        {
            fields.truncate(place + 1);
            *index = FieldsIndex::default();
        }
        self
    }

    /// The sort key of a document. For its use see [`SortKey`].
    ///
    /// # Errors
    /// If two fields of the sort go through different arrays of the document.
    pub fn key(&self, document: &RawDocument) -> Result<SortKey, Error> {
        let mut encoder = KeyEncoder::default();
        encoder.encode(&self.order, document)?;
        Ok(SortKey(encoder.into_key()))
    }

    /// The values that a document is sorted by, in the order of the fields: of an array its lowest or highest element, null for
    /// a field that is missing. Texts are their sort keys if the sort has a collation. Returns `None` for a sort without fields.
    ///
    /// # Errors
    /// If two fields of the sort go through different arrays of the document.
    pub fn values(&self, document: &RawDocument) -> Result<Option<RawArrayBuf>, Error> {
        let Order::Fields { fields, index } = &self.order else { return Ok(None) };
        if fields.is_empty() {
            return Ok(None);
        }
        let mut keys = ExtractedKeys::default();
        extract(index.of(fields)?, document, &mut keys)?;
        let Some((mut key, mut types)) = keys.iter().next() else { return Ok(None) };
        let mut values = RawArrayBuf::new();
        for field in fields {
            // It was encoded a moment ago, so that it can be decoded.
            let value = decode(&mut key, field.direction(), &mut types).ok();
            let Some(value) = value.and_then(|value| RawBson::try_from(value).ok()) else { return Ok(None) };
            values.push(value);
        }
        Ok(Some(values))
    }
}

/// Parses one field of a sort.
fn parse_part(name: &str, value: RawBsonRef<'_>) -> Result<(FieldPath, Direction), Error> {
    if let Some(object) = value.as_document() {
        // MongoDB accepts an object only for `$meta`, which sorts by a text score.
        let expression = object.iter_elements().next().and_then(Result::ok);
        return Err(match expression.map(|element| element.key().as_str()) {
            Some("$meta") => {
                Error::UnsupportedExpression { field: name.to_owned(), expression: "$meta".to_owned() }
            }
            Some(_) | None => Error::Expression { field: name.to_owned(), found: describe(value) },
        });
    }
    if index::number::Number::of(value).is_none() {
        return Err(Error::DirectionType { field: name.to_owned(), found: describe(value) });
    }
    // The direction is checked before the path, which decides the error if both are wrong.
    let direction = direction(value);
    let direction =
        direction.ok_or_else(|| Error::Direction { field: name.to_owned(), found: describe(value) })?;
    let path = parse_path(name).map_err(|refusal| Error::Path { field: name.to_owned(), refusal })?;
    Ok((path, direction))
}

/// The direction of a number, 1 or -1 of any type.
fn direction(value: RawBsonRef<'_>) -> Option<Direction> {
    match integer(value) {
        Some(1) => Some(Direction::Ascending),
        Some(-1) => Some(Direction::Descending),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests;
