//! The end of a pipeline that writes: which collection `$out` and `$merge` may write to, and the documents on their way there.

use std::sync::Arc;

use base::codes::refused;
use base::error::Result;
use base::namespace::Namespace;
use bson::RawDocument;
use query::code::Code;
use query::expression::Variables;
use query::pipeline::writer::WritingStage;

use crate::collection::handle::Handle;
use crate::collection::merge::{MergeTerms, Merging};
use crate::collection::out::Aside;
use crate::execute::explain::Depth;
use crate::execute::piped::Piped;
use crate::options::WriteConcern;
use crate::shared::{Caller, Shared};

/// The databases that belong to MongoDB itself.
const INTERNAL_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// A writing stage, with what it needs to know of its command.
pub(super) struct Written<'a> {
    pub(super) stage: &'a WritingStage,
    /// The position of the stage, for errors.
    pub(super) position: usize,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) caller: &'a Caller,
    /// The database of the pipeline.
    pub(super) db: &'a str,
    pub(super) variables: &'a Variables,
    pub(super) concern: Option<&'a WriteConcern>,
    /// Whether no document is checked by the validator of the target.
    pub(super) bypass: Option<bool>,
}

impl Written<'_> {
    /// Writes the results of a pipeline, which `open` opens after everything was checked that needs no document.
    pub(super) fn run(&self, open: impl FnOnce() -> Result<Piped>) -> Result<()> {
        let target = self.target()?;
        // Before anything is read: a store that writes nothing rejects the pipeline, whatever comes out of it.
        drop(self.shared.store.enter()?);
        self.shared.store.admit_write()?;
        let Some(merging) = self.merging(&target)? else {
            let aside = Aside::begin(self.shared, &target, self.bypass)?;
            let mut piped = open()?;
            let operation = piped.operation().clone();
            return aside.fill(&mut piped, &operation);
        };
        // One document after the other: the pipeline reads its snapshot, so no write of this call comes back to it.
        let mut piped = open()?;
        while piped.advance()? {
            merging.merge(RawDocument::from_bytes(piped.bytes())?)?;
        }
        Ok(())
    }

    /// Makes the checks of [`run`](Self::run) for an explanation, which reads and writes nothing.
    pub(super) fn check(&self, depth: Depth) -> Result<()> {
        let target = self.target()?;
        // To say what was done it would have to be done.
        if depth == Depth::Execution {
            let code = match self.stage {
                WritingStage::Out(_) => Code::OUT_EXECUTED_BY_EXPLAIN,
                WritingStage::Merge(_) => Code::MERGE_EXECUTED_BY_EXPLAIN,
            };
            let stage = self.stage.stage();
            return Err(refused(
                code,
                format!("{stage} cannot be explained with a verbosity that executes it"),
            ));
        }
        self.merging(&target).map(drop)
    }

    /// The `$merge`, checked against its target. Returns `None` for a `$out`.
    fn merging(&self, target: &Namespace) -> Result<Option<Merging<'_>>> {
        let WritingStage::Merge(merge) = self.stage else { return Ok(None) };
        let shared = Arc::clone(self.shared);
        // The writes are parts of the operation of the pipeline, with its limits.
        let caller = self.caller.within(self.variables.operation());
        let target = Handle::new(shared, caller, &target.db, &target.coll);
        let terms = MergeTerms { concern: self.concern, bypass: self.bypass };
        Merging::begin(merge, target, self.position, self.variables, terms).map(Some)
    }

    /// The collection that is written to, if it may be.
    fn target(&self) -> Result<Namespace> {
        let given = self.stage.target();
        let db = given.db.as_deref().unwrap_or(self.db);
        let (coll, stage) = (given.coll.as_str(), self.stage.stage());
        let (system, internal, verb) = match self.stage {
            WritingStage::Out(_) => (Code::OUT_SYSTEM_COLLECTION, Code::OUT_INTERNAL_DATABASE, "Can't"),
            WritingStage::Merge(_) => {
                (Code::MERGE_SYSTEM_COLLECTION, Code::MERGE_INTERNAL_DATABASE, "Cannot")
            }
        };
        // Before the rules of names, which reject these with the number of a wrong name.
        if coll.starts_with("system.") {
            return Err(refused(system, format!("{verb} {stage} to special collection: {coll}")));
        }
        if INTERNAL_DATABASES.contains(&db) {
            return Err(refused(internal, format!("{verb} {stage} to internal database: {db}")));
        }
        Namespace::parse(db, coll)
    }
}
