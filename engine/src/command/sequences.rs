//! Commands of sequences and auto-increment fields, which are CairnDB's own, with SequoiaDB's words for attributes.

use bson::{Bson, Document, doc, serialize_to_document};

use crate::auto_increment::{AutoIncrement, SequenceOptions};
use crate::codes::refused;
use crate::command::Place;
use crate::command::arguments::Arguments;
use crate::error::Result;
use crate::namespace::validate_database;

/// `{createAutoIncrement: collection, autoIncrement: {Field: .., ..} or [..]}`.
pub(super) fn create_auto_increment(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let fields = auto_increments(arguments)?;
    place.collection(arguments.target()?).create_auto_increments(fields).run()?;
    Ok(doc! {})
}

/// `{alterAutoIncrement: collection, autoIncrement: {Field: .., ..} or [..]}`.
pub(super) fn alter_auto_increment(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let fields = auto_increments(arguments)?;
    place.collection(arguments.target()?).alter_auto_increments(fields).run()?;
    Ok(doc! {})
}

fn auto_increments(arguments: &Arguments<'_>) -> Result<Vec<AutoIncrement>> {
    arguments.allow(&["autoIncrement"], &[])?;
    arguments.no_max_time()?;
    let fields = arguments.one_or_more("autoIncrement")?;
    fields.into_iter().map(|field| AutoIncrement::try_from(field.clone())).collect()
}

/// `{dropAutoIncrement: collection, field: path or [paths]}`.
pub(super) fn drop_auto_increment(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["field"], &[])?;
    arguments.no_max_time()?;
    let wrong =
        |found: &Bson| refused(14, format!("'field' must be a path or an array of paths, not {found}"));
    let path = |value: &Bson| value.as_str().map(str::to_owned).ok_or_else(|| wrong(value));
    let given = arguments.given("field").ok_or_else(|| arguments.missing("field"))?;
    let paths = match given.as_array() {
        Some(paths) => paths.iter().map(path).collect::<Result<Vec<_>>>()?,
        None => vec![path(given)?],
    };
    place.collection(arguments.target()?).drop_auto_increments(paths).run()?;
    Ok(doc! {})
}

/// `{listAutoIncrements: collection}`.
pub(super) fn list_auto_increments(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[], &[])?;
    let fields = place.collection(arguments.target()?).auto_increments().run()?;
    let fields = fields.iter().map(serialize_to_document).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(doc! { "autoIncrements": fields })
}

/// `{createSequence: name, options: {Increment: .., ..}}`.
pub(super) fn create_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["options"], &[])?;
    arguments.no_max_time()?;
    let options = SequenceOptions::try_from(arguments.document("options")?.cloned().unwrap_or_default())?;
    let database = place.shared.store.enter()?;
    place.shared.store.admit_write()?;
    let storage = place.shared.storage(&database);
    place.shared.catalog.create_sequence(storage, place.db, arguments.target()?, &options.options)?;
    Ok(doc! {})
}

/// `{alterSequence: name, options: {Increment: .., ..}}`.
pub(super) fn alter_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["options"], &[])?;
    arguments.no_max_time()?;
    let options = arguments.document("options")?.ok_or_else(|| arguments.missing("options"))?;
    let options = SequenceOptions::try_from(options.clone())?;
    place.sequence(arguments.target()?).alter(options).run()?;
    Ok(doc! {})
}

/// `{dropSequence: name}`.
pub(super) fn drop_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[], &[])?;
    arguments.no_max_time()?;
    let database = place.shared.store.enter()?;
    place.shared.store.admit_write()?;
    place.shared.catalog.drop_sequence(place.shared.storage(&database), place.db, arguments.target()?)?;
    Ok(doc! {})
}

/// `{renameSequence: name, to: name}`.
pub(super) fn rename_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["to"], &[])?;
    arguments.no_max_time()?;
    let to = arguments.text("to")?.ok_or_else(|| arguments.missing("to"))?;
    let database = place.shared.store.enter()?;
    place.shared.store.admit_write()?;
    let storage = place.shared.storage(&database);
    place.shared.catalog.rename_sequence(storage, place.db, arguments.target()?, to)?;
    Ok(doc! {})
}

/// `{listSequences: 1}`: the names of all, those behind auto-increment fields as well.
pub(super) fn list_sequences(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[], &[])?;
    validate_database(place.db)?;
    let _in_use = place.shared.store.enter()?;
    let states = place.shared.catalog.sequences.of_database(place.db);
    let names: Vec<Document> = states.iter().map(|state| doc! { "Name": &state.identity.name }).collect();
    Ok(doc! { "sequences": names })
}

/// `{sequenceSnapshot: name}`.
pub(super) fn snapshot(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[], &[])?;
    let snapshot = place.sequence(arguments.target()?).snapshot().run()?;
    Ok(doc! { "snapshot": serialize_to_document(&snapshot)? })
}

/// `{sequenceNext: name, n: 1}`: that many values, or fewer if a block ends before.
pub(super) fn next(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["n"], &[])?;
    arguments.no_max_time()?;
    let sequence = place.sequence(arguments.target()?);
    let fetch = sequence.fetch(arguments.integer("n")?.unwrap_or(1));
    let fetched = match arguments.write_concern()? {
        Some(concern) => fetch.write_concern(concern).run()?,
        None => fetch.run()?,
    };
    Ok(doc! {
        "NextValue": fetched.next_value,
        "ReturnNum": fetched.return_num,
        "Increment": fetched.increment,
    })
}

/// `{sequenceCurrent: name}`.
pub(super) fn current(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[], &[])?;
    Ok(doc! { "CurrentValue": place.sequence(arguments.target()?).current_value().run()? })
}

/// `{sequenceSetCurrent: name, value: ..}`.
pub(super) fn set_current(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    place.sequence(arguments.target()?).set_current_value(value(arguments)?).run()?;
    Ok(doc! {})
}

/// `{sequenceRestart: name, value: ..}`.
pub(super) fn restart(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    place.sequence(arguments.target()?).restart(value(arguments)?).run()?;
    Ok(doc! {})
}

fn value(arguments: &Arguments<'_>) -> Result<i64> {
    arguments.allow(&["value"], &[])?;
    arguments.no_max_time()?;
    arguments.integer("value")?.ok_or_else(|| arguments.missing("value"))
}
