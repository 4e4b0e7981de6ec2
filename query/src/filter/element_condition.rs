//! Conditions on the elements of an array, written as filters: which elements `$pull` removes, and which ones
//! an array filter of an update selects.

use bson::raw::{CString, cstr};
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;

use crate::error::Error;
use crate::filter::Filter;
use crate::filter::element::{first_name, is_operators};
use crate::filter::evaluate::Node;
use crate::filter::operator;
use crate::operation::OperationContext;
use crate::pattern::Room;

/// A predicate on one array element.
#[derive(Clone, Debug)]
pub(crate) struct ElementCondition {
    filter: Filter,
    subject: Subject,
}

/// The reason why an array filter does not name one identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameFault {
    /// It has no condition on a field.
    None,
    /// It has conditions on two top-level fields.
    Several { first: String, second: String },
    /// It has an operator that applies to the whole document.
    Whole { operator: &'static str },
}

/// The document that the filter is applied to.
#[derive(Clone, Debug)]
enum Subject {
    /// The element itself, which must be an object.
    Object,
    /// A document with one field of this name, whose value is the element.
    Field(CString),
}

impl ElementCondition {
    /// Parses the operand of `$pull`. Returns `None` for a plain value, which elements must equal.
    ///
    /// An object of fields is a filter of objects. Operators and regular expressions apply to each element.
    pub(crate) fn parse(
        operand: RawBsonRef<'_>,
        room: &Room,
        collation: &Collation,
    ) -> Result<Option<Self>, Error> {
        // A filter needs a field, so operators get one with an empty name.
        let on_element = |operand: RawBsonRef<'_>| {
            let name = cstr!("").to_owned();
            let mut filter = RawDocumentBuf::new();
            filter.append(&name, operand);
            let filter = Filter::parse_plain(&filter, room, collation)?;
            Ok(Some(Self { filter, subject: Subject::Field(name) }))
        };
        let Some(document) = operand.as_document() else {
            return if operand.as_regex().is_some() { on_element(operand) } else { Ok(None) };
        };
        // `{$pull: {a: {$or: […]}}}` filters objects, although its operand starts with a dollar sign.
        let is_clause = first_name(document).and_then(operator::clause).is_some();
        if is_operators(document) && !is_clause {
            return on_element(operand);
        }
        Ok(Some(Self { filter: Filter::parse_plain(document, room, collation)?, subject: Subject::Object }))
    }

    /// A condition from a filter that names the element as `name`.
    pub(crate) fn named(filter: Filter, name: CString) -> Self {
        Self { filter, subject: Subject::Field(name) }
    }

    /// Whether an element of type `kind`, with `bytes` as stored, meets the condition.
    ///
    /// # Errors
    /// [`Error::PatternFailed`] if a regular expression exceeds its limits, [`Error::Interrupted`] if the
    /// operation is to end.
    pub(crate) fn matches(
        &self,
        kind: ElementType,
        bytes: &[u8],
        operation: &OperationContext,
    ) -> Result<bool, Error> {
        match &self.subject {
            Subject::Object => match RawDocument::from_bytes(bytes) {
                Ok(object) if kind == ElementType::EmbeddedDocument => {
                    self.filter.matches_within(object, operation)
                }
                Ok(_) | Err(_) => Ok(false),
            },
            Subject::Field(name) => {
                // The document is written by hand, because the element's bytes need no decoding for it.
                let name = name.as_str().as_bytes();
                // Length prefix, type, name with its zero byte, value, and the zero byte that ends a
                // document.
                let length = 4 + 1 + name.len() + 1 + bytes.len() + 1;
                let mut document = Vec::with_capacity(length);
                document.extend(i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
                document.push(kind as u8);
                document.extend_from_slice(name);
                document.push(0);
                document.extend_from_slice(bytes);
                document.push(0);
                // Malformed bytes match nothing, as everywhere in a filter.
                RawDocument::from_bytes(&document)
                    .map_or(Ok(false), |document| self.filter.matches_within(document, operation))
            }
        }
    }
}

impl Filter {
    /// The one top-level field that all conditions of the filter are about: the identifier of an array
    /// filter.
    pub(crate) fn only_field(&self) -> Result<&str, NameFault> {
        let mut fields = Vec::new();
        collect_fields(&self.root, &mut fields)?;
        let Some((first, others)) = fields.split_first() else { return Err(NameFault::None) };
        match others.iter().find(|other| *other != first) {
            Some(other) => {
                Err(NameFault::Several { first: (*first).to_owned(), second: (*other).to_owned() })
            }
            None => Ok(first),
        }
    }
}

/// Adds the top-level field of each condition.
fn collect_fields<'f>(node: &'f Node, fields: &mut Vec<&'f str>) -> Result<(), NameFault> {
    match node {
        Node::All(nodes) | Node::Any(nodes) => {
            return nodes.iter().try_for_each(|node| collect_fields(node, fields));
        }
        Node::Not(node) => return collect_fields(node, fields),
        Node::Field(path, _) => fields.push(path.first()),
        Node::Expression(_) | Node::Implied(_) => return Err(NameFault::Whole { operator: "$expr" }),
        Node::Schema(_) => return Err(NameFault::Whole { operator: "$jsonSchema" }),
    }
    Ok(())
}
