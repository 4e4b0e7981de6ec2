//! Commands of sequences and auto-increment fields. They are CairnDB's own; attributes have SequoiaDB's names.

use base::error::{Error, Result};
use base::names::validate_database;
use bson::{Bson, Document, RawDocumentBuf, doc, serialize_to_document};
use query::expression::Variables;
use sequence::attributes::{OptionValue, integer, text, wrong_type};
use sequence::error::SequenceError;

use crate::arguments::Arguments;
use crate::auto_increment::{AutoIncrement, SequenceOptions, option_value};
use crate::command::context::CommandContext;
use crate::plan::selector::Selector;
use crate::sequences::{Sequence, snapshot_of};

/// `{createAutoIncrement: collection, autoIncrement: {Field: .., ..} or [..]}`.
pub(super) fn create_auto_increment(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
) -> Result<Document> {
    let fields = required_fields(arguments)?;
    context.collection(arguments.target()?).create_auto_increments(fields).run()?;
    Ok(doc! {})
}

/// `{alterAutoIncrement: collection, autoIncrement: {Field: .., ..} or [..]}`.
pub(super) fn alter_auto_increment(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
) -> Result<Document> {
    let fields = required_fields(arguments)?;
    context.collection(arguments.target()?).alter_auto_increments(fields).run()?;
    Ok(doc! {})
}

fn required_fields(arguments: &Arguments<'_>) -> Result<Vec<AutoIncrement>> {
    arguments.allow(&["autoIncrement"])?;
    auto_increments(arguments)?.ok_or_else(|| missing("autoIncrement"))
}

/// The auto-increment fields that a command describes, in one document or an array of documents.
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
pub(super) fn drop_auto_increment(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
) -> Result<Document> {
    arguments.allow(&["field"])?;
    // With the reader of sequence options, so that errors have SequoiaDB's codes too.
    let path = |value: &Bson| Ok(text("field", option_value(value))?.to_owned());
    let given = arguments.given("field").ok_or_else(|| missing("field"))?;
    let paths = match given.as_array() {
        Some(paths) => paths.iter().map(path).collect::<Result<Vec<_>>>()?,
        None => vec![path(given)?],
    };
    context.collection(arguments.target()?).drop_auto_increments(paths).run()?;
    Ok(doc! {})
}

/// `{listAutoIncrements: collection}`.
pub(super) fn list_auto_increments(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
) -> Result<Document> {
    arguments.allow(&[])?;
    let fields = context.collection(arguments.target()?).auto_increments().run()?;
    let fields = fields.iter().map(serialize_to_document).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(doc! { "autoIncrements": fields })
}

/// `{createSequence: name, options: {Increment: .., ..}}`.
pub(super) fn create_sequence(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["options"])?;
    // All fields are read before the store is entered: `close` waits for every operation inside.
    let name = required(arguments, "createSequence", text)?;
    let options = options(arguments)?.unwrap_or_default();
    let database = context.shared.store.enter()?;
    context.shared.store.admit_write()?;
    context.shared.define(&database, |storage| {
        context.shared.catalog.create_sequence(storage, context.db, name, &options.options)
    })?;
    Ok(doc! {})
}

/// `{alterSequence: name, options: {Increment: .., ..}}`.
pub(super) fn alter_sequence(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["options"])?;
    let sequence = named(context, arguments, "alterSequence")?;
    sequence.alter(options(arguments)?.ok_or_else(|| missing("options"))?).run()?;
    Ok(doc! {})
}

/// `{dropSequence: name}`.
pub(super) fn drop_sequence(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let name = required(arguments, "dropSequence", text)?;
    let database = context.shared.store.enter()?;
    context.shared.store.admit_write()?;
    context
        .shared
        .define(&database, |storage| context.shared.catalog.drop_sequence(storage, context.db, name))?;
    Ok(doc! {})
}

/// `{renameSequence: name, to: name}`.
pub(super) fn rename_sequence(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["to"])?;
    let (from, to) = (required(arguments, "renameSequence", text)?, required(arguments, "to", text)?);
    let database = context.shared.store.enter()?;
    context.shared.store.admit_write()?;
    context
        .shared
        .define(&database, |storage| context.shared.catalog.rename_sequence(storage, context.db, from, to))?;
    Ok(doc! {})
}

/// `{listSequences: 1}`: the names of all sequences, including those of auto-increment fields.
pub(super) fn list_sequences(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    validate_database(context.db)?;
    // A closed store rejects, though the catalog in memory could still answer.
    let _in_use = context.shared.store.enter()?;
    let states = context.shared.catalog.sequences.of_database(context.db);
    let names: Vec<Document> = states.iter().map(|state| doc! { "Name": &state.identity.name }).collect();
    Ok(doc! { "sequences": names })
}

/// `{sequenceSnapshot: name}`, or `{sequenceSnapshot: filter}` for all sequences that match, including those of
/// auto-increment fields.
pub(super) fn snapshot(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    match arguments.given("sequenceSnapshot") {
        Some(Bson::Document(filter)) => Ok(doc! { "snapshots": matching(context, filter)? }),
        Some(Bson::String(name)) => {
            let snapshot = context.sequence(name).snapshot().run()?;
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
fn matching(context: &CommandContext<'_>, filter: &Document) -> Result<Vec<Document>> {
    validate_database(context.db)?;
    // Not `Selector::parse`: of a filter by `_id` it keeps the key alone, and snapshots are found by no key.
    let selector = Selector::with_variables(filter, Variables::default())?;
    let _in_use = context.shared.store.enter()?;
    let mut found = Vec::new();
    for state in context.shared.catalog.sequences.of_database(context.db) {
        let snapshot = serialize_to_document(&snapshot_of(&state))?;
        if selector.matches(&RawDocumentBuf::try_from(&snapshot)?)? {
            found.push(snapshot);
        }
    }
    Ok(found)
}

/// `{sequenceGaps: name}`: the values that no caller will ever get, with the cause.
pub(super) fn gaps(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let gaps = named(context, arguments, "sequenceGaps")?.gaps().run()?;
    let gaps = gaps.iter().map(serialize_to_document).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(doc! { "gaps": gaps })
}

/// `{sequenceTrace: name, value: ..}`: what became of a value.
pub(super) fn trace(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (sequence, value) = with_value(context, arguments, "sequenceTrace")?;
    Ok(doc! { "trace": serialize_to_document(&sequence.trace(value).run()?)? })
}

/// `{sequenceNext: name, n: 1}`: `n` values, or fewer if the block ends earlier.
pub(super) fn next(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["n"])?;
    let sequence = named(context, arguments, "sequenceNext")?;
    // Not by `Arguments::integer`: it accepts doubles, which sequences reject as SequoiaDB does.
    let count = arguments.given("n").map_or(Ok(1), |count| integer("n", option_value(count)))?;
    let fetch = sequence.fetch(count);
    // Without a concern the durability of the store holds.
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
pub(super) fn current(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let sequence = named(context, arguments, "sequenceCurrent")?;
    Ok(doc! { "CurrentValue": sequence.current_value().run()? })
}

/// `{sequenceSetCurrent: name, value: ..}`.
pub(super) fn set_current(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (sequence, value) = with_value(context, arguments, "sequenceSetCurrent")?;
    sequence.set_current_value(value).run()?;
    Ok(doc! {})
}

/// `{sequenceRestart: name, value: ..}`.
pub(super) fn restart(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (sequence, value) = with_value(context, arguments, "sequenceRestart")?;
    sequence.restart(value).run()?;
    Ok(doc! {})
}

fn with_value(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
    command: &'static str,
) -> Result<(Sequence, i64)> {
    arguments.allow(&["value"])?;
    Ok((named(context, arguments, command)?, required(arguments, "value", integer)?))
}

/// The sequence that the first field names.
fn named(context: &CommandContext<'_>, arguments: &Arguments<'_>, command: &'static str) -> Result<Sequence> {
    Ok(context.sequence(required(arguments, command, text)?))
}

/// The attributes in the field `options`. Returns `None` if the field is not there.
fn options(arguments: &Arguments<'_>) -> Result<Option<SequenceOptions>> {
    match arguments.given("options") {
        None => Ok(None),
        Some(Bson::Document(options)) => SequenceOptions::try_from(options.clone()).map(Some),
        Some(other) => Err(wrong_type("options", "a document", option_value(other)).into()),
    }
}

/// A required field, read as sequences read their options: errors have the codes of MongoDB and of SequoiaDB.
fn required<'a, T>(
    arguments: &Arguments<'a>,
    field: &'static str,
    read: fn(&'static str, OptionValue<'a>) -> std::result::Result<T, SequenceError>,
) -> Result<T> {
    let given = arguments.given(field).ok_or_else(|| missing(field))?;
    Ok(read(field, option_value(given))?)
}

fn missing(option: &'static str) -> Error {
    // SequoiaDB's error: the commands of sequences fail with its codes next to MongoDB's.
    SequenceError::MissingOption { option }.into()
}
