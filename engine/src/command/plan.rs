//! The plan of an explained command, and the reply that shows it.

use bson::{Document, RawDocumentBuf, doc};

use crate::collection::{Collection, ExplainedPipeline, PipelineWork};
use crate::execute::explain::Explained;
use crate::execute::stages::shown;
use crate::results::number;

/// The content of the reply to an explained command.
pub(super) struct Plan {
    namespace: String,
    /// The views that the command goes through.
    views: Vec<String>,
    /// `None` for a pipeline that reads no collection.
    search: Option<Explained>,
    /// The stages of a pipeline that follow the search.
    stages: Vec<Document>,
    /// The work of the pipeline, if it was run.
    done: Option<PipelineWork>,
}

/// The length of the reply, as in the field `verbosity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    /// As `ExecutionStats`, and the plans whose keys were counted to choose one of them.
    AllPlansExecution,
}

impl Plan {
    pub(super) fn of(collection: &Collection<RawDocumentBuf>, explained: Explained) -> Self {
        let namespace = collection.namespace().to_string();
        Self { namespace, views: Vec::new(), search: Some(explained), stages: Vec::new(), done: None }
    }

    pub(super) fn of_pipeline(namespace: String, explained: ExplainedPipeline) -> Self {
        let ExplainedPipeline { namespace: base, views, search, stages, done } = explained;
        let views = views.iter().map(ToString::to_string).collect();
        // Of a view the collection that it comes down to is what was planned for.
        let namespace = base.map_or(namespace, |base| base.to_string());
        Self { namespace, views, search, stages, done }
    }

    pub(super) fn into_reply(self, verbosity: Verbosity) -> Document {
        let Self { namespace, views, search, stages, done } = self;
        let mut reply = doc! { "explainVersion": "1" };
        if !views.is_empty() {
            reply.insert("views", views);
        }
        let search = search.map(|search| told(&search, &namespace, verbosity));
        // A search alone is explained at the top level; in front of stages it is the stage `$cursor`, as in MongoDB.
        if stages.is_empty() {
            reply.extend(search.unwrap_or_default());
            return reply;
        }
        let mut all: Vec<Document> = search.into_iter().map(|search| doc! { "$cursor": search }).collect();
        all.extend(stages.iter().map(shown));
        // Only the work of the whole pipeline is counted. If it was only planned, there is none.
        if let (Some(last), Some(PipelineWork { rows, spills })) = (all.last_mut(), done) {
            last.insert("nReturned", number(rows));
            last.insert("usedDisk", spills > 0);
            last.insert("spills", number(spills));
        }
        reply.insert("stages", all);
        reply
    }
}

/// The parts of the reply that describe a search.
fn told(search: &Explained, namespace: &str, verbosity: Verbosity) -> Document {
    let mut told = doc! { "queryPlanner": search.planner(namespace) };
    if let Some(mut statistics) = search.statistics() {
        if verbosity == Verbosity::AllPlansExecution {
            statistics.insert("allPlansExecution", search.all_plans());
        }
        told.insert("executionStats", statistics);
    }
    told
}
