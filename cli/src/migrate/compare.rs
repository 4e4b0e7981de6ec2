//! Whether the target has what the source has: documents by their number and their hashes, indexes and options.

use std::collections::HashSet;

use cairndb::bson::{Bson, Document, doc};

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::figures::{DOCUMENTS, PARTS, count, counted};
use crate::fingerprint::Fingerprint;
use crate::migrate::planned::{Moved, VALIDATION, options_of};
use crate::restore::tally::Tally;
use crate::restore::verify::{Sides, index_differences, normal_collation, sorted, stored_indexes};
use crate::store::Store;

const SIDES: Sides = Sides { made: "the target", model: "the source" };
/// The option of collections that only CairnDB has; it is compared as a number.
const OWN_OPTION: &str = "autoIncrement";
/// Receives how many documents were read.
pub(super) type Counting<'a> = dyn Fn(u64) + Sync + 'a;
/// Progress is reported after as many documents.
const TOLD_EACH: u64 = 256;

/// Compares a view, or a collection but for its documents.
pub(super) fn definition(target: &dyn Store, moved: &Moved, tally: &Tally) -> Result<(), Failure> {
    let (planned, namespace) = (&moved.planned, moved.planned.namespace());
    let Some(made) = options_of(target, &planned.database, &planned.name)? else {
        tally.differ(&format!("{namespace}: it is not in the target"));
        return Ok(());
    };
    let metadata = planned.metadata()?;
    if let Some(difference) = option_difference(&namespace, made, metadata.options) {
        tally.differ(&difference);
    }
    if !moved.is_view() {
        let made = stored_indexes(target, &planned.database, &planned.name)?;
        for difference in index_differences(&namespace, made, metadata.indexes, SIDES) {
            tally.differ(&difference);
        }
    }
    Ok(())
}

/// Reads all documents of both sides, at once. Returns the parts that differ.
pub(super) fn documents(
    source: &dyn Store,
    target: &dyn Store,
    moved: &Moved,
    tally: &Tally,
    counting: &Counting<'_>,
) -> Result<HashSet<usize>, Failure> {
    let (found, planned) = (&moved.found, &moved.planned);
    let (model, made) = std::thread::scope(|scope| {
        let model = scope.spawn(|| fingerprint(source, &found.database, &found.name, counting));
        let made = fingerprint(target, &planned.database, &planned.name, counting);
        let ended = || Err(Failure::new(Exit::Failed, "the thread that read the source ended early"));
        (model.join().unwrap_or_else(|_| ended()), made)
    });
    let (model, made) = (model?, made?);
    let namespace = planned.namespace();
    let differing = model.differing(&made);
    if model.documents != made.documents {
        let (made, model) = (made.documents, model.documents);
        tally.differ(&format!(
            "{namespace}: {} in the target, and {} in the source",
            counted(made, DOCUMENTS),
            count(model)
        ));
    } else if !differing.is_empty() {
        let (parts, all) = (count(differing.len() as u64), counted(model.parts() as u64, PARTS));
        tally.differ(&format!("{namespace}: documents differ, in {parts} of {all}"));
    }
    Ok(differing)
}

/// The options and indexes of a collection without documents, or of a view, that would differ in the end.
pub(super) fn conflicts(target: &dyn Store, moved: &Moved) -> Result<Vec<String>, Failure> {
    let (planned, namespace) = (&moved.planned, moved.planned.namespace());
    let Some(mut made) = options_of(target, &planned.database, &planned.name)? else { return Ok(Vec::new()) };
    let mut model = planned.metadata()?;
    if moved.is_view() {
        return Ok(option_difference(&namespace, made, model.options).into_iter().collect());
    }
    // A validator is set at the end; one that nothing would replace stays.
    let has_validator = model.options.contains_key("validator");
    for name in VALIDATION {
        model.options.remove(name);
        if has_validator {
            made.remove(name);
        }
    }
    let mut found: Vec<String> = option_difference(&namespace, made, model.options).into_iter().collect();
    let made = stored_indexes(target, &planned.database, &planned.name)?;
    let name = |index: &Document| index.get_str("name").unwrap_or_default().to_owned();
    model.indexes.retain(|index| made.iter().any(|other| name(other) == name(index)));
    found.extend(index_differences(&namespace, made, model.indexes, SIDES));
    Ok(found)
}

fn fingerprint(
    store: &dyn Store,
    database: &str,
    name: &str,
    counting: &Counting<'_>,
) -> Result<Fingerprint, Failure> {
    let mut fingerprint = Fingerprint::new(1);
    let mut documents = store.stream(database, raw(&doc! { "find": name })?)?;
    while documents.advance()? {
        fingerprint.add(documents.current().as_bytes());
        if fingerprint.documents.is_multiple_of(TOLD_EACH) {
            counting(TOLD_EACH);
        }
    }
    Ok(fingerprint)
}

/// The options that differ, in one line.
fn option_difference(namespace: &str, made: Document, model: Document) -> Option<String> {
    let (made, model) = (comparable(made), comparable(model));
    let names: HashSet<&String> = made.keys().chain(model.keys()).collect();
    let mut names: Vec<&str> =
        names.into_iter().filter(|name| made.get(*name) != model.get(*name)).map(String::as_str).collect();
    names.sort_unstable();
    let plural = if names.len() == 1 { "option" } else { "options" };
    (!names.is_empty()).then(|| format!("{namespace}: other {plural} {} in the target", names.join(", ")))
}

/// Options in a form in which equal ones look the same, of whatever server they are.
fn comparable(mut options: Document) -> Document {
    options.remove(OWN_OPTION);
    let is_empty = |value: &Bson| value.as_document().is_some_and(Document::is_empty);
    if options.get("validator").is_none_or(is_empty) {
        for name in VALIDATION {
            options.remove(name);
        }
    } else {
        // Some servers say what was not asked for.
        options.entry("validationLevel".to_owned()).or_insert_with(|| Bson::String("strict".to_owned()));
        options.entry("validationAction".to_owned()).or_insert_with(|| Bson::String("error".to_owned()));
    }
    if let Some(Bson::Document(collation)) = options.remove("collation")
        && let Some(collation) = normal_collation(&collation)
    {
        options.insert("collation", collation);
    }
    sorted(&options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(made: Document, model: Document, expected: Option<&str>) {
        assert_eq!(option_difference("s.o", made, model).as_deref(), expected);
    }

    #[test]
    fn options_are_compared_by_what_they_mean() {
        let validator = doc! { "a": { "$gte": 0 } };
        let told =
            doc! { "validationAction": "error", "validator": validator.clone(), "validationLevel": "strict" };
        check(told, doc! { "validator": validator.clone() }, None);
        check(doc! { "validator": {} }, doc! {}, None);
        check(doc! {}, doc! { "autoIncrement": [] }, None);
        check(doc! {}, doc! { "collation": { "locale": "simple" } }, None);
        let (short, more) = (
            doc! { "locale": "de" },
            doc! { "locale": "de", "strength": 3, "backwards": false, "version": "57.1" },
        );
        check(doc! { "collation": more }, doc! { "collation": short }, None);
        let other = doc! { "validator": { "a": { "$gte": 1 } } };
        check(other, doc! { "validator": validator }, Some("s.o: other option validator in the target"));
        let (one, two) = (doc! { "x": 1 }, doc! { "y": 1 });
        check(one, two, Some("s.o: other options x, y in the target"));
    }
}
