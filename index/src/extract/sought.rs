//! A key whose values are looked for in a document.

use bson::{RawBson, RawBsonRef};

use crate::collation::Collation;
use crate::error::Error;
use crate::interval::Intervals;
use crate::spec::IndexSpec;

/// A key, of which the values are looked for in a document. Values with one shortened key may differ.
#[derive(Clone, Debug, Default)]
pub(super) struct SoughtKey {
    /// The bytes of each field.
    fields: Vec<Vec<u8>>,
    /// A set for each field in which its value must be, or none.
    sets: Vec<Intervals>,
    /// The last value of each field that had these bytes, and where it lies.
    values: Vec<Option<SoughtValue>>,
    /// The number of fields of the key that is being written that have the bytes.
    equal: usize,
    /// Whether the document has the key.
    is_found: bool,
    /// Whether the values are those of the key and in the sets. They do not change any more.
    is_within: bool,
}

/// A value with the bytes of a field, and where it lies in the document if that is known.
#[derive(Clone, Debug)]
struct SoughtValue {
    place: Option<(usize, usize)>,
    /// In an index with a collation the key form.
    value: RawBson,
    /// Whether it is in the set of its field, once that was asked for: a long value beside an array is in the key of each element.
    is_in_set: Option<bool>,
}

/// A value, and where it lies in the document if that is known.
pub(super) type PlacedValue<'a> = (Option<(usize, usize)>, RawBsonRef<'a>);

impl SoughtKey {
    /// The key with the bytes `fields`, and with values in `sets`, or with any if there are no sets.
    ///
    /// # Errors
    /// [`Error::KeyTruncated`] or [`Error::KeyMalformed`] if `fields` are not the bytes of a key.
    pub(super) fn parse(spec: &IndexSpec, fields: &[u8], sets: &[Intervals]) -> Result<Self, Error> {
        let (mut rest, mut split) = (fields, Vec::new());
        for field in spec.fields() {
            let length = spec.long_keys().skip(rest, field.direction)?;
            let (own, after) = rest.split_at_checked(length).ok_or(Error::KeyTruncated)?;
            split.push(own.to_vec());
            rest = after;
        }
        Ok(Self { values: vec![None; split.len()], fields: split, sets: sets.to_vec(), ..Self::default() })
    }

    /// Adds the key bytes and the value of the next field of a key.
    pub(super) fn add(&mut self, at: usize, bytes: &[u8], placed: PlacedValue<'_>, collation: &Collation) {
        if at == 0 {
            self.equal = 0;
        }
        let is_equal = self.equal == at && self.fields.get(at).is_some_and(|own| own == bytes);
        let Some(last) = self.values.get_mut(at).filter(|_| is_equal && !self.is_within) else { return };
        self.equal += 1;
        // A long value beside an array is in the key of each element, and is copied once.
        let (place, value) = placed;
        if place.is_none() || last.as_ref().is_none_or(|last| last.place != place) {
            let value = collation.key_form(value).into_owned();
            *last = Some(SoughtValue { place, value, is_in_set: None });
        }
    }

    /// Ends a key of the document.
    pub(super) fn end_key(&mut self) {
        if self.equal < self.fields.len() {
            return;
        }
        self.is_found = true;
        self.is_within |= self.sets.iter().zip(&mut self.values).all(|(set, value)| {
            let Some(SoughtValue { value, is_in_set, .. }) = value else { return false };
            *is_in_set.get_or_insert_with(|| set.contains(value.as_raw_bson_ref()))
        });
    }

    /// Whether the document has the key with values in the sets. `None` if it has no such key.
    pub(super) fn is_within(&self) -> Option<bool> {
        self.is_found.then_some(self.is_within)
    }

    /// The values of the key in the sets. `None` if the document has none.
    pub(super) fn into_values(self) -> Option<Vec<RawBson>> {
        let values = self.values.into_iter().map(|found| Some(found?.value));
        if self.is_within { values.collect() } else { None }
    }
}
