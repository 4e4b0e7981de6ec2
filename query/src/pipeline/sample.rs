//! `$sample`: a number of random documents. Every set of this size is equally likely.

use std::vec::IntoIter;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::expression::{Metadata, Variables};
use crate::pipeline::collect::Collector;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::options;
use crate::random::{random, random_below};
use crate::value::{describe, integer};

const STAGE: &str = "$sample";

/// Parses the number of documents.
pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<usize, Fault> {
    let [size] = options(STAGE, ["size"], operand, Code::SAMPLE_NOT_OBJECT, Code::SAMPLE_UNKNOWN_OPTION)?;
    let size =
        size.ok_or(Fault::OptionMissing { stage: STAGE, option: "size", code: Code::SAMPLE_SIZE_MISSING })?;
    let refuse = |expected, code| Fault::Operand { stage: STAGE, expected, found: describe(size), code };
    // A size that is not a number and one that is not above 0 have different numbers in MongoDB.
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
    kept: Vec<Drawn>,
    memory: StageMemory,
    results: IntoIter<Drawn>,
    /// The random numbers of the results, the lowest one first. Empty if no stage asks.
    numbers: Vec<f64>,
    keeps_metadata: bool,
    /// The metadata of the document that is pushed next, and of the one that was returned last.
    metadata: Option<Metadata>,
}

/// A document, with what is known of it besides its fields as a document. Absent if no stage asks.
struct Drawn {
    document: RawDocumentBuf,
    metadata: Option<RawDocumentBuf>,
}

impl Sampling {
    pub(super) fn new(size: usize, variables: &Variables) -> Self {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, variables.operation());
        let (kept, results) = (Vec::new(), Vec::new().into_iter());
        // Copying it for each document would cost those who do not ask.
        let keeps_metadata = variables.has_metadata();
        Self { size, seen: 0, kept, memory, results, numbers: Vec::new(), keeps_metadata, metadata: None }
    }

    fn drawn(&self, document: &RawDocument) -> Drawn {
        Drawn { document: document.to_owned(), metadata: self.metadata.as_ref().map(Metadata::stored) }
    }
}

/// Random numbers in ascending order. Results are given from the highest on, as in MongoDB, which sorts by such numbers.
fn ascending_numbers(count: usize) -> Vec<f64> {
    let mut numbers: Vec<f64> = std::iter::repeat_with(random).take(count).collect();
    // Sorted apart from the documents: which of them has which is random anyway.
    numbers.sort_unstable_by(f64::total_cmp);
    numbers
}

/// The bytes of a document and of what is known of it.
fn length(drawn: &Drawn) -> usize {
    drawn.document.as_bytes().len() + drawn.metadata.as_ref().map_or(0, |metadata| metadata.as_bytes().len())
}

impl Collector for Sampling {
    fn keeps_metadata(&self) -> bool {
        self.keeps_metadata
    }

    fn tell(&mut self, metadata: Option<Metadata>) {
        self.metadata = metadata;
    }

    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        self.seen += 1;
        // A size above the number of documents keeps them all, and never draws a number.
        if self.kept.len() < self.size {
            let drawn = self.drawn(document);
            self.memory.grow(length(&drawn) + size_of::<Drawn>())?;
            self.kept.push(drawn);
            return Ok(());
        }
        // The number is below the size with the probability size / seen, which keeps all documents equally likely.
        let index = usize::try_from(random_below(self.seen)).unwrap_or(usize::MAX);
        if index < self.kept.len() {
            let drawn = self.drawn(document);
            let Some(slot) = self.kept.get_mut(index) else { return Ok(()) };
            // Given back first: near the limit a replacement by a smaller document must not fail.
            self.memory.shrink(length(slot));
            self.memory.grow(length(&drawn))?;
            *slot = drawn;
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
        self.numbers = if self.keeps_metadata { ascending_numbers(self.results.len()) } else { Vec::new() };
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        let Some(Drawn { document, metadata }) = self.results.next() else { return Ok(None) };
        self.metadata = self.numbers.pop().map(|number| {
            let metadata = metadata.as_deref().map(Metadata::restore).unwrap_or_default();
            Metadata { rand_val: Some(number), ..metadata }
        });
        Ok(Some(document))
    }

    fn metadata(&self) -> Option<Metadata> {
        self.metadata.clone()
    }
}
