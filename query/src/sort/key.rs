//! From a document to the bytes of its place in a sort.
//!
//! Nearly every document meets no array on the way to its fields, or one array at the end of one field: its key is
//! written straight into a buffer that is used again and again. Any other is left to the index's own
//! rule, [`index::extract`], whose least key is the document's.

use std::cmp::Ordering;

use bson::{RawArray, RawBsonRef, RawDocument};
use index::element::field;
use index::extract::{ExtractedKeys, extract};
use index::key::{Direction, encode};
use index::path::FieldPath;
use index::spec::IndexSpec;

use crate::sort::error::Error;
use crate::sort::{Order, Sort};
use crate::value::elements;

/// One field of a sort.
#[derive(Clone, Debug)]
pub(super) struct Field {
    path: FieldPath,
    /// The names of the path.
    names: Vec<String>,
    direction: Direction,
}

/// How a document stands to the last one that is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It comes first. Without a bound, every document does.
    Before,
    /// It comes at the same place or later.
    NotBefore,
}

/// The buffers that keys are drawn in.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    key: Vec<u8>,
    extracted: ExtractedKeys,
}

impl Field {
    pub(super) fn new(path: FieldPath, direction: Direction) -> Self {
        let names = path.components().map(str::to_owned).collect();
        Self { path, names, direction }
    }

    pub(super) fn path(&self) -> &FieldPath {
        &self.path
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Appends the document's value to the key; `false` if an array is on the way to it, or at its end and not the first
    /// of the key.
    #[inline]
    fn append(&self, document: &RawDocument, has_array: &mut bool, key: &mut Vec<u8>) -> bool {
        let mut names = self.names.iter();
        let Some(mut name) = names.next() else { return false };
        let mut level = document;
        for below in names {
            match field(level, name) {
                Some(RawBsonRef::Document(document)) => level = document,
                Some(RawBsonRef::Array(_)) => return false,
                Some(_) | None => {
                    // Missing sorts as null.
                    encode(RawBsonRef::Null, self.direction, key);
                    return true;
                }
            }
            name = below;
        }
        match field(level, name) {
            None => encode(RawBsonRef::Null, self.direction, key),
            Some(RawBsonRef::Array(_)) if *has_array => return false,
            Some(RawBsonRef::Array(array)) => {
                *has_array = true;
                encode_first(array, self.direction, key);
            }
            Some(value) => encode(value, self.direction, key),
        }
        true
    }
}

impl Drawing {
    /// Draws the key of a document, unless it turns out not to come before `bound`.
    #[inline]
    pub(super) fn draw(
        &mut self,
        sort: &Sort,
        document: &RawDocument,
        bound: Option<&[u8]>,
    ) -> Result<Standing, Error> {
        self.key.clear();
        if let Order::Fields { fields, spec: Some(spec) } = &sort.order
            && !self.append_straight(fields, document)
        {
            self.extract(spec, document)?;
        }
        Ok(match bound.map(|bound| self.key.as_slice().cmp(bound)) {
            None | Some(Ordering::Less) => Standing::Before,
            Some(Ordering::Equal | Ordering::Greater) => Standing::NotBefore,
        })
    }

    /// Writes the key of a document that has at most one array at its fields, and none on the way to them.
    #[inline]
    fn append_straight(&mut self, fields: &[Field], document: &RawDocument) -> bool {
        let mut has_array = false;
        fields.iter().all(|field| field.append(document, &mut has_array, &mut self.key))
    }

    /// The key that was drawn last.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The key that was drawn last, for good.
    pub(super) fn take_key(self) -> Vec<u8> {
        self.key
    }

    /// Puts the key into the place of another one, whose room is used for the next.
    pub(super) fn swap_key(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.key, other);
    }

    /// The least of the keys that an index on the same fields has of the document.
    fn extract(&mut self, spec: &IndexSpec, document: &RawDocument) -> Result<(), Error> {
        extract(spec, document, &mut self.extracted)?;
        self.key.clear();
        let first = self.extracted.iter().next();
        self.key.extend_from_slice(first.map(|(key, _)| key).unwrap_or_default());
        Ok(())
    }
}

/// Appends the element of an array that comes first in a direction.
fn encode_first(array: &RawArray, direction: Direction, key: &mut Vec<u8>) {
    let start = key.len();
    for element in elements(array) {
        let best = key.len();
        encode(element, direction, key);
        let (before, candidate) = key.split_at(best);
        if best == start {
            continue;
        }
        if candidate < before.get(start..).unwrap_or_default() {
            key.drain(start..best);
        } else {
            key.truncate(best);
        }
    }
    if key.len() == start {
        encode(RawBsonRef::Undefined, direction, key);
    }
}
