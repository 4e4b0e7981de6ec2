//! Sequences, and the auto-increment fields, with their positions: no value that was used before the dump is
//! given again.

use cairndb::bson::{Document, doc};

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::restore::integer::integer;
use crate::restore::make::declared_fields;
use crate::restore::plan::Planned;
use crate::restore::tally::{Tally, refusal};
use crate::store::Store;

/// The common fields of a snapshot and of the options of a sequence.
const ATTRIBUTES: [&str; 8] =
    ["Increment", "StartValue", "MinValue", "MaxValue", "CacheSize", "AcquireSize", "Cycled", "Contract"];

/// The position of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// No value was used, and this is the first.
    Unused(i64),
    /// All values up to this one count as used.
    Used(i64),
}

/// The position that a snapshot contains.
pub(crate) fn position(snapshot: &Document) -> Position {
    let number = |name: &str| integer(snapshot.get(name));
    let (min, max) = (number("MinValue").unwrap_or(i64::MIN), number("MaxValue").unwrap_or(i64::MAX));
    let limit = if number("Increment").unwrap_or(1) < 0 { min } else { max };
    let current = number("CurrentValue").or(number("StartValue")).unwrap_or(1);
    let used = number("UsedUpTo").or((!snapshot.get_bool("Initial").unwrap_or(false)).then_some(current));
    match used {
        // Limits that were changed may leave it outside, which is the same as having used all values.
        Some(used) if !(min..=max).contains(&used) => Position::Used(limit),
        Some(used) => Position::Used(used),
        None if !(min..=max).contains(&current) => Position::Used(limit),
        None => Position::Unused(current),
    }
}

impl Position {
    /// Whether a sequence that is here may give a value that one at `other` has used.
    pub(crate) fn is_behind(self, other: Self, increment: i64) -> bool {
        match (self, other) {
            (_, Self::Unused(_)) => false,
            (Self::Unused(_), Self::Used(_)) => true,
            (Self::Used(own), Self::Used(other)) => {
                if increment < 0 {
                    own > other
                } else {
                    own < other
                }
            }
        }
    }
}

/// The options of `createAutoIncrement` that make a field of a dump.
pub(crate) fn field_options(field: &Document) -> Document {
    let Ok(snapshot) = field.get_document("snapshot") else {
        // The options that a server of CairnDB returned to mongodump.
        return start_from_existing(field.clone());
    };
    let mut options = Document::new();
    for name in ["Field", "Generated", "GenerateOnNull", "OnTruncate"] {
        options.extend(field.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    options.extend(attributes(snapshot));
    if let Position::Used(used) = position(snapshot) {
        options.insert("UsedUpTo", used);
    }
    start_from_existing(options)
}

/// Starts after the greatest value that documents have, if the dump says less.
fn start_from_existing(mut options: Document) -> Document {
    // A cycled sequence that began again goes on after a smaller value than the greatest, and nothing says whether it did
    // in the store before the one that was dumped.
    let goes_around = options.get_bool("Cycled").unwrap_or(false) && options.contains_key("UsedUpTo");
    options.insert("StartFromExisting", !goes_around);
    options
}

/// Makes the fields of a collection that number themselves, whose documents are there.
pub(crate) fn fields(store: &dyn Store, planned: &Planned, tally: &Tally) -> Result<(), Failure> {
    let metadata = planned.metadata()?;
    let told =
        if metadata.numbered.is_empty() { declared_fields(&metadata.options) } else { metadata.numbered };
    if told.is_empty() {
        return Ok(());
    }
    let existing = existing_fields(store, planned)?;
    for field in told {
        let path = field.get_str("Field").unwrap_or_default();
        let done = match existing.iter().find(|other| other.get_str("Field").ok() == Some(path)) {
            Some(existing) => advance_field(store, planned, &field, existing),
            None => create_field(store, planned, &field),
        };
        match done {
            Ok(()) => Tally::add(&tally.fields, 1),
            Err(failure) => {
                let failure = refusal(failure)?;
                let namespace = planned.namespace();
                tally.leave_out(&format!(
                    "{namespace}, auto-increment field {path}: {}",
                    planned.told(&failure.message)
                ));
            }
        }
    }
    Ok(())
}

fn create_field(store: &dyn Store, planned: &Planned, field: &Document) -> Result<(), Failure> {
    let command = doc! { "createAutoIncrement": planned.filled(), "autoIncrement": field_options(field) };
    store.run(&planned.database, raw(&command)?).map(drop)
}

/// Moves a field that is there to the position of the dump, if that is further.
fn advance_field(
    store: &dyn Store,
    planned: &Planned,
    field: &Document,
    existing: &Document,
) -> Result<(), Failure> {
    let snapshot = field.get_document("snapshot").unwrap_or(field);
    let name = existing.get_str("SequenceName").unwrap_or_default();
    let there = snapshot_of(store, &planned.database, name)?;
    let Some(value) = further(snapshot, &there) else { return Ok(()) };
    let path = field.get_str("Field").unwrap_or_default();
    let change = doc! { "Field": path, "CurrentValue": value };
    let command = doc! { "alterAutoIncrement": planned.filled(), "autoIncrement": change };
    store.run(&planned.database, raw(&command)?).map(drop)
}

/// The fields of a collection, as `listAutoIncrements` returns them. A store without such fields has none.
pub(crate) fn existing_fields(store: &dyn Store, planned: &Planned) -> Result<Vec<Document>, Failure> {
    let list = raw(&doc! { "listAutoIncrements": planned.filled() })?;
    let reply = match store.run(&planned.database, list) {
        Ok(reply) => reply,
        Err(failure) => {
            refusal(failure)?;
            return Ok(Vec::new());
        }
    };
    let fields = reply.get_array("autoIncrements").map(Vec::as_slice).unwrap_or_default();
    Ok(fields.iter().filter_map(|field| field.as_document().cloned()).collect())
}

pub(crate) fn snapshot_of(store: &dyn Store, database: &str, name: &str) -> Result<Document, Failure> {
    let reply = store.run(database, raw(&doc! { "sequenceSnapshot": name })?)?;
    Ok(reply.get_document("snapshot").cloned().unwrap_or_default())
}

/// A sequence of a dump, under the name that it gets.
#[derive(Debug)]
pub(crate) struct Numbering {
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) snapshot: Document,
}

/// The treatment of a sequence that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfThere {
    Drop,
    Advance,
    Refuse,
}

impl Numbering {
    fn shown(&self) -> String {
        format!("{}, sequence {}", self.database, self.name)
    }

    /// Whether the store has a sequence of this name.
    pub(crate) fn is_there(&self, store: &dyn Store) -> Result<bool, Failure> {
        let filter = doc! { "Name": self.name.as_str(), "Internal": false };
        match store.run(&self.database, raw(&doc! { "sequenceSnapshot": filter })?) {
            Ok(reply) => Ok(reply.get_array("snapshots").is_ok_and(|snapshots| !snapshots.is_empty())),
            Err(failure) => refusal(failure).map(|_| false),
        }
    }

    /// Rejects a sequence that is there already.
    pub(crate) fn check(&self, store: &dyn Store) -> Result<(), Failure> {
        if self.is_there(store)? {
            let message = format!("{} is there: give --drop, or --into-existing", self.shown());
            return Err(Failure::new(Exit::Failed, message));
        }
        Ok(())
    }

    /// Makes the sequence, or moves the one that is there.
    pub(crate) fn make(&self, store: &dyn Store, if_there: IfThere, tally: &Tally) -> Result<(), Failure> {
        let made = match (self.is_there(store)?, if_there) {
            (true, IfThere::Drop) => self
                .run(store, &doc! { "dropSequence": self.name.as_str() })
                .and_then(|()| self.create(store)),
            (true, IfThere::Advance) => self.advance(store),
            (true, IfThere::Refuse) | (false, _) => self.create(store),
        };
        match made {
            Ok(()) => Tally::add(&tally.sequences, 1),
            Err(failure) => {
                let failure = refusal(failure)?;
                tally.leave_out(&format!("{}: {}", self.shown(), failure.message));
            }
        }
        Ok(())
    }

    fn create(&self, store: &dyn Store) -> Result<(), Failure> {
        let name = self.name.as_str();
        let mut options = attributes(&self.snapshot);
        let position = position(&self.snapshot);
        if let Position::Used(used) = position {
            // As it is made, and not by a change afterwards: that would pass over values, which the ledger calls lost.
            options.insert("UsedUpTo", used);
        }
        self.run(store, &doc! { "createSequence": name, "options": options })?;
        match position {
            // It was restarted, or starts where it was declared to.
            Position::Unused(next) if integer(self.snapshot.get("StartValue")) != Some(next) => {
                self.run(store, &doc! { "sequenceRestart": name, "value": next })
            }
            Position::Used(_) | Position::Unused(_) => Ok(()),
        }
    }

    fn advance(&self, store: &dyn Store) -> Result<(), Failure> {
        let there = snapshot_of(store, &self.database, &self.name)?;
        match further(&self.snapshot, &there) {
            Some(value) => {
                let change =
                    doc! { "alterSequence": self.name.as_str(), "options": { "CurrentValue": value } };
                self.run(store, &change)
            }
            None => Ok(()),
        }
    }

    fn run(&self, store: &dyn Store, command: &Document) -> Result<(), Failure> {
        store.run(&self.database, raw(command)?).map(drop)
    }
}

/// The value to move a sequence to that is there, if the dump's is further.
fn further(dumped: &Document, there: &Document) -> Option<i64> {
    let increment = integer(there.get("Increment")).unwrap_or(1);
    match position(dumped) {
        wanted @ Position::Used(value) if position(there).is_behind(wanted, increment) => Some(value),
        Position::Used(_) | Position::Unused(_) => None,
    }
}

fn attributes(snapshot: &Document) -> Document {
    let attribute = |name: &str| Some((name.to_owned(), snapshot.get(name)?.clone()));
    ATTRIBUTES.into_iter().filter_map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use cairndb::bson::Bson;

    use super::*;

    #[track_caller]
    fn check(more: Document, expected: Position) {
        let mut snapshot =
            doc! { "MinValue": 1_i64, "MaxValue": 9, "Increment": 1, "StartValue": 1, "Initial": false };
        snapshot.extend(more);
        assert_eq!(position(&snapshot), expected);
    }

    #[test]
    fn positions_come_from_what_was_used() {
        check(doc! { "UsedUpTo": 5_i64, "CurrentValue": 8_i64 }, Position::Used(5));
        check(doc! { "UsedUpTo": Bson::Null, "CurrentValue": 8_i64 }, Position::Used(8));
        check(doc! { "Initial": true, "CurrentValue": 7 }, Position::Unused(7));
        check(doc! { "Initial": true, "CurrentValue": 70 }, Position::Used(9));
        check(doc! { "UsedUpTo": 70 }, Position::Used(9));
        check(doc! { "UsedUpTo": 70, "Increment": -1 }, Position::Used(1));
    }

    #[test]
    fn behind_is_what_may_give_a_value_again() {
        let (three, five) = (Position::Used(3), Position::Used(5));
        assert!(three.is_behind(five, 1) && !five.is_behind(three, 1) && five.is_behind(three, -1));
        assert!(Position::Unused(1).is_behind(three, 1) && !three.is_behind(Position::Unused(9), 1));
    }
}
