//! The other collections of a case for a pipeline that runs without an engine.
//!
//! They are read in two ways, which must give the same: as collections without an index, and as if an index answered
//! every filter.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use query::expression::Variables;
use query::filter::Filter;
use query::pipeline::error::{Error, Fault};
use query::pipeline::foreign::{Documents, Foreign};
use query::pipeline::stream::Given;

use crate::conformance::corpus::OtherCollection;
use crate::conformance::value::raw;

/// The way in which other collections are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    /// No filter is answered by an index.
    #[default]
    Scan,
    /// Every filter is.
    Find,
}

/// Collections by their names.
#[derive(Clone, Default)]
pub(crate) struct OtherCollections {
    collections: HashMap<String, Vec<RawDocumentBuf>>,
    reads: Reads,
}

impl OtherCollections {
    pub(crate) fn of(others: &[OtherCollection], reads: Reads) -> Self {
        let documents = |other: &OtherCollection| other.documents.iter().map(raw).collect();
        let collections = others.iter().map(|other| (other.name.clone(), documents(other))).collect();
        Self { collections, reads }
    }

    pub(crate) fn shared(&self) -> Arc<dyn Foreign<Error> + Send + Sync> {
        Arc::new(self.clone())
    }

    fn documents(&self, collection: &str) -> Vec<RawDocumentBuf> {
        self.collections.get(collection).cloned().unwrap_or_default()
    }
}

impl Foreign<Error> for OtherCollections {
    fn find(
        &self,
        collection: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<Error>>, Error> {
        if self.reads == Reads::Scan && self.collections.contains_key(collection) {
            return Ok(None);
        }
        let at = |error: query::error::Error| Error::Stage { position: 0, fault: Fault::from(error) };
        let filter = Filter::parse_with(filter, variables).map_err(at)?;
        let mut found = Vec::new();
        for document in self.documents(collection) {
            if filter.try_matches(&document, variables).map_err(at)? {
                found.push(Ok(document));
            }
        }
        Ok(Some(Box::new(Given::new(found.into_iter()))))
    }

    fn scan(&self, collection: &str, _: &Variables) -> Result<Documents<Error>, Error> {
        Ok(Box::new(Given::new(self.documents(collection).into_iter().map(Ok))))
    }
}
