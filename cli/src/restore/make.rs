//! Collections, indexes and views of a dump, made in the store. What the store rejects is named, and the rest is made.

use std::collections::{BTreeSet, HashMap};

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use formats::dump::known::{INDEX, INDEX_OF_OTHERS, OPTIONS_OF_OTHERS};
use query::code::Code;

use crate::aside;
use crate::command::raw;
use crate::dumped::DumpedKind;
use crate::failure::{Exit, Failure};
use crate::restore::integer::integer;
use crate::restore::load::has_documents;
use crate::restore::options::Arguments;
use crate::restore::plan::{Plan, Planned};
use crate::restore::tally::{Tally, refusal};
use crate::sign::Sign;
use crate::store::Store;

/// The option that is CairnDB's, whose fields are made after the documents.
const OWN_OPTION: &str = "autoIncrement";
const CREATE: &str = "create";
/// The addition to the error of an index whose key is of an old server.
const CONVERT: &str = "; --convert-legacy-indexes makes it with the directions that old servers meant";

/// The collections and views of a store that a dump has too, by database and name, with their types.
pub(crate) type Existing = HashMap<(String, String), String>;

/// Finds what is there of what is planned, and rejects what would be mixed with it.
pub(crate) fn check(store: &dyn Store, plan: &Plan, arguments: &Arguments) -> Result<Existing, Failure> {
    let mut existing = Existing::new();
    let mut databases: Vec<&str> = plan.all().map(|planned| planned.database.as_str()).collect();
    databases.sort_unstable();
    databases.dedup();
    for database in databases {
        let list = raw(&doc! { "listCollections": 1, "nameOnly": true })?;
        let mut listed = match store.stream(database, list) {
            Ok(listed) => listed,
            // It has nothing then, and its collections are rejected one by one.
            Err(failure) if failure.code == Some(Code::INVALID_NAMESPACE.number()) => continue,
            Err(failure) => return Err(failure),
        };
        while listed.advance()? {
            let one = listed.current();
            let (name, kind) =
                (one.get_str("name").unwrap_or_default(), one.get_str("type").unwrap_or_default());
            existing.insert((database.to_owned(), name.to_owned()), kind.to_owned());
        }
    }
    if arguments.drop {
        return Ok(existing);
    }
    for planned in plan.views().chain(plan.collections()) {
        let Some(kind) = existing.get(&planned.key()) else { continue };
        let namespace = planned.namespace();
        let is_view = planned.kind == DumpedKind::View;
        if is_view != (kind == "view") {
            let message = format!("{namespace} is a {kind} in the store, and none in the dump: give --drop");
            return Err(Failure::new(Exit::Failed, message));
        }
        if !is_view && !arguments.into_existing && has_documents(store, &planned.database, &planned.name)? {
            let message = format!("{namespace} has documents: give --drop, or --into-existing");
            return Err(Failure::new(Exit::Failed, message));
        }
    }
    Ok(existing)
}

/// Sets aside the collections of a dump that are there: they are filled under another name. What killed restores have left
/// of the same collections is removed.
pub(crate) fn set_aside(sign: &mut Sign, plan: &mut Plan, existing: &mut Existing) -> Result<(), Failure> {
    let databases: BTreeSet<String> = plan.collections().map(|planned| planned.database.clone()).collect();
    for database in databases {
        let is_meant = |name: &str| {
            let mut planned = plan.collections().filter(|planned| planned.database == database);
            planned.any(|planned| aside::is_for(&database, &planned.name, name))
        };
        for name in sign.remove_leftovers(&database, &is_meant)? {
            existing.remove(&(database.clone(), name));
        }
    }
    let id = aside::choose_id();
    for planned in plan.planned.iter_mut().flatten() {
        if planned.kind == DumpedKind::Collection && existing.remove(&planned.key()).is_some() {
            // Before the collection, so that there is none without a sign.
            sign.show(&planned.database, id)?;
            planned.aside = Some(aside::name(&planned.database, &planned.name, id));
        }
    }
    Ok(())
}

/// Puts the collections that were filled aside in place of those that are there.
pub(crate) fn put_in_place(store: &dyn Store, plan: &mut Plan) -> Result<(), Failure> {
    for planned in plan.planned.iter_mut().flatten() {
        let Some(aside) = &planned.aside else { continue };
        aside::put_in_place(store, &planned.database, aside, &planned.name).map_err(|failure| {
            let told = format!("{}: {}", planned.namespace(), planned.told(&failure.message));
            Failure { message: told, ..failure }
        })?;
        planned.aside = None;
    }
    Ok(())
}

/// Drops the views and collections that are there under the names of views.
pub(crate) fn drop_for_views(store: &dyn Store, plan: &Plan, existing: &mut Existing) -> Result<(), Failure> {
    for planned in plan.views() {
        if existing.remove(&planned.key()).is_some() {
            aside::remove(store, &planned.database, &planned.name)?;
        }
    }
    Ok(())
}

/// Makes a collection with its options. Nothing is inserted yet. Returns `false` if the store rejects its name, which is named.
pub(crate) fn collection(
    store: &dyn Store,
    planned: &Planned,
    existing: &Existing,
    tally: &Tally,
) -> Result<bool, Failure> {
    let options = options(planned, tally)?;
    match collection_with(store, planned, &options, existing.contains_key(&planned.key()), tally) {
        Ok(()) => Ok(true),
        Err(failure) if failure.code == Some(Code::INVALID_NAMESPACE.number()) => {
            tally.leave_out(&failure.message);
            Ok(false)
        }
        Err(failure) => Err(failure),
    }
}

/// Makes a collection with these options. One that is there is used as it is.
pub(crate) fn collection_with(
    store: &dyn Store,
    planned: &Planned,
    options: &Document,
    is_there: bool,
    tally: &Tally,
) -> Result<(), Failure> {
    create(store, planned, options, is_there, tally)?;
    Tally::add(&tally.collections, 1);
    Ok(())
}

/// The options that are sent. They are beside the name in one command, and must not replace it.
pub(crate) fn options(planned: &Planned, tally: &Tally) -> Result<Document, Failure> {
    let mut options = planned.metadata()?.options;
    options.remove(OWN_OPTION);
    let is_of_command = |name: &str| name == CREATE || name.starts_with('$');
    let is_of_others = |name: &str| OPTIONS_OF_OTHERS.contains(&name);
    let names: Vec<String> =
        options.keys().filter(|name| is_of_command(name) || is_of_others(name)).cloned().collect();
    for name in names {
        options.remove(&name);
        let reason = if is_of_command(&name) {
            "no collection has it"
        } else {
            "it is of another version of MongoDB, and means nothing here"
        };
        tally.leave_out(&format!("{}, option {name}: {reason}", planned.namespace()));
    }
    Ok(options)
}

/// Makes the views. What they are on need not be there.
pub(crate) fn views(
    store: &dyn Store,
    plan: &Plan,
    existing: &Existing,
    tally: &Tally,
) -> Result<(), Failure> {
    for planned in plan.views() {
        view(store, planned, existing.contains_key(&planned.key()), tally)?;
    }
    Ok(())
}

/// Makes a view. One that is there must be the same.
pub(crate) fn view(
    store: &dyn Store,
    planned: &Planned,
    is_there: bool,
    tally: &Tally,
) -> Result<(), Failure> {
    let command = create_command(planned, &options(planned, tally)?)?;
    match store.run(&planned.database, command) {
        Ok(_) => Tally::add(&tally.views, 1),
        Err(failure) => {
            let failure = refusal(failure)?;
            let what = if is_there { "the view is there, and another one" } else { "the view is rejected" };
            tally.leave_out(&format!("{}: {what}: {}", planned.namespace(), failure.message));
        }
    }
    Ok(())
}

/// The indexes of a collection as its dump has them, and as they are to be made.
pub(crate) fn prepared_indexes(planned: &Planned, arguments: &Arguments) -> Result<Vec<Document>, Failure> {
    let indexes = planned.metadata()?.indexes;
    Ok(if arguments.convert_legacy_indexes { indexes.into_iter().map(converted).collect() } else { indexes })
}

/// Makes the indexes of a collection, all by one command if none is rejected.
pub(crate) fn indexes(
    store: &dyn Store,
    planned: &Planned,
    indexes: Vec<Document>,
    tally: &Tally,
) -> Result<(), Failure> {
    let (namespace, inherits) = (planned.namespace(), planned.metadata()?.options.contains_key("collation"));
    let indexes: Vec<Document> = indexes
        .into_iter()
        .filter(is_to_make)
        .map(|index| {
            let made = to_make(index);
            for option in &made.unknown {
                let name = name_of(&made.index);
                tally.leave_out(&format!("{namespace}, index {name}, option {option}: no index has it"));
            }
            with_collation(made.index, inherits)
        })
        .collect();
    if indexes.is_empty() {
        return Ok(());
    }
    match create_indexes(store, planned, &indexes) {
        Ok(()) => {
            Tally::add(&tally.indexes, indexes.len());
            return Ok(());
        }
        Err(failure) => drop(refusal(failure)?),
    }
    // One by one, to find which are rejected. Those that were made already are there, which is not an error.
    for index in &indexes {
        match create_indexes(store, planned, std::slice::from_ref(index)) {
            Ok(()) => Tally::add(&tally.indexes, 1),
            Err(failure) => {
                let failure = refusal(failure)?;
                let hint = if converted(index.clone()) == *index { "" } else { CONVERT };
                tally.leave_out_index(
                    &namespace,
                    name_of(index),
                    &planned.told(&format!("{}{hint}", failure.message)),
                );
            }
        }
    }
    Ok(())
}

/// An index as `createIndexes` accepts it.
pub(crate) struct ToMake {
    pub(crate) index: Document,
    /// The options that no index has. Servers up to 2.6 kept whatever a driver sent.
    pub(crate) unknown: Vec<String>,
}

/// An index without what servers of other versions add to it, and without what no server knows.
pub(crate) fn to_make(mut index: Document) -> ToMake {
    index.remove("v");
    for name in INDEX_OF_OTHERS {
        index.remove(name);
    }
    let unknown: Vec<String> = index.keys().filter(|name| !INDEX.contains(&name.as_str())).cloned().collect();
    for name in &unknown {
        index.remove(name);
    }
    ToMake { index, unknown }
}

/// An index whose key has directions that servers up to 4.0 accepted, as those that they meant: `true`, `"1"` and an empty text are
/// ascending. The name of a kind stays.
fn converted(mut index: Document) -> Document {
    let Some(key) = index.get("key").and_then(Bson::as_document) else { return index };
    let key: Document = key.iter().map(|(field, of)| (field.clone(), direction(of))).collect();
    index.insert("key", key);
    index
}

fn direction(of: &Bson) -> Bson {
    if let Some(text) = of.as_str().map(str::trim) {
        return match text.parse::<f64>() {
            Ok(number) if number < 0.0 => Bson::Int32(-1),
            Err(_) if !text.is_empty() => of.clone(),
            Ok(_) | Err(_) => Bson::Int32(1),
        };
    }
    let is_number = matches!(of, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_));
    let is_zero =
        integer(Some(of)) == Some(0) || of.as_f64().is_some_and(|number| number.abs() < f64::EPSILON);
    if is_number && !is_zero { of.clone() } else { Bson::Int32(1) }
}

/// The name of an index.
pub(crate) fn name_of(index: &Document) -> &str {
    index.get_str("name").unwrap_or_default()
}

/// An index without a collation compares texts by their bytes. In a collection with one it must say so, or it inherits that.
pub(crate) fn with_collation(mut index: Document, inherits: bool) -> Document {
    if inherits && !index.contains_key("collation") {
        index.insert("collation", doc! { "locale": "simple" });
    }
    index
}

/// Whether it is another index than the one on `_id`, which every collection has.
pub(crate) fn is_to_make(index: &Document) -> bool {
    let is_id = |key: &Document| key.len() == 1 && key.contains_key("_id");
    index.get_str("name").ok() != Some("_id_") && !index.get_document("key").is_ok_and(is_id)
}

fn create_indexes(store: &dyn Store, planned: &Planned, indexes: &[Document]) -> Result<(), Failure> {
    let command = raw(&doc! { "createIndexes": planned.filled(), "indexes": indexes.to_vec() })?;
    store.run(&planned.database, command).map(drop)
}

fn create(
    store: &dyn Store,
    planned: &Planned,
    options: &Document,
    is_there: bool,
    tally: &Tally,
) -> Result<(), Failure> {
    let attempt = |options: &Document| match store.run(&planned.database, create_command(planned, options)?) {
        Ok(_) => Ok(None),
        Err(failure) => refusal(failure).map(Some),
    };
    let Some(mut refused) = attempt(options)? else { return Ok(()) };
    let namespace = planned.namespace();
    if is_there {
        // An existing collection is used as it is.
        if refused.code == Some(Code::NAMESPACE_EXISTS.number()) && !options.is_empty() {
            tally.leave_out(&format!("{namespace}: the collection is there, with other options"));
        }
        return Ok(());
    }
    let mut options = options.clone();
    while !options.is_empty() {
        // The option whose absence changes the answer is the one that is rejected.
        let name = reason(&options, &refused, &attempt)?;
        let names = name.map_or_else(|| options.keys().cloned().collect(), |name| vec![name]);
        for name in names {
            options.remove(&name);
            let is_unknown = refused.code == Some(Code::IDL_UNKNOWN_FIELD.number());
            let reason =
                if is_unknown { "no collection has it".to_owned() } else { planned.told(&refused.message) };
            tally.leave_out(&format!("{namespace}, option {name}: {reason}"));
        }
        match attempt(&options)? {
            None => return Ok(()),
            // The attempt that found the option has made the collection.
            Some(failure) if failure.code == Some(Code::NAMESPACE_EXISTS.number()) => return Ok(()),
            Some(failure) => refused = failure,
        }
    }
    // Without options it is the name that is rejected, and no document could be inserted.
    Err(Failure { message: format!("{namespace}: {}", planned.told(&refused.message)), ..refused })
}

/// The option for which a collection is rejected.
fn reason(
    options: &Document,
    refused: &Failure,
    attempt: &dyn Fn(&Document) -> Result<Option<Failure>, Failure>,
) -> Result<Option<String>, Failure> {
    for name in options.keys() {
        let mut others = options.clone();
        others.remove(name);
        if attempt(&others)?.is_none_or(|failure| failure.message != refused.message) {
            return Ok(Some(name.clone()));
        }
    }
    Ok(None)
}

fn create_command(planned: &Planned, options: &Document) -> Result<RawDocumentBuf, Failure> {
    let mut command = doc! { CREATE: planned.filled() };
    for (name, value) in options {
        command.insert(name, value.clone());
    }
    raw(&command)
}

/// The fields that options declare, as a server of CairnDB returns them to mongodump.
pub(crate) fn declared_fields(options: &Document) -> Vec<Document> {
    match options.get(OWN_OPTION) {
        Some(Bson::Array(fields)) => fields.iter().filter_map(|field| field.as_document().cloned()).collect(),
        Some(Bson::Document(field)) => vec![field.clone()],
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_of_old_servers_are_converted_as_they_were_meant() {
        let check = |of: Bson, expected: Bson| assert_eq!(direction(&of), expected, "{of}");
        for one in
            [Bson::Boolean(true), "1".into(), "".into(), Bson::Null, 0.into(), 0.0.into(), doc! {}.into()]
        {
            check(one, 1.into());
        }
        check("-1".into(), (-1).into());
        for same in [Bson::Int32(1), (-1_i64).into(), 2.5.into(), "2d".into(), "text".into(), "hashed".into()]
        {
            check(same.clone(), same);
        }
    }

    #[test]
    fn options_that_no_index_has_are_named() {
        let index = doc! { "v": 1, "key": { "a": 1 }, "name": "a_1", "ns": "s.o", "w": 1, "cache_for": 300, "unique": true };
        let made = to_make(index);
        assert_eq!(made.index, doc! { "key": { "a": 1 }, "name": "a_1", "unique": true });
        assert_eq!(made.unknown, ["w", "cache_for"]);
    }
}
