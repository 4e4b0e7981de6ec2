//! The source of a pipeline's documents. Reading it is the caller's task.

use bson::RawDocumentBuf;

/// The source of the documents of a pipeline: the collection, or a first stage that replaces it.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The collection that the pipeline is run on.
    Collection,
    /// `$documents`: documents given in the pipeline itself.
    Documents(Vec<RawDocumentBuf>),
    /// `$collStats` with its options: statistics of the collection.
    CollStats(RawDocumentBuf),
    /// `$indexStats`: the indexes of the collection.
    IndexStats,
    /// `$currentOp` with its options: the running operations.
    CurrentOp(RawDocumentBuf),
    /// `$listLocalSessions` with its options: the sessions of clients.
    ListLocalSessions(RawDocumentBuf),
    /// `$planCacheStats`: the plans that are kept for the collection.
    PlanCacheStats,
}

impl Source {
    /// The name of the stage that gives the documents. Returns `None` for a collection.
    pub fn stage(&self) -> Option<&'static str> {
        match self {
            Self::Collection => None,
            Self::Documents(_) => Some("$documents"),
            Self::CollStats(_) => Some("$collStats"),
            Self::IndexStats => Some("$indexStats"),
            Self::CurrentOp(_) => Some("$currentOp"),
            Self::ListLocalSessions(_) => Some("$listLocalSessions"),
            Self::PlanCacheStats => Some("$planCacheStats"),
        }
    }
}
