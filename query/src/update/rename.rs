//! `$rename`: finding the values that are renamed. They are read from the document before the update changes it.
//!
//! Looking them up first is safe, because no other operator of the update may touch these fields. A rename whose old
//! field is missing does nothing, and its new path is then not checked either.

use bson::RawDocument;
use bson::spec::ElementType;
use index::path::array_index;

use crate::raw::{Field, Fields};
use crate::update::error::Error;
use crate::update::path::{Component, UpdatePath};
use crate::value::describe;

/// The old and the new path of a field.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    pub(super) from: UpdatePath,
    pub(super) to: UpdatePath,
}

/// The stored value of a renamed field.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenameSource<'d> {
    pub(super) kind: ElementType,
    pub(super) bytes: &'d [u8],
}

/// The value that each rename finds in a document. An entry is `None` if the old field is missing.
pub(super) fn sources<'d>(
    renames: &[Rename],
    document: &'d RawDocument,
) -> Result<Vec<Option<RenameSource<'d>>>, Error> {
    renames.iter().map(|rename| source(rename, document)).collect()
}

/// The value that one rename finds, if both its paths may be used in this document.
fn source<'d>(rename: &Rename, document: &'d RawDocument) -> Result<Option<RenameSource<'d>>, Error> {
    let Some((field, in_array)) = find(document, &rename.from)? else { return Ok(None) };
    // MongoDB renames neither out of an array nor into one.
    if in_array {
        return Err(Error::RenameInArray { part: "source", path: rename.from.as_str().to_owned() });
    }
    if leads_into_array(document, &rename.to)? {
        return Err(Error::RenameInArray { part: "destination", path: rename.to.as_str().to_owned() });
    }
    Ok(Some(RenameSource { kind: field.kind(), bytes: field.bytes() }))
}

/// The field at a path, and whether it is inside an array. Returns `None` if no such field exists.
fn find<'d>(document: &'d RawDocument, path: &UpdatePath) -> Result<Option<(Field<'d>, bool)>, Error> {
    let mut in_array = false;
    let mut found: Option<Field<'d>> = None;
    for (depth, component) in path.components().iter().enumerate() {
        let name = component.to_text();
        let inside = match &found {
            None => child(document, component)?,
            Some(field) => match (field.kind(), array_index(&name)) {
                (ElementType::EmbeddedDocument, _) => child(field.container()?, component)?,
                // The field is searched all the same: if it is missing, the rename does nothing, even in an array.
                (ElementType::Array, Some(position)) => {
                    in_array = true;
                    Fields::of(field.container()?).nth(position).transpose()?
                }
                // A scalar has no fields. MongoDB rejects such an old path, where a missing field is accepted.
                (_, _) => {
                    let (path, value) = (path.prefix(depth + 1), describe(field.value()?));
                    let name_of_field = field.name().to_owned();
                    return Err(Error::NotTraversable { field: name, path, name: name_of_field, value });
                }
            },
        };
        match inside {
            Some(inside) => found = Some(inside),
            None => return Ok(None),
        }
    }
    Ok(found.map(|field| (field, in_array)))
}

/// Whether one of the parents of a path is an array. The field itself may be one: it is replaced as a whole.
fn leads_into_array(document: &RawDocument, path: &UpdatePath) -> Result<bool, Error> {
    let Some((_, parents)) = path.components().split_last() else { return Ok(false) };
    let mut container = document;
    for component in parents {
        match child(container, component)? {
            Some(field) if field.kind() == ElementType::EmbeddedDocument => container = field.container()?,
            // Below a scalar there are no arrays. That no field can be created there, the walk finds out.
            Some(field) => return Ok(field.kind() == ElementType::Array),
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// The field of a document that a component names.
fn child<'d>(document: &'d RawDocument, component: &Component) -> Result<Option<Field<'d>>, Error> {
    let name = component.to_text();
    for field in Fields::of(document) {
        let field = field?;
        if field.name() == name {
            return Ok(Some(field));
        }
    }
    Ok(None)
}
