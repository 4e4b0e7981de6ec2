//! The part of a filter that concerns nothing but the fields of one object, as a filter of this object.
//!
//! Only for a field that is an object in every document, as after the `$unwind` of what a `$lookup` has found: a path into an
//! array would mean something else.

use bson::raw::CString;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::raw::{Field, Fields};
use crate::value::elements;

/// A filter in two parts, which together select what it does.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The filter of the object. It is empty if no part concerns the object alone.
    pub(super) inside: RawDocumentBuf,
    /// The filter of the documents that is left.
    pub(super) rest: RawDocumentBuf,
}

/// Divides a filter by the field `path`. Its bytes were validated, which bounds how deep this goes.
pub(super) fn divide(filter: &RawDocument, path: &str) -> Parts {
    let mut parts = Parts::default();
    for field in Fields::of(filter).flatten() {
        if let Some((name, value)) = inside(&field, path) {
            parts.inside.append(name, value);
            continue;
        }
        // All parts of an `$and` must match, so each can go its own way.
        let all = if field.name() == "$and" { field.value().ok() } else { None };
        let Some(all) = all.and_then(RawBsonRef::as_array) else {
            append(&mut parts.rest, &field);
            continue;
        };
        let (mut inside, mut rest) = (RawArrayBuf::new(), RawArrayBuf::new());
        for part in elements(all).filter_map(RawBsonRef::as_document) {
            let part = divide(part, path);
            for (to, filter) in [(&mut inside, part.inside), (&mut rest, part.rest)] {
                if !filter.is_empty() {
                    to.push(filter);
                }
            }
        }
        for (to, array) in [(&mut parts.inside, inside), (&mut parts.rest, rest)] {
            if !array.is_empty()
                && let Ok(name) = CString::try_from(field.name())
            {
                to.append(name, array);
            }
        }
    }
    parts
}

/// A field of a filter as one of the object's filter. Returns `None` if it concerns anything else.
fn inside(field: &Field<'_>, path: &str) -> Option<(CString, bson::RawBson)> {
    let value = field.value().ok()?;
    if let "$or" | "$nor" = field.name() {
        let mut branches = RawArrayBuf::new();
        // One branch that concerns other fields too needs the whole document.
        for branch in elements(value.as_array()?) {
            let parts = divide(branch.as_document()?, path);
            // An empty branch matches everything, and is no less than that inside.
            if !parts.rest.is_empty() {
                return None;
            }
            branches.push(parts.inside);
        }
        return Some((CString::try_from(field.name()).ok()?, branches.into()));
    }
    let name = field.name().strip_prefix(path)?.strip_prefix('.')?;
    // At the start of a filter a dollar sign is an operator, and in the middle of a path it is not.
    if name.is_empty() || name.starts_with('$') {
        return None;
    }
    Some((CString::try_from(name).ok()?, value.into()))
}

fn append(filter: &mut RawDocumentBuf, field: &Field<'_>) {
    if let (Ok(name), Ok(value)) = (CString::try_from(field.name()), field.value()) {
        filter.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    /// Checks the parts of a filter by the field `c`.
    #[track_caller]
    fn check(filter: &RawDocument, inside: &RawDocument, rest: &RawDocument) {
        let parts = divide(filter, "c");
        assert_eq!((&*parts.inside, &*parts.rest), (inside, rest), "{filter:?}");
    }

    #[test]
    fn fields_of_the_object_lose_its_name() {
        check(&rawdoc! { "c.x": 1 }, &rawdoc! { "x": 1 }, &rawdoc! {});
        check(&rawdoc! { "c.x.c.y": { "$gt": 1 } }, &rawdoc! { "x.c.y": { "$gt": 1 } }, &rawdoc! {});
        check(&rawdoc! { "a": 1, "c.x": 2, "c.y": 3 }, &rawdoc! { "x": 2, "y": 3 }, &rawdoc! { "a": 1 });
    }

    #[test]
    fn what_concerns_more_than_fields_of_the_object_stays() {
        for filter in [
            rawdoc! { "c": { "x": 1 } },
            rawdoc! { "c": { "$elemMatch": { "x": 1 } } },
            rawdoc! { "cx": 1 },
            rawdoc! { "cc.x": 1 },
            rawdoc! { "c.": 1 },
            rawdoc! { "c.$id": 1 },
            rawdoc! { "$expr": { "$eq": ["$c.x", 1] } },
            rawdoc! { "$sampleRate": 0.5 },
            rawdoc! { "$jsonSchema": {} },
            rawdoc! { "$or": [{ "c.x": 1 }, { "a": 1 }] },
            rawdoc! { "$nor": [{ "c.x": 1, "a": 1 }] },
        ] {
            check(&filter, &rawdoc! {}, &filter);
        }
    }

    #[test]
    fn parts_of_a_conjunction_go_apart_and_those_of_a_disjunction_together() {
        let filter = rawdoc! { "$and": [{ "c.x": 1, "a": 1 }, { "$and": [{ "c.y": 2 }] }, { "b": 3 }] };
        let inside = rawdoc! { "$and": [{ "x": 1 }, { "$and": [{ "y": 2 }] }] };
        check(&filter, &inside, &rawdoc! { "$and": [{ "a": 1 }, { "b": 3 }] });
        let filter = rawdoc! { "$or": [{ "c.x": 1 }, { "$and": [{ "c.y": 2 }, { "c.z": 3 }] }], "a": 1 };
        let inside = rawdoc! { "$or": [{ "x": 1 }, { "$and": [{ "y": 2 }, { "z": 3 }] }] };
        check(&filter, &inside, &rawdoc! { "a": 1 });
        check(&rawdoc! { "$nor": [{ "c.x": 1 }] }, &rawdoc! { "$nor": [{ "x": 1 }] }, &rawdoc! {});
    }
}
