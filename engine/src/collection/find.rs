//! `find` and `find_one`.

use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf};
use query::filter::Filter;
use serde::de::DeserializeOwned;

use crate::collection::Collection;
use crate::cursor::Cursor;
use crate::document::decode::decode_owned;
use crate::error::{Error, Result};
use crate::execute::matches::Matches;
use crate::options::{FindOptions, Hint};
use crate::plan::bounds::{check_hint, point_id};
use crate::storage::Family;
use crate::storage::snapshot::Snapshot;
use crate::write::prepare::record_key;

impl<T> Collection<T> {
    /// The documents that match, in the order of their `_id`s, as they are when `run` is called.
    ///
    /// A filter that is malformed, or that uses an operator which is unknown or not supported, is an error
    /// that names it; an empty filter matches everything.
    pub fn find(&self, filter: Document) -> Find<'_, T> {
        Find { collection: self, filter, options: FindOptions::default() }
    }

    /// The first document that matches, in the order of `_id`s.
    pub fn find_one(&self, filter: Document) -> FindOne<'_, T> {
        FindOne { collection: self, filter, options: FindOptions::default() }
    }
}

/// A `find` that is done by [`run`](Self::run).
#[must_use = "the search is done by run()"]
pub struct Find<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: FindOptions,
}

/// A `find_one` that is done by [`run`](Self::run).
#[must_use = "the search is done by run()"]
pub struct FindOne<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: FindOptions,
}

setters!(Find<'a, T>, FindOptions, {
    /// Accepted: documents are read one by one, so there are no batches to size.
    batch_size: u32,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// At most this many documents; 0 is no limit; a negative number is taken without its sign.
    limit: i64,
    /// Give up with code 50 after this long.
    max_time: Duration,
    /// Skip this many matching documents first.
    skip: u64,
});

setters!(FindOne<'a, T>, FindOptions, {
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Give up with code 50 after this long.
    max_time: Duration,
    /// Skip this many matching documents first.
    skip: u64,
});

impl<T> Find<'_, T> {
    /// Opens a cursor.
    pub fn run(self) -> Result<Cursor<T>> {
        let limit = self.options.limit.map(i64::unsigned_abs).filter(|&limit| limit > 0);
        open(self.collection, &self.filter, &self.options, limit)
    }
}

impl<T: DeserializeOwned + 'static> FindOne<'_, T> {
    /// Reads the document.
    pub fn run(self) -> Result<Option<T>> {
        let plain = self.options.hint.is_none() && self.options.skip.unwrap_or(0) == 0;
        if plain && let Some(id) = point_id(&self.filter) {
            let found = self.collection.read(|database, state| {
                let key = record_key(state.id, id);
                Ok(database.get(Family::Records, &key)?.map(|bytes| (key, bytes.to_vec())))
            });
            // Decoding runs the caller's code, so it comes after the database was let go.
            return found?.flatten().map(|(key, bytes)| deserialize(&key, bytes)).transpose();
        }
        let mut cursor: Cursor<T> = open(self.collection, &self.filter, &self.options, Some(1))?;
        cursor.next().transpose()
    }
}

fn open<T>(
    collection: &Collection<T>,
    filter: &Document,
    options: &FindOptions,
    limit: Option<u64>,
) -> Result<Cursor<T>> {
    let filter = parse_filter(filter)?;
    let opened = collection.read(|database, state| {
        check_hint(options.hint.as_ref(), &state.indexes())?;
        let matches = Matches::open(Snapshot::take(database), state.id, filter, options.max_time)?;
        Ok(Cursor::new(matches, options.skip.unwrap_or(0), limit))
    })?;
    Ok(opened.unwrap_or_else(Cursor::empty))
}

/// Parses a filter, with MongoDB's number for what is wrong with it.
pub(super) fn parse_filter(filter: &Document) -> Result<Filter> {
    let raw = RawDocumentBuf::try_from(filter)?;
    Filter::parse(&raw)
        .map_err(|error| Error::command(error.code(), code_name(error.code()), error.to_string()))
}

/// MongoDB's names for the numbers that a filter's errors have.
fn code_name(code: i32) -> &'static str {
    match code {
        9 => "FailedToParse",
        14 => "TypeMismatch",
        22 => "InvalidBSON",
        238 => "NotImplemented",
        51_074 => "Location51074",
        51_075 => "Location51075",
        51_091 => "Location51091",
        51_108 => "Location51108",
        _ => "BadValue",
    }
}

fn deserialize<T: DeserializeOwned + 'static>(key: &[u8], bytes: Vec<u8>) -> Result<T> {
    let document = RawDocumentBuf::from_bytes(bytes).map_err(|error| {
        Error::corruption(Family::Records.name(), key, format!("the record is not a document: {error}"))
    })?;
    decode_owned(document)
}
