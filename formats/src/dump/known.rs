//! The names that descriptions in dumps have, in one place. A dump with another name is damaged or was changed: read all the
//! same, it would make a collection without the index or option that the name stood for, and not say so.
//!
//! Names that users have chosen, as those of the fields of an index, and what is in filters and pipelines is for the
//! store to reject.

use bson::{Bson, Document};

use crate::refusal::{Refusal, shown};

/// The field in which CairnDB's own things stand.
pub const CARRIED: &str = "cairndb";

/// The fields that mongodump writes of a collection.
const METADATA: &[&str] = &["options", "indexes", "uuid", "collectionName", "type", CARRIED];
const PRELUDE: &[&str] = &["ServerVersion", "ToolVersion", CARRIED];
/// The fields of [`CARRIED`] in a description, and at the end of an archive's collection.
const CARRIED_BY_COLLECTION: &[&str] = &["autoIncrement", "sequences"];
/// The fields that it has in a prelude and in the header of an archive.
const CARRIED_BY_DUMP: &[&str] = &["format", "tool", "moment", "sequences"];

/// The options that `listCollections` of any version of MongoDB returns, and `autoIncrement`, which is CairnDB's.
const OPTIONS: &[&str] = &[
    "autoIncrement",
    "capped",
    "changeStreamPreAndPostImages",
    "clusteredIndex",
    "collation",
    "encryptedFields",
    "expireAfterSeconds",
    "idIndex",
    "indexOptionDefaults",
    "max",
    "pipeline",
    "recordPreImages",
    "size",
    "storageEngine",
    "timeseries",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];
/// Options of other versions, which no store accepts here: a restore names them and leaves them out.
pub const OPTIONS_OF_OTHERS: &[&str] = &[
    // Up to 4.0: whether the collection has an index on `_id`, which all have here.
    "autoIndexId",
    // Up to 2.4, which kept the whole command, with what it did not know.
    CREATED,
    // MMAPv1, up to 4.0: how records and extents are allocated.
    "$nExtents",
    "flags",
    "initialNumExtents",
    "usePowerOf2Sizes",
    // From 7.3 on: how members of a replica set number records.
    "recordIdsReplicated",
    // Collections that a server would remove at its next start.
    "temp",
];
/// The option that only servers up to 2.4 have, besides any others that a command had.
const CREATED: &str = "create";

/// The fields of an index in `listIndexes`.
pub const INDEX: &[&str] = &[
    "2dsphereIndexVersion",
    "bits",
    "bucketSize",
    "clustered",
    "coarsestIndexedLevel",
    "collation",
    "columnstoreProjection",
    "default_language",
    "expireAfterSeconds",
    "finestIndexedLevel",
    "hidden",
    "key",
    "language_override",
    "max",
    "min",
    "name",
    "partialFilterExpression",
    "prepareUnique",
    "sparse",
    "storageEngine",
    "textIndexVersion",
    "unique",
    "v",
    "weights",
    "wildcardProjection",
];
/// The fields of an index of other versions, and those without a meaning for one that is made again.
pub const INDEX_OF_OTHERS: &[&str] = &[
    // Up to 4.2, where builds in the background were a kind of their own.
    "background",
    // Of an index that was being built.
    "buildUUID",
    "indexBuildInfo",
    "spec",
    // Up to 2.6: documents that a unique index removed when it was built.
    "dropDups",
    // Up to 4.2: the collection, by the name that it had.
    "ns",
    // Of the buckets of time series: the index as its user declared it.
    "originalSpec",
    // Drivers of servers up to 2.4 sent it, and servers kept it.
    "safe",
];

const COLLATION: &[&str] = &[
    "locale",
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "backwards",
    "version",
];
const CLUSTERED: &[&str] = &["v", "key", "name", "unique"];
const IMAGES: &[&str] = &["enabled"];

/// The options of an auto-increment field, and of its sequence.
const FIELD: &[&str] = &["Field", "Generated", "GenerateOnNull", "OnTruncate", "StartFromExisting"];
/// The other fields in `listAutoIncrements`.
const LISTED: &[&str] = &["SequenceName", "SequenceID", "snapshot"];
const ATTRIBUTES: &[&str] = &[
    "Increment",
    "StartValue",
    "MinValue",
    "MaxValue",
    "CurrentValue",
    "CacheSize",
    "AcquireSize",
    "Cycled",
    "Contract",
    "UsedUpTo",
];
/// The other fields in a snapshot of a sequence.
const SNAPSHOT: &[&str] = &[
    "_id",
    "Internal",
    "ID",
    "CLUniqueID",
    "Name",
    "Version",
    "CycledCount",
    "Initial",
    "LastUsed",
    "Remaining",
    "Exhausted",
    "Reservations",
    "Lost",
];

/// The values of `type`. Dumps of servers before 3.4 have an empty one.
const KINDS: &[&str] = &["collection", "view", "timeseries", ""];

/// The types of Extended JSON.
const TYPES: &[&str] = &[
    "$binary",
    "$code",
    "$date",
    "$dbPointer",
    "$maxKey",
    "$minKey",
    "$numberDecimal",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$oid",
    "$regularExpression",
    "$scope",
    "$symbol",
    "$timestamp",
    "$undefined",
    "$uuid",
];

/// Rejects a description of a collection with a name that is not known.
pub(crate) fn check_metadata(fields: &Document) -> Result<(), Refusal> {
    check("", fields, &[METADATA])?;
    check_types(fields)?;
    if let Some(Bson::String(kind)) = fields.get("type") {
        check_kind(kind)?;
    }
    if let Some(Bson::Document(options)) = fields.get("options") {
        check_options(options)?;
    }
    each("indexes", fields.get("indexes"), &|place, index| {
        check_index(place, index)?;
        check_field_of(place, index, "collation", COLLATION)
    })?;
    match fields.get(CARRIED) {
        Some(Bson::Document(carried)) => check_carried_by_collection(carried),
        Some(_) | None => Ok(()),
    }
}

/// Rejects a type that no collection has.
pub(crate) fn check_kind(kind: &str) -> Result<(), Refusal> {
    if KINDS.contains(&kind) {
        return Ok(());
    }
    Err(Refusal::wrong_type(format!("the type {} is not known", shown(kind))))
}

/// Rejects a prelude with a name that is not known.
pub(crate) fn check_prelude(fields: &Document) -> Result<(), Refusal> {
    check("", fields, &[PRELUDE])?;
    check_types(fields)
}

/// Rejects what the end of an archive's collection carries, if it has a name that is not known.
pub(crate) fn check_carried_by_collection(carried: &Document) -> Result<(), Refusal> {
    check(CARRIED, carried, &[CARRIED_BY_COLLECTION])?;
    each("cairndb.autoIncrement", carried.get("autoIncrement"), &check_field)?;
    check_sequences(carried)
}

/// Rejects what a dump carries, if it has a name that is not known.
pub(crate) fn check_carried_by_dump(carried: &Document) -> Result<(), Refusal> {
    check(CARRIED, carried, &[CARRIED_BY_DUMP])?;
    check_sequences(carried)
}

fn check_sequences(carried: &Document) -> Result<(), Refusal> {
    let Some(Bson::Document(databases)) = carried.get("sequences") else { return Ok(()) };
    for (database, snapshots) in databases {
        let place = format!("cairndb.sequences.{database}");
        each(&place, Some(snapshots), &|place, snapshot| check(place, snapshot, &[ATTRIBUTES, SNAPSHOT]))?;
    }
    Ok(())
}

fn check_options(options: &Document) -> Result<(), Refusal> {
    if !options.contains_key(CREATED) {
        check("options", options, &[OPTIONS, OPTIONS_OF_OTHERS])?;
    }
    check_field_of("options", options, "collation", COLLATION)?;
    check_field_of("options", options, "clusteredIndex", CLUSTERED)?;
    check_field_of("options", options, "changeStreamPreAndPostImages", IMAGES)?;
    check_field_of("options", options, "idIndex", INDEX)?;
    match options.get("autoIncrement") {
        Some(Bson::Document(field)) => check_field("options.autoIncrement", field),
        fields => each("options.autoIncrement", fields, &check_field),
    }
}

fn check_field(place: &str, field: &Document) -> Result<(), Refusal> {
    check(place, field, &[FIELD, LISTED, ATTRIBUTES])?;
    match field.get("snapshot") {
        Some(Bson::Document(snapshot)) => {
            check(&format!("{place}.snapshot"), snapshot, &[ATTRIBUTES, SNAPSHOT])
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks the document in a field, if there is one.
fn check_field_of(place: &str, fields: &Document, name: &str, known: &[&str]) -> Result<(), Refusal> {
    match fields.get(name) {
        Some(Bson::Document(inner)) => check(&format!("{place}.{name}"), inner, &[known]),
        Some(_) | None => Ok(()),
    }
}

/// Calls `work` with the documents of an array and their places.
fn each(
    place: &str,
    array: Option<&Bson>,
    work: &dyn Fn(&str, &Document) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let items = array.and_then(Bson::as_array).map(Vec::as_slice).unwrap_or_default();
    let documents = items.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_document()?)));
    for (at, document) in documents {
        work(&format!("{place}.{at}"), document)?;
    }
    Ok(())
}

fn check(place: &str, fields: &Document, known: &[&[&str]]) -> Result<(), Refusal> {
    match fields.keys().find(|name| !known.iter().any(|known| known.contains(&name.as_str()))) {
        None => Ok(()),
        Some(name) => Err(unknown(place, name)),
    }
}

/// Rejects an index with a name that differs from a known one in one byte: it would lack what that represents. Other names
/// are those of options that old servers kept, whatever they were, and are left out when it is made.
fn check_index(place: &str, index: &Document) -> Result<(), Refusal> {
    let known = || INDEX.iter().chain(INDEX_OF_OTHERS);
    let is_damaged = |name: &&String| {
        // The version has one letter, from which every other letter differs in one byte: it is damaged if it is missing.
        known().all(|known| known != name)
            && known()
                .filter(|known| known.len() > 1 || !index.contains_key(**known))
                .any(|known| differs_in_one_byte(known, name))
    };
    index.keys().find(is_damaged).map_or(Ok(()), |name| Err(unknown(place, name)))
}

fn unknown(place: &str, name: &str) -> Refusal {
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    Refusal::wrong_type(format!("{place}the name {} is not known", shown(name)))
}

/// Rejects a name that differs from a type of Extended JSON in one byte, wherever it is: the value would be a document, which
/// a filter accepts as well.
fn check_types(fields: &Document) -> Result<(), Refusal> {
    for (name, value) in fields {
        if TYPES.iter().any(|known| differs_in_one_byte(known, name)) {
            return Err(unknown("", name));
        }
        check_types_of(value)?;
    }
    Ok(())
}

fn check_types_of(value: &Bson) -> Result<(), Refusal> {
    if let Bson::Document(inner) = value {
        return check_types(inner);
    }
    value.as_array().map_or(Ok(()), |items| items.iter().try_for_each(check_types_of))
}

fn differs_in_one_byte(known: &str, name: &str) -> bool {
    let pairs = known.bytes().zip(name.bytes());
    known.len() == name.len() && pairs.filter(|(one, other)| one != other).count() == 1
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[track_caller]
    fn refused(fields: &Document, reason: &str) {
        assert_eq!(check_metadata(fields).unwrap_err().to_string(), reason);
    }

    #[test]
    fn what_is_not_known_is_named_with_its_place() {
        refused(&doc! { "idnexes": [] }, "the name \"idnexes\" is not known");
        refused(&doc! { "type": "viev" }, "the type \"viev\" is not known");
        refused(&doc! { "options": { "cappec": true } }, "options: the name \"cappec\" is not known");
        let index = doc! { "key": { "uniqve": 1 }, "uniqve": true };
        refused(&doc! { "indexes": [{}, index] }, "indexes.1: the name \"uniqve\" is not known");
        let collation = doc! { "options": { "collation": { "locale": "de", "strengtg": 2 } } };
        refused(&collation, "options.collation: the name \"strengtg\" is not known");
        let filter =
            doc! { "indexes": [{ "partialFilterExpression": { "a": { "$gt": { "$numberInu": "1" } } } }] };
        refused(&filter, "the name \"$numberInu\" is not known");
        let field =
            doc! { "cairndb": { "autoIncrement": [{ "Field": "n", "snapshot": { "UsedUqTo": 1 } }] } };
        refused(&field, "cairndb.autoIncrement.0.snapshot: the name \"UsedUqTo\" is not known");
        let carried = doc! { "format": 1, "sequences": { "shop": [{ "Name": "n", "Nbme": 1 }] } };
        let refusal = check_carried_by_dump(&carried).unwrap_err();
        assert_eq!(refusal.to_string(), "cairndb.sequences.shop.0: the name \"Nbme\" is not known");
    }

    /// Servers up to 2.6 kept any option of an index, and a dump with one was rejected as a whole.
    #[test]
    fn options_of_an_index_that_no_server_knows_are_for_the_restore_to_leave_out() {
        let index = doc! { "v": 1, "key": { "a": 1 }, "name": "a_1", "w": 1, "cache_for": 300, "safe": true };
        assert_eq!(check_metadata(&doc! { "indexes": [index] }), Ok(()));
        // Every server gives the version, so it is this that has become a w.
        let index = doc! { "w": 1, "key": { "a": 1 }, "name": "a_1" };
        refused(&doc! { "indexes": [index] }, "indexes.0: the name \"w\" is not known");
    }

    #[test]
    fn what_servers_up_to_2_4_kept_is_for_the_store_to_refuse() {
        let options = doc! { "options": { "create": "orders", "safe": true } };
        assert_eq!(check_metadata(&options), Ok(()));
    }
}
