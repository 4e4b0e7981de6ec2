//! The streams of `$lookup`: one that gives each document an array of what is found for it, and one that is the `$lookup` and the
//! `$unwind` of this array in one, which makes a document of each result and never the array.
//!
//! So what is found for one document is limited by the size of a document in the first, and by nothing in the second.

use std::sync::Arc;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::validate::{DOCUMENT_BYTES_MAX, NESTING_MAX, validate};
use index::writer::{Mark, StoredValue, Writer};

use crate::expression::Metadata;
use crate::operation::Reservation;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::foreign_search::{ForeignSearch, Results};
use crate::pipeline::lookup::{Lookup, STAGE};
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::pipeline::unwind::Unwind;

/// The stream of a `$lookup`.
pub(super) struct Joining<'i, E> {
    input: StageInput<'i, E>,
    search: ForeignSearch<'i, E>,
    /// Whether `found` is what every document gets.
    is_known: bool,
    /// The documents that were found for the current document.
    found: Found,
    current: RawDocumentBuf,
}

/// The array of the documents that were found for one document.
struct Found {
    array: Writer,
    start: Mark,
    count: usize,
    /// The size of the documents.
    bytes: usize,
    room: Reservation,
}

impl<'i, E: From<Error> + 'i> Joining<'i, E> {
    pub(super) fn new(input: StageInput<'i, E>, search: ForeignSearch<'i, E>) -> Self {
        let found = Found::new(Reservation::of(search.operation()));
        Self { input, search, is_known: false, found, current: RawDocumentBuf::new() }
    }

    /// Joins the input's current document.
    fn join(&mut self) -> Result<(), E> {
        let at = at::<E>(self.search.position());
        if !self.is_known {
            let mut results = self.search.open(self.input.current())?;
            self.found.begin();
            while results.advance(&mut self.search)? {
                let document = results.current(&self.search);
                self.found.add(document, self.search.lookup()).map_err(&at)?;
            }
            // The stages let go of their memory before the result reserves its own.
            drop(results);
            self.found.end();
            // The results of one document are bounded, so they can be kept.
            self.is_known = self.search.lookup().is_constant();
        }
        self.put().map_err(at)
    }

    /// Makes the current document of the input's and what was found for it.
    fn put(&mut self) -> Result<(), Fault> {
        let array = StoredValue::array(self.found.array.as_bytes());
        // The array is lent, so it is written once: into the joined document.
        self.current = self.search.lookup().place.put(self.input.current(), Some(array))?;
        check(&self.current)
    }
}

impl<'i, E: From<Error> + 'i> Stream<E> for Joining<'i, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let step = self.input.advance()?;
        if step == Step::Document {
            self.join()?;
        }
        Ok(step)
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
        self.search.rest();
    }
}

impl Found {
    fn new(room: Reservation) -> Self {
        let array = Writer::with_capacity(0);
        Self { start: array.mark(), array, count: 0, bytes: 0, room }
    }

    /// Starts an array without documents. The memory of the one before is used again.
    fn begin(&mut self) {
        self.array.revert(self.start);
        self.array.open();
        (self.count, self.bytes) = (0, 0);
    }

    fn add(&mut self, document: &RawDocument, lookup: &Lookup) -> Result<(), Fault> {
        let bytes = document.as_bytes().len();
        // Copying is work: a join of large documents must end in time.
        self.room.operation().pass(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > DOCUMENT_BYTES_MAX {
            let from = crate::value::shorten(lookup.from.as_deref().unwrap_or("$documents"));
            return Err(Fault::JoinTooLarge { stage: STAGE, from, limit: DOCUMENT_BYTES_MAX });
        }
        self.room.grow_by_steps(self.bytes)?;
        self.array.indexed_header(ElementType::EmbeddedDocument, self.count);
        self.array.copy(document.as_bytes());
        self.count += 1;
        Ok(())
    }

    fn end(&mut self) {
        self.array.close(self.start);
    }
}

/// The stream of a `$lookup` and the `$unwind` of its array.
pub(super) struct JoiningUnwound<'i, E> {
    input: StageInput<'i, E>,
    search: ForeignSearch<'i, E>,
    unwind: Unwind,
    /// The position of the `$unwind`.
    position: usize,
    /// The rest of the results for the input's current document.
    results: Option<Results<'i, E>>,
    /// The position of the next result.
    next: i64,
    kept: Kept,
    room: Reservation,
    current: RawDocumentBuf,
}

/// The state of results that every document gets.
enum Kept {
    /// Documents get different ones, or they are too large to be kept.
    Nothing,
    /// Those that were read so far, and their size.
    Some(Vec<RawDocumentBuf>, usize),
    All(Arc<[RawDocumentBuf]>),
}

impl<'i, E: From<Error> + 'i> JoiningUnwound<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        search: ForeignSearch<'i, E>,
        unwind: Unwind,
        position: usize,
    ) -> Self {
        let room = Reservation::of(search.operation());
        let kept = if search.lookup().is_constant() { Kept::Some(Vec::new(), 0) } else { Kept::Nothing };
        let current = RawDocumentBuf::new();
        Self { input, search, unwind, position, results: None, next: 0, kept, room, current }
    }

    /// Opens the results for the input's current document.
    fn open(&mut self) -> Result<(), E> {
        // Positions begin again with each document.
        self.next = 0;
        self.results = Some(match &self.kept {
            Kept::All(documents) => self.search.again(documents),
            Kept::Nothing | Kept::Some(..) => self.search.open(self.input.current())?,
        });
        Ok(())
    }

    /// Makes the current document of the input's and the current result.
    fn take(&mut self) -> Result<(), Fault> {
        let (whole, Some(results)) = (self.input.current(), &self.results) else { return Ok(()) };
        let found = results.current(&self.search);
        // The whole document is copied for each result: without counting, a small pipeline could copy for hours.
        self.search.operation().pass(whole.as_bytes().len() + found.as_bytes().len())?;
        self.kept.add(found, &mut self.room)?;
        let place = &self.search.lookup().place;
        self.current = place.put(whole, Some(StoredValue::document(found)))?;
        check(&self.current)
    }

    /// Makes the current document of one for which nothing was found.
    fn take_empty(&mut self) -> Result<(), Fault> {
        let place = &self.search.lookup().place;
        // As the two stages do it: the empty array comes with the objects on its path, and only the array goes again.
        let empty = place.put(self.input.current(), Some(StoredValue::array(EMPTY_ARRAY)))?;
        self.current = place.put(&empty, None)?;
        Ok(())
    }

    /// Steps to the next result for the input's current document. Returns `false` if there is none.
    fn advance_results(&mut self) -> Result<bool, E> {
        let Some(results) = &mut self.results else { return Ok(false) };
        if results.advance(&mut self.search)? {
            self.take().map_err(at::<E>(self.search.position()))?;
            // MongoDB gives positions as 64-bit integers.
            let set = self.unwind.set_index(&mut self.current, RawBsonRef::Int64(self.next));
            set.map_err(at::<E>(self.position))?;
            self.next += 1;
            return Ok(true);
        }
        // They let go of what they hold before the input goes on.
        self.results = None;
        self.kept.end();
        // With a result the document was returned already.
        if self.next > 0 || !self.unwind.keeps_empty() {
            return Ok(false);
        }
        self.take_empty().map_err(at::<E>(self.search.position()))?;
        let set = self.unwind.set_index(&mut self.current, RawBsonRef::Null);
        set.map_err(at::<E>(self.position))?;
        Ok(true)
    }
}

/// The bytes of an array without elements.
const EMPTY_ARRAY: &[u8] = &[5, 0, 0, 0, 0];

impl<'i, E: From<Error> + 'i> Stream<E> for JoiningUnwound<'i, E> {
    fn advance(&mut self) -> Result<Step, E> {
        loop {
            if self.advance_results()? {
                return Ok(Step::Document);
            }
            let step = self.input.advance()?;
            if step != Step::Document {
                return Ok(step);
            }
            self.open()?;
        }
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
        self.search.rest();
        if let Some(results) = &mut self.results {
            results.rest();
        }
    }
}

/// The minimum size of a level of nesting: the type, the zero byte of an empty name, the length, and the last byte.
const LEVEL_BYTES_MIN: usize = 7;

/// Rejects a result that is larger or deeper than a document may be. It is made of whole values, so its bytes need no check.
fn check(made: &RawDocument) -> Result<(), Fault> {
    // Most are too small to be too deep, and a validation reads the whole document.
    if made.as_bytes().len() <= LEVEL_BYTES_MIN * NESTING_MAX {
        return Ok(());
    }
    validate(made.as_bytes()).map_err(|error| Fault::of_result(STAGE, &error))?;
    Ok(())
}

impl Kept {
    /// Keeps one more result, as long as they use no more memory than a document.
    fn add(&mut self, document: &RawDocument, room: &mut Reservation) -> Result<(), Fault> {
        let Self::Some(documents, bytes) = self else { return Ok(()) };
        *bytes += document.as_bytes().len() + size_of::<RawDocumentBuf>();
        if *bytes > DOCUMENT_BYTES_MAX {
            *self = Self::Nothing;
            return Ok(());
        }
        room.grow_by_steps(*bytes)?;
        documents.push(document.to_owned());
        Ok(())
    }

    /// There are no more results.
    fn end(&mut self) {
        // Only now is it known that these are all.
        if let Self::Some(documents, _) = self {
            *self = Self::All(std::mem::take(documents).into());
        }
    }
}
