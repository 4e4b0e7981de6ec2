//! Sequences on their way to a cluster: MongoDB has none, so each becomes a document of a collection of counters, which
//! `cairndb-counters` reads.

use cairndb::bson::{Bson, Document, doc};

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::restore::integer::integer;
use crate::restore::numbers::{Position, position};
use crate::restore::tally::Tally;
use crate::store::Store;

/// The collection of counters by default.
pub(super) const COLLECTION: &str = "counters";

/// A sequence, as the document that it becomes.
#[derive(Debug)]
pub(super) struct Counter {
    /// The database of the document.
    pub(super) database: String,
    pub(super) collection: String,
    pub(super) id: String,
    /// The sequence, for people.
    pub(super) shown: String,
    pub(super) contract: String,
    /// The last value that counts as used. `None` if there is no integer below the first value.
    pub(super) last: Option<i64>,
    increment: i64,
    is_cycled: bool,
    /// The other fields.
    attributes: Document,
}

/// The field of a collection that numbers itself.
pub(super) struct CountedField<'a> {
    /// The database from which its documents are read.
    pub(super) database: &'a str,
    pub(super) collection: &'a str,
    /// As `listAutoIncrements` returns it, with the `snapshot` of its sequence.
    pub(super) declared: &'a Document,
}

impl Counter {
    /// The counter of a sequence.
    pub(super) fn of(at: (String, String), id: String, shown: String, snapshot: &Document) -> Self {
        let number = |name: &str| integer(snapshot.get(name));
        let increment = number("Increment").unwrap_or(1);
        let is_cycled = snapshot.get_bool("Cycled").unwrap_or(false);
        let contract = snapshot.get_str("Contract").unwrap_or("fast").to_owned();
        let last = match position(snapshot) {
            Position::Used(last) => Some(last),
            // The next value is the one that was to come first.
            Position::Unused(first) => first.checked_sub(increment),
        };
        let attributes = doc! {
            "inc": increment,
            "min": number("MinValue").unwrap_or(1),
            "max": number("MaxValue").unwrap_or(i64::MAX),
            "cycled": is_cycled,
            "contract": contract.as_str(),
            "block": number("AcquireSize").unwrap_or(1),
        };
        let (database, collection) = at;
        Self { database, collection, id, shown, contract, last, increment, is_cycled, attributes }
    }

    /// Adds what `cairndb-counters` has to know of a field, whose database and collection have these names in the cluster.
    pub(super) fn of_field(mut self, at: (&str, &str), declared: &Document) -> Self {
        self.attributes.insert("database", at.0);
        self.attributes.insert("collection", at.1);
        self.attributes.insert("field", declared.get_str("Field").unwrap_or_default());
        for (name, told) in [("generated", "Generated"), ("generateOnNull", "GenerateOnNull")] {
            self.attributes.extend(declared.get(told).map(|value| (name.to_owned(), value.clone())));
        }
        self
    }

    /// Moves it beyond the greatest integer that the documents have in the field, if that is further.
    pub(super) fn pass_documents(
        &mut self,
        store: &dyn Store,
        field: &CountedField<'_>,
    ) -> Result<(), Failure> {
        // One that began again is behind the greatest, and goes on where it is.
        let Some(last) = self.last.filter(|_| !self.is_cycled) else { return Ok(()) };
        let path = field.declared.get_str("Field").unwrap_or_default();
        let (beyond, limit, order) =
            if self.increment < 0 { ("$lt", "$gte", 1) } else { ("$gt", "$lte", -1) };
        let end = self.attributes.get_i64(if self.increment < 0 { "min" } else { "max" }).unwrap_or_default();
        let find = doc! {
            "find": field.collection,
            "filter": { path: { beyond: last, limit: end, "$type": ["int", "long"] } },
            "sort": { path: order },
            "limit": 1,
        };
        let mut found = store.stream(field.database, raw(&find)?)?;
        if found.advance()? {
            let greatest = integer_at(found.current().as_bytes(), path);
            self.last = greatest.map(|greatest| term_up_to(last, self.increment, greatest)).or(self.last);
        }
        Ok(())
    }

    /// The name of the counter, for people.
    pub(super) fn name(&self) -> String {
        let Self { database, collection, id, .. } = self;
        format!("{database}.{collection}/{id}")
    }

    /// Makes the document, or moves the one that is there. It never goes back.
    pub(super) fn write(&self, target: &dyn Store, tally: &Tally) -> Result<(), Failure> {
        let Some(last) = self.last else { return Ok(()) };
        let mut set = self.attributes.clone();
        let mut change = Document::new();
        if self.is_cycled {
            set.insert("seq", last);
        } else {
            change.insert(if self.increment < 0 { "$min" } else { "$max" }, doc! { "seq": last });
        }
        change.insert("$set", set);
        let update = doc! {
            "update": self.collection.as_str(),
            "updates": [{ "q": { "_id": self.id.as_str() }, "u": change, "upsert": true }],
            "writeConcern": { "w": "majority", "j": true },
        };
        let reply = target.run(&self.database, raw(&update)?)?;
        let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
        let error = errors.iter().find_map(Bson::as_document);
        let error = error.or(reply.get_document("writeConcernError").ok());
        if let Some(error) = error {
            let (name, message) = (self.name(), error.get_str("errmsg").unwrap_or_default());
            return Err(Failure::new(Exit::Failed, format!("counter {name}: {message}")));
        }
        Tally::add(&tally.sequences, 1);
        Ok(())
    }

    /// Compares what is there.
    pub(super) fn compare(&self, target: &dyn Store, tally: &Tally) -> Result<(), Failure> {
        let Some(last) = self.last else { return Ok(()) };
        let name = self.name();
        let find = doc! { "find": self.collection.as_str(), "filter": { "_id": self.id.as_str() } };
        let mut found = target.stream(&self.database, raw(&find)?)?;
        if !found.advance()? {
            tally.differ(&format!("counter {name}: it is not in the target"));
            return Ok(());
        }
        let there = Document::try_from(found.current()).unwrap_or_default();
        for (field, expected) in &self.attributes {
            if there.get(field) != Some(expected) {
                tally.differ(&format!("counter {name}: its field {field} is not that of the sequence"));
            }
        }
        let seq = integer(there.get("seq"));
        let is_behind = |seq: i64| Position::Used(seq).is_behind(Position::Used(last), self.increment);
        let is_wrong = seq.is_none_or(|seq| if self.is_cycled { seq != last } else { is_behind(seq) });
        if is_wrong {
            let seq = seq.map_or_else(|| "no integer".to_owned(), |seq| seq.to_string());
            tally.differ(&format!("counter {name}: its seq is {seq}, and {last} is used"));
        }
        Ok(())
    }
}

/// The last term of a progression, which has the term `last`, that is not beyond `value`. A counter that was between two
/// terms would leave the progression.
fn term_up_to(last: i64, increment: i64, value: i64) -> i64 {
    let distance = i128::from(value) - i128::from(last);
    let increment = i128::from(increment);
    let term = i128::from(last) + distance / increment * increment;
    // It lies between the two.
    i64::try_from(term).unwrap_or(value)
}

/// The integer at a dotted path through documents.
fn integer_at(document: &[u8], path: &str) -> Option<i64> {
    let mut current = cairndb::bson::RawDocument::from_bytes(document).ok()?;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let value = current.get(name).ok()??;
        if names.peek().is_some() {
            current = value.as_document()?;
            continue;
        }
        return value.as_i64().or_else(|| value.as_i32().map(i64::from));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(more: Document) -> Counter {
        let mut snapshot = doc! {
            "MinValue": 1_i64, "MaxValue": 9_i64, "Increment": 2, "StartValue": 1_i64, "Initial": false, "AcquireSize": 3,
            "Contract": "gapless",
        };
        snapshot.extend(more);
        Counter::of(("shop".into(), "counters".into()), "tickets".into(), String::new(), &snapshot)
    }

    #[test]
    fn a_counter_stands_at_the_last_value_that_was_used() {
        let used = counter(doc! { "UsedUpTo": 5_i64, "CurrentValue": 8_i64 });
        assert_eq!((used.last, used.name().as_str()), (Some(5), "shop.counters/tickets"));
        assert_eq!(
            used.attributes,
            doc! {
                "inc": 2_i64, "min": 1_i64, "max": 9_i64, "cycled": false, "contract": "gapless", "block": 3_i64
            }
        );
        assert_eq!(counter(doc! { "Initial": true, "CurrentValue": 7_i64 }).last, Some(5));
        let lowest = doc! { "Initial": true, "MinValue": i64::MIN, "CurrentValue": i64::MIN };
        assert_eq!(counter(lowest).last, None);
    }

    #[test]
    fn a_counter_stays_in_its_progression() {
        assert_eq!((term_up_to(1, 5, 70), term_up_to(1, 5, 71)), (66, 71));
        assert_eq!((term_up_to(-1, -7, -20), term_up_to(i64::MIN, 2, i64::MAX)), (-15, i64::MAX - 1));
    }

    #[test]
    fn integers_are_found_through_documents_and_not_through_arrays() {
        let bytes = |document: Document| cairndb::bson::serialize_to_vec(&document).unwrap();
        assert_eq!(integer_at(&bytes(doc! { "a": { "b": 5 } }), "a.b"), Some(5));
        assert_eq!(integer_at(&bytes(doc! { "a": [{ "b": 5 }] }), "a.b"), None);
        assert_eq!(integer_at(&bytes(doc! { "a": 5.0 }), "a"), None);
    }
}
