//! The collections that a pipeline reads besides its own, on the snapshot of its read view.

use std::collections::HashMap;

use bson::{Document, RawDocument};
use query::expression::Variables;
use query::pipeline::foreign::{Documents, Foreign};
use query::pipeline::stream::{Step, Stream};

use crate::error::{Error, Result};
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// Read views of one snapshot by the names of their collections. What is absent does not exist.
#[derive(Default)]
pub(crate) struct ForeignViews {
    views: HashMap<String, ReadView>,
}

impl ForeignViews {
    pub(crate) fn new(views: HashMap<String, ReadView>) -> Self {
        Self { views }
    }

    fn view(&self, collection: &str) -> Option<ReadView> {
        self.views.get(collection).and_then(ReadView::again)
    }
}

impl Foreign<Error> for ForeignViews {
    fn find(
        &self,
        collection: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<Error>>> {
        let Some(view) = self.view(collection) else { return Ok(Some(Box::new(Matched { matches: None }))) };
        let selector = Selector::with_variables(&Document::try_from(filter)?, variables.clone())?;
        let matches = Matches::open_indexed(view, &selector)?;
        Ok(matches.map(|matches| Box::new(Matched { matches: Some(matches) }) as Documents<Error>))
    }

    fn scan(&self, collection: &str, variables: &Variables) -> Result<Documents<Error>> {
        let open = |view| {
            let everything = Selector::with_variables(&Document::new(), variables.clone())?;
            Matches::open(view, &everything, &Order::default())
        };
        Ok(Box::new(Matched { matches: self.view(collection).map(open).transpose()? }))
    }
}

/// The documents of a walk. A stage reads all of them before it gives its next document, so the walk never rests.
struct Matched {
    /// Absent if there is no collection.
    matches: Option<Matches>,
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

impl Stream<Error> for Matched {
    fn advance(&mut self) -> Result<Step> {
        let Some(matches) = &mut self.matches else { return Ok(Step::End) };
        if !matches.advance()? {
            return Ok(Step::End);
        }
        // Stored bytes can be damaged: from here on they are known to be a document.
        matches.document()?;
        Ok(Step::Document)
    }

    fn current(&self) -> &RawDocument {
        let bytes = self.matches.as_ref().map(Matches::bytes).filter(|bytes| !bytes.is_empty());
        // `advance` has made a document of these bytes already, so this cannot fail.
        RawDocument::from_bytes(bytes.unwrap_or(EMPTY_DOCUMENT)).expect("advance() looked at the bytes")
    }
}
