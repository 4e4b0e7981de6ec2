//! Computed fields: what `$addFields` and `$set` put into a document.
//!
//! A field that exists keeps its position, and a new one comes last. A path that meets an array goes into every
//! element; one that meets a scalar puts an object in its place. All expressions see the document as it was before.

use std::collections::BTreeMap;

use bson::raw::{CStr, CString};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::node::{Node, Scope};
use crate::expression::parse::parse;
use crate::expression::parser::{check_field_name, invalid};
use crate::expression::value::{ArrayBuilder, ObjectBuilder, Value, fields};
use crate::expression::variables::Variables;
use crate::operation::OperationContext;
use crate::value::elements;

/// The limit of the depth of paths and of the arrays that they enter.
const DEPTH_MAX: usize = 250;
const OPERATOR: &str = "$addFields";

/// Fields with their expressions: parsed once, and set in any number of documents.
///
/// ```
/// use bson::{RawDocumentBuf, rawdoc};
/// use cairndb_query::expression::{ComputedFields, Variables};
///
/// let variables = Variables::default();
/// let fields = ComputedFields::parse(&rawdoc! { "total": { "$sum": "$sizes" }, "box.count": 1 }, &variables)?;
/// let document = rawdoc! { "sizes": [2, 3], "box": { "color": "red" } };
/// let expected = rawdoc! { "sizes": [2, 3], "box": { "color": "red", "count": 1 }, "total": 5 };
/// assert_eq!(fields.apply(&document, &variables)?, expected);
/// # Ok::<(), cairndb_query::expression::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ComputedFields {
    root: FieldTree,
    /// The expressions. A leaf of the tree names its expression by the position in this list.
    expressions: Vec<Node>,
}

/// The fields that are set in one object.
#[derive(Clone, Debug, Default)]
struct FieldTree {
    /// In the order in which they were named.
    fields: Vec<(CString, Assignment)>,
    /// The position in `fields` of each name.
    positions: BTreeMap<String, usize>,
}

/// The new value of a field.
#[derive(Clone, Debug)]
enum Assignment {
    /// The value of the expression at this position.
    Expression(usize),
    /// The object that is there, with fields set in it.
    Fields(FieldTree),
}

/// The context of setting fields: the values of the expressions for a document, the operation, and the depth of the
/// walk.
#[derive(Clone, Copy)]
struct Setting<'s> {
    values: &'s [Value<'s>],
    operation: &'s OperationContext,
    depth: usize,
}

impl Setting<'_> {
    /// One level of objects or arrays deeper.
    fn deeper(self) -> Result<Self, Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX });
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl ComputedFields {
    /// Parses fields with their expressions.
    ///
    /// Names may be dotted paths. An object that is not an operator represents fields of an object; these names may
    /// not be dotted.
    ///
    /// # Errors
    /// What is wrong with an expression or a path, or two paths of which one continues the other.
    pub fn parse(specification: &RawDocument, variables: &Variables) -> Result<Self, Error> {
        let mut computed = Self { root: FieldTree::default(), expressions: Vec::new() };
        computed.read(&mut Vec::new(), specification, variables)?;
        Ok(computed)
    }

    /// Copies a document and sets the fields in it. A field whose value is missing is removed.
    ///
    /// # Errors
    /// What an expression cannot do with the values that it met, or a document that becomes too large.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf, Error> {
        let scope = Scope::new(document, variables);
        // All values are computed before the first field is set, so that an expression sees the document as
        // it was.
        let values = self.expressions.iter().map(|expression| expression.evaluate(scope));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let setting = Setting { values: &values, operation: variables.operation(), depth: 0 };
        Ok(self.root.set(Some(document), setting)?.into_document())
    }

    /// Fields that get values of the caller, in the order of `paths`. No path may be the same as another, or continue it.
    pub(crate) fn of_paths(paths: &[&str]) -> Result<Self, Error> {
        let mut computed = Self { root: FieldTree::default(), expressions: Vec::new() };
        for (leaf, path) in paths.iter().enumerate() {
            check_path(path, 0)?;
            let components: Vec<&str> = path.split('.').collect();
            if components.len() > DEPTH_MAX {
                return Err(Error::TooDeep { limit: DEPTH_MAX });
            }
            components.iter().try_for_each(|component| check_field_name(component))?;
            computed.root.insert(&components, leaf)?;
        }
        Ok(computed)
    }

    /// Copies a document and sets the fields in it to `values`. A field whose value is missing is removed.
    pub(crate) fn set_to(
        &self,
        document: &RawDocument,
        values: &[Option<RawBsonRef<'_>>],
        operation: &OperationContext,
    ) -> Result<RawDocumentBuf, Error> {
        let values: Vec<_> = values.iter().map(|value| Value::found(*value)).collect();
        let setting = Setting { values: &values, operation, depth: 0 };
        Ok(self.root.set(Some(document), setting)?.into_document())
    }

    fn read<'b>(
        &mut self,
        path: &mut Vec<&'b str>,
        specification: &'b RawDocument,
        variables: &Variables,
    ) -> Result<(), Error> {
        for field in specification {
            let (name, value) = field.map_err(invalid)?;
            let outer = path.len();
            check_path(name.as_str(), outer)?;
            path.extend(name.as_str().split('.'));
            // A path of many components makes a tree of as many levels, which `set` walks by recursion.
            if path.len() > DEPTH_MAX {
                return Err(Error::TooDeep { limit: DEPTH_MAX });
            }
            for component in path.iter().skip(outer) {
                check_field_name(component)?;
            }
            match value.as_document() {
                Some(document) if has_fields(document)? => self.read(path, document, variables)?,
                Some(_) | None => {
                    let leaf = self.expressions.len();
                    self.expressions.push(parse(value, variables)?);
                    self.root.insert(path, leaf)?;
                }
            }
            // The components of this name make place for the next.
            path.truncate(outer);
        }
        Ok(())
    }
}

/// Rejects a name that is not allowed `outer` objects deep: only at the top level it may be a dotted path.
fn check_path(name: &str, outer: usize) -> Result<(), Error> {
    let (reason, code) = match name {
        "" if outer == 0 => ("it is empty", Code::FIELD_PATH_EMPTY),
        _ if outer == 0 && name.ends_with('.') => ("it ends with a dot", Code::FIELD_PATH_TRAILING_DOT),
        _ if outer > 0 && name.contains('.') => {
            ("within an object a name has no dots", Code::COMPUTED_FIELD_DOTTED_NAME)
        }
        _ => return Ok(()),
    };
    Err(Error::Path { path: name.to_owned(), reason, code })
}

/// Whether a document is a set of fields. An operator is not one, and the empty object is a value.
fn has_fields(document: &RawDocument) -> Result<bool, Error> {
    let is_operator = |(name, _): (&CStr, _)| name.as_str().starts_with('$');
    let count = fields(document).count();
    if !fields(document).any(is_operator) {
        return Ok(count > 0);
    }
    if count > 1 {
        let reason = "an operator must be the only field of its object";
        return Err(Error::Path { path: String::new(), reason, code: Code::COMPUTED_FIELD_NOT_ALONE });
    }
    Ok(false)
}

impl FieldTree {
    fn insert(&mut self, path: &[&str], leaf: usize) -> Result<(), Error> {
        let Some((name, rest)) = path.split_first() else { return Ok(()) };
        let collision =
            |reason| Err(Error::Path { path: path.join("."), reason, code: Code::COMPUTED_FIELD_COLLISION });
        let place = *self.positions.entry((*name).to_owned()).or_insert(self.fields.len());
        if self.fields.get(place).is_none() {
            // A name that is new: the path ends here, or goes on in an object of its own.
            let target = if rest.is_empty() {
                Assignment::Expression(leaf)
            } else {
                Assignment::Fields(FieldTree::default())
            };
            let name = CString::try_from(*name).map_err(invalid)?;
            self.fields.push((name, target));
            if rest.is_empty() {
                return Ok(());
            }
        }
        match self.fields.get_mut(place) {
            Some((_, Assignment::Fields(branch))) if !rest.is_empty() => branch.insert(rest, leaf),
            Some((_, Assignment::Expression(_))) if !rest.is_empty() => {
                collision("another path ends where it continues")
            }
            Some(_) | None => collision("another path is the same or continues where it ends"),
        }
    }

    /// Copies a document, which may be absent, and sets the fields in it.
    fn set(&self, document: Option<&RawDocument>, setting: Setting<'_>) -> Result<ObjectBuilder, Error> {
        let mut object = ObjectBuilder::new(OPERATOR, setting.operation);
        let mut is_set = vec![false; self.fields.len()];
        for (name, old) in document.into_iter().flat_map(fields) {
            let Some(position) = self.positions.get(name.as_str()).copied() else {
                object.append(name, &Value::Borrowed(old))?;
                continue;
            };
            // A document may have a name twice. The first of these fields is set, and the others are dropped.
            if let Some(slot) = is_set.get_mut(position).filter(|slot| !**slot) {
                *slot = true;
                if let Some((name, assignment)) = self.fields.get(position) {
                    object.append(name, &assignment.value(Some(old), setting)?)?;
                }
            }
        }
        // Fields that the document does not have come last, in the order in which they were named.
        for ((name, assignment), is_set) in self.fields.iter().zip(is_set) {
            if !is_set {
                object.append(name, &assignment.value(None, setting)?)?;
            }
        }
        Ok(object)
    }

    /// Sets the fields in a value of any type, or in a new object if there is none.
    fn set_in<'d>(&self, old: Option<RawBsonRef<'_>>, setting: Setting<'_>) -> Result<Value<'d>, Error> {
        let Some(array) = old.and_then(RawBsonRef::as_array) else {
            // A scalar is replaced by an object, as if it were not there.
            let document = old.and_then(RawBsonRef::as_document);
            return Ok(self.set(document, setting)?.finish());
        };
        let mut builder = ArrayBuilder::new(OPERATOR, setting.operation);
        for element in elements(array) {
            // Arrays in arrays count as levels: nothing else bounds how deep this goes.
            builder.push(self.set_in(Some(element), setting.deeper()?)?.or_null())?;
        }
        Ok(builder.finish())
    }
}

impl Assignment {
    /// The value of the field, which was `old` before.
    fn value<'s>(&self, old: Option<RawBsonRef<'_>>, setting: Setting<'s>) -> Result<Value<'s>, Error> {
        match self {
            Self::Expression(position) => {
                Ok(setting.values.get(*position).cloned().unwrap_or(Value::Missing))
            }
            Self::Fields(tree) => tree.set_in(old, setting.deeper()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use super::*;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn apply(specification: &Document, document: &Document) -> Result<Document, Error> {
        let variables = Variables::default();
        let computed = ComputedFields::parse(&raw(specification), &variables)?;
        Ok(Document::try_from(computed.apply(&raw(document), &variables)?).unwrap())
    }

    #[track_caller]
    fn check(
        specification: impl Into<Document>,
        document: impl Into<Document>,
        expected: impl Into<Document>,
    ) {
        let (specification, document, expected) = (specification.into(), document.into(), expected.into());
        let found = apply(&specification, &document).unwrap();
        assert_eq!(found.to_string(), expected.to_string(), "{specification}");
    }

    #[track_caller]
    fn check_error(specification: impl Into<Document>, code: i32) {
        let specification = specification.into();
        assert_eq!(apply(&specification, &doc! { "a": 1 }).unwrap_err().code(), code, "{specification}");
    }

    #[test]
    fn fields_keep_their_place_or_come_last() {
        check(doc! { "b": "$a", "a": 9 }, doc! { "a": 1, "c": 2 }, doc! { "a": 9, "c": 2, "b": 1 });
        check(doc! { "a": "$$REMOVE" }, doc! { "a": 1, "c": 2 }, doc! { "c": 2 });
        check(doc! { "a": "$missing", "x": "$missing" }, doc! { "a": 1 }, doc! {});
        check(doc! { "a": {} }, doc! { "a": 1 }, doc! { "a": {} });
        check(doc! { "a": ["$b", "$c"] }, doc! { "b": 1 }, doc! { "b": 1, "a": [1, (Bson::Null)] });
    }

    #[test]
    fn paths_go_into_objects_and_arrays() {
        check(doc! { "a.b": 1 }, doc! { "a": { "c": 2 } }, doc! { "a": { "c": 2, "b": 1 } });
        check(doc! { "a.b": 1 }, doc! { "a": 5 }, doc! { "a": { "b": 1 } });
        check(doc! { "a.b.c": 1 }, doc! {}, doc! { "a": { "b": { "c": 1 } } });
        check(
            doc! { "a.b": 1 },
            doc! { "a": [{ "b": 2 }, 3, [4]] },
            doc! { "a": [{ "b": 1 }, { "b": 1 }, [{ "b": 1 }]] },
        );
        check(doc! { "a.b": 1 }, doc! { "a": [] }, doc! { "a": [] });
        check(doc! { "a.b": "$missing" }, doc! { "a": 5 }, doc! { "a": {} });
        check(
            doc! { "a": { "b": 1, "c": { "d": "$x" } } },
            doc! { "x": 7 },
            doc! { "x": 7, "a": { "b": 1, "c": { "d": 7 } } },
        );
        check(doc! { "a": { "$literal": { "b": 1 } } }, doc! { "a": 1 }, doc! { "a": { "b": 1 } });
    }

    #[test]
    fn paths_must_not_collide() {
        check_error(doc! { "a": 1, "a.b": 2 }, 40_176);
        check_error(doc! { "a.b": 1, "a": 2 }, 40_176);
        check_error(doc! { "a.b": 1, "a": { "b": 2 } }, 40_176);
        check_error(doc! { "a.b": 1, "a": {} }, 40_176);
        check(doc! { "a.b": 1, "a.c": 2 }, doc! {}, doc! { "a": { "b": 1, "c": 2 } });
    }

    #[test]
    fn names_and_expressions_are_checked() {
        check(doc! {}, doc! { "a": 1 }, doc! { "a": 1 });
        check_error(doc! { "": 1 }, 40_352);
        check_error(doc! { "$a": 1 }, 16_410);
        check_error(doc! { "a..b": 1 }, 15_998);
        check_error(doc! { "a.": 1 }, 40_353);
        check_error(doc! { "a": { "$nothing": 1 } }, 168);
        check_error(doc! { "a": { "$add": [1], "b": 1 } }, 40_181);
        check_error(doc! { "a": { "$divide": [1, 0] } }, 2);
        check_error(doc! { "a": { "b": 1, "$add": 1 } }, 40_181);
        check_error(doc! { "a": { "b.c": 1 } }, 40_183);
    }

    #[test]
    fn documents_do_not_grow_without_bounds() {
        let many = vec![Bson::Int32(1); 2_000];
        let specification = doc! { "a.b": "x".repeat(10_000) };
        assert_eq!(apply(&specification, &doc! { "a": many }).unwrap_err().code(), 10_334);
        let deep = (0..300).fold(bson!(1), |inner, _| bson!([inner]));
        assert_eq!(apply(&doc! { "a.b": 1 }, &doc! { "a": deep }).unwrap_err().code(), 15);
    }
}
