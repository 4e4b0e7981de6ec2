//! `collMod`: changes of a collection and of its indexes.
//!
//! Most of what MongoDB can change here, CairnDB does not have. A request for the state that is there already succeeds and
//! changes nothing; every other request is refused by the name of its field.

use bson::{Document, doc};
use query::code::Code;

use crate::catalog::change::namespace_not_found;
use crate::catalog::indexes::{ID_INDEX_NAME, Index, are_same_keys};
use crate::codes::{refused, unsupported};
use crate::command::arguments::Arguments;
use crate::command::context::CommandContext;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::plan::bounds::ID_FIELD;

const KNOWN: [&str; 5] =
    ["changeStreamPreAndPostImages", "index", "validationAction", "validationLevel", "validator"];
const OF_INDEX: [&str; 6] = ["expireAfterSeconds", "hidden", "keyPattern", "name", "prepareUnique", "unique"];

pub(super) fn modify(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&KNOWN)?;
    arguments.write_concern()?;
    check_validation(arguments)?;
    let index = arguments.document("index")?;
    let wanted = index.map(|index| Wanted::parse(&Arguments::of("collMod.index", index))).transpose()?;
    // After the fields: a request that no collection could meet is refused as such, even for a missing one.
    let namespace = Namespace::parse(context.db, arguments.target()?)?;
    let _in_use = context.shared.store.enter()?;
    // Nothing is written, but a store that cannot write refuses every change that is asked for.
    context.shared.store.admit_write()?;
    let found = context.shared.catalog.find(&namespace).ok_or_else(|| namespace_not_found(&namespace))?;
    if let Some(wanted) = wanted {
        wanted.check(&namespace, &found.indexes())?;
    }
    Ok(doc! {})
}

/// Refuses validators and pre-images, which CairnDB does not have. A request for none of them succeeds.
pub(super) fn check_validation(arguments: &Arguments<'_>) -> Result<()> {
    if arguments.document("validator")?.is_some_and(|validator| !validator.is_empty()) {
        return Err(arguments.not_here("validator"));
    }
    // Without a validator their values make no difference, but MongoDB refuses unknown ones.
    arguments.one_of("validationLevel", &["off", "strict", "moderate"])?;
    arguments.one_of("validationAction", &["error", "warn", "errorAndLog"])?;
    let Some(images) = arguments.document("changeStreamPreAndPostImages")? else { return Ok(()) };
    let images = Arguments::of("changeStreamPreAndPostImages", images);
    images.allow_in_statement(&["enabled"])?;
    if images.boolean("enabled")?.ok_or_else(|| images.missing("enabled"))? {
        return Err(arguments.not_here("changeStreamPreAndPostImages"));
    }
    Ok(())
}

/// The index that `collMod` names, and what it is to become.
struct Wanted<'a> {
    name: Option<&'a str>,
    keys: Option<&'a Document>,
    is_unique: bool,
}

impl<'a> Wanted<'a> {
    fn parse(index: &Arguments<'a>) -> Result<Self> {
        index.allow_in_statement(&OF_INDEX)?;
        let (name, keys) = (index.text("name")?, index.document("keyPattern")?);
        // Exactly one of them, as in MongoDB: two could name two indexes.
        match (name, keys) {
            (Some(_), Some(_)) => {
                return Err(refused(Code::INVALID_OPTIONS, "Cannot specify both key pattern and name."));
            }
            (None, None) => {
                return Err(refused(Code::INVALID_OPTIONS, "Must specify either index name or key pattern."));
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        // All are read before one is refused, so a wrong type is told first.
        let (hidden, prepared) = (index.boolean("hidden")?, index.boolean("prepareUnique")?);
        let (unique, expiry) = (index.boolean("unique")?, index.integer("expireAfterSeconds")?);
        if hidden.is_none() && prepared.is_none() && unique.is_none() && expiry.is_none() {
            let message = "no expireAfterSeconds, hidden, unique, or prepareUnique field";
            return Err(refused(Code::INVALID_OPTIONS, message));
        }
        // `hidden: false` and `prepareUnique: false` ask for the state that every index has.
        match (expiry, hidden, prepared, unique) {
            (Some(_), ..) => Err(index.not_here("expireAfterSeconds")),
            (None, Some(true), ..) => Err(index.not_here("hidden")),
            (None, _, Some(true), _) => Err(index.not_here("prepareUnique")),
            (None, _, _, Some(false)) => {
                Err(refused(Code::BAD_VALUE, "collMod does not support converting 'unique' to false"))
            }
            (None, _, _, Some(true) | None) => Ok(Self { name, keys, is_unique: unique == Some(true) }),
        }
    }

    /// Succeeds if the index already is what it is to become.
    fn check(&self, namespace: &Namespace, indexes: &[Index]) -> Result<()> {
        let is_wanted = |name: &str, keys: &Document| {
            self.name.is_none_or(|wanted| wanted == name)
                && self.keys.is_none_or(|wanted| are_same_keys(wanted, keys))
        };
        // The index on `_id` is not in the list, and is unique always.
        if is_wanted(ID_INDEX_NAME, &doc! { ID_FIELD: 1 }) {
            return Ok(());
        }
        let Some(found) = indexes.iter().find(|index| is_wanted(&index.name, &index.key_pattern())) else {
            let wanted =
                self.keys.map_or_else(|| self.name.unwrap_or_default().to_owned(), Document::to_string);
            return Err(refused(
                Code::INDEX_NOT_FOUND,
                format!("cannot find index {wanted} for ns {namespace}"),
            ));
        };
        // MongoDB would convert it, by a look at all entries. Here `unique` is given when an index is made.
        if self.is_unique && !found.spec.is_unique() {
            let message = "the field 'unique' of 'collMod.index' is not supported: make the index anew";
            return Err(unsupported(message));
        }
        Ok(())
    }
}
