//! Calls with tokens: each is made twice more, as a client does that got no answer. It happens once in all, and it answers what
//! is stored.

use std::collections::{BTreeMap, BTreeSet};

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Error, WriteConcern};
use cairndb_tests::power::{self, Made};
use cairndb_tests::workload;

/// The calls of all lives that had a token, by their first tags.
#[derive(Default)]
pub(crate) struct Tokens {
    calls: BTreeMap<u64, Call>,
}

/// A call that inserts documents.
#[derive(Clone, Copy, Debug)]
struct Call {
    first: u64,
    /// The number of its documents, if it may insert several.
    count: Option<u64>,
    /// Whether it is known to have happened.
    has_happened: bool,
}

/// What is stored of a call.
#[derive(Debug, Default, PartialEq)]
struct Stored {
    /// Tags, and their `_id`s and versions.
    documents: BTreeMap<u64, (Bson, u64)>,
    /// The numbers of its documents in the two numbered collections.
    values: Vec<i64>,
    invoices: Vec<i64>,
}

impl Tokens {
    /// Notes a call that was begun.
    pub(crate) fn begin(&mut self, first: u64, count: Option<u64>) {
        if power::token(first).is_some() {
            self.calls.insert(first, Call { first, count, has_happened: false });
        }
    }

    /// Notes which calls have happened, by tags of documents that were made.
    pub(crate) fn know(&mut self, made: &BTreeSet<u64>) {
        for call in self.calls.values_mut() {
            call.has_happened |= made.range(call.first..call.end()).next().is_some();
        }
    }

    pub(crate) fn repeat(&self, client: &Client) -> Result<(), String> {
        if !self.calls.is_empty() {
            // A child whose disk ended at once has not made them.
            power::make(client).map_err(text)?;
        }
        self.calls.values().try_for_each(|call| {
            call.repeat(client).map_err(|fault| format!("{call:?}, made again: {fault}"))
        })
    }
}

impl Call {
    fn end(&self) -> u64 {
        self.first + self.count.unwrap_or(1)
    }

    fn repeat(&self, client: &Client) -> Result<(), String> {
        let before = self.stored(client)?;
        let once = self.make(client).map_err(text)?;
        let after = self.stored(client)?;
        if self.has_happened && (once.was_replayed == Some(false) || before != after) {
            return Err(format!("it happened a second time: {before:?}, then {after:?}"));
        }
        let twice = self.make(client).map_err(text)?;
        if twice.was_replayed == Some(false) || self.stored(client)? != after {
            return Err(format!("it happened a third time: {after:?}"));
        }
        let replayed = |made: &Made| Made { was_replayed: None, ..made.clone() };
        if replayed(&once) != replayed(&twice) {
            return Err(format!("{once:?}, and then {twice:?}"));
        }
        after.agrees(self.first, &once)
    }

    fn make(&self, client: &Client) -> Result<Made, Error> {
        let Self { first, count, .. } = *self;
        if let Some(count) = count {
            return power::insert_many(client, first, count, WriteConcern::default());
        }
        let tagged = workload::tagged(client);
        let insert = tagged.insert_one(workload::document(first, 1));
        let done = insert.exactly_once(power::token(first).unwrap_or_default()).run()?;
        let was_replayed = Some(done.was_replayed);
        Ok(Made { ids: vec![done.inserted_id], value: None, invoice: None, was_replayed })
    }

    fn stored(&self, client: &Client) -> Result<Stored, String> {
        let (first, end) = (self.first.cast_signed(), self.end().cast_signed());
        let mut stored = Stored::default();
        let tagged = workload::tagged(client);
        let found = tagged.find(doc! { "tag": { "$gte": first, "$lt": end } }).run().map_err(text)?;
        for document in found {
            let document = document.map_err(text)?;
            let (tag, version) = workload::recognize(&document)?;
            let id = document.get("_id").cloned().unwrap_or(Bson::Null);
            stored.documents.insert(tag, (id, version));
        }
        if self.count.is_some() {
            stored.values = numbers(client, power::NUMBERED, doc! { "first": first })?;
            stored.invoices = numbers(client, power::INVOICES, doc! { "first": first })?;
        }
        Ok(stored)
    }
}

impl Stored {
    /// Whether an answer says what is stored. Documents may have been deleted since, those with numbers never.
    fn agrees(&self, first: u64, made: &Made) -> Result<(), String> {
        let ids = (first..).zip(&made.ids).collect::<BTreeMap<_, _>>();
        let other = self.documents.iter().find(|(tag, (id, _))| ids.get(tag) != Some(&id));
        let is_right = other.is_none()
            && self.values == made.value.into_iter().collect::<Vec<_>>()
            && self.invoices == made.invoice.into_iter().collect::<Vec<_>>();
        if is_right { Ok(()) } else { Err(format!("it answered {made:?}, and {self:?} is stored")) }
    }
}

/// The numbers of the documents of a numbered collection, ascending.
pub(crate) fn numbers(client: &Client, name: &str, filter: Document) -> Result<Vec<i64>, String> {
    let collection = client.database(power::DATABASE).collection::<Document>(name);
    let found = collection.find(filter).sort(doc! { "n": 1 }).run().map_err(text)?;
    let number = |document: Result<Document, Error>| {
        let document = document.map_err(text)?;
        document.get_i64("n").map_err(|error| format!("{error}: {document}"))
    };
    found.map(number).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn text(error: Error) -> String {
    format!("{error:?}")
}
