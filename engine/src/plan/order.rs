//! In which order the documents come: as they are stored, or sorted.
//!
//! Records stand in the order of their `_id`s, so a sort that begins with `_id`, which is unique, and `$natural` are
//! nothing but the direction of the walk. Everything else is sorted in memory.

use bson::{Document, RawDocumentBuf};
use index::key::Direction;
use query::sort::Sort;

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::codes::refused;
use crate::error::Result;
use crate::options::{Collation, Hint};
use crate::plan::bounds::ID_FIELD;

/// What brings the documents into their order.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// The walk over the records.
    Walk(Direction),
    /// Sorting what the walk finds.
    Sort(Sort),
}

impl Order {
    /// The order that a sort and a hint ask for.
    pub(crate) fn of(sort: Option<&Document>, hint: Option<&Hint>) -> Result<Self> {
        let asked = match sort {
            None => None,
            Some(sort) => Some(Sort::parse(&RawDocumentBuf::try_from(sort)?)?).filter(|sort| {
                // Nothing to sort by leaves the order to the hint.
                !sort.is_empty() || sort.natural().is_some()
            }),
        };
        let Some(sort) = asked else { return Ok(Self::Walk(hinted(hint))) };
        if let Some(direction) = sort.natural() {
            return Ok(Self::Walk(direction));
        }
        let first = sort.fields().next().filter(|(path, _)| path.as_str() == ID_FIELD);
        let walk = first.map(|(_, direction)| Self::Walk(direction));
        Ok(walk.unwrap_or(Self::Sort(sort)))
    }
}

/// Refuses a hint that cannot be honored; the index on `_id` is the one that reads use.
pub(crate) fn check_hint(hint: Option<&Hint>, indexes: &[Index]) -> Result<()> {
    let (shown, is_id, is_known) = match hint {
        None => return Ok(()),
        Some(Hint::Name(name)) => {
            (name.clone(), name == ID_INDEX_NAME, indexes.iter().any(|index| index.name == *name))
        }
        Some(Hint::Keys(keys)) => (
            keys.to_string(),
            *keys == bson::doc! { ID_FIELD: 1 } || natural(keys).is_some(),
            indexes.iter().any(|index| index.key_pattern() == *keys),
        ),
    };
    if is_id {
        return Ok(());
    }
    let fault = if is_known {
        "reads by secondary indexes are not supported yet"
    } else {
        "hint provided does not correspond to an existing index"
    };
    Err(refused(2, format!("hint {shown}: {fault}")))
}

/// Refuses a collation that compares otherwise than bytes do.
pub(crate) fn check_collation(collation: Option<&Collation>) -> Result<()> {
    match collation {
        Some(collation) if collation.locale != Collation::SIMPLE => {
            let locale = &collation.locale;
            Err(crate::codes::unsupported(format!(
                "the collation with locale '{locale}' is not supported, only 'simple' is"
            )))
        }
        Some(_) | None => Ok(()),
    }
}

fn hinted(hint: Option<&Hint>) -> Direction {
    let Some(Hint::Keys(keys)) = hint else { return Direction::Ascending };
    natural(keys).unwrap_or(Direction::Ascending)
}

fn natural(keys: &Document) -> Option<Direction> {
    if *keys == bson::doc! { "$natural": 1 } {
        return Some(Direction::Ascending);
    }
    (*keys == bson::doc! { "$natural": -1 }).then_some(Direction::Descending)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    /// The walk that serves a sort; nothing if it must be sorted.
    #[track_caller]
    fn check(sort: &Document, expected: Option<Direction>) {
        let walk = match Order::of(Some(sort), None).expect("a sort") {
            Order::Walk(direction) => Some(direction),
            Order::Sort(_) => None,
        };
        assert_eq!(walk, expected, "{sort}");
    }

    #[test]
    fn a_sort_by_id_is_a_walk() {
        check(&doc! { "_id": 1 }, Some(Direction::Ascending));
        check(&doc! { "_id": -1, "a": 1 }, Some(Direction::Descending));
        check(&doc! { "$natural": -1 }, Some(Direction::Descending));
        check(&doc! {}, Some(Direction::Ascending));
        check(&doc! { "a": 1, "_id": 1 }, None);
        check(&doc! { "_id.a": 1 }, None);
    }

    #[test]
    fn only_the_simple_collation_is_there() {
        assert!(check_collation(Some(&Collation::simple())).is_ok());
        let refused = check_collation(Some(&Collation::with_locale("de"))).expect_err("refused");
        assert_eq!(refused.code(), Some(238));
    }
}
