//! Decides from the bytes of a key whether its fields lie within bounds.
//!
//! Ranges of keys bound the leading fields only. Bounds on later fields are checked here, so that no document
//! is read for a key that cannot lead to a match. Of a shortened key only the document can determine it for sure.

use crate::interval::Intervals;
use crate::key::{Direction, LongKeys};
use crate::range::{KeyRange, field_pieces};
use crate::spec::IndexSpec;

/// Bounds on the fields of an index, prepared for checking its keys.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_index::interval::{Interval, Intervals};
/// use cairndb_index::key::{Direction, encode};
/// use cairndb_index::key_bounds::{KeyBounds, KeyVerdict};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "a": 1, "b": 1 }, SpecOptions::default())?;
/// let five = Intervals::from(Interval::point(RawBson::Int32(5)));
/// let bounds = KeyBounds::of(&spec, &[Intervals::all(), five]);
/// let mut key = Vec::new();
/// for value in [RawBson::Int32(1), RawBson::Int32(6)] {
///     encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
/// }
/// assert_eq!(bounds.check(&key), Some((key.len(), KeyVerdict::Outside)));
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyBounds {
    fields: Vec<FieldBounds>,
    long_keys: LongKeys,
}

/// The verdict of a key about the values that it was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyVerdict {
    /// All of them are within the bounds.
    Within,
    /// One of them is not within the bounds.
    #[default]
    Outside,
    /// They may be within the bounds: a key of a bounded field is shortened.
    Unknown,
}

#[derive(Clone, Debug)]
struct FieldBounds {
    direction: Direction,
    /// Ascending ranges of the field's own bytes. `None` if every value is within the bounds.
    pieces: Option<Vec<KeyRange>>,
}

impl KeyBounds {
    /// The bounds on the fields of an index, in the order of the fields. Fields beyond the end of `bounds`
    /// are not bounded.
    pub fn of(spec: &IndexSpec, bounds: &[Intervals]) -> Self {
        let long_keys = spec.long_keys();
        let fields = spec.fields().iter().enumerate().map(|(at, field)| {
            let set = bounds.get(at).filter(|set| !set.is_all());
            FieldBounds {
                direction: field.direction,
                pieces: set.map(|set| field_pieces(set, long_keys, field.direction).pieces),
            }
        });
        Self { fields: fields.collect(), long_keys }
    }

    /// Bounds that every key of the index lies within.
    pub fn unbounded(spec: &IndexSpec) -> Self {
        Self::of(spec, &[])
    }

    /// The number of bytes that the fields occupy at the front of a key, and whether their values lie within the bounds. Returns
    /// `None` if the bytes are not a key of the index.
    pub fn check(&self, key: &[u8]) -> Option<(usize, KeyVerdict)> {
        let mut length = 0;
        let mut verdict = KeyVerdict::Within;
        for field in &self.fields {
            let rest = key.get(length..)?;
            let own = rest.get(..self.long_keys.skip(rest, field.direction).ok()?)?;
            length += own.len();
            // The walk goes on after a field outside of its bounds: the length of all fields is asked for
            // too.
            let Some(pieces) = &field.pieces else { continue };
            if !holds(pieces, own) {
                verdict = KeyVerdict::Outside;
            } else if verdict == KeyVerdict::Within && self.long_keys.is_shortened(own.len()) {
                verdict = KeyVerdict::Unknown;
            }
        }
        Some((length, verdict))
    }
}

/// Whether one of the ascending ranges holds the bytes.
fn holds(pieces: &[KeyRange], own: &[u8]) -> bool {
    // Ranges are disjoint, so only the last one that starts at or below the bytes can hold them.
    let after = pieces.partition_point(|piece| piece.start.as_slice() <= own);
    after.checked_sub(1).and_then(|at| pieces.get(at)).is_some_and(|piece| piece.contains(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{Bound, Interval, Limit};
    use crate::key::FIELD_BYTES_MAX;
    use crate::proptest_support::{any_value, long_value};
    use crate::spec::SpecOptions;
    use bson::{Bson, Document, RawBson, RawDocumentBuf};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn raw(value: Bson) -> RawBson {
        RawBson::try_from(value).unwrap()
    }

    fn value() -> impl Strategy<Value = Bson> {
        prop_oneof![4 => (0..5).prop_map(Bson::Int32), 2 => long_value(), 1 => any_value()]
    }

    fn set() -> impl Strategy<Value = Intervals> {
        let limit = || select(vec![Limit::Inclusive, Limit::Exclusive]);
        let bound = || (value(), limit()).prop_map(|(value, limit)| Bound { value: raw(value), limit });
        let interval = prop_oneof![
            value().prop_map(|value| Some(Interval::point(raw(value)))),
            (bound(), bound()).prop_map(|(lower, upper)| Interval::new(lower, upper)),
        ];
        prop_oneof![
            1 => Just(Intervals::all()),
            4 => vec(interval, 0..4).prop_map(|list| Intervals::from_any(list.into_iter().flatten())),
        ]
    }

    proptest! {
        #[test]
        fn a_key_is_within_iff_its_values_are(
            directions in vec(select(vec![1, -1]), 1..4),
            sets in vec(set(), 0..4),
            row in vec(value(), 3),
            behind in vec(any::<u8>(), 0..4),
            long_keys in select(vec![LongKeys::Whole, LongKeys::Shortened, LongKeys::Colliding]),
        ) {
            let names = ["a", "b", "c"].into_iter().map(String::from);
            let keys: Document =
                names.zip(directions).map(|(name, direction)| (name, Bson::Int32(direction))).collect();
            let spec =
                IndexSpec::parse(&RawDocumentBuf::try_from(&keys).unwrap(), SpecOptions::default()).unwrap();
            let spec = spec.with_long_keys(long_keys);
            let mut bytes = Vec::new();
            for (value, field) in row.iter().zip(spec.fields()) {
                long_keys.encode(raw(value.clone()).as_raw_bson_ref(), field.direction, &mut bytes);
            }
            let length = bytes.len();
            bytes.extend(behind);
            let lies_within = |(set, value): (&Intervals, &Bson)| set.contains(raw(value.clone()).as_raw_bson_ref());
            let expected = sets.iter().zip(&row).take(spec.fields().len()).all(lies_within);
            let (found, verdict) = KeyBounds::of(&spec, &sets).check(&bytes).unwrap();
            prop_assert_eq!(found, length);
            match verdict {
                KeyVerdict::Within => prop_assert!(expected),
                KeyVerdict::Outside => prop_assert!(!expected),
                KeyVerdict::Unknown => prop_assert!(length > FIELD_BYTES_MAX && long_keys != LongKeys::Whole),
            }
            prop_assert_eq!(KeyBounds::unbounded(&spec).check(&bytes), Some((length, KeyVerdict::Within)));
            prop_assert_eq!(KeyBounds::of(&spec, &sets).check(&bytes[..length - 1]), None);
        }
    }
}
