//! `$sort`: sorts all documents, or keeps only the first ones, in bounded memory and beyond it in temporary files.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::Direction;

use crate::code::Code;
use crate::expression::{Expression, Metadata, Variables};
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
    /// The order as it was given: a search that includes the stage parses it again.
    pub(super) given: RawDocumentBuf,
    /// The first key of the order.
    pub(super) partition: Option<Expression>,
    /// The number of first documents that are used. Absent for all.
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
    sorter: Option<SpillingSorter<Box<[u8]>>>,
    partition: Option<Expression>,
    variables: Variables,
    sorted: Option<SortedPayloads<Box<[u8]>>>,
    /// The order, if what documents are sorted by is asked for.
    told: Option<Sort>,
    /// The metadata of the document that is pushed next, and of the one that was returned last.
    metadata: Option<Metadata>,
}

impl Sorting {
    pub(super) fn new(order: SortOrder, variables: Variables) -> Self {
        // A limit beyond the address space keeps all documents that fit into memory.
        let kept = order.kept.map(|kept| usize::try_from(kept).unwrap_or(usize::MAX));
        // Only now: a sort that the search includes is collated there.
        let sort = order.sort.with_collation(variables.collation());
        let told = variables.has_metadata().then(|| sort.clone());
        let sorter = SpillingSorter::new(sort, kept, STAGE_BYTES_MAX, variables.operation());
        Self {
            sorter: Some(sorter),
            partition: order.partition,
            variables,
            sorted: None,
            told,
            metadata: None,
        }
    }
}

/// A document, and after it what is known of it besides its fields.
fn kept(document: &RawDocument, metadata: Option<&Metadata>) -> Box<[u8]> {
    match metadata {
        None => document.as_bytes().into(),
        Some(metadata) => [document.as_bytes(), metadata.stored().as_bytes()].concat().into(),
    }
}

/// A document and what is known of it, which `kept` has put together.
fn apart(kept: Box<[u8]>) -> Result<(RawDocumentBuf, Option<Metadata>), Fault> {
    // A document begins with its length, so nothing else has to say where it ends.
    let length = kept.first_chunk().map(|length| i32::from_le_bytes(*length));
    let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
    let metadata = kept.get(length..).filter(|rest| !rest.is_empty());
    let metadata = metadata.and_then(|rest| RawDocument::from_bytes(rest).ok()).map(Metadata::restore);
    let mut document = Vec::from(kept);
    document.truncate(length);
    // Only a temporary file could have changed it, and its checksums are looked at.
    let document = RawDocumentBuf::from_bytes(document);
    Ok((document.map_err(|error| Fault::InvalidBson { reason: error.to_string() })?, metadata))
}

impl Collector for Sorting {
    fn keeps_metadata(&self) -> bool {
        self.told.is_some()
    }

    fn tell(&mut self, metadata: Option<Metadata>) {
        self.metadata = metadata;
    }

    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        // The sorter is there until `finish`, after which no document comes.
        let Some(sorter) = &mut self.sorter else { return Ok(()) };
        let Some(partition) = &self.partition else {
            // A document that will not be among the first `kept` is not copied.
            return Ok(sorter.push(document, || kept(document, self.metadata.as_ref()))?);
        };
        let mut prefix = Vec::new();
        partition.with_value(document, &self.variables, |value| {
            let value = value.unwrap_or(RawBsonRef::Null);
            self.variables.collation().encode(value, Direction::Ascending, &mut prefix);
        })?;
        Ok(sorter.push_after(&prefix, document, || kept(document, self.metadata.as_ref()))?)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        self.sorted = self.sorter.take().map(SpillingSorter::sort).transpose()?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        let Some(next) = self.sorted.as_mut().map(SortedPayloads::next).transpose()?.flatten() else {
            return Ok(None);
        };
        let (document, metadata) = apart(next)?;
        // Computed for what is given, and not for all that is sorted.
        self.metadata = match &self.told {
            Some(sort) => {
                Some(Metadata { sort_key: sort.values(&document)?, ..metadata.unwrap_or_default() })
            }
            None => None,
        };
        Ok(Some(document))
    }

    fn metadata(&self) -> Option<Metadata> {
        self.metadata.clone()
    }

    fn rest(&mut self) {
        if let Some(sorted) = &mut self.sorted {
            sorted.rest();
        }
    }
}
