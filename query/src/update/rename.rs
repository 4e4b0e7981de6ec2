//! `$rename`: what is renamed is looked up before anything changes, since no other operator may touch it.
//!
//! A field without a source is left alone, and then its new path may lead anywhere.

use bson::RawDocument;
use bson::spec::ElementType;
use index::path::array_index;

use crate::raw::{Field, Fields};
use crate::update::error::Error;
use crate::update::path::{Component, UpdatePath};
use crate::value::describe;

/// A field's old and new path.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    pub(super) from: UpdatePath,
    pub(super) to: UpdatePath,
}

/// The value to be renamed, as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenameSource<'d> {
    pub(super) kind: ElementType,
    pub(super) bytes: &'d [u8],
}

/// What each rename finds in a document.
pub(super) fn sources<'d>(
    renames: &[Rename],
    document: &'d RawDocument,
) -> Result<Vec<Option<RenameSource<'d>>>, Error> {
    renames.iter().map(|rename| source(rename, document)).collect()
}

fn source<'d>(rename: &Rename, document: &'d RawDocument) -> Result<Option<RenameSource<'d>>, Error> {
    let Some((field, in_array)) = find(document, &rename.from)? else { return Ok(None) };
    if in_array {
        return Err(Error::RenameInArray { part: "source", path: rename.from.as_str().to_owned() });
    }
    if leads_into_array(document, &rename.to)? {
        return Err(Error::RenameInArray { part: "destination", path: rename.to.as_str().to_owned() });
    }
    Ok(Some(RenameSource { kind: field.kind(), bytes: field.bytes() }))
}

/// The field at a path, and whether the way to it leads through an array.
fn find<'d>(document: &'d RawDocument, path: &UpdatePath) -> Result<Option<(Field<'d>, bool)>, Error> {
    let mut in_array = false;
    let mut found: Option<Field<'d>> = None;
    for (depth, component) in path.components().iter().enumerate() {
        let name = component.to_text();
        let inside = match &found {
            None => child(document, component)?,
            Some(field) => match (field.kind(), array_index(&name)) {
                (ElementType::EmbeddedDocument, _) => child(field.container()?, component)?,
                (ElementType::Array, Some(position)) => {
                    in_array = true;
                    Fields::of(field.container()?).nth(position).transpose()?
                }
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

/// Whether the part of a path that exists leads through an array.
fn leads_into_array(document: &RawDocument, path: &UpdatePath) -> Result<bool, Error> {
    let Some((_, parents)) = path.components().split_last() else { return Ok(false) };
    let mut container = document;
    for component in parents {
        match child(container, component)? {
            Some(field) if field.kind() == ElementType::EmbeddedDocument => container = field.container()?,
            Some(field) => return Ok(field.kind() == ElementType::Array),
            None => return Ok(false),
        }
    }
    Ok(false)
}

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
