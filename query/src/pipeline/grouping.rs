//! The collector of `$group`, and of the stages that are translated into one: it divides documents by their keys.

use std::sync::Arc;
use std::vec::IntoIter;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::Direction;

use crate::expression::Variables;
use crate::pipeline::collect::Collector;
use crate::pipeline::error::Fault;
use crate::pipeline::group::Group;
use crate::pipeline::group_table::{GroupTable, Grouped, Grouper};
use crate::pipeline::memory::STAGE_BYTES_MAX;
use crate::sort::spilling::{SortedPayloads, SpillingSorter};

/// The groups of the documents so far.
pub(super) struct Grouping {
    grouper: Arc<Grouper>,
    /// Absent after the last document.
    table: Option<GroupTable>,
    /// The number of pushed documents.
    pushed: u64,
    key: Vec<u8>,
    results: Results,
}

/// The groups once they are complete.
enum Results {
    /// All of them, made into documents one by one.
    Groups(IntoIter<Grouped>),
    /// Documents that were made in the order of files, sorted by the first documents of their groups.
    Documents(SortedPayloads<RawDocumentBuf>),
}

impl Grouping {
    pub(super) fn new(stage: &'static str, group: Group, variables: Variables) -> Self {
        let grouper = Arc::new(Grouper::new(stage, group, variables));
        let table = Some(GroupTable::new(Arc::clone(&grouper), 0));
        let results = Results::Groups(Vec::new().into_iter());
        Self { grouper, table, pushed: 0, key: Vec::new(), results }
    }
}

impl Collector for Grouping {
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        let Self { grouper, table, pushed, key, .. } = self;
        // The table is there until `finish`, after which no document comes.
        let Some(table) = table else { return Ok(()) };
        // The key is encoded into one buffer for all documents: only a new group keeps a copy.
        key.clear();
        grouper.group.id().with_value(document, &grouper.variables, |id| {
            grouper.variables.collation().encode(id.unwrap_or(RawBsonRef::Null), Direction::Ascending, key);
        })?;
        // Documents are numbered, not groups: the first document of a group may be in a file when its group is made.
        let number = *pushed;
        *pushed += 1;
        table.add(number, key, document)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let Some(table) = self.table.take() else { return Ok(()) };
        self.results = if table.is_in_memory() {
            Results::Groups(table.into_groups())
        } else {
            // Groups come out in the order of their first documents, in whatever file they have been.
            let operation = self.grouper.variables.operation();
            // A part of what the stage may hold: the tables of the files need most of it.
            let memory = operation.stage_bytes_max(STAGE_BYTES_MAX) / 4;
            let mut results = SpillingSorter::by_prefix(memory, operation);
            table.finish(&mut results)?;
            Results::Documents(results.sort()?)
        };
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        match &mut self.results {
            Results::Groups(groups) => groups.next().map(|group| group.finish(&self.grouper)).transpose(),
            Results::Documents(documents) => Ok(documents.next()?),
        }
    }
}
