//! Array filters: conditions on array elements, to which paths refer by `$[name]`.
//!
//! Each condition has one name, and each name must be used by a path: MongoDB rejects an unused one as a mistake.

use std::collections::{BTreeMap, BTreeSet};

use bson::RawDocumentBuf;
use bson::raw::CString;
use index::collation::Collation;
use index::validate::validate;

use crate::filter::Filter;
use crate::filter::element_condition::{ElementCondition, NameFault};
use crate::operation::OperationContext;
use crate::pattern::Room;
use crate::raw::Field;
use crate::update::error::{ArrayFilterFault, Error};

/// The array filters of an update.
#[derive(Clone, Debug)]
pub(super) struct ArrayFilters {
    /// The conditions by identifier, each with its position in the given list, for errors.
    filters: BTreeMap<String, (usize, ElementCondition)>,
}

impl ArrayFilters {
    pub(super) fn parse(
        filters: &[RawDocumentBuf],
        room: &Room,
        collation: &Collation,
    ) -> Result<Self, Error> {
        let mut parsed = BTreeMap::new();
        for (position, filter) in filters.iter().enumerate() {
            // Everything after this reads the bytes unchecked.
            validate(filter.as_bytes()).map_err(|error| Error::malformed(&error))?;
            let (identifier, condition) =
                parse_one(filter, room, collation).map_err(|fault| Error::ArrayFilter { position, fault })?;
            if parsed.contains_key(&identifier) {
                return Err(Error::ArrayFilter { position, fault: ArrayFilterFault::Twice { identifier } });
            }
            parsed.insert(identifier, (position, condition));
        }
        Ok(Self { filters: parsed })
    }

    /// Whether there is a filter of this name.
    pub(super) fn has(&self, identifier: &str) -> bool {
        self.filters.contains_key(identifier)
    }

    /// Whether an element matches the filter of this name.
    pub(super) fn matches(
        &self,
        identifier: &str,
        element: &Field<'_>,
        operation: &OperationContext,
    ) -> Result<bool, Error> {
        // Paths with an unknown identifier were rejected when the update was parsed.
        let Some((_, condition)) = self.filters.get(identifier) else { return Ok(false) };
        condition.matches(element.kind(), element.bytes(), operation).map_err(Error::unanswered)
    }

    /// Rejects a filter whose identifier is not in `used`; of several, the one that was given first.
    pub(super) fn check_used(&self, used: &BTreeSet<String>) -> Result<(), Error> {
        let unused = self.filters.iter().filter(|(identifier, _)| !used.contains(*identifier));
        match unused.min_by_key(|(_, (position, _))| *position) {
            None => Ok(()),
            Some((identifier, (position, _))) => {
                let fault = ArrayFilterFault::Unused { identifier: identifier.clone() };
                Err(Error::ArrayFilter { position: *position, fault })
            }
        }
    }
}

/// Parses one filter into its identifier and its condition.
fn parse_one(
    filter: &RawDocumentBuf,
    room: &Room,
    collation: &Collation,
) -> Result<(String, ElementCondition), ArrayFilterFault> {
    let filter = Filter::parse_plain(filter, room, collation)
        .map_err(|error| ArrayFilterFault::Filter(Box::new(error)))?;
    let identifier = match filter.only_field() {
        Ok(name) => name.to_owned(),
        Err(NameFault::None) => return Err(ArrayFilterFault::Empty),
        Err(NameFault::Several { first, second }) => return Err(ArrayFilterFault::Several { first, second }),
        Err(NameFault::Whole { operator }) => return Err(ArrayFilterFault::Operator { operator }),
    };
    // MongoDB's rule for these names, which keeps them apart from paths and operators.
    let is_identifier = identifier.starts_with(|first: char| first.is_ascii_lowercase())
        && identifier.chars().all(|letter| letter.is_ascii_alphanumeric());
    // The conditions are on a field of this name, so each element is tested as a document with this one field.
    match CString::try_from(identifier.clone()) {
        Ok(name) if is_identifier => Ok((identifier, ElementCondition::named(filter, name))),
        Ok(_) | Err(_) => Err(ArrayFilterFault::Identifier { found: identifier }),
    }
}
