//! `collMod`: changes of a collection and of its indexes.
//!
//! What documents are validated by is changed, what a view shows, and the visibility and the expiry of an index. Of the rest of what MongoDB can
//! change here, a request for the state that is there already succeeds, and every other one is refused by the name of its
//! field.

use std::time::Duration;

use base::codes::{refused, unsupported};
use base::error::Result;
use base::namespace::Namespace;
use bson::{Document, doc};
use query::code::Code;

use crate::arguments::Arguments;
use crate::catalog::validation::{VALIDATION_ACTION, VALIDATION_LEVEL, VALIDATOR, ValidationChange};
use crate::catalog::view_change::ViewChange;
use crate::catalog::views::{PIPELINE, VIEW_ON};
use crate::collection::definition::{self, Changing, DeclarationChange, LimitsChange};
use crate::collection::modify_index::{self, ChangedSettings, IndexChange, IndexSelector};
use crate::command::context::CommandContext;
use crate::options::{ValidationAction, ValidationLevel};

const KNOWN: [&str; 10] = [
    "cappedMax",
    "cappedSize",
    "changeLog",
    "changeStreamPreAndPostImages",
    "index",
    "pipeline",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];
const OF_INDEX: [&str; 6] = ["expireAfterSeconds", "hidden", "keyPattern", "name", "prepareUnique", "unique"];

pub(super) fn modify(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&KNOWN)?;
    arguments.write_concern()?;
    let keeps_images = images(arguments)?;
    let capped =
        LimitsChange { size: arguments.integer("cappedSize")?, max: arguments.integer("cappedMax")? };
    let (validation, view) = (validation(arguments)?, view(arguments)?);
    let is_logged = arguments.boolean("changeLog")?;
    let change = DeclarationChange { validation, view, capped, keeps_images, is_logged };
    let index = arguments.document("index")?;
    let of_index = index.map(|index| wanted(&Arguments::of("collMod.index", index))).transpose()?;
    // After the fields: a request that no collection could meet is refused as such, even for a missing one.
    let namespace = Namespace::parse(context.db, arguments.target()?)?;
    // The index first: what is wrong with it is found only by a change of it, and then nothing else is changed.
    let operation = context.operation();
    let changing = Changing { namespace: &namespace, operation: &operation };
    let reply = match of_index {
        Some((selector, change)) => {
            told(&modify_index::apply(context.shared, changing, selector, change)?, change)
        }
        None if change.is_empty() => {
            definition::note_modification(context.shared, changing)?;
            doc! {}
        }
        None => doc! {},
    };
    definition::modify(context.shared, changing, &change)?;
    Ok(reply)
}

/// Reads what a view is to show, for `create` and `collMod`.
pub(super) fn view(arguments: &Arguments<'_>) -> Result<ViewChange> {
    let stages = arguments.documents(PIPELINE)?;
    Ok(ViewChange {
        on: arguments.text(VIEW_ON)?.map(str::to_owned),
        pipeline: stages.map(|stages| stages.into_iter().cloned().collect()),
    })
}

/// Reads how documents are to be validated, for `create` and `collMod`.
pub(super) fn validation(arguments: &Arguments<'_>) -> Result<ValidationChange> {
    if arguments.text(VALIDATION_LEVEL)? == Some("constraint") {
        let message = "the level 'constraint' is not supported: documents that were there before the rule are not looked for";
        return Err(unsupported(message));
    }
    // Unknown names are refused by `one_of`, so that each name that comes back is one of the options.
    let level = arguments.one_of(VALIDATION_LEVEL, &ValidationLevel::NAMES)?;
    let action = arguments.one_of(VALIDATION_ACTION, &ValidationAction::NAMES)?;
    Ok(ValidationChange {
        validator: arguments.document(VALIDATOR)?.cloned(),
        level: level.and_then(ValidationLevel::named),
        action: action.and_then(ValidationAction::named),
    })
}

/// Reads whether the log of changes is to have documents before and after their changes, for `create` and `collMod`.
pub(super) fn images(arguments: &Arguments<'_>) -> Result<Option<bool>> {
    let Some(images) = arguments.document("changeStreamPreAndPostImages")? else { return Ok(None) };
    let images = Arguments::of("changeStreamPreAndPostImages", images);
    images.allow_in_statement(&["enabled"])?;
    images.boolean("enabled")?.ok_or_else(|| images.missing("enabled")).map(Some)
}

/// The index that `collMod` names, and what it is to become.
fn wanted<'a>(index: &Arguments<'a>) -> Result<(IndexSelector<'a>, IndexChange)> {
    index.allow_in_statement(&OF_INDEX)?;
    // Exactly one of them, as in MongoDB: two could name two indexes.
    let selector = match (index.text("name")?, index.document("keyPattern")?) {
        (Some(_), Some(_)) => {
            return Err(refused(Code::INVALID_OPTIONS, "Cannot specify both key pattern and name."));
        }
        (None, None) => {
            return Err(refused(Code::INVALID_OPTIONS, "Must specify either index name or key pattern."));
        }
        (Some(name), None) => IndexSelector::Name(name),
        (None, Some(keys)) => IndexSelector::Keys(keys),
    };
    // All are read before one is rejected, so a wrong type is reported first.
    let (hidden, prepared) = (index.boolean("hidden")?, index.boolean("prepareUnique")?);
    let (unique, expiry) = (index.boolean("unique")?, expiry(index)?);
    if hidden.is_none() && prepared.is_none() && unique.is_none() && expiry.is_none() {
        let message = "no expireAfterSeconds, hidden, unique, or prepareUnique field";
        return Err(refused(Code::INVALID_OPTIONS, message));
    }
    // `prepareUnique: false` asks for the state that every index has.
    match (prepared, unique) {
        (Some(true), _) => Err(index.not_here("prepareUnique")),
        (_, Some(false)) => {
            Err(refused(Code::BAD_VALUE, "collMod does not support converting 'unique' to false"))
        }
        (_, Some(true) | None) => {
            let change = IndexChange { hidden, expire_after: expiry, is_unique: unique == Some(true) };
            Ok((selector, change))
        }
    }
}

/// The `expireAfterSeconds` of an index.
pub(super) fn expiry(index: &Arguments<'_>) -> Result<Option<Duration>> {
    let time = |seconds| {
        u64::try_from(seconds).map(Duration::from_secs).map_err(|_| {
            let message =
                format!("TTL index 'expireAfterSeconds' option cannot be less than 0, and is {seconds}");
            refused(Code::INVALID_OPTIONS, message)
        })
    };
    index.integer("expireAfterSeconds")?.map(time).transpose()
}

/// What the reply says of a change, as in MongoDB: the visibility only if it changed, the expiry if there was one.
fn told(modified: &ChangedSettings, change: IndexChange) -> Document {
    let ChangedSettings { before, after } = modified;
    let mut reply = Document::new();
    let mut tell = |name: &str, seconds: Option<u32>| {
        reply.extend(seconds.map(|seconds| (name.to_owned(), i64::from(seconds).into())));
    };
    if change.expire_after.is_some() {
        tell("expireAfterSeconds_old", before.expire_after_seconds);
        let is_new = before.expire_after_seconds != after.expire_after_seconds;
        tell("expireAfterSeconds_new", after.expire_after_seconds.filter(|_| is_new));
    }
    if before.hidden != after.hidden {
        reply.extend(doc! { "hidden_old": before.hidden, "hidden_new": after.hidden });
    }
    reply
}
