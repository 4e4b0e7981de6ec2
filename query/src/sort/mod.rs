//! Sorts: which document comes before which.
//!
//! A [`Sort`] is parsed once and draws a [`SortKey`] from any document: bytes whose plain order is the order of the
//! documents. [`Sorter`](collect::Sorter) collects documents and gives them back in order, all or the first few.
//!
//! The invariant: the order is that of an ascending or descending index on the same fields. An array stands for its
//! least element where the field ascends and for its greatest where it descends; an empty array counts as undefined,
//! a missing field as null; and if several fields go through one array, they are taken from one element of it.

pub mod collect;
pub mod error;
mod key;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::Direction;
use index::path::FieldPath;
use index::spec::{IndexSpec, SpecOptions};

use crate::path::parse_path;
use crate::sort::error::Error;
use crate::sort::key::{Drawing, Field};
use crate::value::{describe, integer};

/// How many fields a sort may have.
pub const SORT_FIELDS_MAX: usize = 32;

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
}

/// Where a document stands in a sort. Keys of one sort compare as its documents do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

#[derive(Clone, Debug)]
enum Order {
    /// As the documents come, or the other way round.
    Natural(Direction),
    /// By fields, and as they come where these are equal.
    Fields {
        fields: Vec<Field>,
        /// The same fields as an index has them; none if there are no fields.
        spec: Option<IndexSpec>,
    },
}

impl SortKey {
    /// The bytes that carry the order.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Sort {
    /// Reads a sort: paths with 1 or -1, or `$natural` alone.
    pub fn parse(sort: &RawDocument) -> Result<Self, Error> {
        let mut parts = Vec::new();
        for (position, element) in sort.iter_elements().enumerate() {
            let part = element.and_then(|element| Ok((element.key().as_str(), element.value()?)));
            parts.push(part.map_err(|_| Error::InvalidBson { position })?);
        }
        if let Some((_, value)) = parts.iter().find(|(name, _)| *name == NATURAL) {
            if parts.len() > 1 {
                return Err(Error::NaturalCompound);
            }
            let direction = direction(*value);
            let direction = direction.ok_or_else(|| Error::NaturalDirection { found: describe(*value) })?;
            return Ok(Self { order: Order::Natural(direction) });
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
        let spec = if fields.is_empty() { None } else { Some(index_spec(&fields)?) };
        Ok(Self { order: Order::Fields { fields, spec } })
    }

    /// The direction of `$natural`, if that is the sort. Its keys are all equal: whoever walks the documents must
    /// walk them in that direction.
    pub fn natural(&self) -> Option<Direction> {
        match &self.order {
            Order::Natural(direction) => Some(*direction),
            Order::Fields { .. } => None,
        }
    }

    /// The fields and their directions, the most important first; none for `$natural`.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&FieldPath, Direction)> {
        let fields = match &self.order {
            Order::Natural(_) => &[],
            Order::Fields { fields, .. } => fields.as_slice(),
        };
        fields.iter().map(|field| (field.path(), field.direction()))
    }

    /// Whether every order is right, so that nothing need be sorted.
    pub fn is_empty(&self) -> bool {
        self.fields().len() == 0
    }

    /// Where a document stands.
    ///
    /// # Errors
    /// If two fields lie in different arrays of the document.
    pub fn key(&self, document: &RawDocument) -> Result<SortKey, Error> {
        let mut drawing = Drawing::default();
        drawing.draw(self, document, None)?;
        Ok(SortKey(drawing.take_key()))
    }
}

fn parse_part(name: &str, value: RawBsonRef<'_>) -> Result<(FieldPath, Direction), Error> {
    if let Some(object) = value.as_document() {
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
    let direction = direction(value);
    let direction =
        direction.ok_or_else(|| Error::Direction { field: name.to_owned(), found: describe(value) })?;
    let path = parse_path(name).map_err(|refusal| Error::Path { field: name.to_owned(), refusal })?;
    Ok((path, direction))
}

fn direction(value: RawBsonRef<'_>) -> Option<Direction> {
    match integer(value) {
        Some(1) => Some(Direction::Ascending),
        Some(-1) => Some(Direction::Descending),
        Some(_) | None => None,
    }
}

/// The index that has the sort's keys.
fn index_spec(fields: &[Field]) -> Result<IndexSpec, Error> {
    let mut keys = RawDocumentBuf::new();
    for field in fields {
        let name = bson::raw::CString::try_from(field.path().as_str());
        let name = name.map_err(|_| Error::InvalidBson { position: 0 })?;
        keys.append(&name, if field.direction() == Direction::Ascending { 1 } else { -1 });
    }
    Ok(IndexSpec::parse(&keys, SpecOptions::default())?)
}

#[cfg(test)]
mod tests;
