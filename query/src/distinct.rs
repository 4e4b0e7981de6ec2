//! The distinct values that a path reaches in documents.
//!
//! Two values are the same if they compare as equal: 1, 1.0 and a decimal 1 are one value, and the first that was
//! added is kept. Of an array the elements are the values; an array among these elements stays whole.

use std::collections::HashSet;
use std::ops::ControlFlow;

use bson::{RawBson, RawBsonRef, RawDocument};
use index::collation::Collation;
use index::key::Direction;
use index::path::{FieldPath, leaves};
use index::validate::DOCUMENT_BYTES_MAX;

use crate::code::Code;
use crate::path::{PathRefusal, parse_path};
use crate::value::elements;

/// The reason why distinct values could not be collected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The field's name is not a path.
    #[error("'{field}' has no distinct values: {refusal}")]
    Path {
        /// The name as given.
        field: String,
        /// The reason.
        refusal: PathRefusal,
    },
    /// The values do not fit into one document.
    #[error("distinct values take more than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

impl Error {
    /// MongoDB's number for the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Path { refusal, .. } => refusal.code(),
            Self::TooLarge { .. } => Code::DISTINCT_TOO_LARGE,
        }
    }
}

/// Collects each value of a field once.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_query::distinct::Distinct;
///
/// let mut colors = Distinct::new("colors")?;
/// colors.add(&rawdoc! { "colors": ["red", "blue"] })?;
/// colors.add(&rawdoc! { "colors": "red" })?;
/// assert_eq!(colors.into_values(), [RawBson::from("red"), RawBson::from("blue")]);
/// # Ok::<(), cairndb_query::distinct::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Distinct {
    path: FieldPath,
    seen: DistinctValues,
}

#[derive(Clone, Debug, Default)]
struct DistinctValues {
    collation: Collation,
    keys: HashSet<Box<[u8]>>,
    values: Vec<RawBson>,
    /// The key of the value that is being added. Most values are there already, so the buffer is used again.
    key: Vec<u8>,
    bytes: usize,
}

impl Distinct {
    /// Starts to collect the values of the dotted `path`.
    ///
    /// # Errors
    /// [`Error::Path`] if it is not a path.
    pub fn new(path: &str) -> Result<Self, Error> {
        let parsed = parse_path(path).map_err(|refusal| Error::Path { field: path.to_owned(), refusal })?;
        Ok(Self { path: parsed, seen: DistinctValues::default() })
    }

    /// The same values, where texts are the same if a collation says so.
    pub fn with_collation(mut self, collation: Collation) -> Self {
        self.seen.collation = collation;
        self
    }

    /// Adds the values that the path reaches in a document. A document without the field adds none.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if all values together no longer fit into one document.
    pub fn add(&mut self, document: &RawDocument) -> Result<(), Error> {
        // An array at the end of the path is met as one value. Its elements are visited here, one level deep.
        let mut visit = |value: Option<RawBsonRef<'_>>| match value.and_then(RawBsonRef::as_array) {
            Some(array) => elements(array).for_each(|element| self.seen.add(element)),
            None => value.into_iter().for_each(|value| self.seen.add(value)),
        };
        // The visitor never stops the walk, so there is no result to look at.
        let _ = leaves(document, &self.path, &mut |leaf| {
            visit(leaf.value);
            ControlFlow::Continue(())
        });
        // MongoDB answers `distinct` with one document, so a result beyond its limit is rejected as early as
        // possible.
        if self.seen.bytes > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge { limit: DOCUMENT_BYTES_MAX });
        }
        Ok(())
    }

    /// The values, in the order in which they were first added.
    pub fn into_values(self) -> Vec<RawBson> {
        self.seen.values
    }
}

impl DistinctValues {
    fn add(&mut self, value: RawBsonRef<'_>) {
        self.key.clear();
        // Keys of equal values are equal bytes, so a set of keys finds duplicates without comparing values
        // pairwise.
        self.collation.encode(value, Direction::Ascending, &mut self.key);
        // Before the key is boxed: most values are there already and cost no allocation.
        if self.keys.contains(self.key.as_slice()) {
            return;
        }
        self.keys.insert(self.key.as_slice().into());
        // A value in an array needs about as much as its key, and a type and a position.
        self.bytes += self.key.len() + 8;
        self.values.push(value.into());
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, RawDocumentBuf, bson, doc};

    use super::*;

    #[track_caller]
    fn check(path: &str, documents: &[Document], expected: &[Bson]) {
        let mut distinct = Distinct::new(path).unwrap();
        for document in documents {
            distinct.add(&RawDocumentBuf::try_from(document).unwrap()).unwrap();
        }
        let found: Vec<Bson> =
            distinct.into_values().into_iter().map(|value| value.try_into().unwrap()).collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn equal_values_count_once_and_the_first_stays() {
        check("a", &[doc! { "a": 1 }, doc! { "a": 1.0 }, doc! { "a": 1_i64 }], &[bson!(1)]);
        check("a", &[doc! { "a": "x" }, doc! { "a": Bson::Symbol("x".into()) }], &[bson!("x")]);
        check(
            "a",
            &[doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": { "c": 2, "b": 1 } }],
            &[bson!({ "b": 1, "c": 2 }), bson!({ "c": 2, "b": 1 })],
        );
        check(
            "a",
            &[doc! { "a": f64::NAN }, doc! { "a": 0.0 }, doc! { "a": -0.0 }].map(|d| d)[1..],
            &[bson!(0.0)],
        );
    }

    #[test]
    fn missing_fields_give_nothing_and_null_is_a_value() {
        check("a", &[doc! {}, doc! { "b": 1 }], &[]);
        check("a.b", &[doc! { "a": 1 }, doc! { "a": {} }], &[]);
        check(
            "a",
            &[doc! { "a": Bson::Null }, doc! { "a": Bson::Undefined }],
            &[Bson::Null, Bson::Undefined],
        );
    }

    #[test]
    fn arrays_give_their_elements_once() {
        check("a", &[doc! { "a": [1, [1], 1, []] }], &[bson!(1), bson!([1]), bson!([])]);
        check("a", &[doc! { "a": [] }], &[]);
        check("a", &[doc! { "a": [[2]] }, doc! { "a": [2] }], &[bson!([2]), bson!(2)]);
    }

    #[test]
    fn paths_go_through_arrays() {
        check(
            "a.b",
            &[doc! { "a": [{ "b": 1 }, { "b": [2, 3] }, 5, { "c": 4 }] }],
            &[bson!(1), bson!(2), bson!(3)],
        );
        check("a.1", &[doc! { "a": [1, [2, 3]] }], &[bson!(2), bson!(3)]);
        check("a.1.b", &[doc! { "a": [{ "b": 1 }, { "b": 2 }] }], &[bson!(2)]);
    }

    #[test]
    fn names_that_are_no_paths_are_refused() {
        assert_eq!(Distinct::new("").map(drop).unwrap_err().code(), 40_352);
        assert_eq!(Distinct::new("a..b").map(drop).unwrap_err().code(), 15_998);
    }

    #[test]
    fn values_are_limited_to_one_document() {
        let mut distinct = Distinct::new("a").unwrap();
        let large = |letter: &str| {
            RawDocumentBuf::try_from(&doc! { "a": letter.repeat(DOCUMENT_BYTES_MAX / 2) }).unwrap()
        };
        distinct.add(&large("a")).unwrap();
        distinct.add(&large("a")).unwrap();
        assert_eq!(distinct.add(&large("b")).unwrap_err().code(), 17_217);
    }

    #[cfg(feature = "collation")]
    #[test]
    fn a_collation_says_which_texts_are_the_same() {
        let english = Collation::parse(&bson::rawdoc! { "locale": "en", "strength": 2 }).unwrap();
        let mut names = Distinct::new("name").unwrap().with_collation(english);
        for name in ["Ada", "ADA", "Bob"] {
            names.add(&bson::rawdoc! { "name": name }).unwrap();
        }
        assert_eq!(names.into_values(), [RawBson::from("Ada"), RawBson::from("Bob")]);
    }
}
