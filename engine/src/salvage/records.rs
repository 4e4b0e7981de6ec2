//! Copying documents: each that is valid and stored under the key of its `_id`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base::error::Result;
use bson::RawDocument;
use index::key::{FIELD_BYTES_MAX, LongKeys};
use index::validate::validate;
use store::keys::{CollectionId, position_of, split_id};
use store::salvage::Newest;
use store::write::{Batch, CommitLevel};
use store::{Database, Family, Store};

use crate::audit::outcomes::damage_of_result;
use crate::command::repeated;
use crate::outcomes::generations;
use crate::outcomes::once;
use crate::outcomes::retryable;
use crate::outcomes::row::{Row, SessionKey, now_millis};
use crate::outcomes::token_row::{self, TokenRow};
use crate::salvage::catalog::{FoundCatalog, FoundCollection};
use crate::salvage::report::{Refusal, SalvageReport};
use crate::write::prepare::{encoded_id, record_key_of};

/// Bytes after which documents are committed.
const BATCH_BYTES: usize = 1 << 20;

/// Copies documents into a new store.
pub(super) struct Copier<'a> {
    store: &'a Store,
    database: &'a Database,
    batch: Batch<'a>,
    /// Documents of collections that were dropped.
    pub(super) dropped: u64,
    pub(super) documents: u64,
    /// How many tokens of each generation have lost the results of their calls.
    lost_results: BTreeMap<u32, u64>,
    /// The keys of the rows of each session of which one is damaged: from the first one on, and before the second one.
    damaged_sessions: BTreeSet<(Vec<u8>, Option<Vec<u8>>)>,
    /// Rows of which it is not known whose they were.
    nameless_outcomes: u64,
    /// The time of the first row of each generation of tokens.
    generations: BTreeMap<u32, u64>,
}

impl<'a> Copier<'a> {
    pub(super) fn new(store: &'a Store, database: &'a Database) -> Self {
        Self {
            store,
            database,
            batch: Batch::new(database),
            dropped: 0,
            documents: 0,
            lost_results: BTreeMap::new(),
            damaged_sessions: BTreeSet::new(),
            nameless_outcomes: 0,
            generations: BTreeMap::new(),
        }
    }

    /// Copies a document, or notes why it is not copied.
    pub(super) fn take(&mut self, catalog: &mut FoundCatalog, found: &Newest<'_>) -> Result<()> {
        let Some(value) = found.value else { return Ok(()) };
        let Some((id, _)) = split_id(found.key) else {
            catalog.notes.push("a record has a key without a collection".to_owned());
            return Ok(());
        };
        if catalog.dropped.contains(&id) {
            self.dropped += 1;
            return Ok(());
        }
        let collection = catalog.collection(id);
        let document = match checked(CollectionId(id), collection.long_keys, found.key, value) {
            Ok((document, keyed)) => {
                collection.long_keys = collection.long_keys.or(keyed);
                collection.has_shortened |= keyed == Some(LongKeys::Shortened);
                document
            }
            Err(reason) => {
                refuse(collection, found.key, reason);
                return Ok(());
            }
        };
        for field in &mut collection.fields {
            if let Some(value) = integer_at(document, field.field.segments()) {
                let (lowest, highest) = field.found.unwrap_or((value, value));
                field.found = Some((lowest.min(value), highest.max(value)));
            }
        }
        let report = &mut collection.report;
        report.documents += 1;
        report.document_bytes += value.len() as u64;
        report.may_be_old += u64::from(found.may_be_old);
        self.documents += 1;
        self.batch.put(Family::Records, found.key, value);
        if self.batch.bytes() >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    /// Copies the position of a document of a capped collection.
    pub(super) fn take_position(&mut self, orders: &BTreeSet<u32>, found: &Newest<'_>) -> Result<()> {
        let is_order = split_id(found.key).is_some_and(|(id, _)| orders.contains(&id));
        if let Some(value) = found.value.filter(|_| is_order && position_of(found.key).is_some()) {
            self.batch.put(Family::Entries, found.key, value);
        }
        if self.batch.bytes() >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    /// Copies what a repeated write is answered from.
    pub(super) fn take_outcome(&mut self, found: &Newest<'_>) -> Result<()> {
        let Some(value) = found.value else { return Ok(()) };
        if let Some(generation) = token_row::generation_of(found.key) {
            self.take_token(generation, found.key, value);
        } else {
            self.take_row_of_session(found.key, value);
        }
        if self.batch.bytes() >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    /// Copies a row of a session, unless it is damaged: then the session is noted.
    fn take_row_of_session(&mut self, key: &[u8], value: &[u8]) {
        let row = Row::decode(key, value);
        if row.is_ok_and(|row| retryable::statements_of(key, &row).is_ok()) {
            self.batch.put(Family::Outcomes, key, value);
        } else if let Some(session) = SessionKey::of_row(key) {
            self.damaged_sessions.insert(session.rows());
        } else {
            self.nameless_outcomes += 1;
        }
    }

    /// Copies the row of a token. Of one whose result is lost the token is kept, so that its call is not run a second time.
    fn take_token(&mut self, generation: u32, key: &[u8], value: &[u8]) {
        let row = TokenRow::decode(key, value).ok();
        let millis = row.as_ref().map_or_else(now_millis, |row| row.millis);
        if row.is_some_and(|row| damage_of_result(row, repeated::damage).is_none()) {
            self.batch.put(Family::Outcomes, key, value);
        } else {
            self.batch.put(Family::Outcomes, key, &once::without_result(millis));
            *self.lost_results.entry(generation).or_default() += 1;
        }
        let first = self.generations.entry(generation).or_insert(millis);
        *first = millis.min(*first);
    }

    /// Stages the two newest generations of tokens, which alone are remembered. `listed` has the times when they began; of others it is
    /// known when their first row was made. Returns what has to be known of the rows.
    pub(super) fn keep_outcomes(&mut self, listed: &BTreeMap<u32, u64>) -> Vec<String> {
        let mut known = std::mem::take(&mut self.generations);
        known.extend(listed);
        let newest: Vec<(u32, u64)> = known.into_iter().rev().take(2).collect();
        for (number, began) in &newest {
            self.batch.put(Family::Meta, &generations::meta_key(*number), &began.to_be_bytes());
        }
        if let Some((oldest, _)) = newest.last() {
            let (first, _) = token_row::keys_of(None);
            let (end, _) = token_row::keys_of(Some(*oldest));
            self.batch.delete_range(Family::Outcomes, &first, &end);
        }
        // All of a session's rows: what is left of a command would say that the rest of it did not happen.
        for (first, end) in &self.damaged_sessions {
            self.batch.delete_range(Family::Outcomes, first, end.as_deref().unwrap_or_default());
        }
        let lost: u64 = newest.iter().filter_map(|(number, _)| self.lost_results.get(number)).sum();
        [
            (lost, "results of calls with tokens are lost: such a call fails if it comes again"),
            (
                self.damaged_sessions.len() as u64,
                "sessions of drivers have damaged rows, which were left: their last write is run if it comes again",
            ),
            (self.nameless_outcomes, "rows of repeated writes have damaged keys, and were left"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }

    /// Commits the documents that are left, and what `stage` adds.
    pub(super) fn finish(mut self, stage: impl FnOnce(&mut Batch<'_>) -> Result<u64>) -> Result<u64> {
        let sequences = stage(&mut self.batch)?;
        self.commit()?;
        Ok(sequences)
    }

    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Batch::new(self.database));
        self.store.commit(batch, CommitLevel::Buffered)
    }
}

/// The document of a record, if it is what a record must be, and what its key has of a long `_id`. A short one does not say it.
fn checked<'a>(
    collection: CollectionId,
    long_keys: Option<LongKeys>,
    key: &[u8],
    value: &'a [u8],
) -> std::result::Result<(&'a RawDocument, Option<LongKeys>), String> {
    let document = validate(value).map_err(|error| error.to_string())?;
    let id = document.id().ok_or("it has no _id")?;
    let whole = record_key_of(collection, LongKeys::Whole, id);
    let is_long = encoded_id(&whole).len() > FIELD_BYTES_MAX;
    // Both are tried where the catalog does not say it.
    let tried = [LongKeys::Shortened, LongKeys::Whole].into_iter();
    let mut tried = tried.filter(|tried| long_keys.is_none_or(|long_keys| long_keys == *tried));
    let is_key = |tried: &LongKeys| {
        if is_long { record_key_of(collection, *tried, id) == key } else { whole == key }
    };
    let Some(keyed) = tried.find(is_key) else {
        return Err("its key is not the one of its _id".to_owned());
    };
    // 4: right after the length of the document. Reads rely on the `_id` being first.
    if document.id_element().is_none_or(|element| element.start != 4) {
        return Err("_id is not its first field".to_owned());
    }
    Ok((document.as_raw(), is_long.then_some(keyed)))
}

fn refuse(collection: &mut FoundCollection, key: &[u8], reason: String) {
    let report = &mut collection.report;
    report.refused += 1;
    if report.refusals.len() < SalvageReport::LISTED_MAX {
        let key = key.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        report.refusals.push(Refusal { key, reason });
    }
}

/// The integer at a path of fields.
fn integer_at<'a>(document: &RawDocument, path: impl Iterator<Item = &'a str>) -> Option<i64> {
    let mut path = path.peekable();
    let mut at = document;
    while let Some(field) = path.next() {
        let value = at.get(field).ok().flatten()?;
        if path.peek().is_none() {
            return value.as_i64().or_else(|| value.as_i32().map(i64::from));
        }
        at = value.as_document()?;
    }
    None
}
