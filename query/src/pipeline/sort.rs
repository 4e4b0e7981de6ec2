//! `$sort`: sorts all documents, or keeps only the first ones, in bounded memory and beyond it in temporary files.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::Direction;

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::path::PathRefusal;
use crate::pipeline::collect::Collector;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::STAGE_BYTES_MAX;
use crate::pipeline::options::object;
use crate::sort::Sort;
use crate::sort::spilling::{SortedPayloads, SpillingSorter};
use crate::value::describe;

const STAGE: &str = "$sort";

/// The order of a `$sort`, and how many documents the stages after it use.
#[derive(Clone, Debug)]
pub(super) struct SortOrder {
    pub(super) sort: Sort,
    /// The order as it was given: a search that takes over the stage parses it again.
    pub(super) given: RawDocumentBuf,
    /// What documents are sorted by before anything else.
    pub(super) partition: Option<Expression>,
    /// How many of the first documents are used. Absent for all.
    pub(super) kept: Option<u64>,
}

impl SortOrder {
    /// Parses the argument of `$sort`.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        Self::of(object(STAGE, operand, Code::SORT_NOT_OBJECT)?)
    }

    /// The order by `partition`, if there is one, and then by the fields of `given`, which may be empty.
    pub(super) fn within(given: &RawDocument, partition: Option<Expression>) -> Result<Self, Fault> {
        if given.is_empty() && partition.is_some() {
            return Ok(Self { sort: Sort::parse(given)?, given: given.to_owned(), partition, kept: None });
        }
        Ok(Self { partition, ..Self::of(given)? })
    }

    /// The order by the fields of `given`.
    pub(super) fn of(given: &RawDocument) -> Result<Self, Fault> {
        let sort = Sort::parse(given)?;
        if sort.natural().is_some() {
            // Results of a stage are not stored, so they have no natural order.
            let refusal = PathRefusal::ComponentDollar;
            return Err(Fault::Path { stage: STAGE, path: "$natural".to_owned(), refusal });
        }
        // A find accepts an empty sort, a pipeline does not: MongoDB's rule.
        if sort.is_empty() {
            let found = describe(RawBsonRef::Document(given));
            return Err(Fault::Operand {
                stage: STAGE,
                expected: "at least one field",
                found,
                code: Code::SORT_EMPTY,
            });
        }
        Ok(Self { sort, given: given.to_owned(), partition: None, kept: None })
    }
}

/// The sorter while documents come, and their order afterwards.
pub(super) struct Sorting {
    sorter: Option<SpillingSorter<RawDocumentBuf>>,
    partition: Option<Expression>,
    variables: Variables,
    sorted: Option<SortedPayloads<RawDocumentBuf>>,
}

impl Sorting {
    pub(super) fn new(order: SortOrder, variables: Variables) -> Self {
        // A limit beyond the address space keeps all documents that fit into memory.
        let kept = order.kept.map(|kept| usize::try_from(kept).unwrap_or(usize::MAX));
        // Only now: a sort that the search takes over is collated there.
        let sort = order.sort.with_collation(variables.collation());
        let sorter = SpillingSorter::new(sort, kept, STAGE_BYTES_MAX, variables.operation());
        Self { sorter: Some(sorter), partition: order.partition, variables, sorted: None }
    }
}

impl Collector for Sorting {
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        // The sorter is there until `finish`, after which no document comes.
        let Some(sorter) = &mut self.sorter else { return Ok(()) };
        let Some(partition) = &self.partition else {
            // A document that will not be among the first `kept` is not copied.
            return Ok(sorter.push(document, || document.to_owned())?);
        };
        let mut prefix = Vec::new();
        partition.with_value(document, &self.variables, |value| {
            let value = value.unwrap_or(RawBsonRef::Null);
            self.variables.collation().encode(value, Direction::Ascending, &mut prefix);
        })?;
        Ok(sorter.push_after(&prefix, document, || document.to_owned())?)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        self.sorted = self.sorter.take().map(SpillingSorter::sort).transpose()?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        Ok(self.sorted.as_mut().map(SortedPayloads::next).transpose()?.flatten())
    }
}
