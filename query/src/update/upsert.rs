//! The document that an upsert starts from: what its filter says a document must be.

use std::sync::Arc;

use bson::{DateTime, RawDocumentBuf, Timestamp};
use index::validate::{NESTING_MAX, validate};

use crate::filter::Filter;
use crate::pattern::Room;
use crate::raw::Operand;
use crate::update::action::Action;
use crate::update::array_filter::ArrayFilters;
use crate::update::context::{Context, Phase};
use crate::update::error::Error;
use crate::update::path::Component;
use crate::update::tree::UpdateBranch;
use crate::update::walk::UpdateWalk;

/// What an upsert does with the document that it starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsertStart {
    /// Operators or a pipeline change it: all equalities of the filter count.
    Update,
    /// A replacement takes its place: of the filter only the `_id` counts.
    Replacement,
}

/// The document that a filter's equalities make: those by themselves, in `$and`, in the only branch of an `$or`, as
/// the only member of an `$in`. The `_id` comes first, other fields in the order of their names.
///
/// # Errors
/// [`Error::ExpressionInUpsert`] if the filter has an `$expr`; [`Error::EqualityTwice`] if a field is given two
/// values, or one and a part of one; [`Error::IdInParts`] if a replacement is to get its `_id` in parts.
pub fn upsert_base(filter: &Filter, start: UpsertStart) -> Result<RawDocumentBuf, Error> {
    if filter.has_expression() {
        return Err(Error::ExpressionInUpsert);
    }
    let mut tree = UpdateBranch::default();
    let mut id = None;
    let mut has_id_in_parts = false;
    let mut equalities = filter.equalities();
    // What is the beginning of another path comes before it.
    equalities.sort_by_key(|(path, _)| *path);
    for (path, value) in equalities {
        let path = path.as_str();
        let is_id = path == "_id";
        let is_part_of_id = path.starts_with("_id.");
        if is_part_of_id && start == UpsertStart::Replacement {
            return Err(Error::IdInParts { path: path.to_owned() });
        }
        has_id_in_parts |= is_part_of_id;
        if start == UpsertStart::Replacement && !is_id {
            continue;
        }
        if path.split('.').nth(NESTING_MAX).is_some() {
            return Err(Error::TooDeep { limit: NESTING_MAX });
        }
        let components = path.split('.').map(|name| Component::Name(name.to_owned())).collect::<Vec<_>>();
        let action = Arc::new(Action::Set(Operand::new(value)));
        let added = tree.add(&components, Arc::clone(&action));
        added.map_err(|depth| Error::EqualityTwice {
            path: path.to_owned(),
            other: path.split('.').take(depth).collect::<Vec<_>>().join("."),
        })?;
        if is_id {
            id = Some(value);
        }
    }
    let mut document = RawDocumentBuf::new();
    if let Some(id) = id {
        document.append(bson::raw::cstr!("_id"), id);
    } else if has_id_in_parts {
        // The walk puts the parts in it, and the `_id` comes first all the same.
        document.append(bson::raw::cstr!("_id"), RawDocumentBuf::new());
    }
    // No action of these looks at the clock.
    let clock = Timestamp { time: 0, increment: 0 };
    let context = Context::new(Phase::Insert, DateTime::from_millis(0), clock);
    let filters = ArrayFilters::parse(&[], &Room::default())?;
    let mut walk = UpdateWalk::new(&context, &filters, Vec::new(), 0);
    walk.document(&tree, &document, None)?;
    let bytes = walk.into_bytes();
    validate(&bytes).map_err(|error| Error::malformed(&error))?;
    RawDocumentBuf::from_bytes(bytes).map_err(|error| Error::InvalidBson { reason: error.to_string() })
}
