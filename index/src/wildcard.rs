//! Wildcard indexes: which paths they have, and which values a document has at those paths.
//!
//! A wildcard index has an entry for each value of a document that is not a container of others: for every scalar, empty
//! object and empty array, under the dotted path of its field. Elements of an array are under the path of the array.
//! An array directly inside of an array is a value as a whole. These are MongoDB's rules.
//!
//! The invariant: a field whose name has a dot is left out, because no path leads to it.

use std::collections::HashSet;

use bson::{RawBsonRef, RawDocument};

use crate::error::Error;
use crate::path::FieldPath;
use crate::validate;

/// The component of an index key that means every field.
pub const WILDCARD: &str = "$**";

/// Which paths a wildcard index has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WildcardPaths {
    rule: Rule,
}

/// The declaration of the paths.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// These and all paths below them.
    Only(Vec<FieldPath>),
    /// All paths but these and those below them.
    AllBut(Vec<FieldPath>),
}

/// Whether a walk goes into a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// The field and what is below it has entries.
    Whole,
    /// Some path below the field has entries, the field itself has none.
    Passage,
    /// Nothing has entries.
    Nothing,
}

/// The visitor of each value: it gets the dotted path and the value.
type Visit<'v> = dyn FnMut(&str, RawBsonRef<'_>) -> Result<(), Error> + 'v;

impl WildcardPaths {
    /// All paths but `_id` and those below it: `{"$**": 1}`.
    pub fn all() -> Self {
        Self { rule: Rule::AllBut(FieldPath::parse("_id").into_iter().collect()) }
    }

    /// A path and all below it: `{"path.$**": 1}`.
    ///
    /// # Errors
    /// [`Error::PathInvalid`] if the path cannot be declared.
    pub fn below(path: &str) -> Result<Self, Error> {
        let path = FieldPath::parse(path)?;
        path.validate_names()?;
        Ok(Self { rule: Rule::Only(vec![path]) })
    }

    /// The paths of a `wildcardProjection`: fields with 1 or `true` are the only ones, or fields with 0 or `false` are left
    /// out. `_id` may differ from the others, and is left out unless it has 1 or `true`.
    ///
    /// # Errors
    /// [`Error::WildcardProjection`] if fields of both kinds are mixed, a value is not a flag, or there is no field.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_index::path::FieldPath;
    /// use cairndb_index::wildcard::WildcardPaths;
    ///
    /// let paths = WildcardPaths::projected(&rawdoc! { "price": 0, "owner": { "name": 0 } })?;
    /// assert!(paths.has(&FieldPath::parse("owner.city")?));
    /// assert!(!paths.has(&FieldPath::parse("owner.name.first")?));
    /// assert!(WildcardPaths::projected(&rawdoc! { "a": 1, "b": 0 }).is_err());
    /// # Ok::<(), cairndb_index::error::Error>(())
    /// ```
    pub fn projected(projection: &RawDocument) -> Result<Self, Error> {
        validate::validate(projection.as_bytes())?;
        let mut flags = Vec::new();
        collect_flags("", projection, &mut flags)?;
        if flags.is_empty() {
            return Err(refused("it has no fields"));
        }
        // `_id` says nothing of the other fields, unless it is the only one.
        let id = flags.iter().find(|flag| flag.path.as_str() == "_id").map(|flag| flag.is_in);
        let mut others = flags.into_iter().filter(|flag| flag.path.as_str() != "_id").peekable();
        let is_in = others.peek().map(|flag| flag.is_in).or(id).unwrap_or(false);
        let mut paths = Vec::new();
        for flag in others {
            if flag.is_in != is_in {
                return Err(refused("it has fields that are in and fields that are out"));
            }
            paths.push(flag.path);
        }
        // By default it is out. So it is listed as out among those that are out, and as in among those that are in.
        if is_in == (id == Some(true)) {
            paths.push(FieldPath::parse("_id")?);
        }
        Ok(Self { rule: if is_in { Rule::Only(paths) } else { Rule::AllBut(paths) } })
    }

    /// Whether the index has the values at a path.
    pub fn has(&self, path: &FieldPath) -> bool {
        match &self.rule {
            Rule::Only(roots) => roots.iter().any(|root| path.starts_with(root)),
            Rule::AllBut(roots) => !roots.iter().any(|root| path.starts_with(root)),
        }
    }

    /// Calls `visit` for each value of a document that has an entry, with its path, and `on_array` for each array on the
    /// way. An error of `visit` ends the walk.
    pub(crate) fn visit(
        &self,
        document: &RawDocument,
        on_array: &mut dyn FnMut(),
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let mut walk = Walk { paths: self, path: String::new(), depth: 0, on_array, visit };
        // A document that is stored is not nested too deeply, so recursion is safe.
        walk.object(document)
    }

    fn entry(&self, path: &str) -> Entry {
        match &self.rule {
            Rule::Only(roots) => {
                if roots.iter().any(|root| is_within(path, root.as_str())) {
                    Entry::Whole
                } else if roots.iter().any(|root| is_within(root.as_str(), path)) {
                    Entry::Passage
                } else {
                    Entry::Nothing
                }
            }
            // Below a field that is in there may be one that is out, so each is asked for.
            Rule::AllBut(roots) if roots.iter().any(|root| is_within(path, root.as_str())) => Entry::Nothing,
            Rule::AllBut(_) => Entry::Whole,
        }
    }
}

/// A field of a projection.
struct Flag {
    path: FieldPath,
    is_in: bool,
}

/// Adds the fields of a projection with their whole paths.
fn collect_flags(outer: &str, projection: &RawDocument, flags: &mut Vec<Flag>) -> Result<(), Error> {
    // It was validated, so no element is an error, and its nesting is bounded.
    for (name, value) in projection.iter().map_while(Result::ok) {
        let path =
            if outer.is_empty() { name.as_str().to_owned() } else { format!("{outer}.{}", name.as_str()) };
        if let RawBsonRef::Document(inner) = value
            && !inner.is_empty()
        {
            collect_flags(&path, inner, flags)?;
            continue;
        }
        let number = value.as_f64().map(|number| number != 0.0);
        let number = number.or_else(|| value.as_i32().map(|number| number != 0));
        let number = number.or_else(|| value.as_i64().map(|number| number != 0));
        let is_in = value
            .as_bool()
            .or(number)
            .ok_or_else(|| refused(&format!("the value of '{path}' is neither a number nor a boolean")))?;
        let path = FieldPath::parse(&path)?;
        path.validate_names()?;
        flags.push(Flag { path, is_in });
    }
    Ok(())
}

fn refused(reason: &str) -> Error {
    Error::WildcardProjection { reason: reason.to_owned() }
}

/// Whether `path` is `root`, or continues it after a dot.
fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A walk through one document.
struct Walk<'w, 'v> {
    paths: &'w WildcardPaths,
    /// The path of the current field.
    path: String,
    /// The number of names in the path. An empty path may be a field with an empty name.
    depth: usize,
    on_array: &'w mut dyn FnMut(),
    visit: &'w mut Visit<'v>,
}

impl Walk<'_, '_> {
    /// Walks through the fields of an object that lies at the current path.
    fn object(&mut self, object: &RawDocument) -> Result<(), Error> {
        let mut names = HashSet::new();
        for (name, value) in object.iter().map_while(Result::ok) {
            let name = name.as_str();
            // Of several fields with one name, a path leads to the first.
            if name.contains('.') || !names.insert(name) {
                continue;
            }
            let length = self.path.len();
            if self.depth > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            self.depth += 1;
            let entry = self.paths.entry(&self.path);
            if entry != Entry::Nothing {
                self.field(value, entry)?;
            }
            self.depth -= 1;
            self.path.truncate(length);
        }
        Ok(())
    }

    /// Visits the value of the current field, or what is in it.
    fn field(&mut self, value: RawBsonRef<'_>, entry: Entry) -> Result<(), Error> {
        let RawBsonRef::Array(array) = value else { return self.value(value, entry) };
        (self.on_array)();
        let mut elements = array.into_iter().map_while(Result::ok).peekable();
        // As in every index: without elements there would be no entry.
        if elements.peek().is_none() {
            return self.leaf(RawBsonRef::Undefined, entry);
        }
        elements.try_for_each(|element| self.value(element, entry))
    }

    /// Visits a value, or what is in it if it is an object. An array directly inside of an array is a value.
    fn value(&mut self, value: RawBsonRef<'_>, entry: Entry) -> Result<(), Error> {
        match value.as_document() {
            Some(object) if !object.is_empty() => self.object(object),
            Some(_) | None => self.leaf(value, entry),
        }
    }

    fn leaf(&mut self, value: RawBsonRef<'_>, entry: Entry) -> Result<(), Error> {
        if entry == Entry::Whole { (self.visit)(&self.path, value) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, RawDocumentBuf, bson, doc};

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    /// The values with their paths, and how many arrays the walk met.
    #[track_caller]
    fn check(paths: &WildcardPaths, document: &Document, expected: &[(&str, Bson)], arrays: usize) {
        let (mut found, mut met) = (Vec::new(), 0);
        let mut visit = |path: &str, value: RawBsonRef<'_>| {
            found.push((path.to_owned(), Bson::try_from(value).unwrap()));
            Ok(())
        };
        paths.visit(&raw(document), &mut || met += 1, &mut visit).unwrap();
        let expected: Vec<_> =
            expected.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect();
        assert_eq!((found, met), (expected, arrays), "{document}");
    }

    fn projected(projection: &Document) -> Result<WildcardPaths, Error> {
        WildcardPaths::projected(&raw(projection))
    }

    #[test]
    fn every_value_stands_under_its_path() {
        let all = WildcardPaths::all();
        check(
            &all,
            &doc! { "_id": 1, "a": 2, "b": { "c": "x", "d": {} } },
            &[("a", bson!(2)), ("b.c", bson!("x")), ("b.d", bson!({}))],
            0,
        );
        check(&all, &doc! { "a": Bson::Null, "": 1 }, &[("a", Bson::Null), ("", bson!(1))], 0);
        check(&all, &doc! { "": { "": 1 }, "a.b": 2, "c": { "d.e": 3 } }, &[(".", bson!(1))], 0);
        let mut twice = bson::rawdoc! { "a": 1 };
        twice.append(bson::raw::cstr!("a"), 2);
        let mut values = Vec::new();
        let mut visit = |_: &str, value: RawBsonRef<'_>| {
            values.extend(value.as_i32());
            Ok(())
        };
        all.visit(&twice, &mut || {}, &mut visit).unwrap();
        assert_eq!(values, [1]);
        check(&all, &doc! { "$a": 1, "r": { "$id": 2 } }, &[("$a", bson!(1)), ("r.$id", bson!(2))], 0);
    }

    #[test]
    fn elements_stand_under_the_path_of_their_array() {
        let all = WildcardPaths::all();
        check(
            &all,
            &doc! { "a": [1, { "b": 2, "c": [3] }, {}, [4, { "b": 5 }], []] },
            &[
                ("a", bson!(1)),
                ("a.b", bson!(2)),
                ("a.c", bson!(3)),
                ("a", bson!({})),
                ("a", bson!([4, { "b": 5 }])),
                ("a", bson!([])),
            ],
            2,
        );
        check(&all, &doc! { "a": [] }, &[("a", Bson::Undefined)], 1);
    }

    #[test]
    fn only_what_is_below_a_declared_path_is_there() {
        let below = WildcardPaths::below("a.b").unwrap();
        check(&below, &doc! { "a": { "b": { "c": 1 }, "bc": 2 }, "b": 3 }, &[("a.b.c", bson!(1))], 0);
        check(
            &below,
            &doc! { "a": [{ "b": 1 }, 2, { "b": [] }] },
            &[("a.b", bson!(1)), ("a.b", Bson::Undefined)],
            2,
        );
        check(&below, &doc! { "a": 5 }, &[], 0);
        check(&below, &doc! { "a": [] }, &[], 1);
        assert!(WildcardPaths::below("_id").is_ok() && WildcardPaths::below("$x").is_err());
    }

    #[test]
    fn a_projection_says_which_paths_are_there() {
        let only = projected(&doc! { "a": 1, "b": { "c": true } }).unwrap();
        let document = || doc! { "_id": 1, "a": 2, "b": { "c": 3, "d": 4 }, "e": 5 };
        check(&only, &document(), &[("a", bson!(2)), ("b.c", bson!(3))], 0);
        let but = projected(&doc! { "a": 0, "b.c": 0.0 }).unwrap();
        check(&but, &document(), &[("b.d", bson!(4)), ("e", bson!(5))], 0);
        let with_id = projected(&doc! { "_id": 1, "a": 0, "b": 0 }).unwrap();
        check(&with_id, &document(), &[("_id", bson!(1)), ("e", bson!(5))], 0);
        let with_id = projected(&doc! { "_id": 1, "a": 1 }).unwrap();
        check(&with_id, &document(), &[("_id", bson!(1)), ("a", bson!(2))], 0);
        let without = projected(&doc! { "_id": 0 }).unwrap();
        check(&without, &doc! { "_id": 1, "a": 2 }, &[("a", bson!(2))], 0);
        let only_id = projected(&doc! { "_id": 1 }).unwrap();
        check(&only_id, &doc! { "_id": 1, "a": 2 }, &[("_id", bson!(1))], 0);
        let but = projected(&doc! { "_id": 0, "a": 1 }).unwrap();
        check(&but, &doc! { "_id": 1, "a": 2, "b": 3 }, &[("a", bson!(2))], 0);
    }

    #[test]
    fn projections_without_meaning_are_refused() {
        for projection in [
            doc! {},
            doc! { "a": 1, "b": 0 },
            doc! { "a": "x" },
            doc! { "a": {} },
            doc! { "a": Bson::Null },
            doc! { "$a": 1 },
        ] {
            assert!(projected(&projection).is_err(), "{projection}");
        }
    }
}
