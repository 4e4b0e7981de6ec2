//! The pipeline of a stream: stages that make at most one document of each event.

use std::sync::Arc;

use base::codes::refused;
use base::error::{Error, Result};
use base::sync::Mutex;
use bson::{RawDocument, RawDocumentBuf};
use query::code::Code;
use query::expression::Variables;
use query::pipeline::stream::{Step, Stream};
use query::pipeline::{Pipeline, Running};
use query::update::unknown_stage;

use crate::document::decode::EMPTY;

/// The stages that a stream may have.
const ALLOWED: [&str; 8] =
    ["$addFields", "$match", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$unset"];

/// The stages of a stream, which wait for the next event.
pub(super) struct Stages {
    running: Running<'static, Error>,
    /// Where they find it.
    inbox: Arc<Mutex<Option<RawDocumentBuf>>>,
}

/// The source of the first stage.
struct Inbox {
    next: Arc<Mutex<Option<RawDocumentBuf>>>,
    current: Option<RawDocumentBuf>,
}

impl Stages {
    /// Reads the stages of a stream. Returns `None` if there are none.
    ///
    /// # Errors
    /// With code 20 for a stage that no stream may have, and as an aggregation for others.
    pub(super) fn parse(stages: &[RawDocumentBuf], variables: &Variables) -> Result<Option<Self>> {
        if stages.is_empty() {
            return Ok(None);
        }
        for stage in stages {
            check(stage)?;
        }
        let pipeline = Pipeline::parse(stages, variables)?;
        let inbox = Arc::new(Mutex::new(None));
        let running = pipeline.run(Inbox { next: Arc::clone(&inbox), current: None });
        Ok(Some(Self { running, inbox }))
    }

    /// Runs the stages on an event. Returns `None` if they leave it out.
    pub(super) fn apply(&mut self, event: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        *self.inbox.lock() = Some(event);
        match self.running.advance()? {
            Step::Document => Ok(Some(self.running.current().to_owned())),
            Step::Pause | Step::End => Ok(None),
        }
    }
}

fn check(stage: &RawDocument) -> Result<()> {
    let name = stage.iter().next().and_then(std::result::Result::ok).map(|(name, _)| name.as_str());
    let Some(name) = name else { return Ok(()) };
    if name == "$changeStream" {
        let message = "$changeStream is only valid as the first stage in a pipeline";
        return Err(refused(Code::STAGE_NOT_FIRST, message));
    }
    // Unknown ones are refused by the pipeline, which has their table.
    if unknown_stage([name]).is_none() && !ALLOWED.contains(&name) {
        let message = format!("{name} is not permitted in a $changeStream pipeline");
        return Err(refused(Code::ILLEGAL_OPERATION, message));
    }
    Ok(())
}

impl Stream<Error> for Inbox {
    fn advance(&mut self) -> Result<Step> {
        self.current = self.next.lock().take();
        Ok(if self.current.is_some() { Step::Document } else { Step::Pause })
    }

    fn current(&self) -> &RawDocument {
        self.current.as_deref().unwrap_or_else(|| RawDocument::from_bytes(EMPTY).expect("an empty document"))
    }
}
