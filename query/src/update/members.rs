//! Sets of values: what `$addToSet` adds to an array and `$pullAll` removes from it.
//!
//! Two values are the same member if they compare as equal, so `1` and `1.0` are.

use bson::{RawArray, RawBsonRef, RawDocument};
use index::collation::Collation;
use index::writer::Writer;

use crate::raw::{FIRST_ELEMENT, Fields, Operand};
use crate::update::error::{Error, Fault};
use crate::value::describe;

/// A set of values.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// As they were given, without repetitions.
    values: Vec<Operand>,
    /// Indexes into `values`, ascending by value, for binary search.
    ascending: Vec<usize>,
    collation: Collation,
}

impl Members {
    /// The set of a single value.
    pub(super) fn of_value(value: RawBsonRef<'_>, collation: &Collation) -> Self {
        Self { values: vec![Operand::new(value)], ascending: vec![0], collation: collation.clone() }
    }

    /// The set of the elements of an array.
    pub(super) fn of_array(array: &RawArray, collation: &Collation) -> Result<Self, Error> {
        let mut values = Vec::new();
        for value in array {
            let value = value.map_err(|error| Error::InvalidBson { reason: error.to_string() })?;
            values.push(Operand::new(value));
        }
        let mut ascending = (0..values.len()).collect::<Vec<_>>();
        // The sort is stable, so of equal values the first is kept: `1` of `[1, 1.0]`.
        ascending
            .sort_by(|left, right| collation.compare(value_at(&values, *left), value_at(&values, *right)));
        ascending.dedup_by(|later, first| {
            collation.compare(value_at(&values, *later), value_at(&values, *first)).is_eq()
        });
        // The remaining elements go back into the given order, in which `$addToSet` appends.
        let mut kept = ascending.clone();
        kept.sort_unstable();
        let ascending = ascending.iter().filter_map(|index| kept.binary_search(index).ok()).collect();
        let values = kept.into_iter().filter_map(|index| values.get(index).cloned()).collect();
        Ok(Self { values, ascending, collation: collation.clone() })
    }

    /// Parses the operand of `$addToSet`: a value, or the values of `$each`.
    pub(super) fn parse_additions(
        operand: RawBsonRef<'_>,
        collation: &Collation,
        malformed: impl Fn(Fault) -> Error,
    ) -> Result<Self, Error> {
        let Some(document) = operand.as_document() else { return Ok(Self::of_value(operand, collation)) };
        let mut fields = Fields::of(document);
        // Only as the first field is `$each` a modifier, here as in MongoDB; `$push` finds it anywhere.
        let Some(each) = fields.next().transpose()?.filter(|first| first.name() == "$each") else {
            return Ok(Self::of_value(operand, collation));
        };
        let value = each.value()?;
        // A single value is not mistaken for a list of one.
        let Some(list) = value.as_array() else {
            return Err(malformed(Fault::EachNotArray { found: describe(value) }));
        };
        match fields.next().transpose()? {
            Some(extra) => Err(malformed(Fault::UnknownClause { clause: extra.name().to_owned() })),
            None => Self::of_array(list, collation),
        }
    }

    /// The values in the order in which they were given.
    pub(super) fn values(&self) -> &[Operand] {
        &self.values
    }

    /// Whether a value is a member.
    pub(super) fn contains(&self, value: RawBsonRef<'_>) -> bool {
        self.ascending
            .binary_search_by(|index| self.collation.compare(value_at(&self.values, *index), value))
            .is_ok()
    }

    /// Writes an array with all its elements, followed by the members that are not among them.
    pub(super) fn write_added(&self, array: &RawDocument, writer: &mut Writer) -> Result<(), Error> {
        // One pass over the array with a binary search for each element: both lists can be long.
        let mut has = vec![false; self.values.len()];
        let mut count = 0;
        // The array may hold repetitions already. They stay: only what is added is a set.
        for field in Fields::of(array) {
            let value = field?.value()?;
            let found = self
                .ascending
                .binary_search_by(|index| self.collation.compare(value_at(&self.values, *index), value));
            let index = found.ok().and_then(|found| self.ascending.get(found));
            if let Some(has) = index.and_then(|index| has.get_mut(*index)) {
                *has = true;
            }
            count += 1;
        }
        let mark = writer.open();
        let bytes = array.as_bytes();
        writer.copy(bytes.get(FIRST_ELEMENT..bytes.len() - 1).unwrap_or_default());
        let added = self.values.iter().zip(&has).filter(|(_, has)| !**has);
        for (index, (value, _)) in (count..).zip(added) {
            writer.indexed_header(value.kind(), index);
            writer.copy(value.bytes());
        }
        writer.close(mark);
        Ok(())
    }
}

fn value_at(values: &[Operand], index: usize) -> RawBsonRef<'_> {
    values.get(index).map_or(RawBsonRef::Null, Operand::value)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, doc};

    use super::*;

    fn members(values: &Bson) -> Members {
        let document = bson::RawDocumentBuf::try_from(&doc! { "v": values }).unwrap();
        Members::of_array(document.get_array("v").unwrap(), &Collation::simple()).unwrap()
    }

    #[track_caller]
    fn check(array: &Bson, additions: &Bson, expected: &Bson) {
        let document = bson::RawDocumentBuf::try_from(&doc! { "v": array }).unwrap();
        let elements = RawDocument::from_bytes(document.get_array("v").unwrap().as_bytes()).unwrap();
        let mut writer = Writer::with_capacity(0);
        members(additions).write_added(elements, &mut writer).unwrap();
        let expected = bson::RawDocumentBuf::try_from(&doc! { "v": expected }).unwrap();
        assert_eq!(writer.into_bytes(), expected.get_array("v").unwrap().as_bytes());
    }

    #[test]
    fn missing_values_are_added_in_their_order() {
        check(&bson!([]), &bson!([3, 1, 2]), &bson!([3, 1, 2]));
        check(&bson!([1, 1]), &bson!([2, 1, 0]), &bson!([1, 1, 2, 0]));
        check(&bson!([1]), &bson!([1.0, 2, 2.0, 2_i64]), &bson!([1, 2]));
        check(
            &bson!([{ "a": 1, "b": 2 }]),
            &bson!([{ "b": 2, "a": 1 }]),
            &bson!([{ "a": 1, "b": 2 }, { "b": 2, "a": 1 }]),
        );
        check(&bson!([[1]]), &bson!([[1], 1]), &bson!([[1], 1]));
    }

    #[test]
    fn members_are_found_by_value() {
        let members = members(&bson!([5, "x", [1], 5.0]));
        assert!(members.contains(RawBsonRef::Int64(5)));
        assert!(members.contains(RawBsonRef::String("x")));
        assert!(!members.contains(RawBsonRef::Int32(1)));
        assert!(!members.contains(RawBsonRef::Null));
    }
}
