//! The declaration of an index: an ordered list of fields with directions, and whether it is unique or
//! sparse.
//!
//! Names, identifiers and the state of a build belong to the catalog. Kinds of index that MongoDB has and
//! this store does not support have an error of their own, apart from invalid declarations.
//!
//! The invariant: a spec that exists has 1 to 32 distinct fields with declared directions.

use std::fmt::Write as _;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::collation::Collation;
use crate::error::Error;
use crate::key::{Direction, LongKeys};
use crate::order::{self, TypeClass};
use crate::path::FieldPath;
use crate::validate;
use crate::wildcard::{WILDCARD, WildcardPaths};

/// The largest number of fields of an index.
pub(crate) const INDEX_FIELDS_MAX: usize = 32;

/// The kinds of index that MongoDB knows by name; none of them is supported.
pub const UNSUPPORTED_KINDS: [&str; 8] = [
    "2d",
    "2dsphere",
    "2dsphere_bucket",
    "columnstore",
    "geoHaystack",
    "hashed",
    "queryable_encrypted_range",
    "text",
];

/// The name of the first field of a wildcard index: its keys start with the path of their value.
const WILDCARD_PATH: &str = "$_path";

/// One field of an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexField {
    /// The path of the indexed values.
    pub path: FieldPath,
    /// Whether keys sort as the values or in reverse.
    pub direction: Direction,
}

/// Whether two documents may have the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Uniqueness {
    /// Any number of documents may have the same key.
    #[default]
    NotUnique,
    /// No two documents may have the same key. One document may have it twice, from two elements of an array.
    Unique,
}

/// Whether a document without any of the fields has a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sparseness {
    /// Every document has a key: missing fields count as null.
    #[default]
    NotSparse,
    /// A document without any of the fields has no key.
    Sparse,
}

/// The options of an index: whether it is unique and whether it is sparse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpecOptions {
    /// Whether two documents may have the same key.
    pub uniqueness: Uniqueness,
    /// Whether a document without any of the fields has a key.
    pub sparseness: Sparseness,
}

/// The declaration of an index, checked once and immutable.
///
/// Two specs are equal if they have the same fields in the same order and directions, and the same options:
/// `{a: 1}` and `{a: 1.0}` declare the same index.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = |keys: &bson::RawDocument| IndexSpec::parse(keys, SpecOptions::default());
/// assert_eq!(spec(&rawdoc! { "a": 1 })?, spec(&rawdoc! { "a": 2.5 })?);
/// assert_ne!(spec(&rawdoc! { "a": 1 })?, spec(&rawdoc! { "a": -1 })?);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct IndexSpec {
    fields: Vec<IndexField>,
    options: SpecOptions,
    keys: RawDocumentBuf,
    wildcard: Option<Wildcard>,
    collation: Collation,
    long_keys: LongKeys,
}

/// The parts that only a wildcard index has.
#[derive(Clone, Debug)]
struct Wildcard {
    paths: WildcardPaths,
    projection: Option<RawDocumentBuf>,
}

impl PartialEq for IndexSpec {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
            && self.options == other.options
            && self.wildcard() == other.wildcard()
            && self.collation == other.collation
    }
}

impl Eq for IndexSpec {}

impl IndexSpec {
    /// Parses a key pattern: field paths with a positive number for ascending, a negative one for descending.
    ///
    /// # Errors
    /// [`Error::IndexFieldCount`], [`Error::IndexFieldTwice`], [`Error::IndexDirectionInvalid`],
    /// [`Error::IndexKindUnsupported`] or [`Error::PathInvalid`] for what the pattern says, and those of
    /// [`validate`](validate::validate) if it is not well-formed.
    ///
    /// # Examples
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_index::spec::{IndexSpec, SpecOptions};
    ///
    /// let spec = IndexSpec::parse(&rawdoc! { "city": 1, "born": -1 }, SpecOptions::default())?;
    /// assert_eq!(spec.default_name(), "city_1_born_-1");
    /// # Ok::<(), cairndb_index::error::Error>(())
    /// ```
    pub fn parse(keys: &RawDocument, options: SpecOptions) -> Result<Self, Error> {
        validate::validate(keys.as_bytes())?;
        let mut fields: Vec<IndexField> = Vec::new();
        let count = keys.iter().count();
        if !(1..=INDEX_FIELDS_MAX).contains(&count) {
            return Err(Error::IndexFieldCount { count, limit: INDEX_FIELDS_MAX });
        }
        if let Some((name, value)) =
            keys.iter().map_while(Result::ok).find(|(name, _)| is_wildcard(name.as_str()))
        {
            let wildcard = OneField { name: name.as_str(), value, count };
            return Self::parse_wildcard(keys, wildcard, options);
        }
        // The pattern was validated above, so no element is an error.
        for (name, value) in keys.iter().map_while(Result::ok) {
            // At most 32 fields, so comparing each with all others is cheaper than a set.
            let field = parse_field(name.as_str(), value)?;
            if fields.iter().any(|earlier| earlier.path == field.path) {
                return Err(Error::IndexFieldTwice { field: field.path.as_str().to_owned() });
            }
            fields.push(field);
        }
        Ok(Self {
            fields,
            options,
            keys: keys.to_owned(),
            wildcard: None,
            collation: Collation::simple(),
            long_keys: LongKeys::Whole,
        })
    }

    fn parse_wildcard(
        keys: &RawDocument,
        wildcard: OneField<'_>,
        options: SpecOptions,
    ) -> Result<Self, Error> {
        let OneField { name, value, count } = wildcard;
        if count > 1 {
            let kind = "compound wildcard".to_owned();
            return Err(Error::IndexKindUnsupported { field: name.to_owned(), kind });
        }
        for (option, is_set) in [
            ("unique", options.uniqueness == Uniqueness::Unique),
            ("sparse", options.sparseness == Sparseness::Sparse),
        ] {
            if is_set {
                return Err(Error::WildcardOption { option });
            }
        }
        let paths = match name.strip_suffix(WILDCARD).and_then(|front| front.strip_suffix('.')) {
            Some(root) => WildcardPaths::below(root)?,
            None => WildcardPaths::all(),
        };
        let direction = parse_direction(name, value)?;
        // Its keys are those of an index on two fields: the path as a text, and the value there. So they are encoded,
        // bounded and split like all others.
        let fields = vec![
            IndexField { path: FieldPath::parse(WILDCARD_PATH)?, direction: Direction::Ascending },
            IndexField { path: FieldPath::parse(name)?, direction },
        ];
        let wildcard = Some(Wildcard { paths, projection: None });
        let (collation, long_keys) = (Collation::simple(), LongKeys::Whole);
        Ok(Self { fields, options, keys: keys.to_owned(), wildcard, collation, long_keys })
    }

    /// The same wildcard index on the paths that a `wildcardProjection` says.
    ///
    /// # Errors
    /// [`Error::WildcardProjection`] if the projection is not valid, or the keys are not `{"$**": 1}`.
    pub fn with_projection(self, projection: &RawDocument) -> Result<Self, Error> {
        let is_everything = self.fields.last().is_some_and(|field| field.path.as_str() == WILDCARD);
        if self.wildcard.is_none() || !is_everything {
            let reason = "it is allowed only if the key is {\"$**\": 1} or {\"$**\": -1}".to_owned();
            return Err(Error::WildcardProjection { reason });
        }
        let paths = WildcardPaths::projected(projection)?;
        Ok(Self { wildcard: Some(Wildcard { paths, projection: Some(projection.to_owned()) }), ..self })
    }

    /// The same index, with texts in the order of a collation. Its keys have the key forms of values, so they do not say
    /// the texts of a document.
    pub fn with_collation(self, collation: Collation) -> Self {
        Self { collation, ..self }
    }

    /// The same index, with keys that have this of long values. Without it they have all of each value.
    pub fn with_long_keys(self, long_keys: LongKeys) -> Self {
        Self { long_keys, ..self }
    }

    /// The form of long values in the keys of the index, and in the `_id`s of its entries.
    #[inline]
    pub fn long_keys(&self) -> LongKeys {
        self.long_keys
    }

    /// The index's comparison of strings.
    #[inline]
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The paths of a wildcard index. Returns `None` for every other index.
    ///
    /// The fields of a wildcard index are the path, ascending, and the value at it.
    pub fn wildcard(&self) -> Option<&WildcardPaths> {
        self.wildcard.as_ref().map(|wildcard| &wildcard.paths)
    }

    /// The `wildcardProjection` as it was given.
    pub fn wildcard_projection(&self) -> Option<&RawDocument> {
        self.wildcard.as_ref().and_then(|wildcard| wildcard.projection.as_deref())
    }

    /// The fields in order. There is at least one.
    pub fn fields(&self) -> &[IndexField] {
        &self.fields
    }

    /// Whether two documents may not have the same key.
    pub fn is_unique(&self) -> bool {
        self.options.uniqueness == Uniqueness::Unique
    }

    /// Whether a document without any of the fields has no key.
    pub fn is_sparse(&self) -> bool {
        self.options.sparseness == Sparseness::Sparse
    }

    /// Uniqueness and sparseness together.
    pub fn options(&self) -> SpecOptions {
        self.options
    }

    /// The name that an index gets if the user gives none: paths and numbers, joined by underscores.
    pub fn default_name(&self) -> String {
        let mut name = String::new();
        for (path, value) in self.keys.iter().map_while(Result::ok) {
            let separator = if name.is_empty() { "" } else { "_" };
            // As MongoDB names it: the double 1.0 gives "a_1". Writing to a string cannot fail.
            let _ = match value.as_f64() {
                Some(number) => write!(name, "{separator}{}_{number}", path.as_str()),
                None => write!(name, "{separator}{}_{}", path.as_str(), text(value)),
            };
        }
        name
    }

    /// The key pattern as it was given, with its numbers and their types.
    pub fn keys(&self) -> &RawDocument {
        &self.keys
    }
}

fn parse_field(name: &str, value: RawBsonRef<'_>) -> Result<IndexField, Error> {
    let path = FieldPath::parse(name)?;
    path.validate_names()?;
    Ok(IndexField { path, direction: parse_direction(name, value)? })
}

/// A field of a key pattern, and how many the pattern has.
#[derive(Clone, Copy)]
struct OneField<'a> {
    name: &'a str,
    value: RawBsonRef<'a>,
    count: usize,
}

fn is_wildcard(name: &str) -> bool {
    name.rsplit('.').next() == Some(WILDCARD)
}

fn parse_direction(name: &str, value: RawBsonRef<'_>) -> Result<Direction, Error> {
    // A known kind and a text without meaning are different mistakes, so they have different errors.
    if let Some(kind) = value.as_str()
        && UNSUPPORTED_KINDS.contains(&kind)
    {
        return Err(Error::IndexKindUnsupported { field: name.to_owned(), kind: kind.to_owned() });
    }
    direction(value)
        .ok_or_else(|| Error::IndexDirectionInvalid { field: name.to_owned(), value: text(value) })
}

/// The direction that the sign of a number means. Returns `None` for zero, NaN and values that are no
/// numbers.
fn direction(value: RawBsonRef<'_>) -> Option<Direction> {
    if order::type_class(value) != TypeClass::Number
        // NaN sorts below zero and would count as descending.
        || order::compare(value, RawBsonRef::Double(f64::NAN)).is_eq()
    {
        return None;
    }
    let sign = order::compare(value, RawBsonRef::Int32(0));
    if sign.is_gt() {
        Some(Direction::Ascending)
    } else if sign.is_lt() {
        Some(Direction::Descending)
    } else {
        None
    }
}

/// A value as relaxed extended JSON, for names and messages.
fn text(value: RawBsonRef<'_>) -> String {
    bson::Bson::try_from(value).map_or_else(|error| error.to_string(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PathFault;
    use bson::{Bson, Document, doc, rawdoc};

    fn parse(keys: &Document) -> Result<IndexSpec, Error> {
        IndexSpec::parse(&RawDocumentBuf::try_from(keys).unwrap(), SpecOptions::default())
    }

    #[track_caller]
    fn check_name(keys: &Document, name: &str) {
        assert_eq!(parse(keys).unwrap().default_name(), name);
    }

    #[track_caller]
    fn check_refused(keys: &Document, error: &Error) {
        assert_eq!(parse(keys).unwrap_err(), *error);
    }

    #[test]
    fn fields_keep_their_order_and_direction() {
        let spec = parse(&doc! { "b.c": -1, "a": 1 }).unwrap();
        let fields: Vec<_> =
            spec.fields().iter().map(|field| (field.path.as_str(), field.direction)).collect();
        assert_eq!(fields, [("b.c", Direction::Descending), ("a", Direction::Ascending)]);
    }

    #[test]
    fn every_number_with_a_sign_is_a_direction() {
        let ascending: [Bson; 6] =
            [1.into(), 5_i64.into(), 0.5.into(), f64::INFINITY.into(), decimal("0.1"), i64::MAX.into()];
        for value in ascending {
            assert_eq!(parse(&doc! { "a": value }).unwrap().fields()[0].direction, Direction::Ascending);
        }
        for value in [(-1).into(), (-7_i64).into(), (-0.5).into(), decimal("-1E-6176")] {
            let value: Bson = value;
            assert_eq!(parse(&doc! { "a": value }).unwrap().fields()[0].direction, Direction::Descending);
        }
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn other_values_are_no_direction() {
        let values: [(Bson, &str); 7] = [
            (0.into(), "0"),
            ((-0.0).into(), "-0"),
            (f64::NAN.into(), "NaN"),
            (true.into(), "true"),
            (Bson::Null, "null"),
            ("up".into(), "\"up\""),
            (doc! { "x": 1 }.into(), "{ \"x\": 1 }"),
        ];
        for (given, value) in values {
            let (field, value) = ("a".into(), value.into());
            check_refused(&doc! { "a": given }, &Error::IndexDirectionInvalid { field, value });
        }
    }

    #[test]
    fn kinds_of_mongodb_are_known_and_not_supported() {
        for kind in UNSUPPORTED_KINDS {
            let unsupported = Error::IndexKindUnsupported { field: "a".into(), kind: kind.into() };
            check_refused(&doc! { "a": kind }, &unsupported);
        }
        let kind = "compound wildcard".to_owned();
        let compound = Error::IndexKindUnsupported { field: "$**".into(), kind };
        check_refused(&doc! { "a": 1, "$**": 1 }, &compound);
    }

    #[test]
    fn a_wildcard_index_has_a_path_and_a_value() {
        for (name, direction) in [("$**", 1), ("a.b.$**", -1)] {
            let spec = parse(&doc! { name: direction }).unwrap();
            let [path, value] = spec.fields() else { panic!("two fields") };
            assert_eq!((path.path.as_str(), path.direction), ("$_path", Direction::Ascending));
            assert_eq!(value.direction == Direction::Ascending, direction == 1);
            assert_eq!(spec.default_name(), format!("{name}_{direction}"));
            assert!(spec.wildcard().is_some());
        }
        let uniqueness = Uniqueness::Unique;
        let unique =
            IndexSpec::parse(&rawdoc! { "$**": 1 }, SpecOptions { uniqueness, ..SpecOptions::default() });
        assert_eq!(unique.unwrap_err(), Error::WildcardOption { option: "unique" });
        check_refused(
            &doc! { "$**": 0 },
            &Error::IndexDirectionInvalid { field: "$**".into(), value: "0".into() },
        );
        assert!(parse(&doc! { "a..$**": 1 }).is_err() && parse(&doc! { "$**.a": 1 }).is_err());
        assert!(parse(&doc! { ".$**": 1 }).is_err() && parse(&doc! { "a$**": 1 }).is_ok());
    }

    #[test]
    fn only_an_index_on_everything_has_a_projection() {
        let projection = || rawdoc! { "a": 1 };
        let all = parse(&doc! { "$**": 1 }).unwrap();
        assert_ne!(all.clone(), all.clone().with_projection(&projection()).unwrap());
        assert_eq!(all.with_projection(&projection()).unwrap().wildcard_projection(), Some(&*projection()));
        assert!(parse(&doc! { "a.$**": 1 }).unwrap().with_projection(&projection()).is_err());
        assert!(parse(&doc! { "a": 1 }).unwrap().with_projection(&projection()).is_err());
    }

    #[test]
    fn there_are_1_to_32_fields() {
        let keys = |count: usize| {
            (0..count).map(|field| (format!("f{field}"), Bson::Int32(1))).collect::<Document>()
        };
        check_refused(&keys(0), &Error::IndexFieldCount { count: 0, limit: 32 });
        assert_eq!(parse(&keys(32)).unwrap().fields().len(), 32);
        check_refused(&keys(33), &Error::IndexFieldCount { count: 33, limit: 32 });
    }

    #[test]
    fn a_field_appears_once() {
        let mut keys = rawdoc! { "a": 1 };
        keys.append(bson::raw::cstr!("a"), -1);
        let error = IndexSpec::parse(&keys, SpecOptions::default()).unwrap_err();
        assert_eq!(error, Error::IndexFieldTwice { field: "a".into() });
    }

    #[test]
    fn paths_are_checked() {
        let invalid = |path: &str, fault| Error::PathInvalid { path: path.into(), fault };
        check_refused(&doc! { "": 1 }, &invalid("", PathFault::Empty));
        check_refused(&doc! { "a..b": 1 }, &invalid("a..b", PathFault::EmptyComponent { component: 1 }));
        let told = parse(&doc! { "a..b": 1 }).unwrap_err().to_string();
        assert_eq!(told, "invalid path 'a..b': component 1 is empty");
        check_refused(&doc! { "$a": 1 }, &invalid("$a", PathFault::DollarComponent { component: 0 }));
        assert!(parse(&doc! { "owner.$id": 1 }).is_ok());
    }

    #[test]
    fn malformed_patterns_are_refused() {
        let keys = RawDocument::from_bytes(b"\x08\0\0\0\x99a\0\0").unwrap();
        let error = IndexSpec::parse(keys, SpecOptions::default()).unwrap_err();
        assert!(matches!(error, Error::DocumentMalformed { offset: 4, .. }));
    }

    #[test]
    fn names_join_fields_and_numbers() {
        check_name(&doc! { "a": 1 }, "a_1");
        check_name(&doc! { "a.b": 1, "c": -1_i64 }, "a.b_1_c_-1");
        check_name(&doc! { "a": 1.0, "b": -1.5 }, "a_1_b_-1.5");
    }

    #[test]
    fn options_and_keys_are_kept() {
        let options = SpecOptions { uniqueness: Uniqueness::Unique, sparseness: Sparseness::Sparse };
        let keys = rawdoc! { "a": 1.0 };
        let spec = IndexSpec::parse(&keys, options).unwrap();
        assert!(spec.is_unique() && spec.is_sparse() && spec.keys() == &*keys);
        assert_ne!(spec, parse(&doc! { "a": 1 }).unwrap());
        let same = IndexSpec::parse(&rawdoc! { "a": 7 }, options).unwrap();
        assert_eq!(spec, same);
    }

    #[cfg(feature = "collation")]
    #[test]
    fn a_collation_belongs_to_the_index() {
        let english = Collation::parse(&rawdoc! { "locale": "en", "strength": 2 }).unwrap();
        let spec = parse(&doc! { "email": 1 }).unwrap();
        assert!(spec.collation().is_simple() && spec.wildcard().is_none());
        assert_eq!(*spec.with_collation(english.clone()).collation(), english);
    }
}
