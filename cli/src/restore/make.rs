//! Collections, indexes and views of a dump, made in the store. What the store refuses is named, and the rest is made.

use std::collections::HashMap;

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use formats::dump::known::INDEX_OF_OTHERS;
use query::code::Code;

use crate::command::raw;
use crate::dumped::DumpedKind;
use crate::failure::{Exit, Failure};
use crate::restore::load::has_documents;
use crate::restore::options::Arguments;
use crate::restore::plan::{Plan, Planned};
use crate::restore::tally::{Tally, refusal};
use crate::store::Store;

/// The option that is CairnDB's, whose fields are made after the documents.
const OWN_OPTION: &str = "autoIncrement";
const CREATE: &str = "create";

/// The collections and views of a store that a dump has too, by database and name, with their types.
pub(crate) type Existing = HashMap<(String, String), String>;

/// Finds what is there of what is planned, and refuses what would be mixed with it.
pub(crate) fn check(store: &dyn Store, plan: &Plan, arguments: &Arguments) -> Result<Existing, Failure> {
    let mut existing = Existing::new();
    let mut databases: Vec<&str> = plan.all().map(|planned| planned.database.as_str()).collect();
    databases.sort_unstable();
    databases.dedup();
    for database in databases {
        let list = raw(&doc! { "listCollections": 1, "nameOnly": true })?;
        let mut listed = store.stream(database, list)?;
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

/// Drops what is there of what is planned.
pub(crate) fn drop_planned(
    store: &dyn Store,
    planned: &Planned,
    existing: &mut Existing,
) -> Result<(), Failure> {
    if existing.remove(&planned.key()).is_none() {
        return Ok(());
    }
    match store.run(&planned.database, raw(&doc! { "drop": planned.name.as_str() })?) {
        Ok(_) => Ok(()),
        Err(failure) if failure.code == Some(Code::NAMESPACE_NOT_FOUND.number()) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Makes a collection with its options. Nothing is inserted yet.
pub(crate) fn collection(
    store: &dyn Store,
    planned: &Planned,
    existing: &Existing,
    tally: &Tally,
) -> Result<(), Failure> {
    let options = options(planned, tally)?;
    collection_with(store, planned, &options, existing.contains_key(&planned.key()), tally)
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

/// The options that are sent. They stand beside the name in one command, and must not take its place.
pub(crate) fn options(planned: &Planned, tally: &Tally) -> Result<Document, Failure> {
    let mut options = planned.metadata()?.options;
    options.remove(OWN_OPTION);
    let is_of_command = |name: &&String| name.as_str() == CREATE || name.starts_with('$');
    let names: Vec<String> = options.keys().filter(is_of_command).cloned().collect();
    for name in names {
        options.remove(&name);
        tally.leave_out(&format!("{}, option {name}: no collection has it", planned.namespace()));
    }
    Ok(options)
}

/// Makes the views. What they stand on need not be there.
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
            let what = if is_there { "the view is there, and another one" } else { "the view is refused" };
            tally.leave_out(&format!("{}: {what}: {}", planned.namespace(), failure.message));
        }
    }
    Ok(())
}

/// Makes the indexes of a collection, all by one command if none is refused.
pub(crate) fn indexes(store: &dyn Store, planned: &Planned, tally: &Tally) -> Result<(), Failure> {
    let metadata = planned.metadata()?;
    let inherits = metadata.options.contains_key("collation");
    let indexes = metadata.indexes.into_iter().filter(is_to_make).map(to_make);
    let indexes: Vec<Document> = indexes.map(|index| with_collation(index, inherits)).collect();
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
    // One by one, to find which are refused. Those that were made already are there, which is no error.
    for index in &indexes {
        match create_indexes(store, planned, std::slice::from_ref(index)) {
            Ok(()) => Tally::add(&tally.indexes, 1),
            Err(failure) => {
                let failure = refusal(failure)?;
                let name = index.get_str("name").unwrap_or_default();
                tally.leave_out(&format!("{}, index {name}: {}", planned.namespace(), failure.message));
            }
        }
    }
    Ok(())
}

/// An index as `createIndexes` takes it: what servers of other versions tell of it besides is left out.
pub(crate) fn to_make(mut index: Document) -> Document {
    index.remove("v");
    for name in INDEX_OF_OTHERS {
        index.remove(name);
    }
    index
}

/// An index without a collation compares texts by their bytes. In a collection with one it must say so, or it inherits that.
fn with_collation(mut index: Document, inherits: bool) -> Document {
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
    let command = raw(&doc! { "createIndexes": planned.name.as_str(), "indexes": indexes.to_vec() })?;
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
        // The option whose absence changes the answer is the one that is refused.
        let name = reason(&options, &refused, &attempt)?;
        let names = name.map_or_else(|| options.keys().cloned().collect(), |name| vec![name]);
        for name in names {
            options.remove(&name);
            tally.leave_out(&format!("{namespace}, option {name}: {}", refused.message));
        }
        match attempt(&options)? {
            None => return Ok(()),
            // The attempt that found the option has made the collection.
            Some(failure) if failure.code == Some(Code::NAMESPACE_EXISTS.number()) => return Ok(()),
            Some(failure) => refused = failure,
        }
    }
    // Without options it is the name that is refused, and no document could be inserted.
    Err(Failure { message: format!("{namespace}: {}", refused.message), ..refused })
}

/// The option for which a collection is refused.
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
    let mut command = doc! { CREATE: planned.name.as_str() };
    for (name, value) in options {
        command.insert(name, value.clone());
    }
    raw(&command)
}

/// The fields that options declare, as a server of CairnDB tells them to mongodump.
pub(crate) fn declared_fields(options: &Document) -> Vec<Document> {
    match options.get(OWN_OPTION) {
        Some(Bson::Array(fields)) => fields.iter().filter_map(|field| field.as_document().cloned()).collect(),
        Some(Bson::Document(field)) => vec![field.clone()],
        Some(_) | None => Vec::new(),
    }
}
