//! The search of a `$lookup` in the other collection, for one document after the other: by an index, in a hash table, or by
//! reading all of it. The results of first stages that no document changes are kept.
//!
//! What is found is a stream, and no more of it is read than is asked for. A filter of what is found, which comes from a stage
//! after the `$lookup`, is part of the search if the pipeline of the `$lookup` does nothing but select; otherwise it is applied to
//! the results.

use std::ops::Range;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use index::path::FieldPath;

use crate::expression::Variables;
use crate::filter::Filter;
use crate::operation::{OperationContext, Reservation};
use crate::pipeline::constant_prefix::ConstantPrefix;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::foreign::{FieldIndex, Foreign};
use crate::pipeline::foreign_table::{ForeignTable, TableBuilder};
use crate::pipeline::lookup::{Equality, Keyed, Lookup, STAGE, Wanted, all_of, local_value};
use crate::pipeline::stream::{Given, StageInput, Step, Stream, nothing};

/// Runs some of the stages of a pipeline over documents.
pub(super) type RunStages<'i, E> =
    Box<dyn Fn(StageInput<'i, E>, &Variables, Range<usize>) -> StageInput<'i, E> + Send + Sync + 'i>;

/// The search of a `$lookup`.
pub(super) struct ForeignSearch<'i, E> {
    lookup: Lookup,
    /// Absent if the pipeline has no stages.
    run: Option<RunStages<'i, E>>,
    prefix: Prefix<'i, E>,
    matching: Option<Matching>,
    position: usize,
    variables: Variables,
    foreign: Arc<dyn Foreign<E> + Send + Sync>,
    index: FieldIndexState<E>,
    /// The other collection by one field. Absent as long as an index finds everything.
    table: Option<ForeignTable>,
    /// Whether an index is known to find what one document asks for.
    is_indexed: bool,
    /// The positions of the documents that were found in the table for the current document, and their memory.
    found: Vec<usize>,
    room: Reservation,
    /// The document that was read last, if the table is in a file.
    read: RawDocumentBuf,
}

/// The index that finds by one value.
enum FieldIndexState<E> {
    /// It was not asked for.
    Unknown,
    Absent,
    Open(Box<dyn FieldIndex<E> + Send + Sync>),
}

/// The first stages of the pipeline, as far as no document changes their results.
enum Prefix<'i, E> {
    /// There are none, or their results use too much memory.
    Absent,
    /// The number of them. They were not run yet.
    Stages(usize),
    Results {
        results: ConstantPrefix<'i, E>,
        count: usize,
        /// Whether the filter of what is found has been applied.
        is_matched: bool,
    },
}

/// A filter of what is found.
struct Matching {
    filter: Filter,
    /// The same as a document, if the search may have it.
    given: Option<RawDocumentBuf>,
}

/// The results for one document. It belongs to the search that has found it, until that is asked for another
/// document.
pub(super) enum Results<'i, E> {
    /// The documents of the search's index.
    Index,
    /// The documents of the search's table, those before this position read already.
    Table(usize),
    Stream {
        stream: StageInput<'i, E>,
        /// Whether the filter of what is found has been applied.
        is_matched: bool,
    },
}

/// The documents that a pipeline reads.
struct Opened<'i, E> {
    documents: StageInput<'i, E>,
    /// The number of first stages that have been done already.
    done: usize,
    is_matched: bool,
}

/// The documents at positions of a table, as what a pipeline reads.
struct FoundInTable {
    table: ForeignTable,
    found: std::vec::IntoIter<usize>,
    current: Option<usize>,
    /// The current document, if the table is in a file.
    read: RawDocumentBuf,
    operation: OperationContext,
    position: usize,
}

impl<'i, E: From<Error> + 'i> Results<'i, E> {
    /// Steps to the next result that `search` wants. Returns `false` at the end.
    pub(super) fn advance(&mut self, search: &mut ForeignSearch<'i, E>) -> Result<bool, E> {
        match self {
            Self::Index => match &mut search.index {
                // It tests the value itself. A filter of what is found keeps searches from this variant.
                FieldIndexState::Open(index) => index.advance(),
                FieldIndexState::Unknown | FieldIndexState::Absent => Ok(false),
            },
            Self::Table(next) => {
                let (Some(position), Some(table)) = (search.found.get(*next), &search.table) else {
                    return Ok(false);
                };
                table.read(*position, &mut search.read).map_err(at::<E>(search.position))?;
                // It counts those that were read, so the current one is just before it.
                *next += 1;
                Ok(true)
            }
            // The documents found come from a collection or a table, which do not pause.
            Self::Stream { stream, is_matched } => {
                while stream.advance()? == Step::Document {
                    if *is_matched || search.wants(stream.current())? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    pub(super) fn current<'r>(&'r self, search: &'r ForeignSearch<'i, E>) -> &'r RawDocument {
        match (self, &search.index, &search.table) {
            (Self::Stream { stream, .. }, _, _) => stream.current(),
            (Self::Index, FieldIndexState::Open(index), _) => index.current(),
            (Self::Table(next), _, Some(table)) => {
                // Before the first step there is no current document.
                let position = next.checked_sub(1).and_then(|at| search.found.get(at));
                position.map_or(nothing(), |position| table.document(*position, &search.read))
            }
            (Self::Index | Self::Table(_), _, _) => nothing(),
        }
    }

    /// Releases what the storage holds until the next result is asked for.
    pub(super) fn rest(&mut self) {
        if let Self::Stream { stream, .. } = self {
            stream.rest();
        }
    }
}

impl<'i, E: From<Error> + 'i> ForeignSearch<'i, E> {
    /// Whether a document that was found passes the filter of what is found.
    fn wants(&self, document: &RawDocument) -> Result<bool, E> {
        let Some(matching) = &self.matching else { return Ok(true) };
        let is_match = matching.filter.try_matches(document, &self.variables);
        is_match.map_err(|error| at::<E>(self.position)(error.into()))
    }

    /// Releases what the storage holds until the next document is searched for, or the next result asked for.
    pub(super) fn rest(&mut self) {
        if let FieldIndexState::Open(index) = &mut self.index {
            index.rest();
        }
        if let Prefix::Results { results, .. } = &self.prefix {
            results.rest();
        }
    }
}

impl<'i, E: From<Error> + 'i> ForeignSearch<'i, E> {
    pub(super) fn new(
        lookup: Lookup,
        run: Option<RunStages<'i, E>>,
        position: usize,
        variables: Variables,
        foreign: Arc<dyn Foreign<E> + Send + Sync>,
    ) -> Self {
        let room = Reservation::of(variables.operation());
        let (prefix, matching, table, is_indexed) = (Prefix::Absent, None, None, false);
        let (index, found, read) = (FieldIndexState::Unknown, Vec::new(), RawDocumentBuf::new());
        Self {
            lookup,
            run,
            prefix,
            matching,
            position,
            variables,
            foreign,
            index,
            table,
            is_indexed,
            found,
            room,
            read,
        }
    }

    /// Keeps the results of the first `count` stages, which no document changes.
    pub(super) fn keeping(self, count: usize) -> Self {
        Self { prefix: if count > 0 { Prefix::Stages(count) } else { Prefix::Absent }, ..self }
    }

    /// Finds only what passes a filter. `given` is the filter as a document, if stages of the pipeline select the same after it
    /// as before.
    pub(super) fn matching(self, filter: Filter, given: Option<RawDocumentBuf>) -> Self {
        Self { matching: Some(Matching { filter, given }), ..self }
    }

    pub(super) fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// The position of the stage.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn operation(&self) -> &OperationContext {
        self.variables.operation()
    }

    /// Searches for what a document asks for.
    pub(super) fn open(&mut self, document: &RawDocument) -> Result<Results<'i, E>, E> {
        // The common case needs neither variables nor a filter.
        if let Some(results) = self.by_value(document)? {
            return Ok(results);
        }
        let at = at::<E>(self.position);
        let variables = self.lookup.variables(document, &self.variables).map_err(&at)?;
        if let Some(results) = self.after_prefix(document, &variables)? {
            return Ok(results);
        }
        let wanted = self.lookup.wanted(document, &variables);
        let Some(Opened { documents, done, is_matched }) = self.documents(wanted, &variables)? else {
            return Ok(Results::Table(0));
        };
        // A condition that the search has applied already is not evaluated again.
        let stream = match &self.run {
            Some(run) => run(documents, &variables, done..usize::MAX),
            None => documents,
        };
        Ok(Results::Stream { stream, is_matched })
    }

    /// The results of the stages after those whose results are kept. Returns `None` if none are.
    fn after_prefix(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Results<'i, E>>, E> {
        if let Prefix::Stages(count) = self.prefix {
            self.prefix = self.open_prefix(count, document, variables)?;
        }
        let (Some(run), Prefix::Results { results, count, is_matched }) = (&self.run, &self.prefix) else {
            return Ok(None);
        };
        let Some(kept) = results.read() else {
            // They were too large, so from now on the stages are run for each document.
            self.prefix = Prefix::Absent;
            return Ok(None);
        };
        let stream = run(kept, variables, *count..usize::MAX);
        Ok(Some(Results::Stream { stream, is_matched: *is_matched }))
    }

    /// Opens the first `count` stages. Any document will do, since none changes what they give.
    fn open_prefix(
        &mut self,
        count: usize,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<Prefix<'i, E>, E> {
        // A collection that is read once needs no table, and may use any index.
        let wanted = Wanted { keyed: Keyed::Never, ..self.lookup.wanted(document, variables) };
        let found = self.indexed(&wanted, variables)?;
        // An index for these stages is none for what a document asks for, should they be given up.
        self.is_indexed = false;
        let (documents, done, is_matched) = match found {
            Some(found) => (found, usize::from(self.lookup.condition.is_some()), self.pushed().is_some()),
            None => (self.scan(variables)?, 0, false),
        };
        let Some(run) = &self.run else { return Ok(Prefix::Absent) };
        let stages = run(documents, variables, done..count);
        let results = ConstantPrefix::new(stages, self.variables.operation(), self.position);
        Ok(Prefix::Results { results, count, is_matched })
    }

    /// Results that are known already.
    pub(super) fn again(&self, documents: &Arc<[RawDocumentBuf]>) -> Results<'i, E> {
        // They are shared, and each is copied only when it is asked for.
        let (documents, mut at) = (Arc::clone(documents), 0);
        let all = std::iter::from_fn(move || {
            at += 1;
            documents.get(at - 1).cloned()
        });
        Results::Stream { stream: self.given(all), is_matched: true }
    }

    /// The only value that a document asks for, if there is nothing else: no filter is made for it, and nothing
    /// planned. Returns `None` if it has to be searched for.
    fn by_value(&mut self, document: &RawDocument) -> Result<Option<Results<'i, E>>, E> {
        let Some(Equality { local, foreign }) = self.lookup.only_equality().filter(|_| self.run.is_none())
        else {
            return Ok(None);
        };
        let Some(value) = local_value(document, local) else { return Ok(None) };
        // The table is asked first: it answers for null too, and for what the index has under another key.
        if let Some(table) = &self.table {
            let found = table.find_value(value, &mut self.room, &mut self.found);
            found.map_err(at::<E>(self.position))?;
            return Ok(Some(Results::Table(0)));
        }
        // An index on more than the field may be better for the filter.
        let (Some(from), None) = (&self.lookup.from, &self.matching) else { return Ok(None) };
        // Once: on a snapshot the indexes stay what they are.
        if let FieldIndexState::Unknown = self.index {
            let index = self.foreign.field_index(from, &foreign.path, &self.variables)?;
            self.index = index.map_or(FieldIndexState::Absent, FieldIndexState::Open);
        }
        let FieldIndexState::Open(index) = &mut self.index else { return Ok(None) };
        Ok(index.find(value)?.then_some(Results::Index))
    }

    /// The documents that the pipeline reads. Returns `None` if that is in the table, and there is no pipeline.
    fn documents(&mut self, wanted: Wanted, variables: &Variables) -> Result<Option<Opened<'i, E>>, E> {
        // Without a value for the table, another condition may still have an index.
        if (self.table.is_none() || matches!(wanted.keyed, Keyed::Never))
            && let Some(documents) = self.indexed(&wanted, variables)?
        {
            let done = usize::from(self.lookup.condition.is_some());
            return Ok(Some(Opened { documents, done, is_matched: self.pushed().is_some() }));
        }
        let Keyed::By(field, values) = wanted.keyed else {
            return Ok(Some(Opened { documents: self.scan(variables)?, done: 0, is_matched: false }));
        };
        // Once the table is built, it answers for all documents.
        let table = match self.table.take() {
            Some(table) => table,
            None => self.build(&field.path)?,
        };
        let table = self.table.insert(table);
        table.find(&values, &mut self.room, &mut self.found).map_err(at::<E>(self.position))?;
        if self.run.is_none() && self.lookup.condition.is_none() {
            return Ok(None);
        }
        let documents = Box::new(FoundInTable {
            table: table.clone(),
            found: std::mem::take(&mut self.found).into_iter(),
            current: None,
            read: RawDocumentBuf::new(),
            operation: self.variables.operation().clone(),
            position: self.position,
        });
        // The table found by one equality only, so all stages run, the first `$match` too.
        Ok(Some(Opened { documents, done: 0, is_matched: self.pushed().is_some() }))
    }

    /// The documents that an index finds. Returns `None` if all documents would have to be read.
    fn indexed(&mut self, wanted: &Wanted, variables: &Variables) -> Result<Option<StageInput<'i, E>>, E> {
        let Some(from) = &self.lookup.from else { return Ok(None) };
        let (pushed, ranged) = (self.pushed(), wanted.equalities.as_ref());
        // An index for a range or for the pushed filter alone could read most of the collection, and that for each document. So
        // there must be one for what is equal, which is tried once: the table is built if there is none.
        let is_tried = self.is_indexed || matches!(wanted.keyed, Keyed::Never);
        if !is_tried && (pushed.is_some() || ranged.is_some()) {
            let equal = all_of(ranged.unwrap_or(&wanted.conditions).clone());
            if self.foreign.find(from, &equal, variables)?.is_none() {
                return Ok(None);
            }
        }
        let mut conditions = wanted.conditions.clone();
        conditions.extend(pushed.cloned());
        let filter = all_of(conditions);
        // A filter for everything is a scan, which no index would make shorter.
        let found = if filter.is_empty() { None } else { self.foreign.find(from, &filter, variables)? };
        // Known for all documents: they ask for the same fields.
        self.is_indexed |= found.is_some();
        Ok(found.map(|found| found as StageInput<'i, E>))
    }

    /// The filter of what is found, if it is part of the search.
    fn pushed(&self) -> Option<&RawDocumentBuf> {
        self.matching.as_ref().and_then(|matching| matching.given.as_ref())
    }

    /// All documents of the other collection, or those given in the pipeline.
    fn scan(&self, variables: &Variables) -> Result<StageInput<'i, E>, E> {
        match &self.lookup.from {
            Some(from) => Ok(self.foreign.scan(from, variables)?),
            None => Ok(self.given(self.lookup.documents.clone().into_iter())),
        }
    }

    /// A stream of documents in memory. Rows are counted where they are read, and these are read nowhere.
    fn given(&self, documents: impl Iterator<Item = RawDocumentBuf> + Send + Sync + 'i) -> StageInput<'i, E> {
        let (operation, position) = (self.variables.operation().clone(), self.position);
        Box::new(Given::new(documents.map(move |document| {
            operation.pass(document.as_bytes().len()).map_err(Fault::from).map_err(at::<E>(position))?;
            Ok(document)
        })))
    }

    /// Reads the other collection into a table, as far as the filter wants it.
    fn build(&self, field: &FieldPath) -> Result<ForeignTable, E> {
        let mut table = TableBuilder::new(STAGE, self.variables.operation(), self.variables.collation());
        // Documents that the filter leaves out are found for no document, so they use no memory.
        let indexed = match (&self.lookup.from, self.pushed()) {
            (Some(from), Some(pushed)) => self.foreign.find(from, pushed, &self.variables)?,
            (_, _) => None,
        };
        let is_matched = indexed.is_some() || self.pushed().is_none();
        let mut documents = match indexed {
            Some(found) => found,
            None => self.scan(&self.variables)?,
        };
        while documents.advance()? == Step::Document {
            if is_matched || self.wants(documents.current())? {
                table.add(documents.current(), field).map_err(at::<E>(self.position))?;
            }
        }
        // The memory for reading the collection is free for reading the table.
        drop(documents);
        table.finish().map_err(at::<E>(self.position))
    }
}

impl<E: From<Error>> Stream<E> for FoundInTable {
    fn advance(&mut self) -> Result<Step, E> {
        let at = at::<E>(self.position);
        self.current = self.found.next();
        let Some(position) = self.current else { return Ok(Step::End) };
        self.table.read(position, &mut self.read).map_err(&at)?;
        // Rows are counted where they are read, and these are read nowhere.
        let passed = self.operation.pass(self.table.document(position, &self.read).as_bytes().len());
        passed.map_err(Fault::from).map_err(at)?;
        Ok(Step::Document)
    }

    fn current(&self) -> &RawDocument {
        self.current.map_or(nothing(), |position| self.table.document(position, &self.read))
    }
}
