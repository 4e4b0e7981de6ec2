//! Definitions of indexes: how a model becomes one, what it must not say, and how it compares with indexes that exist.

use std::cmp::Ordering;
use std::sync::Arc;

use base::error::{Error, Result};
use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use index::collation::Collation as Rules;
use index::error::Error as IndexError;
use index::key::LongKeys;
use index::order::compare as compare_values;
use index::spec::{IndexSpec, Sparseness, SpecOptions, Uniqueness};
use query::code::Code;
use store::keys::IndexId;
use store::leaf_switch::LeafSwitch;

use crate::catalog::clustered::Clustered;
use crate::catalog::indexes::{EntryDetail, ID_INDEX_NAME, Index, IndexUses};
use crate::catalog::multikey::IndexArrays;
use crate::catalog::settings::IndexSettings;
use crate::document::print::print_value;
use crate::options::{ClusteredIndex, Collation, IndexModel};
use crate::write::index_settings;

/// The limit of secondary indexes in a collection: MongoDB's 64, less the one on `_id`.
const INDEXES_MAX: usize = 63;
/// The fields that a description of the index on `_id` may have.
const ID_INDEX_OPTIONS: [&str; 5] = ["collation", "key", "name", "ns", "v"];

/// A checked definition.
#[derive(Clone, Debug)]
pub(crate) struct IndexDefinition {
    pub(crate) name: String,
    pub(crate) spec: IndexSpec,
    pub(crate) settings: IndexSettings,
}

/// Whether a collection has the index of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It has not: the index is to be built.
    New,
    /// It has an index of this name with the same keys and options.
    Identical,
}

/// Checks a model for a collection with a collation. Returns `None` for the index on `_id`, which every collection has.
pub(crate) fn parse(model: &IndexModel, default: &Rules) -> Result<Option<IndexDefinition>> {
    let options = model.options.clone().unwrap_or_default();
    if options.name.as_deref() == Some("") {
        return Err(cannot_create("index name cannot be empty".to_owned()));
    }
    // In the form in which a command describes an index, so that there is one check for both.
    if is_id_pattern(&model.keys) {
        let mut given = doc! { "key": &model.keys, "name": options.name.as_deref().unwrap_or(ID_INDEX_NAME) };
        given.extend(options.unique.map(|unique| ("unique".to_owned(), unique.into())));
        given.extend(options.sparse.map(|sparse| ("sparse".to_owned(), sparse.into())));
        index_settings::describe_given(&options, &mut given);
        check_id_index(&given)?;
        return match &options.collation {
            Some(given) => check_id_collation(&Collation::rules(Some(given))?, default).map(|()| None),
            None => Ok(None),
        };
    }
    let keys = RawDocumentBuf::try_from(&model.keys)?;
    let spec_options = SpecOptions {
        uniqueness: if options.unique == Some(true) { Uniqueness::Unique } else { Uniqueness::NotUnique },
        sparseness: if options.sparse == Some(true) { Sparseness::Sparse } else { Sparseness::NotSparse },
    };
    let mut spec = IndexSpec::parse(&keys, spec_options).map_err(|error| refusal(&error))?;
    if let Some(projection) = &options.wildcard_projection {
        spec = index_settings::project(spec, projection)?;
    }
    // Before the filter of a partial index, which compares texts as the index does.
    spec = spec.with_collation(match &options.collation {
        Some(given) => Collation::rules(Some(given))?,
        // As in MongoDB it compares texts as its collection does.
        None => default.clone(),
    });
    let settings = index_settings::parse(&options, &spec)?;
    let name = options.name.unwrap_or_else(|| spec.default_name());
    check_name(&name, &model.keys)?;
    Ok(Some(IndexDefinition { name, spec, settings }))
}

/// Checks the declaration of a clustered collection. Only what every collection is can be declared.
pub(crate) fn clustered(declared: &ClusteredIndex) -> Result<Clustered> {
    let ClusteredIndex { key, unique, name, v } = declared;
    if !unique {
        let message = "The clusteredIndex option requires unique: true to be specified";
        return Err(Error::command(Code::CLUSTERED_NOT_UNIQUE, message));
    }
    if key.len() != 1 || id_direction(key, 1) != Some(Ordering::Equal) {
        let keys = print_value(&Bson::Document(key.clone()));
        let message = format!("The clusteredIndex option is only supported for key: {{_id: 1}}, not {keys}");
        return Err(Error::command(Code::INVALID_INDEX_SPECIFICATION_OPTION, message));
    }
    if let Some(version) = v.filter(|version| *version != 2) {
        let message =
            format!("Invalid clusteredIndex specification; cannot create a clusteredIndex with v={version}");
        return Err(Error::command(Code::CLUSTERED_VERSION, message));
    }
    // The name of the index on `_id` is reserved for this very index.
    if let Some(name) = name.as_deref().filter(|name| *name != ID_INDEX_NAME) {
        if name.is_empty() {
            return Err(cannot_create("index name cannot be empty".to_owned()));
        }
        check_name(name, key)?;
    }
    Ok(Clustered::named(name.as_deref()))
}

/// Checks an index that is asked for as the one of a clustered collection, which has it. `present` is how the collection was
/// declared, or `None` if the collection does not exist.
pub(crate) fn check_clustered(model: &IndexModel, present: Option<&Option<Clustered>>) -> Result<Arc<str>> {
    if model.options.as_ref().and_then(|options| options.unique) != Some(true) {
        return Err(cannot_create("the 'clustered' option requires unique: true to be specified".to_owned()));
    }
    let Some(present) = present else {
        let message = "Cannot implicitly create a new collection with createIndex 'clustered' option";
        return Err(Error::command(Code::CLUSTERED_INDEX_IMPLICIT, message));
    };
    let is_id = model.keys.len() == 1 && id_direction(&model.keys, 1) == Some(Ordering::Equal);
    match present {
        Some(Clustered { name }) if is_id => Ok(Arc::clone(name)),
        Some(_) | None => {
            let keys = print_value(&Bson::Document(model.keys.clone()));
            let message = format!(
                "Cannot create an index with 'clustered': it is only for the key of a clustered collection, not {keys}"
            );
            Err(Error::command(Code::CLUSTERED_INDEX_OF_OTHERS, message))
        }
    }
}

/// Compares a definition with the indexes of a collection.
///
/// # Errors
/// As in MongoDB, an index with the same name and other keys or options (86), and one with the same keys and another name
/// or other options (85).
pub(crate) fn compare(definition: &IndexDefinition, indexes: &[Index]) -> Result<Presence> {
    let IndexDefinition { name, spec, settings } = definition;
    // The name first: a definition may collide with one index by its name and with another one by its keys.
    if let Some(existing) = indexes.iter().find(|index| index.name == *name) {
        if existing.spec == *spec && existing.settings.has_same_documents(settings) {
            index_settings::compare_expiry(existing, settings)?;
            // Whether it is hidden is not a difference, as in MongoDB.
            return Ok(Presence::Identical);
        }
        return Err(Error::command(
            Code::INDEX_KEY_SPECS_CONFLICT,
            format!("an index named {name} exists with other keys or options: {}", existing.key_pattern()),
        ));
    }
    // Indexes on the same keys may exist side by side if their filters or collations differ.
    let is_same = |index: &&Index| {
        index.spec.fields() == spec.fields()
            && index.spec.wildcard() == spec.wildcard()
            && index.spec.collation() == spec.collation()
            && index.settings.has_same_documents(settings)
    };
    if let Some(existing) = indexes.iter().find(is_same) {
        return Err(Error::command(
            Code::INDEX_OPTIONS_CONFLICT,
            format!("index already exists with a different name or options: {}", existing.name),
        ));
    }
    if indexes.len() >= INDEXES_MAX {
        return Err(cannot_create(format!("add index {name} fails, too many indexes: the limit is 64")));
    }
    Ok(Presence::New)
}

/// The index that a definition becomes, in a collection whose keys have this of long values.
pub(crate) fn index(definition: IndexDefinition, id: IndexId, long_keys: LongKeys) -> Index {
    let arrays = Arc::new(IndexArrays::none(definition.spec.fields().len()));
    let uses = Arc::new(IndexUses::starting_now());
    let IndexDefinition { name, spec, settings } = definition;
    let spec = spec.with_long_keys(long_keys);
    let (given_keys, leaves) = (Arc::default(), Arc::new(LeafSwitch::off()));
    Index { id, name, spec, detail: EntryDetail::Whole, settings, arrays, uses, given_keys, leaves }
}

/// Whether the keys are those of the index on `_id`, or those in the other direction. MongoDB rounds the number toward
/// zero, so 1.5 counts as 1.
fn is_id_pattern(keys: &Document) -> bool {
    let to = |limit| id_direction(keys, limit);
    keys.len() == 1
        && match (to(1), to(-1)) {
            (Some(Ordering::Greater | Ordering::Equal), _) => to(2) == Some(Ordering::Less),
            (_, Some(Ordering::Less | Ordering::Equal)) => to(-2) == Some(Ordering::Greater),
            (Some(Ordering::Less) | None, _) => false,
        }
}

/// Compares the direction of `_id` with a number. Returns `None` if the keys have no `_id`.
fn id_direction(keys: &Document, number: i32) -> Option<Ordering> {
    let keys = RawDocumentBuf::try_from(keys).ok()?;
    let direction = keys.get("_id").ok().flatten()?;
    Some(compare_values(direction, RawBsonRef::Int32(number)))
}

/// Checks a description of the index on `_id`, as a command gives it. Every collection has that index under a fixed name,
/// so a description of it is accepted whatever name it gives, because drivers make one up. Other options are rejected.
pub(crate) fn check_id_index(given: &Document) -> Result<()> {
    let Some(keys) = given.get_document("key").ok().filter(|keys| is_id_pattern(keys)) else { return Ok(()) };
    if let Some(option) = given.keys().find(|option| !ID_INDEX_OPTIONS.contains(&option.as_str())) {
        let mut given = given.clone();
        given.entry("v".to_owned()).or_insert(Bson::Int32(2));
        let given = print_value(&Bson::Document(given));
        let message = format!(
            "The field '{option}' is not valid for an _id index specification. Specification: {given}"
        );
        return Err(Error::command(Code::INVALID_INDEX_SPECIFICATION_OPTION, message));
    }
    if id_direction(keys, 1) != Some(Ordering::Equal) {
        let keys = print_value(&Bson::Document(keys.clone()));
        return Err(Error::command(
            Code::BAD_VALUE,
            format!("The field 'key' for an _id index must be {{_id: 1}}, but got {keys}"),
        ));
    }
    Ok(())
}

/// Rejects a collation of the index on `_id` that is not that of its collection, as MongoDB does.
pub(crate) fn check_id_collation(given: &Rules, of_collection: &Rules) -> Result<()> {
    if given == of_collection {
        return Ok(());
    }
    let shown = |rules: &Rules| match rules.document().map(Document::try_from).transpose() {
        Ok(Some(document)) => print_value(&Bson::Document(document)),
        Ok(None) | Err(_) => "{ locale: \"simple\" }".to_owned(),
    };
    let message = format!(
        "The _id index must have the same collation as the collection. Index collation: {}, collection collation: {}",
        shown(given),
        shown(of_collection)
    );
    Err(Error::command(Code::BAD_VALUE, message))
}

/// Checks an index name. Its length is not limited here: the collection's entry in the catalog has a limit for all of
/// its indexes together.
fn check_name(name: &str, keys: &Document) -> Result<()> {
    if name == ID_INDEX_NAME {
        let keys = print_value(&Bson::Document(keys.clone()));
        return Err(Error::command(
            Code::BAD_VALUE,
            format!(
                "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, \
                 found key: {keys}"
            ),
        ));
    }
    if name == "*" {
        return Err(Error::command(Code::BAD_VALUE, "The index name '*' is not valid."));
    }
    if name.contains('\0') {
        return Err(cannot_create(format!("index name {name:?} cannot contain NUL bytes")));
    }
    Ok(())
}

fn refusal(error: &IndexError) -> Error {
    cannot_create(error.to_string())
}

fn cannot_create(message: String) -> Error {
    Error::command(Code::CANNOT_CREATE_INDEX, message)
}
