//! Whether the store has what the dump has: documents by their number and their hashes, indexes, and positions.

use std::collections::HashSet;

use cairndb::bson::{Bson, Document, doc};

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::figures::{DOCUMENTS, PARTS, count, counted};
use crate::fingerprint::Fingerprint;
use crate::restore::integer::integer;
use crate::restore::make::{is_to_make, name_of, prepared_indexes, to_make};
use crate::restore::numbers::{Numbering, existing_fields, position, snapshot_of};
use crate::restore::options::Arguments;
use crate::restore::plan::Planned;
use crate::restore::tally::Tally;
use crate::store::Store;

/// Reads a collection of the store and compares it. Returns the parts whose documents differ.
pub(super) fn collection(
    store: &dyn Store,
    planned: &Planned,
    dumped: &Fingerprint,
    arguments: &Arguments,
    tally: &Tally,
) -> Result<HashSet<usize>, Failure> {
    let namespace = planned.namespace();
    let mut stored = dumped.emptied();
    let mut documents = store.stream(&planned.database, raw(&doc! { "find": planned.name.as_str() })?)?;
    while documents.advance()? {
        stored.add(documents.current().as_bytes());
    }
    let differing = dumped.differing(&stored);
    if stored.documents != dumped.documents {
        let (stored, dumped) = (stored.documents, dumped.documents);
        tally.differ(&format!(
            "{namespace}: {}, and {} in the dump",
            counted(stored, DOCUMENTS),
            count(dumped)
        ));
    } else if !differing.is_empty() {
        let (parts, all) = (count(differing.len() as u64), counted(dumped.parts() as u64, PARTS));
        tally.differ(&format!("{namespace}: documents differ, in {parts} of {all}"));
    }
    if !arguments.no_indexes {
        indexes(store, planned, arguments, tally)?;
    }
    if !arguments.no_sequences {
        fields(store, planned, tally)?;
    }
    // With one part for each of many collections all of their documents would be read into memory.
    Ok(if dumped.parts() > 1 { differing } else { HashSet::new() })
}

fn indexes(
    store: &dyn Store,
    planned: &Planned,
    arguments: &Arguments,
    tally: &Tally,
) -> Result<(), Failure> {
    let sides = Sides { made: "the store", model: "the dump" };
    let stored = stored_indexes(store, &planned.database, &planned.name)?;
    let mut dumped = prepared_indexes(planned, arguments)?;
    // Of what could not be restored it is said, and the store cannot have it.
    dumped.retain(|index| !tally.has_left_out_index(&planned.namespace(), name_of(index)));
    for difference in index_differences(&planned.namespace(), stored, dumped, sides) {
        tally.differ(&difference);
    }
    Ok(())
}

/// The names of the two sides of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    /// The one that was written.
    pub(crate) made: &'static str,
    /// The one that it should be like.
    pub(crate) model: &'static str,
}

/// The indexes of a collection, as `listIndexes` returns them.
pub(crate) fn stored_indexes(
    store: &dyn Store,
    database: &str,
    name: &str,
) -> Result<Vec<Document>, Failure> {
    let mut stored = Vec::new();
    let mut listed = store.stream(database, raw(&doc! { "listIndexes": name })?)?;
    while listed.advance()? {
        let index = Document::try_from(listed.current());
        stored.push(index.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?);
    }
    Ok(stored)
}

/// The indexes that are not the same on both sides, each named.
pub(crate) fn index_differences(
    namespace: &str,
    made: Vec<Document>,
    model: Vec<Document>,
    sides: Sides,
) -> Vec<String> {
    let (made, model) = (compared(made), compared(model));
    let mut found = Vec::new();
    let name = name_of;
    for index in model.iter().filter(|index| !made.contains(index)) {
        let is_there = made.iter().any(|other| name(other) == name(index));
        let what = if is_there { "is another one in" } else { "is not in" };
        found.push(format!("{namespace}, index {}: it {what} {}", name(index), sides.made));
    }
    for index in made.iter().filter(|index| !model.iter().any(|other| name(other) == name(index))) {
        found.push(format!("{namespace}, index {}: it is not in {}", name(index), sides.model));
    }
    found
}

/// Indexes in a form in which equal ones look the same, of whatever server they are.
fn compared(indexes: Vec<Document>) -> Vec<Document> {
    indexes.into_iter().filter(is_to_make).map(|index| normal_index(&to_make(index).index)).collect()
}

/// Options that are true, or absent.
const FLAGS: [&str; 4] = ["unique", "sparse", "hidden", "prepareUnique"];

/// An index without what it would be anyway: flags that are not set, and a collation in full that compares bytes. A flag that
/// is set may be a number, and of a collation what is not said has the value that servers return.
fn normal_index(index: &Document) -> Document {
    let mut normal = sorted(index);
    for name in FLAGS {
        let Some(value) = normal.remove(name) else { continue };
        if is_set(&value) {
            normal.insert(name, true);
        }
    }
    if let Some(Bson::Document(collation)) = normal.remove("collation")
        && let Some(collation) = normal_collation(&collation)
    {
        normal.insert("collation", collation);
    }
    sorted(&normal)
}

fn is_set(value: &Bson) -> bool {
    let is_absent = matches!(value, Bson::Null | Bson::Undefined);
    value.as_bool().unwrap_or(!is_absent && integer(Some(value)) != Some(0))
}

/// A collation with everything that is not said; `None` if it is the comparison by bytes, which is that of no collation.
pub(crate) fn normal_collation(collation: &Document) -> Option<Document> {
    let locale = collation.get_str("locale").unwrap_or_default();
    if locale == "simple" {
        return None;
    }
    let mut normal = doc! {
        "caseLevel": false,
        "caseFirst": "off",
        "strength": 3_i64,
        "numericOrdering": false,
        "alternate": "non-ignorable",
        "maxVariable": "punct",
        "normalization": false,
        // The rule of Canadian French, in which accents are compared from the end.
        "backwards": locale == "fr_CA",
    };
    // The version is that of the tables of the server, which no other one has.
    for (name, value) in collation.iter().filter(|(name, _)| *name != "version") {
        normal.insert(name, plain(value));
    }
    Some(sorted(&normal))
}

/// Options by their names, and numbers that are whole as such. The order of keys and filters stays.
pub(crate) fn sorted(index: &Document) -> Document {
    let mut options: Vec<(String, Bson)> =
        index.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    options.sort_by(|one, other| one.0.cmp(&other.0));
    options.into_iter().collect()
}

fn plain(value: &Bson) -> Bson {
    if let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15) {
        // Exact: it is whole, and in the range of integers that a double has.
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        return Bson::Int64(number as i64);
    }
    if let Some(number) = integer(Some(value)) {
        return Bson::Int64(number);
    }
    if let Some(document) = value.as_document() {
        return Bson::Document(document.iter().map(|(name, value)| (name.clone(), plain(value))).collect());
    }
    value.clone()
}

/// Compares the auto-increment fields.
pub(crate) fn fields(store: &dyn Store, planned: &Planned, tally: &Tally) -> Result<(), Failure> {
    let numbered = planned.metadata()?.numbered;
    if numbered.is_empty() {
        return Ok(());
    }
    let existing = existing_fields(store, planned)?;
    for field in &numbered {
        let path = field.get_str("Field").unwrap_or_default();
        let shown = format!("{}, field {path}", planned.namespace());
        let Some(there) = existing.iter().find(|other| other.get_str("Field").ok() == Some(path)) else {
            tally.differ(&format!("{shown}: it is not an auto-increment field in the store"));
            continue;
        };
        let name = there.get_str("SequenceName").unwrap_or_default();
        let there = snapshot_of(store, &planned.database, name)?;
        if let Ok(dumped) = field.get_document("snapshot") {
            positions(&shown, dumped, &there, tally);
        }
    }
    Ok(())
}

/// Compares a sequence.
pub(crate) fn sequence(store: &dyn Store, numbering: &Numbering, tally: &Tally) -> Result<(), Failure> {
    let shown = format!("{}, sequence {}", numbering.database, numbering.name);
    if !numbering.is_there(store)? {
        tally.differ(&format!("{shown}: it is not in the store"));
        return Ok(());
    }
    let there = snapshot_of(store, &numbering.database, &numbering.name)?;
    positions(&shown, &numbering.snapshot, &there, tally);
    Ok(())
}

fn positions(shown: &str, dumped: &Document, there: &Document, tally: &Tally) {
    let increment = integer(dumped.get("Increment")).unwrap_or(1);
    if position(there).is_behind(position(dumped), increment) {
        let (there, dumped) = (position(there), position(dumped));
        tally.differ(&format!("{shown}: it {}, and {} in the dump", told(there), told(dumped)));
    }
}

fn told(position: crate::restore::numbers::Position) -> String {
    use crate::restore::numbers::Position::{Unused, Used};

    match position {
        Unused(next) => format!("is unused, to begin with {next}"),
        Used(value) => format!("is used up to {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: Sides = Sides { made: "the store", model: "the dump" };

    #[track_caller]
    fn check(made: Document, model: Document, is_same: bool) {
        let with = |mut index: Document| {
            index.insert("name", "a_1");
            index.insert("key", doc! { "a": 1 });
            vec![index]
        };
        let found = index_differences("s.o", with(made), with(model), SIDES);
        assert_eq!(found.is_empty(), is_same, "{found:?}");
    }

    #[test]
    fn indexes_are_compared_by_what_they_mean() {
        check(doc! { "sparse": true }, doc! { "sparse": 1 }, true);
        check(doc! { "sparse": true }, doc! { "sparse": 1.0 }, true);
        check(doc! { "sparse": true }, doc! { "sparse": 0 }, false);
        check(doc! {}, doc! { "sparse": false, "unique": false, "hidden": false, "background": true }, true);
        check(doc! {}, doc! { "unique": 1 }, false);
        check(doc! { "unique": true }, doc! { "unique": true, "v": 1, "ns": "s.o" }, true);
        check(doc! { "expireAfterSeconds": 60 }, doc! { "expireAfterSeconds": 60.0 }, true);
        check(doc! { "expireAfterSeconds": 60 }, doc! { "expireAfterSeconds": 61 }, false);
        check(doc! {}, doc! { "collation": { "locale": "simple" } }, true);
    }

    #[test]
    fn a_collation_by_its_locale_alone_is_the_one_that_is_told_in_full() {
        let full = |locale: &str| {
            doc! { "collation": {
                "locale": locale, "caseLevel": false, "caseFirst": "off", "strength": 3, "numericOrdering": false,
                "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
                "version": "57.1",
            } }
        };
        check(full("de"), doc! { "collation": { "locale": "de" } }, true);
        check(full("de"), doc! { "collation": { "locale": "de", "strength": 3.0 } }, true);
        check(full("de"), doc! { "collation": { "locale": "de", "strength": 2 } }, false);
        check(full("de"), doc! { "collation": { "locale": "en" } }, false);
        check(full("de"), doc! {}, false);
    }
}
