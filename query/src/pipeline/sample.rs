//! `$sample`: a number of random documents. Every set of this size is equally likely.

use std::vec::IntoIter;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::operation::OperationContext;
use crate::pipeline::collect::Collector;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::options;
use crate::random::random_below;
use crate::value::{describe, integer};

const STAGE: &str = "$sample";

/// Parses the number of documents.
pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<usize, Fault> {
    let [size] = options(STAGE, ["size"], operand, Code::SAMPLE_NOT_OBJECT, Code::SAMPLE_UNKNOWN_OPTION)?;
    let size =
        size.ok_or(Fault::OptionMissing { stage: STAGE, option: "size", code: Code::SAMPLE_SIZE_MISSING })?;
    let refuse = |expected, code| Fault::Operand { stage: STAGE, expected, found: describe(size), code };
    // A size that is no number and one that is not above 0 have different numbers in MongoDB.
    if index::number::Number::of(size).is_none() {
        return Err(refuse("a number as 'size'", Code::SAMPLE_SIZE_TYPE));
    }
    let wanted = integer(size).filter(|&size| size > 0);
    let wanted = wanted.ok_or_else(|| refuse("an integer above 0 as 'size'", Code::SAMPLE_SIZE_VALUE))?;
    Ok(usize::try_from(wanted).unwrap_or(usize::MAX))
}

/// Reservoir sampling: the first documents fill the reservoir. Each later one replaces a random document in it, or none.
pub(super) struct Sampling {
    size: usize,
    seen: u64,
    kept: Vec<RawDocumentBuf>,
    memory: StageMemory,
    results: IntoIter<RawDocumentBuf>,
}

impl Sampling {
    pub(super) fn new(size: usize, operation: &OperationContext) -> Self {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, operation);
        Self { size, seen: 0, kept: Vec::new(), memory, results: Vec::new().into_iter() }
    }
}

impl Collector for Sampling {
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        self.seen += 1;
        // A size above the number of documents keeps them all, and never draws a number.
        if self.kept.len() < self.size {
            self.memory.grow(document.as_bytes().len() + size_of::<RawDocumentBuf>())?;
            self.kept.push(document.to_owned());
            return Ok(());
        }
        // The number is below the size with the probability size / seen, which keeps all documents equally likely.
        let index = usize::try_from(random_below(self.seen)).unwrap_or(usize::MAX);
        if let Some(slot) = self.kept.get_mut(index) {
            // Given back first: near the limit a replacement by a smaller document must not fail.
            self.memory.shrink(slot.as_bytes().len());
            self.memory.grow(document.as_bytes().len())?;
            *slot = document.to_owned();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Fault> {
        // The order must be random as well: in the reservoir the first documents are still in their places.
        for last in (1..self.kept.len()).rev() {
            let other = usize::try_from(random_below(last as u64 + 1)).unwrap_or(last);
            self.kept.swap(last, other);
        }
        self.results = std::mem::take(&mut self.kept).into_iter();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        Ok(self.results.next())
    }
}
