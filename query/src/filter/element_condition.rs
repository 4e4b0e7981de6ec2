//! Conditions on the elements of an array, in the language of filters: what `$pull` removes, and what an array filter
//! of an update lets through.

use bson::raw::{CString, cstr};
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::Error;
use crate::filter::Filter;
use crate::filter::element::{first_name, is_operators};
use crate::filter::evaluate::Node;
use crate::filter::operator;
use crate::operation::OperationContext;
use crate::pattern::Room;

/// A question to one element.
#[derive(Clone, Debug)]
pub(crate) struct ElementCondition {
    filter: Filter,
    subject: Subject,
}

/// Why an array filter has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameFault {
    /// It speaks of no field.
    None,
    /// It speaks of two.
    Several { first: String, second: String },
    /// It is about a whole document.
    Whole { operator: &'static str },
}

/// What the filter sees.
#[derive(Clone, Debug)]
enum Subject {
    /// An element that is an object; no other matches.
    Object,
    /// A document whose only field, of this name, is the element.
    Field(CString),
}

impl ElementCondition {
    /// Reads a condition as `$pull` takes it, unless it is a plain value to equal: an object of fields is a filter of
    /// objects, operators and regular expressions are asked of each element.
    pub(crate) fn parse(operand: RawBsonRef<'_>, room: &Room) -> Result<Option<Self>, Error> {
        let on_element = |operand: RawBsonRef<'_>| {
            let name = cstr!("").to_owned();
            let mut filter = RawDocumentBuf::new();
            filter.append(&name, operand);
            let filter = Filter::parse_plain(&filter, room)?;
            Ok(Some(Self { filter, subject: Subject::Field(name) }))
        };
        let Some(document) = operand.as_document() else {
            return if operand.as_regex().is_some() { on_element(operand) } else { Ok(None) };
        };
        let is_clause = first_name(document).and_then(operator::clause).is_some();
        if is_operators(document) && !is_clause {
            return on_element(operand);
        }
        Ok(Some(Self { filter: Filter::parse_plain(document, room)?, subject: Subject::Object }))
    }

    /// A filter of documents that have the element under a name.
    pub(crate) fn named(filter: Filter, name: CString) -> Self {
        Self { filter, subject: Subject::Field(name) }
    }

    /// Whether an element, given as its type and its stored bytes, meets the condition.
    ///
    /// # Errors
    /// [`Error::PatternFailed`] if a regular expression finds no answer within its limits.
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
                let name = name.as_str().as_bytes();
                let length = 4 + 1 + name.len() + 1 + bytes.len() + 1;
                let mut document = Vec::with_capacity(length);
                document.extend(i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
                document.push(kind as u8);
                document.extend_from_slice(name);
                document.push(0);
                document.extend_from_slice(bytes);
                document.push(0);
                RawDocument::from_bytes(&document)
                    .map_or(Ok(false), |document| self.filter.matches_within(document, operation))
            }
        }
    }
}

impl Filter {
    /// The top-level field that everything in the filter is about.
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

fn collect_fields<'f>(node: &'f Node, fields: &mut Vec<&'f str>) -> Result<(), NameFault> {
    match node {
        Node::All(nodes) | Node::Any(nodes) => {
            return nodes.iter().try_for_each(|node| collect_fields(node, fields));
        }
        Node::Not(node) => return collect_fields(node, fields),
        Node::Field(path, _) => fields.push(path.first()),
        Node::Expression(_) => return Err(NameFault::Whole { operator: "$expr" }),
        Node::Schema(_) => return Err(NameFault::Whole { operator: "$jsonSchema" }),
    }
    Ok(())
}
