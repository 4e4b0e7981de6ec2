//! The stable API: `apiVersion: "1"`, and `apiStrict`, with which a command may use nothing outside of that
//! version.

use cairndb::bson::{RawArray, RawBsonRef, RawDocument};
use query::code::Code;

use crate::dispatch::call::Call;
use crate::dispatch::is_stable;
use crate::failure::{Failure, quoted};
use crate::fields::Fields;

/// The fields of the commands of version 1 that are in no version.
const UNSTABLE_FIELDS: [(&str, &[&str]); 3] = [
    ("aggregate", &["exchange", "explain"]),
    ("create", &["autoIncrement", "capped", "indexOptionDefaults", "max", "size", "storageEngine"]),
    (
        "find",
        &[
            "awaitData",
            "max",
            "min",
            "noCursorTimeout",
            "oplogReplay",
            "returnKey",
            "showRecordId",
            "tailable",
        ],
    ),
];
/// The fields of an index that are in no version.
const UNSTABLE_INDEX_FIELDS: [&str; 4] = ["background", "bucketSize", "sparse", "storageEngine"];
/// The stages that are in no version.
const UNSTABLE_STAGES: [&str; 7] = [
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    "$search",
    "$searchMeta",
];

/// Checks the API version that a command declares, and with `apiStrict` that it uses nothing else.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    let fields = call.fields();
    let is_strict = fields.boolean("apiStrict")? == Some(true);
    let shows_errors = fields.boolean("apiDeprecationErrors")? == Some(true);
    match fields.text("apiVersion")? {
        Some("1") => {}
        Some(other) => {
            let message = format!("API version must be \"1\", not {}", quoted(other));
            return Err(Failure::new(Code::API_VERSION_ERROR, message));
        }
        // The options mean nothing without a version; MongoDB rejects them instead of ignoring them.
        None if is_strict || shows_errors => {
            let message = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            return Err(Failure::new(Code::API_VERSION_MISSING, message));
        }
        None => {}
    }
    if is_strict { check_command(call.command.name(), call.command.body()) } else { Ok(()) }
}

fn check_command(name: &str, body: &RawDocument) -> Result<(), Failure> {
    if !is_stable(name) {
        return Err(not_in_version(&format!("the command {name}")));
    }
    let fields = Fields::of(name, body);
    // Fields that are in the version need no list: the engine rejects unknown ones.
    let unstable = UNSTABLE_FIELDS.iter().find(|(command, _)| *command == name);
    for field in unstable.map_or(&[][..], |(_, fields)| fields) {
        refuse_field(fields, field, name)?;
    }
    if let Some(pipeline) =
        body.get("pipeline")?.and_then(RawBsonRef::as_array).filter(|_| name == "aggregate")
    {
        check_stages(pipeline)?;
    }
    if let Some(indexes) =
        body.get("indexes")?.and_then(RawBsonRef::as_array).filter(|_| name == "createIndexes")
    {
        check_indexes(indexes)?;
    }
    // An explained command has to be in the version too, and its own fields count.
    match fields.argument()?.and_then(RawBsonRef::as_document).filter(|_| name == "explain") {
        Some(explained) => match explained.iter().next().transpose()? {
            Some((name, _)) => check_command(name.as_str(), explained),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Rejects a field that is in no version. False and null count as absent.
fn refuse_field(fields: Fields<'_>, field: &str, place: &str) -> Result<(), Failure> {
    match fields.value(field)? {
        None | Some(RawBsonRef::Boolean(false)) => Ok(()),
        Some(_) => Err(not_in_version(&format!("the field '{place}.{field}'"))),
    }
}

fn check_stages(pipeline: &RawArray) -> Result<(), Failure> {
    // Only the stages themselves are looked at: the engine checks what they contain.
    for stage in pipeline {
        let Some(stage) = stage?.as_document() else { continue };
        let Some((name, options)) = stage.iter().next().transpose()? else { continue };
        let name = name.as_str();
        // Of the results of `$collStats` only the count is in the version.
        let counts_only = name != "$collStats"
            || options.as_document().is_some_and(|options| {
                options.iter().all(|option| option.is_ok_and(|(name, _)| name.as_str() == "count"))
            });
        if UNSTABLE_STAGES.contains(&name) || !counts_only {
            return Err(not_in_version(&format!("the stage {name}")));
        }
    }
    Ok(())
}

fn check_indexes(indexes: &RawArray) -> Result<(), Failure> {
    for index in indexes {
        let Some(index) = index?.as_document() else { continue };
        for field in UNSTABLE_INDEX_FIELDS {
            refuse_field(Fields::of("indexes", index), field, "createIndexes.indexes")?;
        }
    }
    Ok(())
}

fn not_in_version(what: &str) -> Failure {
    let message = format!("Provided apiStrict:true, but {what} is not in API Version 1");
    Failure::new(Code::API_STRICT_ERROR, message)
}
