//! MongoDB's names of its numbers. Errors are made from a number alone, so that the two stand together here and nowhere
//! else.

use std::borrow::Cow;

/// The name of a number; numbers without one are called after their place.
pub(crate) fn name_of(code: i32) -> Cow<'static, str> {
    match NAMES.binary_search_by_key(&code, |&(number, _)| number).ok().and_then(|place| NAMES.get(place)) {
        Some(&(_, name)) => Cow::Borrowed(name),
        None => Cow::Owned(format!("Location{code}")),
    }
}

/// Ascending by number.
const NAMES: &[(i32, &str)] = &[
    (1, "InternalError"),
    (2, "BadValue"),
    (9, "FailedToParse"),
    (11, "UserNotFound"),
    (13, "Unauthorized"),
    (14, "TypeMismatch"),
    (15, "Overflow"),
    (16, "InvalidLength"),
    (20, "IllegalOperation"),
    (22, "InvalidBSON"),
    (26, "NamespaceNotFound"),
    (27, "IndexNotFound"),
    (28, "PathNotViable"),
    (34, "CannotBackfillArray"),
    (40, "ConflictingUpdateOperators"),
    (48, "NamespaceExists"),
    (50, "MaxTimeMSExpired"),
    (52, "DollarPrefixedFieldName"),
    (53, "InvalidIdField"),
    (54, "NotSingleValueField"),
    (56, "EmptyFieldName"),
    (59, "CommandNotFound"),
    (66, "ImmutableField"),
    (67, "CannotCreateIndex"),
    (72, "InvalidOptions"),
    (73, "InvalidNamespace"),
    (79, "UnknownReplWriteConcern"),
    (85, "IndexOptionsConflict"),
    (86, "IndexKeySpecsConflict"),
    (96, "OperationFailed"),
    (100, "UnsatisfiableWriteConcern"),
    (111, "NotExactValueField"),
    (112, "WriteConflict"),
    (168, "InvalidPipelineOperator"),
    (171, "CannotIndexParallelArrays"),
    (197, "InvalidIndexSpecificationOption"),
    (224, "QueryFeatureNotAllowed"),
    (238, "NotImplemented"),
    (241, "ConversionFailure"),
    (246, "SnapshotUnavailable"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (10_334, "BSONObjectTooLarge"),
    (11_000, "DuplicateKey"),
    (13_297, "DatabaseDifferCase"),
    (40_414, "IDLFailedToParse"),
    (40_415, "IDLUnknownField"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends() {
        assert!(NAMES.is_sorted_by(|(left, _), (right, _)| left < right));
    }

    #[test]
    fn numbers_without_a_name_are_called_after_their_place() {
        assert_eq!(name_of(2), "BadValue");
        assert_eq!(name_of(51_091), "Location51091");
    }
}
