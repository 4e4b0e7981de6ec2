//! The names of all filter operators, in sorted tables.
//!
//! A name that is in no table is unknown; one that is there as [`Known::Unsupported`] exists in MongoDB and
//! not here. What an operator means stands with its parser.

use crate::registry::Registry;

/// What is known about an operator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<T: 'static> {
    Supported(T),
    Unsupported,
}

/// Operators in the place of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    AlwaysFalse,
    AlwaysTrue,
    And,
    Comment,
    Expr,
    JsonSchema,
    Nor,
    Or,
    /// A part of a database reference: a field like any other, in spite of its name.
    Reference,
}

/// Operators below a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    All,
    BitsAllClear,
    BitsAllSet,
    BitsAnyClear,
    BitsAnySet,
    ElemMatch,
    Eq,
    Exists,
    Gt,
    Gte,
    In,
    Lt,
    Lte,
    Mod,
    Ne,
    Nin,
    Not,
    Options,
    Regex,
    Size,
    Type,
}

const CLAUSES: Registry<Known<Clause>> = Registry::new(&[
    ("$alwaysFalse", Known::Supported(Clause::AlwaysFalse)),
    ("$alwaysTrue", Known::Supported(Clause::AlwaysTrue)),
    ("$and", Known::Supported(Clause::And)),
    ("$comment", Known::Supported(Clause::Comment)),
    ("$db", Known::Supported(Clause::Reference)),
    ("$expr", Known::Supported(Clause::Expr)),
    ("$id", Known::Supported(Clause::Reference)),
    ("$jsonSchema", Known::Supported(Clause::JsonSchema)),
    ("$nor", Known::Supported(Clause::Nor)),
    ("$or", Known::Supported(Clause::Or)),
    ("$ref", Known::Supported(Clause::Reference)),
    ("$sampleRate", Known::Unsupported),
    ("$text", Known::Unsupported),
    ("$where", Known::Unsupported),
]);

const OPERATORS: Registry<Known<Operator>> = Registry::new(&[
    ("$all", Known::Supported(Operator::All)),
    ("$bitsAllClear", Known::Supported(Operator::BitsAllClear)),
    ("$bitsAllSet", Known::Supported(Operator::BitsAllSet)),
    ("$bitsAnyClear", Known::Supported(Operator::BitsAnyClear)),
    ("$bitsAnySet", Known::Supported(Operator::BitsAnySet)),
    ("$elemMatch", Known::Supported(Operator::ElemMatch)),
    ("$eq", Known::Supported(Operator::Eq)),
    ("$exists", Known::Supported(Operator::Exists)),
    ("$geoIntersects", Known::Unsupported),
    ("$geoNear", Known::Unsupported),
    ("$geoWithin", Known::Unsupported),
    ("$gt", Known::Supported(Operator::Gt)),
    ("$gte", Known::Supported(Operator::Gte)),
    ("$in", Known::Supported(Operator::In)),
    ("$lt", Known::Supported(Operator::Lt)),
    ("$lte", Known::Supported(Operator::Lte)),
    ("$maxDistance", Known::Unsupported),
    ("$minDistance", Known::Unsupported),
    ("$mod", Known::Supported(Operator::Mod)),
    ("$ne", Known::Supported(Operator::Ne)),
    ("$near", Known::Unsupported),
    ("$nearSphere", Known::Unsupported),
    ("$nin", Known::Supported(Operator::Nin)),
    ("$not", Known::Supported(Operator::Not)),
    ("$options", Known::Supported(Operator::Options)),
    ("$regex", Known::Supported(Operator::Regex)),
    ("$size", Known::Supported(Operator::Size)),
    ("$type", Known::Supported(Operator::Type)),
    ("$within", Known::Unsupported),
]);

/// What is known about a name in the place of a field.
pub(super) fn clause(name: &str) -> Option<Known<Clause>> {
    CLAUSES.get(name).copied()
}

/// What is known about a name below a field.
pub(super) fn operator(name: &str) -> Option<Known<Operator>> {
    OPERATORS.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_their_place_only() {
        assert!(operator("$and").is_none());
        assert!(clause("$gt").is_none());
        assert!(operator("gt").is_none());
    }
}
