//! The keys of a document in an index over named fields.
//!
//! A document without arrays on the paths of the fields has one key, written directly into a reused
//! buffer. Otherwise the fields are followed together, array by array, because fields below one array
//! are paired element by element.

use std::ptr;

use bson::{RawArray, RawBsonRef, RawDocument};

use super::{ExtractedKeys, KeyExtractor};
use crate::element;
use crate::error::Error;
use crate::multikey::ArrayComponents;
use crate::path;
use crate::spec::IndexSpec;

/// A key of the values of all fields, or one for each element of an array that the fields go through.
pub(super) struct FieldKeys<'a> {
    pub(super) spec: &'a IndexSpec,
}

impl KeyExtractor for FieldKeys<'_> {
    fn extract(&self, document: &RawDocument, keys: &mut ExtractedKeys) -> Result<(), Error> {
        let spec = self.spec;
        // Most documents have no array here. Their one key needs no slots and no sorting.
        if let Some(missing) = append_without_arrays(spec, document, keys) {
            if spec.is_sparse() && missing == spec.fields().len() {
                keys.discard_unfinished();
                return Ok(());
            }
            return keys.finish();
        }
        // An array was met. The fields written so far belong into the key of every element, so all start again.
        keys.discard_unfinished();
        keys.arrays.resize(spec.fields().len(), ArrayComponents::NONE);
        let slots = spec.fields().iter().map(|field| Slot::Open { rest: field.path.as_str(), chosen: None });
        expand(spec, keys, Some(document), slots.collect())?;
        keys.sort();
        Ok(())
    }
}

/// Writes the one key of a document in which no field meets an array, and returns the number of missing
/// fields. Returns `None` if a field meets an array.
fn append_without_arrays(
    spec: &IndexSpec,
    document: &RawDocument,
    keys: &mut ExtractedKeys,
) -> Option<usize> {
    let mut missing = 0;
    for (at, field) in spec.fields().iter().enumerate() {
        let value = match follow(document, field.path.as_str()) {
            Found::Value(value) => value,
            Found::Missing => {
                missing += 1;
                RawBsonRef::Null
            }
            Found::Array { .. } => return None,
        };
        keys.append(value, at, spec, spec.collation());
    }
    Some(missing)
}

/// The value that a path leads to before it has to choose an element of an array.
#[derive(Clone, Copy)]
enum Found<'a> {
    Missing,
    Value(RawBsonRef<'a>),
    Array {
        array: &'a RawArray,
        /// The last component before the array.
        name: &'a str,
        /// The components after `name`, if there are any.
        rest: Option<&'a str>,
    },
}

/// The progress of one field of the index.
#[derive(Clone, Copy)]
enum Slot<'a> {
    /// The rest of the path starts at the current element.
    Open {
        rest: &'a str,
        /// If `rest` starts with a position that the array around the element has: what lies there.
        chosen: Option<Chosen<'a>>,
    },
    /// The path leads nowhere; counts as null.
    Missing,
    /// The path has ended.
    Value(RawBsonRef<'a>),
}

/// The value that a path leads to through an explicit position of an array.
#[derive(Clone, Copy)]
struct Chosen<'a> {
    found: Found<'a>,
    /// Whether the element at the position is an array itself, which is not expanded if the path ends there.
    is_array: bool,
}

/// The array that is expanded next, and the fields that go through it.
struct Crossing<'a> {
    array: &'a RawArray,
    name: &'a str,
    /// Whether fields that end here read the array as one value.
    as_whole: bool,
    /// For each field of the index, how it meets the array.
    routes: Vec<Route<'a>>,
}

/// The way in which a field of the index meets an array.
#[derive(Clone, Copy)]
enum Route<'a> {
    /// The path of the field does not lead to the array.
    Elsewhere,
    /// The path ends at the array.
    Ends,
    /// The rest of the path goes on from each element.
    Through(&'a str),
}

/// Follows the open fields through one element, and writes the keys that result.
fn expand<'a>(
    spec: &'a IndexSpec,
    keys: &mut ExtractedKeys,
    element: Option<&'a RawDocument>,
    mut slots: Vec<Slot<'a>>,
) -> Result<(), Error> {
    match advance(element, &mut slots)? {
        None => append_slots(spec, keys, &slots),
        Some(crossing) => cross(spec, keys, &crossing, &slots),
    }
}

/// Follows every open field up to its end or to an array, which must be the same one for all.
fn advance<'a>(
    element: Option<&'a RawDocument>,
    slots: &mut [Slot<'a>],
) -> Result<Option<Crossing<'a>>, Error> {
    let mut crossing: Option<Crossing<'a>> = None;
    let count = slots.len();
    for (at, slot) in slots.iter_mut().enumerate() {
        let Slot::Open { rest, chosen } = *slot else { continue };
        let found = step(element, rest, chosen)?;
        let (array, name, rest) = match found {
            Found::Missing => {
                *slot = Slot::Missing;
                continue;
            }
            Found::Value(value) => {
                *slot = Slot::Value(value);
                continue;
            }
            Found::Array { array, name, rest } => (array, name, rest),
        };
        let shared = crossing.get_or_insert_with(|| Crossing {
            array,
            name,
            as_whole: false,
            routes: vec![Route::Elsewhere; count],
        });
        // Fields below one array are paired element by element. Two arrays would give a key for each pair of
        // their elements, a product that MongoDB rejects too. Nothing is copied, so an array has one address.
        if !ptr::eq(shared.array, array) {
            return Err(Error::ParallelArrays { second: name.to_owned(), first: shared.name.to_owned() });
        }
        shared.as_whole |= chosen.is_some_and(|chosen| chosen.is_array);
        if let Some(route) = shared.routes.get_mut(at) {
            *route = rest.map_or(Route::Ends, Route::Through);
        }
    }
    Ok(crossing)
}

/// The value that one open field finds in the current element.
fn step<'a>(
    element: Option<&'a RawDocument>,
    rest: &'a str,
    chosen: Option<Chosen<'a>>,
) -> Result<Found<'a>, Error> {
    let Some(chosen) = chosen else {
        return Ok(element.map_or(Found::Missing, |document| follow(document, rest)));
    };
    let name = path::split(rest).0;
    // As in MongoDB: a name that is both a position and a field has two meanings, and neither is preferred.
    if element.is_some_and(|document| element::field(document, name).is_some()) {
        return Err(Error::AmbiguousPosition { field: name.to_owned() });
    }
    Ok(chosen.found)
}

/// Expands an array: every element continues the fields that go through it.
fn cross<'a>(
    spec: &'a IndexSpec,
    keys: &mut ExtractedKeys,
    crossing: &Crossing<'a>,
    slots: &[Slot<'a>],
) -> Result<(), Error> {
    let routes = crossing.routes.as_slice();
    note_arrays(spec, keys, routes);
    let mut elements = crossing.array.into_iter().map_while(Result::ok).peekable();
    // MongoDB gives an empty array the key of undefined: it has no element that could give a key, and without
    // one a scan of the index would miss the document.
    if elements.peek().is_none() {
        let ended = Slot::Value(RawBsonRef::Undefined);
        let slots = routes.iter().zip(slots).map(|(route, slot)| continued(*route, *slot, ended, None));
        return expand(spec, keys, None, slots.collect());
    }
    let chosen: Vec<_> = routes.iter().map(|route| choose(crossing.array, *route)).collect();
    // A field that reached a position of the array finds the same under every element. If all fields do, one
    // element gives all keys; otherwise a position in a long array of arrays would be followed once for each
    // element, which is quadratic.
    let depends_on_element = routes.iter().zip(&chosen).any(|(route, chosen)| match route {
        Route::Elsewhere => false,
        Route::Ends => !crossing.as_whole,
        Route::Through(_) => chosen.is_none(),
    });
    let mut is_first = true;
    for element in elements {
        let ended = Slot::Value(if crossing.as_whole { RawBsonRef::Array(crossing.array) } else { element });
        let next = routes.iter().zip(slots).zip(&chosen);
        let mut next: Vec<_> =
            next.map(|((route, slot), chosen)| continued(*route, *slot, ended, *chosen)).collect();
        if depends_on_element || is_first {
            expand(spec, keys, element.as_document(), next)?;
        } else {
            // The keys are written already, but this element may still make a position ambiguous.
            advance(element.as_document(), &mut next)?;
        }
        is_first = false;
    }
    Ok(())
}

/// Records for each field that meets the array which component of its path led there.
fn note_arrays(spec: &IndexSpec, keys: &mut ExtractedKeys, routes: &[Route<'_>]) {
    for ((field, arrays), route) in spec.fields().iter().zip(&mut keys.arrays).zip(routes) {
        let remaining = match route {
            Route::Elsewhere => continue,
            Route::Ends => 0,
            Route::Through(rest) => rest.split('.').count(),
        };
        // The array is the value of the last component that is not in the rest.
        arrays.insert(field.path.components().count() - remaining - 1);
    }
}

/// A field's slot for one element of an array. Unchanged if the field's path does not lead to the array.
fn continued<'a>(route: Route<'a>, slot: Slot<'a>, ended: Slot<'a>, chosen: Option<Chosen<'a>>) -> Slot<'a> {
    match route {
        Route::Elsewhere => slot,
        Route::Ends => ended,
        Route::Through(rest) => Slot::Open { rest, chosen },
    }
}

/// The value that the path finds at a position of the array. Returns `None` unless the rest of the path starts with a
/// position that the array has.
fn choose<'a>(array: &'a RawArray, route: Route<'a>) -> Option<Chosen<'a>> {
    let Route::Through(rest) = route else { return None };
    let (name, tail) = path::split(rest);
    let value = array.into_iter().nth(path::array_index(name)?)?.ok()?;
    let nested = value.as_array();
    let found = match (nested, tail) {
        (Some(array), _) => Found::Array { array, name, rest: tail },
        (None, None) => Found::Value(value),
        (None, Some(tail)) => value.as_document().map_or(Found::Missing, |document| follow(document, tail)),
    };
    Some(Chosen { found, is_array: nested.is_some() })
}

/// Follows a path through objects, up to its end or to an array.
fn follow<'a>(document: &'a RawDocument, path: &'a str) -> Found<'a> {
    let mut document = document;
    let (mut name, mut tail) = path::split(path);
    loop {
        let Some(value) = element::field(document, name) else { return Found::Missing };
        if let Some(array) = value.as_array() {
            return Found::Array { array, name, rest: tail };
        }
        let Some(rest) = tail else { return Found::Value(value) };
        let Some(embedded) = value.as_document() else { return Found::Missing };
        document = embedded;
        (name, tail) = path::split(rest);
    }
}

fn append_slots(spec: &IndexSpec, keys: &mut ExtractedKeys, slots: &[Slot<'_>]) -> Result<(), Error> {
    if spec.is_sparse() && slots.iter().all(|slot| matches!(slot, Slot::Missing)) {
        return Ok(());
    }
    for (at, slot) in slots.iter().enumerate() {
        let value = match slot {
            Slot::Value(value) => *value,
            // No slot is open here: `advance` found no array, so it closed them all.
            Slot::Missing | Slot::Open { .. } => RawBsonRef::Null,
        };
        keys.append(value, at, spec, spec.collation());
    }
    keys.finish()
}
