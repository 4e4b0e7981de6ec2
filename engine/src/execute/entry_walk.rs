//! A walk over the entries of an index within bounds, and the records that they name.
//!
//! Bounds on fields that cannot narrow the range of keys are tested on the entry's key, before its record is read. Where a key is
//! shortened, only the record says whether it is within the bounds.

use std::sync::Arc;

use base::error::{Error, Result};
use bson::{RawBsonRef, RawDocument};
use index::entry_document::{EntryDocuments, EntryParts};
use index::extract::has_values_within;
use index::interval::Intervals;
use index::key::{Direction, encode};
use index::key_bounds::{KeyBounds, KeyVerdict};
use index::range::Exactness;
use index::spec::IndexSpec;
use query::operation::OperationContext;
use query::planner::{EntryAnswer, EntryScan};
use store::Family;
use store::keys::{CollectionId, ID_BYTES};
use store::leaf::Entry;
use store::snapshot::Snapshot;

use crate::catalog::indexes::Index;
use crate::document::decode::{EMPTY, is_framed, stored};
use crate::execute::entry_shape::EntryShape;
use crate::execute::examined::Examined;
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::record_fetch::RecordFetch;
use crate::execute::rest::Rest;
use crate::plan::bounds::KeySpans;
use crate::plan::selector::Selector;

/// A walk over entries. It is before the first one until `advance` is called.
pub(super) struct EntryWalk {
    walk: KeyWalk,
    records: Box<RecordFetch>,
    /// The bounds that each key is tested with. Absent if every key is within them, and the key need not be decoded to find
    /// the record either, because the value of a unique entry names it.
    bounds: Option<KeyBounds>,
    shape: EntryShape,
    record_key: Vec<u8>,
    current: Fields,
    document: Vec<u8>,
    /// Present if of the matches with equal values one is enough.
    distinct: Option<Distinct>,
    /// Whether the current document is a match, so that the next ones with equal values in these fields are not wanted.
    is_found: bool,
    /// Boxed: most scans have none.
    answer: Option<Box<Answer>>,
    /// Whether the document of every entry within the bounds matches.
    decides: bool,
    /// Whether every entry of the spans is within the bounds, and nothing is asked about it but for its own document.
    is_straight: bool,
    /// Present if the bounds are a range that the caller gave, so that no filter says whether a document is within them.
    given: Option<Box<GivenBounds>>,
}

/// Bounds that the caller gave, with the index that they are about.
struct GivenBounds {
    spec: IndexSpec,
    sets: Vec<Intervals>,
}

/// The fields of the current key. Many entries of an index have the same fields and differ in their `_id` only: what was found
/// out about the fields of one is true of the next.
#[derive(Default)]
struct Fields {
    /// As they are in the key.
    bytes: Vec<u8>,
    verdict: KeyVerdict,
    /// Whether the entry before had the same fields.
    is_repeated: bool,
}

impl Fields {
    /// Goes on to the fields at the front of `key`. Returns `None` if there are none.
    fn advance(&mut self, key: &[u8], bounds: Option<&KeyBounds>) -> Option<()> {
        // The bytes of a field are never the beginning of those of another one, so these are the same fields.
        self.is_repeated = !self.bytes.is_empty() && key.starts_with(&self.bytes);
        if !self.is_repeated {
            let (length, verdict) = match bounds {
                Some(bounds) => bounds.check(key)?,
                None => (key.len(), KeyVerdict::Within),
            };
            key.get(..length)?.clone_into(&mut self.bytes);
            self.verdict = verdict;
        }
        Some(())
    }
}

/// The answer of the entries, with the reader of their documents.
struct Answer {
    plan: EntryAnswer,
    documents: EntryDocuments,
    /// Whether the current document was made of its entry.
    is_given: bool,
    /// The verdict of the entry from which the current document was made.
    last: LastVerdict,
}

/// Which matches are wanted, if not all are.
struct Distinct {
    /// The number of leading fields that distinguish them.
    fields: usize,
    /// Null as the last of these fields. It is the key of a missing field too, so it distinguishes nothing.
    null: Vec<u8>,
}

impl Distinct {
    fn of(index: &Index, fields: usize) -> Option<Self> {
        let last = index.spec.fields().get(fields.checked_sub(1)?)?;
        let mut null = Vec::new();
        encode(RawBsonRef::Null, last.direction, &mut null);
        Some(Self { fields, null })
    }
}

/// The verdict of an entry on its document. The next one says the same if it has the same fields and details.
#[derive(Default)]
struct LastVerdict {
    details: Vec<u8>,
    /// Absent if the current document is another one.
    verdict: Option<EntryVerdict>,
}

/// The verdict of an entry within the bounds on its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryVerdict {
    /// The document matches, and the current document has what is needed of it.
    Answered,
    /// The document does not match.
    NoMatch,
    /// The document matches, and must be read.
    Match,
    /// The document must be read, and tested.
    Unknown,
}

/// The result of a step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryStep {
    /// An entry within the bounds; the record key is that of its document.
    Within,
    /// An entry with a field that is not within the bounds.
    Outside,
    /// A key was looked up, and no such entry exists.
    Absent,
    End,
}

impl EntryWalk {
    /// Opens a walk over an index of a collection. The snapshot must have the entries of the index.
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        index: &Index,
        scan: &EntryScan,
        operation: &OperationContext,
    ) -> Self {
        let (spans, exactness) = KeySpans::of_entries(index, &scan.bounds);
        // After the snapshot: it has no shortened key if none was announced until now.
        let has_shortened = index.arrays.announced().iter().any(|marks| marks.has_shortened());
        // Even if all keys are within the bounds, those of a plain index are decoded: the `_id` is after the fields.
        let bounds = match exactness {
            Exactness::Exact if has_shortened => Some(KeyBounds::of(&index.spec, &scan.bounds)),
            Exactness::Exact if index.spec.is_unique() => None,
            Exactness::Exact => Some(KeyBounds::unbounded(&index.spec)),
            Exactness::Wider => Some(KeyBounds::of(&index.spec, &scan.bounds)),
        };
        let given = (scan.is_given && has_shortened)
            .then(|| Box::new(GivenBounds { spec: index.spec.clone(), sets: scan.bounds.clone() }));
        let answers = |answer: &EntryAnswer| answer.covers && answer.residual.is_none();
        let is_straight = matches!(exactness, Exactness::Exact)
            && !has_shortened
            && scan.distinct.is_none()
            && scan.answer.as_ref().is_none_or(answers);
        Self {
            walk: KeyWalk::new(snapshot, Family::Entries, spans, scan.direction, operation).by_leaves(index),
            records: Box::new(RecordFetch::new(snapshot, collection, operation)),
            bounds,
            shape: EntryShape::of(&index.spec),
            record_key: collection.prefix().to_vec(),
            current: Fields::default(),
            document: Vec::new(),
            distinct: scan.distinct.and_then(|fields| Distinct::of(index, fields)),
            is_found: false,
            answer: scan.answer.clone().map(|plan| {
                let documents = EntryDocuments::of(&index.spec, &plan.fields, plan.has_id);
                Box::new(Answer { documents, plan, is_given: false, last: LastVerdict::default() })
            }),
            decides: scan.decides,
            is_straight,
            given,
        }
    }

    /// Steps to the next entry.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<EntryStep> {
        // The verdict on the last entry says nothing of the next one, even if that is outside of the bounds.
        if let Some(answer) = &mut self.answer {
            answer.is_given = false;
        }
        match self.walk.advance()? {
            KeyStep::End => return Ok(EntryStep::End),
            KeyStep::Absent => return Ok(EntryStep::Absent),
            KeyStep::Scanned | KeyStep::LookedUp => {}
        }
        let (key, value) = (self.walk.key(), self.walk.value());
        let malformed =
            || Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index");
        // An entry without these bytes is damage, and not the caller's mistake.
        let fields = key.get(ID_BYTES..).ok_or_else(malformed)?;
        self.current.advance(fields, self.bounds.as_ref()).ok_or_else(malformed)?;
        if self.current.verdict == KeyVerdict::Outside {
            return Ok(EntryStep::Outside);
        }
        // A unique entry has the `_id` at the start of its value, a plain one at the end of its key.
        let id = if self.shape.is_unique {
            let length = self.shape.long_keys.skip(value, Direction::Ascending).map_err(|_| malformed())?;
            value.get(..length)
        } else {
            fields.get(self.current.bytes.len()..)
        };
        // The prefix of the collection stays; only the `_id` differs from entry to entry.
        self.record_key.truncate(ID_BYTES);
        self.record_key.extend_from_slice(id.ok_or_else(malformed)?);
        Ok(EntryStep::Within)
    }

    /// Steps to the next entry of the same leaf, and tests its document unless the entry answers or decides: a step of most walks, without
    /// what only some of them need. Returns whether it matches, and `None` if the next entry is to be found by
    /// [`advance`](Self::advance).
    #[inline]
    pub(super) fn advance_straight(
        &mut self,
        selector: &Selector,
        examined: &mut Examined,
    ) -> Result<Option<bool>> {
        if !self.is_straight {
            return Ok(None);
        }
        let Self { walk, record_key, document, answer, shape, .. } = self;
        let Some(Entry { key, value, edge }) = walk.next_in_leaf() else { return Ok(None) };
        examined.keys += 1;
        let malformed =
            || Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index");
        let (fields, id, details) = if shape.is_unique {
            (key.get(ID_BYTES..), value.get(..edge), value.get(edge..))
        } else {
            (key.get(ID_BYTES..edge), key.get(edge..), Some(value))
        };
        let id = id.filter(|id| edge > 0 && !id.is_empty()).ok_or_else(malformed)?;
        record_key.truncate(ID_BYTES);
        record_key.extend_from_slice(id);
        let operation = selector.variables().operation();
        if let Some(answer) = answer {
            answer.last.verdict = None;
            // To count, nothing but the entry itself is needed.
            if !answer.plan.reads_entries() {
                answer.is_given = true;
                EMPTY.clone_into(document);
                operation.step()?;
                return Ok(Some(true));
            }
            let (fields, details) = fields.zip(details).ok_or_else(malformed)?;
            let entry = EntryParts { fields, id, details };
            answer.is_given = answer.documents.read(entry, document).map_err(|_| malformed())?;
            if answer.is_given {
                operation.pass(document.len())?;
                return Ok(Some(true));
            }
        }
        if !self.records.read(record_key, document)? {
            return Err(self.without_document());
        }
        examined.documents += 1;
        operation.pass(document.len())?;
        let is_match = self.decides && is_framed(document);
        Ok(Some(is_match || selector.matches(stored(record_key, document)?)?))
    }

    /// The verdict of the current entry, which is within the bounds, on its document.
    pub(super) fn judge(&mut self, selector: &Selector) -> Result<EntryVerdict> {
        if self.current.verdict != KeyVerdict::Within {
            self.forget();
            return Ok(EntryVerdict::Unknown);
        }
        // Then every document is read, and only those are tested whose entries do not decide.
        let Some(answer) = &mut self.answer else {
            return Ok(if self.decides { EntryVerdict::Match } else { EntryVerdict::Unknown });
        };
        // To count, nothing but the entry itself is needed.
        if !answer.plan.reads_entries() {
            answer.is_given = true;
            EMPTY.clone_into(&mut self.document);
            return Ok(EntryVerdict::Answered);
        }
        let (key, value) = (self.walk.key(), self.walk.value());
        let malformed =
            || Error::corruption(Family::Entries.name(), key, "the bytes are not an entry of its index");
        let id = self.record_key.get(ID_BYTES..).ok_or_else(malformed)?;
        // The value of a unique entry has the `_id` in front.
        let details = if self.shape.is_unique { value.get(id.len()..) } else { Some(value) };
        let details = details.ok_or_else(malformed)?;
        // Its document is overwritten otherwise.
        let last = answer.last.verdict.take();
        if let Some(verdict) = last.filter(|_| self.current.is_repeated && answer.last.details == details) {
            selector.variables().operation().pass(self.document.len())?;
            answer.is_given = verdict == EntryVerdict::Answered;
            answer.last.verdict = last;
            return Ok(verdict);
        }
        let entry = EntryParts { fields: &self.current.bytes, id, details };
        if !answer.documents.read(entry, &mut self.document).map_err(|_| malformed())? {
            return Ok(EntryVerdict::Unknown);
        }
        let document = RawDocument::from_bytes(&self.document).map_err(|_| malformed())?;
        let operation = selector.variables().operation();
        operation.pass(self.document.len())?;
        let is_match = match &answer.plan.residual {
            Some(residual) => residual.matches_within(document, operation)?,
            None => true,
        };
        answer.is_given = is_match && answer.plan.covers;
        let verdict = match (is_match, answer.plan.covers) {
            (false, _) => EntryVerdict::NoMatch,
            (true, true) => EntryVerdict::Answered,
            (true, false) => EntryVerdict::Unknown,
        };
        if !answer.plan.has_id {
            details.clone_into(&mut answer.last.details);
            answer.last.verdict = Some(verdict);
        }
        Ok(verdict)
    }

    /// Whether the current document was made of its entry, and has only the fields that are needed.
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.is_given && answer.plan.is_exact)
    }

    /// The current document is a match.
    pub(super) fn found(&mut self) {
        self.is_found = true;
    }

    /// Goes on after all entries with the same values as the current one, if its document is a match and one is enough.
    #[inline]
    pub(super) fn skip_equal(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_found) && self.distinct.is_some() { self.skip_found() } else { Ok(()) }
    }

    fn skip_found(&mut self) -> Result<()> {
        let Some(Distinct { fields, null }) = &self.distinct else { return Ok(()) };
        let Some((start, end)) = self.prefix_bytes(fields - 1).zip(self.prefix_bytes(*fields)) else {
            return Ok(());
        };
        if self.walk.key().get(start..end) != Some(null) {
            self.walk.skip_prefix(end)?;
        }
        Ok(())
    }

    /// The length of the current key up to the end of its first fields.
    fn prefix_bytes(&self, fields: usize) -> Option<usize> {
        self.shape.prefix_bytes(self.walk.key(), fields)
    }

    /// The current key after its first fields.
    pub(super) fn key_after(&self, fields: usize) -> &[u8] {
        let bytes = self.prefix_bytes(fields).unwrap_or(ID_BYTES);
        self.walk.key().get(bytes..).unwrap_or_default()
    }

    /// Whether only the document says whether the current entry is within a range that the caller gave.
    pub(super) fn needs_values(&self) -> bool {
        self.given.is_some() && self.current.verdict == KeyVerdict::Unknown
    }

    /// Whether the values of the current entry, in the document that was read, are within the range that the caller gave.
    #[cold]
    pub(super) fn has_values_within(&self) -> Result<bool> {
        let Some(given) = &self.given else { return Ok(true) };
        let problem = || {
            let problem = "the document has no such key";
            Error::corruption(Family::Entries.name(), self.walk.key(), problem)
        };
        let document = RawDocument::from_bytes(&self.document).map_err(|_| problem())?;
        has_values_within(&given.spec, document, &self.current.bytes, &given.sets)
            .map_err(|_| problem())?
            .ok_or_else(problem)
    }

    /// Reads the document of the current entry.
    pub(super) fn fetch(&mut self) -> Result<()> {
        self.forget();
        if self.records.read(&self.record_key, &mut self.document)? {
            return Ok(());
        }
        Err(self.without_document())
    }

    /// The error for a current entry whose document does not exist.
    #[cold]
    fn without_document(&self) -> Error {
        // Both are from one snapshot and were written in one batch, so this is not a race.
        let problem = "the entry's document does not exist";
        Error::corruption(Family::Entries.name(), self.walk.key(), problem)
    }

    /// The record key that the current entry names.
    pub(super) fn record_key(&self) -> &[u8] {
        &self.record_key
    }

    /// The bytes of the document that was read last.
    pub(super) fn document(&self) -> &[u8] {
        &self.document
    }

    /// Releases what the storage holds for the walk until it is advanced again.
    pub(super) fn rest(&mut self, current: Rest) {
        self.walk.rest(current);
        self.records.rest();
        if current != Rest::Keep {
            self.document = Vec::new();
            self.forget();
        }
    }

    /// The current document is no longer the one of which something was said.
    fn forget(&mut self) {
        if let Some(answer) = &mut self.answer {
            answer.last.verdict = None;
        }
    }
}
