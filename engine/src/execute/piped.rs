//! The stages of a pipeline behind the rows of a search, or behind documents that are there already.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf};
use query::pipeline::stream::{Given, Step, Stream};
use query::pipeline::{Pipeline, Running};

use crate::error::{Error, Result};
use crate::execute::rows::Rows;
use crate::execute::time_limit::TimeLimit;

/// What comes out of a pipeline. It stands before the first document until `advance` is called.
pub(crate) struct Piped {
    running: Running<'static, Error>,
    limit: Option<Clock>,
}

/// The time left, which goes by in all stages and is looked at where documents come in.
type Clock = Arc<Mutex<TimeLimit>>;

impl Piped {
    /// The pipeline over the rows that `open` finds, which share its time.
    pub(crate) fn over_rows(
        pipeline: Pipeline,
        max_time: Option<Duration>,
        open: impl FnOnce() -> Result<Option<Rows>>,
    ) -> Result<Self> {
        let start = Instant::now();
        let rows = open()?;
        let left = max_time.filter(|limit| !limit.is_zero()).map(|limit| {
            // What was spent on opening may be all; a limit of zero would be none.
            limit.saturating_sub(start.elapsed()).max(Duration::from_nanos(1))
        });
        let limit = clock(left);
        let input = Timed { rows, limit: limit.clone() };
        Ok(Self { running: pipeline.run(input), limit })
    }

    /// The pipeline over documents.
    pub(crate) fn over_documents(
        pipeline: Pipeline,
        max_time: Option<Duration>,
        documents: Vec<RawDocumentBuf>,
    ) -> Self {
        let limit = clock(max_time);
        let checked = limit.clone();
        let input = documents.into_iter().map(move |document| {
            check(checked.as_ref())?;
            Ok(document)
        });
        Self { running: pipeline.run(Given::new(input)), limit }
    }

    /// Steps to the next document; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        with(self.limit.as_ref(), TimeLimit::resume);
        let step = self.running.advance();
        with(self.limit.as_ref(), TimeLimit::pause);
        Ok(step? == Step::Document)
    }

    /// The bytes of the document stood on.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.running.current().as_bytes()
    }
}

/// Rows as the input of a pipeline.
struct Timed {
    /// None if there is no collection.
    rows: Option<Rows>,
    limit: Option<Clock>,
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

impl Stream<Error> for Timed {
    fn advance(&mut self) -> Result<Step> {
        check(self.limit.as_ref())?;
        let Some(rows) = &mut self.rows else { return Ok(Step::End) };
        Ok(if rows.advance()? { Step::Document } else { Step::End })
    }

    fn current(&self) -> &RawDocument {
        let standing = self.rows.as_ref().map(Rows::bytes).filter(|bytes| !bytes.is_empty());
        RawDocument::from_bytes(standing.unwrap_or(EMPTY_DOCUMENT)).expect("advance() looked at the bytes")
    }
}

fn clock(limit: Option<Duration>) -> Option<Clock> {
    TimeLimit::of(limit).map(|limit| Arc::new(Mutex::new(limit)))
}

fn check(limit: Option<&Clock>) -> Result<()> {
    limit.map_or(Ok(()), |limit| limit.lock().unwrap_or_else(PoisonError::into_inner).check())
}

fn with(limit: Option<&Clock>, change: fn(&mut TimeLimit)) {
    if let Some(limit) = limit {
        change(&mut limit.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
