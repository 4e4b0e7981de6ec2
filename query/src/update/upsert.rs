//! The document that an upsert starts from: the fields that its filter fixes by equality.

use std::sync::Arc;

use bson::{DateTime, RawDocumentBuf, Timestamp};
use index::collation::Collation;
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

/// The action of an upsert on the document that it starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsertStart {
    /// Operators or a pipeline change it, so it has all fields that the filter fixes.
    Update,
    /// A replacement is inserted in its stead, so of the filter only the `_id` is used.
    Replacement,
}

/// The document with the fields that a filter fixes by equality: at its top level, in an `$and`, in the only branch of an
/// `$or`, or as the only member of an `$in`. The `_id` comes first, the other fields in the order of their names.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::update::{UpsertStart, upsert_base};
///
/// let filter = Filter::parse(&rawdoc! { "size": { "$gt": 5 }, "kind": "a", "_id": 7 })?;
/// let base = upsert_base(&filter, UpsertStart::Update).unwrap();
/// assert_eq!(base, rawdoc! { "_id": 7, "kind": "a" });
/// # Ok::<(), cairndb_query::error::Error>(())
/// ```
///
/// # Errors
/// [`Error::ExpressionInUpsert`] if the filter has an `$expr`; [`Error::EqualityTwice`] if it fixes a field twice, or a
/// field and a part of it; [`Error::IdInParts`] if a replacement would get only parts of its `_id` from the filter.
pub fn upsert_base(filter: &Filter, start: UpsertStart) -> Result<RawDocumentBuf, Error> {
    if filter.has_expression() {
        return Err(Error::ExpressionInUpsert);
    }
    let mut tree = UpdateBranch::default();
    let mut id = None;
    let mut has_id_in_parts = false;
    let mut equalities = filter.equalities();
    // A path comes before those that it is the beginning of, so the error names the longer one first.
    equalities.sort_by_key(|(path, _)| *path);
    for (path, value) in equalities {
        let path = path.as_str();
        let is_id = path == "_id";
        let is_part_of_id = path.starts_with("_id.");
        if is_part_of_id && start == UpsertStart::Replacement {
            return Err(Error::IdInParts { path: path.to_owned() });
        }
        has_id_in_parts |= is_part_of_id;
        // A replacement has its own fields.
        if start == UpsertStart::Replacement && !is_id {
            continue;
        }
        if path.split('.').nth(NESTING_MAX).is_some() {
            return Err(Error::TooDeep { limit: NESTING_MAX });
        }
        // A filter has no placeholders: `$` would be the name of a field here.
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
        // The walk fills in the parts. Without this field they would be sorted among the others, and not come first.
        document.append(bson::raw::cstr!("_id"), RawDocumentBuf::new());
    }
    // All actions are `$set`, which does not use the clock.
    let clock = Timestamp { time: 0, increment: 0 };
    let context = Context::new(Phase::Insert, DateTime::from_millis(0), clock);
    let filters = ArrayFilters::parse(&[], &Room::default(), &Collation::simple())?;
    let mut walk = UpdateWalk::new(&context, &filters, Vec::new(), 0);
    walk.document(&tree, &document, None)?;
    let bytes = walk.into_bytes();
    validate(&bytes).map_err(|error| Error::malformed(&error))?;
    RawDocumentBuf::from_bytes(bytes).map_err(|error| Error::InvalidBson { reason: error.to_string() })
}
