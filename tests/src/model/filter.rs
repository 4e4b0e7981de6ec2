//! Filters that the model understands: equality and ranges on one path, by the rules of filters and by those of expressions.

use std::cmp::Ordering;

use cairndb::bson::{Bson, Document, doc};

use super::order::{class, compare, is_nan};

/// Which documents an operation is about.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    All,
    Equal {
        path: &'static str,
        value: Bson,
    },
    Range {
        path: &'static str,
        bounds: Vec<(Bound, Bson)>,
    },
    /// An `$expr` with comparisons of the value that are all true. No bound is an equality.
    Expression {
        path: &'static str,
        comparisons: Vec<(Option<Bound>, Bson)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Above,
    From,
    UpTo,
    Below,
}

impl Filter {
    pub(super) fn to_document(&self) -> Document {
        match self {
            Self::All => doc! {},
            Self::Equal { path, value } => doc! { *path: value.clone() },
            Self::Range { path, bounds } => {
                let conditions: Document = bounds
                    .iter()
                    .map(|(bound, value)| (bound.operator().to_owned(), value.clone()))
                    .collect();
                doc! { *path: conditions }
            }
            Self::Expression { path, comparisons } => {
                let comparison = |(bound, value): &(Option<Bound>, Bson)| {
                    let operator = bound.map_or("$eq", Bound::operator);
                    doc! { operator: [format!("${path}"), { "$literal": value.clone() }] }
                };
                doc! { "$expr": { "$and": comparisons.iter().map(comparison).collect::<Vec<_>>() } }
            }
        }
    }

    pub(super) fn matches(&self, document: &Document) -> bool {
        match self {
            Self::All => true,
            Self::Equal { path, value } => {
                candidates(document, path).iter().any(|found| compare(found, value).is_eq())
            }
            // Each condition may be met by another element of an array.
            Self::Range { path, bounds } => bounds.iter().all(|(bound, value)| {
                candidates(document, path).iter().any(|found| bound.admits(found, value))
            }),
            Self::Expression { path, comparisons } => {
                let found = value_at(document, path);
                comparisons.iter().all(|(bound, value)| {
                    let order = match found {
                        Some(found) => compare(found, value),
                        // A missing value comes after the lowest one and before all others.
                        None if *value == Bson::MinKey => Ordering::Greater,
                        None => Ordering::Less,
                    };
                    bound.map_or(order.is_eq(), |bound| bound.holds(order))
                })
            }
        }
    }

    /// The `_id` that a document inserted by an upsert gets from the filter.
    pub(super) fn wanted_id(&self) -> Option<&Bson> {
        match self {
            Self::Equal { path: "_id", value } => Some(value),
            Self::All | Self::Equal { .. } | Self::Range { .. } | Self::Expression { .. } => None,
        }
    }
}

impl Bound {
    fn operator(self) -> &'static str {
        match self {
            Self::Above => "$gt",
            Self::From => "$gte",
            Self::UpTo => "$lte",
            Self::Below => "$lt",
        }
    }

    fn admits(self, found: &Bson, limit: &Bson) -> bool {
        if class(found) != class(limit) {
            return false;
        }
        let order = compare(found, limit);
        if is_nan(found) || is_nan(limit) {
            return order.is_eq() && matches!(self, Self::From | Self::UpTo);
        }
        self.holds(order)
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Above => order == Ordering::Greater,
            Self::From => order != Ordering::Less,
            Self::UpTo => order != Ordering::Greater,
            Self::Below => order == Ordering::Less,
        }
    }
}

/// The value at a path; none if a part of the path is missing.
pub(super) fn value_at<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    match path.split_once('.') {
        None => document.get(path),
        Some((name, rest)) => value_at(document.get(name)?.as_document()?, rest),
    }
}

/// The values that may meet a condition: the value, each element of an array, null for a missing one.
fn candidates(document: &Document, path: &str) -> Vec<Bson> {
    let value = value_at(document, path).cloned().unwrap_or(Bson::Null);
    let elements = value.as_array().cloned().unwrap_or_default();
    std::iter::once(value).chain(elements).collect()
}
