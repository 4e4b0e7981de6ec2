//! The other collection of a pipeline, whatever its name is, which counts how often it is searched and how many of its documents
//! are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bson::{RawDocument, RawDocumentBuf};
use cairndb_query::expression::Variables;
use cairndb_query::filter::Filter;
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::foreign::{Documents, Foreign};
use cairndb_query::pipeline::stream::Given;

/// Another collection. With an index every filter finds what it wants.
#[derive(Default)]
pub(crate) struct Others {
    documents: Vec<RawDocumentBuf>,
    has_index: bool,
    /// Whether the index gives documents from the end: it may have any order.
    is_reversed: bool,
    opened: AtomicUsize,
    read: Arc<AtomicUsize>,
}

impl Others {
    pub(crate) fn new(documents: Vec<RawDocumentBuf>, has_index: bool) -> Arc<Self> {
        Arc::new(Self { documents, has_index, ..Self::default() })
    }

    /// The same, whose index gives documents from the end.
    pub(crate) fn reversed(documents: Vec<RawDocumentBuf>, has_index: bool) -> Arc<Self> {
        Arc::new(Self { documents, has_index, is_reversed: true, ..Self::default() })
    }

    /// The number of times that it was searched or read.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Relaxed)
    }

    /// The number of documents that it gave.
    pub(crate) fn read(&self) -> usize {
        self.read.load(Relaxed)
    }

    fn stream(&self, documents: Vec<RawDocumentBuf>) -> Documents<Error> {
        self.opened.fetch_add(1, Relaxed);
        let read = Arc::clone(&self.read);
        Box::new(Given::new(documents.into_iter().map(move |document| {
            read.fetch_add(1, Relaxed);
            Ok(document)
        })))
    }
}

impl Foreign<Error> for Others {
    fn find(
        &self,
        _: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<Error>>, Error> {
        if !self.has_index {
            return Ok(None);
        }
        let filter = Filter::parse_with(filter, variables).expect("a filter");
        let matches =
            |document: &&RawDocumentBuf| filter.try_matches(document, variables).expect("an answer");
        let mut found: Vec<_> = self.documents.iter().filter(matches).cloned().collect();
        if self.is_reversed {
            found.reverse();
        }
        Ok(Some(self.stream(found)))
    }

    fn scan(&self, _: &str, _: &Variables) -> Result<Documents<Error>, Error> {
        Ok(self.stream(self.documents.clone()))
    }
}
