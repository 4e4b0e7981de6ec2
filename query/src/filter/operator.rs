//! The names of all filter operators, in sorted tables.
//!
//! A name that is in no table is unknown; one that is there as [`Known::Unsupported`] exists in MongoDB and
//! not here. What an operator means stands with its parser.

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

/// Ascending by name.
const CLAUSES: &[(&str, Known<Clause>)] = &[
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
];

/// Ascending by name.
const OPERATORS: &[(&str, Known<Operator>)] = &[
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
];

/// What is known about a name in the place of a field.
pub(super) fn clause(name: &str) -> Option<Known<Clause>> {
    find(CLAUSES, name)
}

/// What is known about a name below a field.
pub(super) fn operator(name: &str) -> Option<Known<Operator>> {
    find(OPERATORS, name)
}

fn find<T: Copy>(table: &'static [(&str, Known<T>)], name: &str) -> Option<Known<T>> {
    let place = table.binary_search_by_key(&name, |(known, _)| known).ok()?;
    table.get(place).map(|(_, known)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_ascend() {
        assert!(CLAUSES.is_sorted_by(|(left, _), (right, _)| left < right));
        assert!(OPERATORS.is_sorted_by(|(left, _), (right, _)| left < right));
    }

    #[test]
    fn every_name_is_found() {
        for (name, _) in CLAUSES {
            assert!(clause(name).is_some(), "{name}");
        }
        for (name, _) in OPERATORS {
            assert!(operator(name).is_some(), "{name}");
        }
    }

    #[test]
    fn names_are_known_in_their_place_only() {
        assert!(operator("$and").is_none());
        assert!(clause("$gt").is_none());
        assert!(operator("gt").is_none());
    }
}
