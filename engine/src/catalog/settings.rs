//! The declaration of an index besides its keys, its uniqueness and its sparseness: which documents are in it, after
//! how long they expire, and whether searches see it. In the catalog entry each of these is an optional field.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::order::compare;
use query::filter::Filter;

/// The names of the fields, in catalog entries as in MongoDB's descriptions of indexes.
pub(crate) const PARTIAL_FILTER: &str = "partialFilterExpression";
pub(crate) const EXPIRE_AFTER: &str = "expireAfterSeconds";
pub(crate) const HIDDEN: &str = "hidden";
pub(crate) const WILDCARD_PROJECTION: &str = "wildcardProjection";
pub(crate) const COLLATION: &str = "collation";

/// The longest time after which documents expire, in seconds.
pub(crate) const EXPIRE_AFTER_MAX: u32 = i32::MAX.unsigned_abs();

/// The settings of an index. By default it has every document for ever, and searches see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexSettings {
    /// Which documents are in the index. Shared, because lists of indexes are copied.
    pub(crate) partial: Option<Arc<PartialFilter>>,
    /// The number of seconds after the date in its field at which a document expires.
    pub(crate) expire_after_seconds: Option<u32>,
    /// Whether searches pass the index by. Writes keep it up to date.
    pub(crate) hidden: bool,
}

/// The filter of a partial index.
#[derive(Clone, Debug)]
pub(crate) struct PartialFilter {
    document: RawDocumentBuf,
    pub(crate) filter: Filter,
}

impl PartialFilter {
    /// Parses a filter, which compares texts as its index does. The error is a reason that names what is wrong.
    pub(crate) fn parse(document: RawDocumentBuf, collation: &Collation) -> Result<Self, PartialFault> {
        let filter = Filter::parse_collated(&document, collation).map_err(PartialFault::Malformed)?;
        match filter.refused_in_partial_index() {
            None => Ok(Self { document, filter }),
            Some(operator) => Err(PartialFault::Refused(operator)),
        }
    }

    /// The filter as it was declared.
    pub(crate) fn document(&self) -> &RawDocument {
        &self.document
    }

    /// Whether a document is in the index.
    #[inline]
    pub(crate) fn holds(&self, document: &RawDocument) -> bool {
        self.filter.matches(document)
    }
}

/// Reads a stored collation, which has every option. The error says what is wrong.
pub(crate) fn decode_collation(collation: &Bson) -> Result<Collation, String> {
    let document = collation.as_document().ok_or_else(|| format!("{COLLATION} is not a document"))?;
    let document = RawDocumentBuf::try_from(document).map_err(|error| error.to_string())?;
    Collation::parse(&document).map_err(|error| error.to_string())
}

/// Adds a collation to a description, with every option. As in MongoDB a simple one is left out.
pub(crate) fn describe_collation(collation: &Collation, description: &mut Document) {
    if let Some(collation) = collation.document() {
        // The rules made it, so it is well-formed.
        description.insert(COLLATION, Document::try_from(collation).unwrap_or_default());
    }
}

/// The reason why a filter is not one of a partial index.
#[derive(Debug)]
pub(crate) enum PartialFault {
    Malformed(query::error::Error),
    /// An operator that filters of partial indexes cannot have.
    Refused(&'static str),
}

impl IndexSettings {
    /// Whether both have the same partial filter, or none. Equal numbers are the same whatever their types.
    pub(crate) fn has_same_documents(&self, other: &Self) -> bool {
        match (&self.partial, &other.partial) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                let [one, other] = [one, other].map(|partial| RawBsonRef::Document(partial.document()));
                compare(one, other).is_eq()
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether a document is in the index, as far as the settings say.
    #[inline]
    pub(crate) fn holds(&self, document: &RawDocument) -> bool {
        self.partial.as_ref().is_none_or(|partial| partial.holds(document))
    }

    /// Adds the settings that differ from the default, in MongoDB's names.
    pub(crate) fn describe(&self, description: &mut Document) {
        if let Some(partial) = &self.partial {
            // It was parsed when the index was made or loaded, so it is well-formed.
            let filter = Document::try_from(partial.document()).unwrap_or_default();
            description.insert(PARTIAL_FILTER, filter);
        }
        if let Some(seconds) = self.expire_after_seconds {
            description.insert(EXPIRE_AFTER, i32::try_from(seconds).unwrap_or(i32::MAX));
        }
        if self.hidden {
            description.insert(HIDDEN, true);
        }
    }

    /// Reads what [`describe`](Self::describe) wrote of an index with a collation. The error says what is wrong.
    pub(crate) fn decode(description: &Document, collation: &Collation) -> Result<Self, String> {
        let partial = match description.get(PARTIAL_FILTER) {
            None => None,
            Some(Bson::Document(filter)) => {
                let filter = RawDocumentBuf::try_from(filter).map_err(|error| error.to_string())?;
                let parsed = PartialFilter::parse(filter, collation).map_err(|fault| match fault {
                    PartialFault::Malformed(error) => error.to_string(),
                    PartialFault::Refused(operator) => format!("{operator} in {PARTIAL_FILTER}"),
                })?;
                Some(Arc::new(parsed))
            }
            Some(_) => return Err(format!("{PARTIAL_FILTER} is not a document")),
        };
        let seconds = |seconds: &Bson| {
            let seconds = seconds.as_i32().and_then(|seconds| u32::try_from(seconds).ok());
            seconds.ok_or_else(|| format!("{EXPIRE_AFTER} is not a 32-bit integer from 0 on"))
        };
        let flag = |flag: &Bson| flag.as_bool().ok_or_else(|| format!("{HIDDEN} is not a boolean"));
        Ok(Self {
            partial,
            expire_after_seconds: description.get(EXPIRE_AFTER).map(seconds).transpose()?,
            hidden: description.get(HIDDEN).map(flag).transpose()?.unwrap_or(false),
        })
    }
}
