//! Dotted paths: the only definition of how `"a.b.0"` walks a document.
//!
//! There are two walks. [`leaves`], for filters and sorts, goes through arrays; [`value_at`] reads fields of
//! objects only. `extract` has a third walk for index keys, which agrees with the first. Updates and
//! aggregation have rules of their own and build on the components.
//!
//! The invariant: a walk borrows values from the document, copies nothing, and needs at most one step for
//! each pair of a value and a rest of the path.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::element;
use crate::error::{Error, PathFault};

/// A dotted path: field names, and positions of arrays, separated by dots.
///
/// Any text without a zero byte is a path, because a field may have any name: `""` is the field with
/// the empty name. Declared paths have stricter rules, see [`validate_names`](Self::validate_names).
///
/// # Examples
/// ```
/// use cairndb_index::path::FieldPath;
///
/// let path = FieldPath::parse("address.lines.0")?;
/// assert_eq!(path.components().collect::<Vec<_>>(), ["address", "lines", "0"]);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    /// Shared, because a filter with a thousand conditions on a field has its path a thousand times.
    text: Arc<str>,
}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    /// [`Error::PathInvalid`] if the text holds a zero byte.
    pub fn parse(path: &str) -> Result<Self, Error> {
        match path.find('\0') {
            None => Ok(Self { text: path.into() }),
            Some(offset) => {
                Err(Error::PathInvalid { path: path.to_owned(), fault: PathFault::ZeroByte { offset } })
            }
        }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names and positions between the dots: at least one, and each may be empty.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.text.split('.')
    }

    /// The first component: the top-level field that the path starts at.
    pub fn first(&self) -> &str {
        split(&self.text).0
    }

    /// Whether `self` is `prefix`, or continues it after a dot.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        match self.text.strip_prefix(prefix.as_str()) {
            // The dot keeps "ab" from starting with "a".
            Some(rest) => rest.is_empty() || rest.starts_with('.'),
            None => false,
        }
    }

    /// Checks the rules for declared paths, as of an index: no empty component, and none that starts with a
    /// dollar sign, except for a reference's `$ref`, `$id` and `$db` below the top level.
    ///
    /// # Errors
    /// [`Error::PathInvalid`] with the first component at fault.
    pub fn validate_names(&self) -> Result<(), Error> {
        if self.text.is_empty() {
            return Err(self.invalid(PathFault::Empty));
        }
        // A reference is a document of its own, so its fields cannot be at the top level.
        for (component, name) in self.components().enumerate() {
            if name.is_empty() {
                return Err(self.invalid(PathFault::EmptyComponent { component }));
            }
            let is_reference = component > 0 && matches!(name, "$ref" | "$id" | "$db");
            if name.starts_with('$') && !is_reference {
                return Err(self.invalid(PathFault::DollarComponent { component }));
            }
        }
        Ok(())
    }

    fn invalid(&self, fault: PathFault) -> Error {
        Error::PathInvalid { path: self.text.to_string(), fault }
    }
}

/// One value that a path reaches in a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaf<'a> {
    /// The value. `None` if the field is missing: the walk reached an object without the field, or a scalar
    /// outside of an array.
    pub value: Option<RawBsonRef<'a>>,
    /// Whether an array's elements count too: the path ended at a field, not at an explicit position.
    pub expand: bool,
    /// The position in the outermost array that the walk entered although the path names no position there.
    /// The positional operator `$` of an update refers to it. If it is `None` and `value` is expanded, `$`
    /// refers to the position in `value` itself.
    pub position: Option<usize>,
}

/// Visits every value that `path` reaches, as filters and sorts see a document.
///
/// An object gives its field. An array in the middle of the path gives, for each element that is an object,
/// what the rest of the path finds there. If the next component is a position (`0`, `1`, `12`, no leading
/// zeros) that exists, the array also gives the element at that position, of any type. Both readings count.
/// An array directly inside an array is entered only through a position. Visits come in document order. If
/// several readings of a path lead to the same rest in the same array, that array is visited once.
///
/// | document | path | visited values |
/// |---|---|---|
/// | `{}` | `a` | missing |
/// | `{a: [1, 2]}` | `a` | `[1, 2]`, to be expanded |
/// | `{a: 1}` | `a.b` | missing |
/// | `{a: {b: 1}}` | `a.b` | `1` |
/// | `{a: [{b: 1}, {}, 5, [{b: 2}]]}` | `a.b` | `1`, missing |
/// | `{a: []}`, `{a: [5]}`, `{a: [[]]}` | `a.b` | none at all |
/// | `{a: [[10], 11]}` | `a.0` | `[10]`, not to be expanded |
/// | `{a: [10]}` | `a.1` | none at all |
/// | `{a: [{0: 5}]}` | `a.0` | `5`, then `{0: 5}` |
/// | `{a: [{b: 1}]}` | `a.0.b` | missing, then `1` |
/// | `{a: [10]}` | `a.0.b` | none at all |
/// | `{a: [[{b: 1}, {}]]}` | `a.0.b` | `1`, missing |
///
/// Filters are defined by these visits. A leaf *offers* its value and, if [`expand`](Leaf::expand) is set and
/// the value is an array, each element as well.
///
/// * Equality with null: some leaf is missing, or offers null or undefined.
/// * `$exists: true`: some leaf has a value; `$exists: false` is the complement.
/// * Comparisons, `$in`, `$regex`, `$type`, `$mod`, bits: some leaf offers a match.
/// * `$size`, `$elemMatch`: some leaf's value, unexpanded, is an array that matches.
/// * `$ne`, `$nin`, `$not`, `$nor`: the complement over the whole document.
///
/// The walk stops when `visit` breaks, and returns the break.
///
/// # Examples
/// ```
/// use std::ops::ControlFlow;
/// use cairndb_index::path::{FieldPath, leaves};
///
/// let document = bson::rawdoc! { "a": [{ "b": 1 }, { "b": 2 }] };
/// let mut sum = 0;
/// let _ = leaves(&document, &FieldPath::parse("a.b")?, &mut |leaf| {
///     sum += leaf.value.and_then(bson::RawBsonRef::as_i32).unwrap_or(0);
///     ControlFlow::Continue(())
/// });
/// assert_eq!(sum, 3);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn leaves<'a>(
    document: &'a RawDocument,
    path: &FieldPath,
    visit: &mut dyn FnMut(Leaf<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    leaves_within(document, path, &|_| ControlFlow::Continue(()), visit)
}

/// Visits what [`leaves`] visits, and calls `enter` with the length in bytes of every array before walking
/// it. An array may hold many elements that are never visited, so its length bounds the work. The walk also
/// stops when `enter` breaks.
pub fn leaves_within<'a>(
    document: &'a RawDocument,
    path: &FieldPath,
    enter: &dyn Fn(usize) -> ControlFlow<()>,
    visit: &mut dyn FnMut(Leaf<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut walk = Walk { visit, enter, entered: None };
    walk.document(document, path.as_str(), None)
}

/// The value that `path` reaches through objects only. Returns `None` if a field is missing or the path
/// goes through an array.
///
/// ```
/// use cairndb_index::path::{FieldPath, value_at};
///
/// let document = bson::rawdoc! { "a": { "b": 1 }, "c": [{ "d": 2 }] };
/// assert_eq!(value_at(&document, &FieldPath::parse("a.b")?), Some(bson::RawBsonRef::Int32(1)));
/// assert_eq!(value_at(&document, &FieldPath::parse("c.d")?), None);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn value_at<'a>(document: &'a RawDocument, path: &FieldPath) -> Option<RawBsonRef<'a>> {
    let (mut name, mut tail) = split(path.as_str());
    let mut document = document;
    loop {
        let value = element::field(document, name)?;
        let Some(rest) = tail else { return Some(value) };
        document = value.as_document()?;
        (name, tail) = split(rest);
    }
}

/// The array position that a component names. Returns `None` unless it is digits without a leading zero.
pub fn array_index(component: &str) -> Option<usize> {
    let is_number = component.bytes().all(|byte| byte.is_ascii_digit());
    // "01" is a name and no position, as in MongoDB: otherwise one element would have many paths.
    let is_canonical = component == "0" || !component.starts_with('0');
    if is_number && is_canonical { component.parse().ok() } else { None }
}

/// The first component of a path and what follows its dot.
pub(crate) fn split(path: &str) -> (&str, Option<&str>) {
    // Paths are short, and a search that is made for long texts needs longer to begin.
    let dot = path.bytes().position(|byte| byte == b'.');
    match dot.and_then(|dot| path.get(..dot).zip(path.get(dot + 1..))) {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    }
}

/// The state of a walk of [`leaves`].
struct Walk<'a, 'v> {
    visit: &'v mut dyn FnMut(Leaf<'a>) -> ControlFlow<()>,
    enter: &'v dyn Fn(usize) -> ControlFlow<()>,
    /// Set below an element at which both readings of a number are followed: the address of every array
    /// entered since, with the length of the path left there. Many readings of a path can lead to the same
    /// array. They find the same there, apart from the position, and only the first position counts.
    entered: Option<HashSet<(usize, usize)>>,
}

impl<'a> Walk<'a, '_> {
    fn document(
        &mut self,
        document: &'a RawDocument,
        path: &str,
        position: Option<usize>,
    ) -> ControlFlow<()> {
        let missing = Leaf { value: None, expand: false, position };
        let (mut name, mut tail) = split(path);
        let mut document = document;
        loop {
            #[cfg(test)]
            steps::count();
            let Some(value) = element::field(document, name) else { return (self.visit)(missing) };
            let Some(rest) = tail else {
                return (self.visit)(Leaf { value: Some(value), expand: true, position });
            };
            if let Some(array) = value.as_array() {
                return self.array(array, rest, position);
            }
            // A scalar where the path goes on counts as a missing field, so `{"a.b": null}` matches `{a: 1}`.
            let Some(embedded) = value.as_document() else { return (self.visit)(missing) };
            document = embedded;
            (name, tail) = split(rest);
        }
    }

    fn array(&mut self, array: &'a RawArray, path: &str, position: Option<usize>) -> ControlFlow<()> {
        // Without this, a path of n numbers through n nested arrays could be walked 2^n times.
        if let Some(entered) = &mut self.entered
            && !entered.insert((array.as_bytes().as_ptr().addr(), path.len()))
        {
            return ControlFlow::Continue(());
        }
        (self.enter)(array.as_bytes().len())?;
        let (name, tail) = split(path);
        let wanted = array_index(name);
        for (index, element) in array.into_iter().map_while(Result::ok).enumerate() {
            #[cfg(test)]
            steps::count();
            let embedded = element.as_document();
            let is_wanted = wanted == Some(index);
            // Two readings can meet again only below an element that both of them enter. The set is allocated
            // there, and not for each array.
            let forks = is_wanted && embedded.is_some() && self.entered.is_none();
            if forks {
                self.entered = Some(HashSet::new());
            }
            // `$` refers to the outermost array, so a position that was found earlier stays.
            if let Some(document) = embedded {
                self.document(document, path, position.or(Some(index)))?;
            }
            // After the other reading of the number, so that visits come in the order of the table above.
            if is_wanted {
                self.chosen(element, tail, position)?;
            }
            if forks {
                self.entered = None;
            }
        }
        ControlFlow::Continue(())
    }

    /// Goes on from the element at the position that the path names.
    fn chosen(
        &mut self,
        element: RawBsonRef<'a>,
        tail: Option<&str>,
        position: Option<usize>,
    ) -> ControlFlow<()> {
        let Some(rest) = tail else {
            return (self.visit)(Leaf { value: Some(element), expand: false, position });
        };
        if let Some(document) = element.as_document() {
            self.document(document, rest, position)
        } else if let Some(nested) = element.as_array() {
            self.array(nested, rest, position)
        } else {
            // An element that the path named is not a missing field if it is a scalar: it gives no leaf at all.
            ControlFlow::Continue(())
        }
    }
}

/// Counts the steps of walks, so that tests can bound them without a clock.
#[cfg(test)]
mod steps {
    use std::cell::Cell;

    thread_local! {
        static TAKEN: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        TAKEN.set(TAKEN.get() + 1);
    }

    /// The number of steps that `walk` needs.
    pub(super) fn of(walk: impl FnOnce()) -> usize {
        TAKEN.set(0);
        walk();
        TAKEN.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, RawDocumentBuf, doc};

    fn path(text: &str) -> FieldPath {
        FieldPath::parse(text).unwrap()
    }

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    /// The visited values as text: `-` for missing, `+` behind what is expanded, `@n` for a position.
    fn visited(document: &Document, text: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let _ = leaves(&raw(document), &path(text), &mut |leaf| {
            let value = leaf.value.map_or("-".into(), |value| Bson::try_from(value).unwrap().to_string());
            let expand = if leaf.expand { "+" } else { "" };
            let position = leaf.position.map_or(String::new(), |position| format!("@{position}"));
            seen.push(format!("{value}{expand}{position}"));
            ControlFlow::Continue(())
        });
        seen
    }

    #[track_caller]
    fn check(document: &Document, text: &str, expected: &[&str]) {
        assert_eq!(visited(document, text), expected, "{text} in {document}");
    }

    /// Null semantics as the doc comment of `leaves` derives them.
    #[track_caller]
    fn check_null(document: &Document, text: &str, is_null: bool, exists: bool) {
        let stored = raw(document);
        let (mut any_null, mut any_value) = (false, false);
        let _ = leaves(&stored, &path(text), &mut |leaf| {
            let nullish = |value: RawBsonRef<'_>| matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
            any_value |= leaf.value.is_some();
            any_null |= leaf.value.is_none_or(nullish);
            if let Some(array) = leaf.value.and_then(RawBsonRef::as_array).filter(|_| leaf.expand) {
                any_null |= array.into_iter().any(|element| nullish(element.unwrap()));
            }
            ControlFlow::Continue(())
        });
        assert_eq!((any_null, any_value), (is_null, exists), "{text} in {document}");
    }

    #[test]
    fn objects_take_the_field() {
        check(&doc! {}, "a", &["-"]);
        check(&doc! { "a": 1 }, "a", &["1+"]);
        check(&doc! { "a": 1 }, "a.b", &["-"]);
        check(&doc! { "a": { "b": 1 } }, "a.b", &["1+"]);
        check(&doc! { "a": { "0": { "b": 1 } } }, "a.0.b", &["1+"]);
        check(&doc! { "": { "": 1 } }, ".", &["1+"]);
    }

    #[test]
    fn an_array_at_the_end_is_one_leaf() {
        check(&doc! { "a": [1, [2]] }, "a", &["[1, [2]]+"]);
        check(&doc! { "a": [] }, "a", &["[]+"]);
    }

    #[test]
    fn arrays_on_the_way_give_their_objects() {
        check(&doc! { "a": [{ "b": 1 }, {}, 5, [{ "b": 2 }]] }, "a.b", &["1+@0", "-@1"]);
        check(&doc! { "a": [5, (Bson::Null)] }, "a.b", &[]);
        check(&doc! { "a": [] }, "a.b", &[]);
        check(&doc! { "a": [{ "b": [1, 2] }] }, "a.b", &["[1, 2]+@0"]);
        check(&doc! { "a": [1, { "b": [{ "c": 1 }, { "c": 2 }] }] }, "a.b.c", &["1+@1", "2+@1"]);
    }

    #[test]
    fn positions_give_the_element_as_a_whole() {
        check(&doc! { "a": [[10], 11] }, "a.0", &["[10]"]);
        check(&doc! { "a": [10, 11] }, "a.1", &["11"]);
        check(&doc! { "a": [10] }, "a.1", &[]);
        check(&doc! { "a": [10] }, "a.0.b", &[]);
        check(&doc! { "a": [[5, 6]] }, "a.0.1", &["6"]);
        check(&doc! { "a": [[{ "b": 1 }, {}]] }, "a.0.b", &["1+@0", "-@1"]);
    }

    #[test]
    fn positions_are_tried_as_names_of_objects_too() {
        check(&doc! { "a": [{ "0": 5 }] }, "a.0", &["5+@0", r#"{ "0": 5 }"#]);
        check(&doc! { "a": [{ "b": 1 }] }, "a.0.b", &["-@0", "1+"]);
    }

    #[test]
    fn only_plain_numbers_are_positions() {
        assert_eq!(array_index("0"), Some(0));
        assert_eq!(array_index("12"), Some(12));
        for text in ["", "00", "01", "+1", "-1", " 1", "1a", "99999999999999999999999"] {
            assert_eq!(array_index(text), None, "{text}");
        }
    }

    #[test]
    fn null_and_existence_follow_the_leaves() {
        let nulls =
            [doc! {}, doc! { "a": 1 }, doc! { "a": (Bson::Null) }, doc! { "a": {} }, doc! { "a": [{}] }];
        for document in nulls {
            check_null(&document, "a.b", true, false);
        }
        let others =
            [doc! { "a": [] }, doc! { "a": [[]] }, doc! { "a": [1, (Bson::Null)] }, doc! { "a": [[{}]] }];
        for document in others {
            check_null(&document, "a.b", false, false);
        }
        check_null(&doc! { "a": { "b": (Bson::Null) } }, "a.b", true, true);
        check_null(&doc! { "a": [{ "b": 1 }, {}] }, "a.b", true, true);
        check_null(&doc! { "a": [{ "b": 1 }, 5] }, "a.b", false, true);
        check_null(&doc! { "a": [1, (Bson::Null)] }, "a", true, true);
        check_null(&doc! { "a": [] }, "a", false, true);
        check_null(&doc! { "a": [[(Bson::Null)]] }, "a.0", false, true);
        check_null(&doc! { "a": [1] }, "a.1", false, false);
    }

    /// Each array could be reached by every way to read some of the numbers before it as names and the others
    /// as positions: a document of 396 bytes kept a walk busy for seconds, and each two levels more doubled
    /// that.
    #[test]
    fn a_walk_takes_no_more_steps_than_there_are_pairs_of_values_and_rests() {
        for depth in 1..=60 {
            let mut value = Bson::Array(vec![Bson::Int32(1)]);
            for _ in 0..depth {
                value = Bson::Array(vec![Bson::Document(doc! { "0": value })]);
            }
            let stored = raw(&doc! { "0": value });
            for parts in [depth, 2 * depth, 2 * depth + 2] {
                let numbers = path(&vec!["0"; parts].join("."));
                let taken = steps::of(|| {
                    let _ = leaves(&stored, &numbers, &mut |_| ControlFlow::Continue(()));
                });
                let (values, rests) = (3 * (depth + 1), parts);
                assert!(taken <= values * rests, "{taken} steps for {depth} levels and {parts} parts");
            }
        }
    }

    #[test]
    fn readings_that_meet_again_visit_an_array_once() {
        // The first number is a name and the second a position, or the other way round.
        let document = doc! { "a": [{ "0": [{ "b": [{ "c": 1 }, { "c": 2 }] }] }] };
        check(&document, "a.0.0.b.c", &["-@0", "1+@0", "2+@0"]);
    }

    #[test]
    fn a_visitor_can_stop_the_walk() {
        let stored = raw(&doc! { "a": [{ "b": 1 }, { "b": 2 }] });
        let mut count = 0;
        let flow = leaves(&stored, &path("a.b"), &mut |_| {
            count += 1;
            ControlFlow::Break(())
        });
        assert_eq!((flow, count), (ControlFlow::Break(()), 1));
    }

    #[test]
    fn the_first_of_equal_names_counts() {
        let stored =
            RawDocumentBuf::from_bytes(b"\x13\0\0\0\x10a\0\x01\0\0\0\x10a\0\x02\0\0\0\0".to_vec()).unwrap();
        assert_eq!(value_at(&stored, &path("a")), Some(RawBsonRef::Int32(1)));
    }

    #[test]
    fn plain_traversal_does_not_enter_arrays() {
        let stored = raw(&doc! { "a": { "b": { "c": 1 } }, "d": [{ "e": 1 }] });
        assert_eq!(value_at(&stored, &path("a.b.c")), Some(RawBsonRef::Int32(1)));
        assert!(value_at(&stored, &path("d")).is_some_and(|value| value.as_array().is_some()));
        for text in ["a.b.c.d", "a.x", "d.e", "d.0", "d.0.e", ""] {
            assert_eq!(value_at(&stored, &path(text)), None, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_well_formed_give_nothing() {
        for bytes in
            [b"\x07\0\0\0\x99a\0".as_slice(), b"\x08\0\0\0\x02a\0\0", b"\x0c\0\0\0\x02a\0\xff\xff\xff\xff\0"]
        {
            let stored = RawDocument::from_bytes(bytes).unwrap();
            assert_eq!(value_at(stored, &path("a")), None);
            assert_eq!(value_at(stored, &path("b")), None);
        }
    }

    #[track_caller]
    fn check_names(text: &str, fault: Option<PathFault>) {
        let expected = fault.map(|fault| Error::PathInvalid { path: text.to_owned(), fault });
        assert_eq!(path(text).validate_names().err(), expected);
    }

    #[test]
    fn declared_paths_have_proper_names() {
        for good in ["a", "a.b", "a.$id", "a.$ref", "a.$db", "a.0.b", "a.b$"] {
            check_names(good, None);
        }
        check_names("", Some(PathFault::Empty));
        check_names(".a", Some(PathFault::EmptyComponent { component: 0 }));
        check_names("a.", Some(PathFault::EmptyComponent { component: 1 }));
        check_names("a..b", Some(PathFault::EmptyComponent { component: 1 }));
        check_names("$a", Some(PathFault::DollarComponent { component: 0 }));
        check_names("$id", Some(PathFault::DollarComponent { component: 0 }));
        check_names("a.$", Some(PathFault::DollarComponent { component: 1 }));
    }

    #[test]
    fn zero_bytes_are_refused() {
        let error = FieldPath::parse("a.\0").unwrap_err();
        assert_eq!(
            error,
            Error::PathInvalid { path: "a.\0".into(), fault: PathFault::ZeroByte { offset: 2 } }
        );
    }

    #[test]
    fn prefixes_end_at_dots() {
        assert!(path("a.b").starts_with(&path("a")) && path("a").starts_with(&path("a")));
        assert!(!path("ab").starts_with(&path("a")) && !path("a").starts_with(&path("a.b")));
        assert_eq!((path("a.b").first(), path("a").first()), ("a", "a"));
    }

    #[test]
    fn the_walk_tells_the_length_of_an_array_before_it_enters() {
        let document = raw(&doc! { "a": [1, 2, 3] });
        let lengths = std::cell::RefCell::new(Vec::new());
        let enter = |length| {
            lengths.borrow_mut().push(length);
            ControlFlow::Continue(())
        };
        let walk = leaves_within(&document, &path("a.b"), &enter, &mut |_| ControlFlow::Continue(()));
        assert!(walk.is_continue());
        assert_eq!(*lengths.borrow(), [document.get_array("a").unwrap().as_bytes().len()]);
    }
}
