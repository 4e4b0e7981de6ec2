//! The collections that a pipeline reads besides its own, on the snapshot of its read view.

use std::collections::HashMap;

use bson::{Document, RawDocument};
use query::expression::Variables;
use query::pipeline::foreign::{Documents, Foreign};

use crate::error::{Error, Result};
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::execute::row_stream::RowStream;
use crate::execute::rows::Rows;
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
        let stream = |rows| Box::new(RowStream::new(rows, variables.operation().clone())) as Documents<Error>;
        let Some(view) = self.view(collection) else { return Ok(Some(stream(None))) };
        let selector = Selector::with_variables(&Document::try_from(filter)?, variables.clone())?;
        let matches = Matches::open_indexed(view, &selector)?;
        Ok(matches.map(|matches| stream(Some(Rows::of(matches)))))
    }

    fn scan(&self, collection: &str, variables: &Variables) -> Result<Documents<Error>> {
        let open = |view| {
            let everything = Selector::with_variables(&Document::new(), variables.clone())?;
            Matches::open(view, &everything, &Order::default()).map(Rows::of)
        };
        let rows = self.view(collection).map(open).transpose()?;
        Ok(Box::new(RowStream::new(rows, variables.operation().clone())))
    }
}
