//! The names of all filter operators, in sorted tables.
//!
//! A name in no table is unknown. A name with [`OperatorSupport::Unsupported`] exists in MongoDB and not in
//! CairnDB. The parser gives each operator its meaning.

use crate::registry::Registry;

/// Whether CairnDB has an operator of MongoDB.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperatorSupport<T: 'static> {
    Supported(T),
    Unsupported,
}

/// Operators at the level of fields.
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
    /// A part of a database reference, which is a field in spite of its name.
    Reference,
    SampleRate,
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

const CLAUSES: Registry<OperatorSupport<Clause>> = Registry::new(&[
    ("$alwaysFalse", OperatorSupport::Supported(Clause::AlwaysFalse)),
    ("$alwaysTrue", OperatorSupport::Supported(Clause::AlwaysTrue)),
    ("$and", OperatorSupport::Supported(Clause::And)),
    ("$comment", OperatorSupport::Supported(Clause::Comment)),
    ("$db", OperatorSupport::Supported(Clause::Reference)),
    ("$expr", OperatorSupport::Supported(Clause::Expr)),
    ("$id", OperatorSupport::Supported(Clause::Reference)),
    ("$jsonSchema", OperatorSupport::Supported(Clause::JsonSchema)),
    ("$nor", OperatorSupport::Supported(Clause::Nor)),
    ("$or", OperatorSupport::Supported(Clause::Or)),
    ("$ref", OperatorSupport::Supported(Clause::Reference)),
    ("$sampleRate", OperatorSupport::Supported(Clause::SampleRate)),
    ("$text", OperatorSupport::Unsupported),
    ("$where", OperatorSupport::Unsupported),
]);

const OPERATORS: Registry<OperatorSupport<Operator>> = Registry::new(&[
    ("$all", OperatorSupport::Supported(Operator::All)),
    ("$bitsAllClear", OperatorSupport::Supported(Operator::BitsAllClear)),
    ("$bitsAllSet", OperatorSupport::Supported(Operator::BitsAllSet)),
    ("$bitsAnyClear", OperatorSupport::Supported(Operator::BitsAnyClear)),
    ("$bitsAnySet", OperatorSupport::Supported(Operator::BitsAnySet)),
    ("$elemMatch", OperatorSupport::Supported(Operator::ElemMatch)),
    ("$eq", OperatorSupport::Supported(Operator::Eq)),
    ("$exists", OperatorSupport::Supported(Operator::Exists)),
    ("$geoIntersects", OperatorSupport::Unsupported),
    ("$geoNear", OperatorSupport::Unsupported),
    ("$geoWithin", OperatorSupport::Unsupported),
    ("$gt", OperatorSupport::Supported(Operator::Gt)),
    ("$gte", OperatorSupport::Supported(Operator::Gte)),
    ("$in", OperatorSupport::Supported(Operator::In)),
    ("$lt", OperatorSupport::Supported(Operator::Lt)),
    ("$lte", OperatorSupport::Supported(Operator::Lte)),
    ("$maxDistance", OperatorSupport::Unsupported),
    ("$minDistance", OperatorSupport::Unsupported),
    ("$mod", OperatorSupport::Supported(Operator::Mod)),
    ("$ne", OperatorSupport::Supported(Operator::Ne)),
    ("$near", OperatorSupport::Unsupported),
    ("$nearSphere", OperatorSupport::Unsupported),
    ("$nin", OperatorSupport::Supported(Operator::Nin)),
    ("$not", OperatorSupport::Supported(Operator::Not)),
    ("$options", OperatorSupport::Supported(Operator::Options)),
    ("$regex", OperatorSupport::Supported(Operator::Regex)),
    ("$size", OperatorSupport::Supported(Operator::Size)),
    ("$type", OperatorSupport::Supported(Operator::Type)),
    ("$within", OperatorSupport::Unsupported),
]);

/// Finds an operator at the level of fields. Returns `None` for an unknown name.
pub(super) fn clause(name: &str) -> Option<OperatorSupport<Clause>> {
    CLAUSES.get(name).copied()
}

/// Finds an operator below a field. Returns `None` for an unknown name.
pub(super) fn operator(name: &str) -> Option<OperatorSupport<Operator>> {
    OPERATORS.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_level() {
        assert!(operator("$and").is_none());
        assert!(clause("$gt").is_none());
        assert!(operator("gt").is_none());
    }
}
