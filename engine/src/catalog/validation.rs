//! The rules for documents of a collection: its validator, the writes that are checked by it, and the treatment of an
//! invalid document. In the catalog entry each of these is an optional field.
//!
//! The filter is parsed once, when the collection is made, changed or loaded.

use base::codes::refused;
use base::error::Result;
use base::namespace::Namespace;
use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use query::code::Code;
use query::expression::Variables;
use query::filter::Filter;

use crate::options::{ValidationAction, ValidationLevel};

/// The names of the fields, in catalog entries as in MongoDB's descriptions of collections.
pub(crate) const VALIDATOR: &str = "validator";
pub(crate) const VALIDATION_LEVEL: &str = "validationLevel";
pub(crate) const VALIDATION_ACTION: &str = "validationAction";

/// Databases whose collections have no validators, as in MongoDB.
const WITHOUT_VALIDATORS: [&str; 3] = ["admin", "local", "config"];

/// The checks of a collection's documents. Whatever is absent was never set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Validation {
    validator: Option<Validator>,
    level: Option<ValidationLevel>,
    action: Option<ValidationAction>,
}

/// A filter that documents must match.
#[derive(Clone, Debug)]
pub(crate) struct Validator {
    document: RawDocumentBuf,
    filter: Filter,
    collation: Collation,
}

/// The change of a collection's validation. What is absent stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValidationChange {
    /// An empty document removes the validator.
    pub(crate) validator: Option<Document>,
    pub(crate) level: Option<ValidationLevel>,
    pub(crate) action: Option<ValidationAction>,
}

impl Validator {
    /// Parses a filter as a validator, which compares texts as its collection does. Its expressions have no variables but those
    /// of the system.
    fn parse(
        document: RawDocumentBuf,
        collation: &Collation,
    ) -> std::result::Result<Self, query::error::Error> {
        let variables = Variables::default().with_collation(collation.clone());
        let filter = Filter::parse_with(&document, &variables)?;
        Ok(Self { document, filter, collation: collation.clone() })
    }

    /// The filter as it was declared.
    pub(crate) fn document(&self) -> &RawDocument {
        &self.document
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The comparison of strings in the filter and its expressions.
    pub(crate) fn collation(&self) -> &Collation {
        &self.collation
    }
}

impl Validation {
    /// The validator, if writes are to be checked by it.
    #[inline]
    pub(crate) fn active(&self) -> Option<&Validator> {
        self.validator.as_ref().filter(|_| self.level() != ValidationLevel::Off)
    }

    pub(crate) fn level(&self) -> ValidationLevel {
        self.level.unwrap_or_default()
    }

    pub(crate) fn action(&self) -> ValidationAction {
        self.action.unwrap_or_default()
    }

    /// Whether nothing was ever set.
    pub(crate) fn is_unset(&self) -> bool {
        self.validator.is_none() && self.level.is_none() && self.action.is_none()
    }

    /// Whether both check the same documents in the same way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let documents = [self, other].map(|one| one.validator.as_ref().map(|one| one.document.as_bytes()));
        let [mine, others] = documents;
        mine == others && (self.level(), self.action()) == (other.level(), other.action())
    }

    /// The validation after a change, of a collection with a collation. Rejects a validator that is malformed, or that the
    /// collection cannot have.
    pub(crate) fn changed(
        &self,
        namespace: &Namespace,
        change: &ValidationChange,
        collation: &Collation,
    ) -> Result<Self> {
        let mut changed = self.clone();
        if let Some(validator) = &change.validator {
            // An empty filter would accept all documents: as in MongoDB it means none.
            changed.validator = None;
            if !validator.is_empty() {
                // The names of the system's own collections are rejected before, wherever they come from.
                if WITHOUT_VALIDATORS.contains(&namespace.db.as_str()) {
                    let db = &namespace.db;
                    let message = format!(
                        "Document validators are not allowed on collection {namespace} in the {db} internal database"
                    );
                    return Err(refused(Code::INVALID_OPTIONS, message));
                }
                let validator = RawDocumentBuf::try_from(validator)?;
                changed.validator = Some(Validator::parse(validator, collation)?);
            }
        }
        changed.level = change.level.or(self.level);
        changed.action = change.action.or(self.action);
        Ok(changed)
    }

    /// Adds what was set, in MongoDB's names.
    pub(crate) fn describe(&self, description: &mut Document) {
        if let Some(validator) = &self.validator {
            // It was parsed when it was set or loaded, so it is well-formed.
            description.insert(VALIDATOR, Document::try_from(validator.document()).unwrap_or_default());
        }
        if let Some(level) = self.level {
            description.insert(VALIDATION_LEVEL, level.name());
        }
        if let Some(action) = self.action {
            description.insert(VALIDATION_ACTION, action.name());
        }
    }

    /// Reads what [`describe`](Self::describe) wrote of a collection with a collation. The error says what is wrong.
    pub(crate) fn decode(description: &Document, collation: &Collation) -> std::result::Result<Self, String> {
        let validator = match description.get(VALIDATOR) {
            None => None,
            Some(Bson::Document(validator)) => {
                let validator = RawDocumentBuf::try_from(validator).map_err(|error| error.to_string())?;
                let parsed = Validator::parse(validator, collation);
                Some(parsed.map_err(|error| format!("{VALIDATOR}: {error}"))?)
            }
            Some(_) => return Err(format!("{VALIDATOR} is not a document")),
        };
        let level = named(description, VALIDATION_LEVEL, ValidationLevel::named)?;
        let action = named(description, VALIDATION_ACTION, ValidationAction::named)?;
        Ok(Self { validator, level, action })
    }
}

impl ValidationChange {
    pub(crate) fn is_empty(&self) -> bool {
        self.validator.is_none() && self.level.is_none() && self.action.is_none()
    }
}

fn named<T>(
    description: &Document,
    field: &str,
    find: impl FnOnce(&str) -> Option<T>,
) -> std::result::Result<Option<T>, String> {
    let Some(name) = description.get(field) else { return Ok(None) };
    let found = name.as_str().and_then(find);
    found.map(Some).ok_or_else(|| format!("{field} is {name}, which no collection has"))
}
