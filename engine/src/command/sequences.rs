//! Commands of sequences and auto-increment fields, which are CairnDB's own, with SequoiaDB's words for attributes.

use bson::{Bson, Document, RawDocumentBuf, doc, serialize_to_document};
use query::expression::Variables;
use sequence::attributes::{OptionValue, integer, text, wrong_type};
use sequence::error::SequenceError;

use crate::auto_increment::{AutoIncrement, SequenceOptions, option_value};
use crate::command::Place;
use crate::command::arguments::Arguments;
use crate::error::{Error, Result};
use crate::namespace::validate_database;
use crate::plan::selector::Selector;
use crate::sequences::{Sequence, snapshot_of};

/// `{createAutoIncrement: collection, autoIncrement: {Field: .., ..} or [..]}`.
pub(super) fn create_auto_increment(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let fields = required_fields(arguments)?;
    place.collection(arguments.target()?).create_auto_increments(fields).run()?;
    Ok(doc! {})
}

/// `{alterAutoIncrement: collection, autoIncrement: {Field: .., ..} or [..]}`.
pub(super) fn alter_auto_increment(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let fields = required_fields(arguments)?;
    place.collection(arguments.target()?).alter_auto_increments(fields).run()?;
    Ok(doc! {})
}

fn required_fields(arguments: &Arguments<'_>) -> Result<Vec<AutoIncrement>> {
    arguments.allow(&["autoIncrement"])?;
    auto_increments(arguments)?.ok_or_else(|| missing("autoIncrement"))
}

/// The fields that a command describes, by one document or an array of them.
pub(super) fn auto_increments(arguments: &Arguments<'_>) -> Result<Option<Vec<AutoIncrement>>> {
    let Some(given) = arguments.given("autoIncrement") else { return Ok(None) };
    let field = |item: &Bson| {
        if let Some(options) = item.as_document() {
            return AutoIncrement::try_from(options.clone());
        }
        let expected = "a document or an array of documents";
        Err(wrong_type("autoIncrement", expected, option_value(item)).into())
    };
    match given.as_array() {
        Some(items) => items.iter().map(field).collect::<Result<_>>().map(Some),
        None => Ok(Some(vec![field(given)?])),
    }
}

/// `{dropAutoIncrement: collection, field: path or [paths]}`.
pub(super) fn drop_auto_increment(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["field"])?;
    let path = |value: &Bson| Ok(text("field", option_value(value))?.to_owned());
    let given = arguments.given("field").ok_or_else(|| missing("field"))?;
    let paths = match given.as_array() {
        Some(paths) => paths.iter().map(path).collect::<Result<Vec<_>>>()?,
        None => vec![path(given)?],
    };
    place.collection(arguments.target()?).drop_auto_increments(paths).run()?;
    Ok(doc! {})
}

/// `{listAutoIncrements: collection}`.
pub(super) fn list_auto_increments(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let fields = place.collection(arguments.target()?).auto_increments().run()?;
    let fields = fields.iter().map(serialize_to_document).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(doc! { "autoIncrements": fields })
}

/// `{createSequence: name, options: {Increment: .., ..}}`.
pub(super) fn create_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["options"])?;
    let name = required(arguments, "createSequence", text)?;
    let options = options(arguments)?.unwrap_or_default();
    let database = place.shared.store.enter()?;
    place.shared.store.admit_write()?;
    let storage = place.shared.storage(&database);
    place.shared.catalog.create_sequence(storage, place.db, name, &options.options)?;
    Ok(doc! {})
}

/// `{alterSequence: name, options: {Increment: .., ..}}`.
pub(super) fn alter_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["options"])?;
    let sequence = named(place, arguments, "alterSequence")?;
    sequence.alter(options(arguments)?.ok_or_else(|| missing("options"))?).run()?;
    Ok(doc! {})
}

/// `{dropSequence: name}`.
pub(super) fn drop_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let name = required(arguments, "dropSequence", text)?;
    let database = place.shared.store.enter()?;
    place.shared.store.admit_write()?;
    place.shared.catalog.drop_sequence(place.shared.storage(&database), place.db, name)?;
    Ok(doc! {})
}

/// `{renameSequence: name, to: name}`.
pub(super) fn rename_sequence(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["to"])?;
    let (from, to) = (required(arguments, "renameSequence", text)?, required(arguments, "to", text)?);
    let database = place.shared.store.enter()?;
    place.shared.store.admit_write()?;
    let storage = place.shared.storage(&database);
    place.shared.catalog.rename_sequence(storage, place.db, from, to)?;
    Ok(doc! {})
}

/// `{listSequences: 1}`: the names of all, those behind auto-increment fields as well.
pub(super) fn list_sequences(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    validate_database(place.db)?;
    let _in_use = place.shared.store.enter()?;
    let states = place.shared.catalog.sequences.of_database(place.db);
    let names: Vec<Document> = states.iter().map(|state| doc! { "Name": &state.identity.name }).collect();
    Ok(doc! { "sequences": names })
}

/// `{sequenceSnapshot: name}`, or `{sequenceSnapshot: filter}` for all that match, those behind auto-increment fields as
/// well.
pub(super) fn snapshot(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    match arguments.given("sequenceSnapshot") {
        Some(Bson::Document(filter)) => Ok(doc! { "snapshots": matching(place, filter)? }),
        Some(Bson::String(name)) => {
            let snapshot = place.sequence(name).snapshot().run()?;
            Ok(doc! { "snapshot": serialize_to_document(&snapshot)? })
        }
        Some(other) => {
            let expected = "the name of a sequence or a filter";
            Err(wrong_type("sequenceSnapshot", expected, option_value(other)).into())
        }
        None => Err(missing("sequenceSnapshot")),
    }
}

/// The snapshots that match a filter, ascending by name.
fn matching(place: &Place<'_>, filter: &Document) -> Result<Vec<Document>> {
    validate_database(place.db)?;
    // Of the filter alone, because one by `_id` is not looked at otherwise.
    let selector = Selector::with_variables(filter, Variables::default())?;
    let _in_use = place.shared.store.enter()?;
    let mut found = Vec::new();
    for state in place.shared.catalog.sequences.of_database(place.db) {
        let snapshot = serialize_to_document(&snapshot_of(&state))?;
        if selector.matches(&RawDocumentBuf::try_from(&snapshot)?)? {
            found.push(snapshot);
        }
    }
    Ok(found)
}

/// `{sequenceNext: name, n: 1}`: that many values, or fewer if a block ends before.
pub(super) fn next(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["n"])?;
    let sequence = named(place, arguments, "sequenceNext")?;
    let count = arguments.given("n").map_or(Ok(1), |count| integer("n", option_value(count)))?;
    let fetch = sequence.fetch(count);
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
    arguments.allow(&[])?;
    let sequence = named(place, arguments, "sequenceCurrent")?;
    Ok(doc! { "CurrentValue": sequence.current_value().run()? })
}

/// `{sequenceSetCurrent: name, value: ..}`.
pub(super) fn set_current(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (sequence, value) = with_value(place, arguments, "sequenceSetCurrent")?;
    sequence.set_current_value(value).run()?;
    Ok(doc! {})
}

/// `{sequenceRestart: name, value: ..}`.
pub(super) fn restart(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (sequence, value) = with_value(place, arguments, "sequenceRestart")?;
    sequence.restart(value).run()?;
    Ok(doc! {})
}

fn with_value(
    place: &Place<'_>,
    arguments: &Arguments<'_>,
    command: &'static str,
) -> Result<(Sequence, i64)> {
    arguments.allow(&["value"])?;
    Ok((named(place, arguments, command)?, required(arguments, "value", integer)?))
}

/// The sequence whose name follows the command's.
fn named(place: &Place<'_>, arguments: &Arguments<'_>, command: &'static str) -> Result<Sequence> {
    Ok(place.sequence(required(arguments, command, text)?))
}

/// The attributes in the field `options`, if it is there.
fn options(arguments: &Arguments<'_>) -> Result<Option<SequenceOptions>> {
    match arguments.given("options") {
        None => Ok(None),
        Some(Bson::Document(options)) => SequenceOptions::try_from(options.clone()).map(Some),
        Some(other) => Err(wrong_type("options", "a document", option_value(other)).into()),
    }
}

/// A field that must be there, read as sequences read their options: refusals have the numbers of both worlds.
fn required<'a, T>(
    arguments: &Arguments<'a>,
    field: &'static str,
    read: fn(&'static str, OptionValue<'a>) -> std::result::Result<T, SequenceError>,
) -> Result<T> {
    let given = arguments.given(field).ok_or_else(|| missing(field))?;
    Ok(read(field, option_value(given))?)
}

fn missing(option: &'static str) -> Error {
    SequenceError::MissingOption { option }.into()
}
