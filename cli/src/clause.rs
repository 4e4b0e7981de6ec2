//! Filters, sorts, projections and pipelines of the command line: Extended JSON in both modes, or the language of
//! `cairn shell`.

use cairndb::bson::{Bson, Document};
use formats::parse::json_value;
use serde::de::IgnoredAny;

use crate::argument::shown;
use crate::extended_json::{is_wrapper, parse_array, parse_document};
use crate::failure::Failure;
use crate::signals::Signals;

/// The document that an option's value is; `option` is named in errors.
pub(crate) fn document(option: &str, text: &str, signals: &Signals) -> Result<Document, Failure> {
    // JSON is JavaScript too, in which `{"$oid": …}` would be a document and no ObjectId.
    if is_json(text) {
        return parse_document(option, text);
    }
    let value = meant_value(option, text, signals)?;
    if let Bson::Document(document) = value {
        return Ok(document);
    }
    let is = value.to_string();
    Err(Failure::usage(format!("{option} must be a document, and is {}: {}", shown(&is), shown(text))))
}

/// The array that an option's value is.
pub(crate) fn array(option: &str, text: &str, signals: &Signals) -> Result<Vec<Bson>, Failure> {
    if is_json(text) {
        return parse_array(option, text);
    }
    let value = meant_value(option, text, signals)?;
    if let Bson::Array(array) = value {
        return Ok(array);
    }
    let is = value.to_string();
    Err(Failure::usage(format!("{option} must be an array, and is {}: {}", shown(&is), shown(text))))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The value of an expression. What looks like JSON and has a mistake is reported as JSON: as an expression it would be reported in
/// words of another language, or be a document where a value of another type was meant.
fn meant_value(option: &str, text: &str, signals: &Signals) -> Result<Bson, Failure> {
    let value = evaluated(option, text, signals);
    let is_meant = |value: &Bson| !has_wrapper(value);
    let (true, Err(error)) = (looks_like_json(text), json_value(text)) else { return value };
    match value {
        Ok(value) if is_meant(&value) => Ok(value),
        Err(failure) if failure.exit.is_by_signal() => Err(failure),
        Ok(_) | Err(_) => Err(Failure::usage(format!("{option} is not JSON: {error}: {}", shown(text)))),
    }
}

/// Whether the first thing within brackets is a name or a text in double quotes.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['{', '['])
        && text
            .trim_start_matches(|character: char| "{[".contains(character) || character.is_whitespace())
            .starts_with('"')
}

/// Whether a value has a document that means a value of another type in Extended JSON.
fn has_wrapper(value: &Bson) -> bool {
    let is_within =
        |document: &Document| document.iter().any(|(name, value)| is_wrapper(name) || has_wrapper(value));
    value.as_document().is_some_and(is_within)
        || value.as_array().is_some_and(|array| array.iter().any(has_wrapper))
}

#[cfg(feature = "shell")]
fn evaluated(option: &str, text: &str, signals: &Signals) -> Result<Bson, Failure> {
    use crate::failure::Exit;
    use crate::look::Look;
    use crate::script::{self, Engine, Purpose, Stopped, Target};

    /// The memory limit of an expression; larger values are given as Extended JSON.
    const MEMORY_BYTES: usize = 64 << 20;

    // An expression has no business with the store: one that asks `db` sees an empty one.
    let target = Target {
        store: crate::store::in_memory()?,
        store_name: String::new(),
        database: "test".to_owned(),
        keeps_read: false,
        look: Look::default(),
    };
    script::on_thread(|| {
        let engine = Engine::new(target, MEMORY_BYTES, signals.clone())?;
        let value = engine
            .evaluate_value(option, text, |ctx, value| script::value(ctx, &value, Purpose::Clause))
            .map_err(|stopped| match stopped {
                Stopped::Signal(exit) => Failure::new(exit, "interrupted"),
                // The memory is not what `--memory` says.
                Stopped::Uncaught(failure) => {
                    let message = failure.message.replace(" (--memory)", "");
                    let of = if message.starts_with(option) { String::new() } else { format!("{option}: ") };
                    Failure::usage(format!("{of}{message}: {}", shown(text)))
                }
                Stopped::Ended(_) => Failure::usage(format!("{option} must have a value: {}", shown(text))),
            })?;
        let value = value.ok_or_else(|| Failure::usage(format!("{option} has no value: {}", shown(text))))?;
        Bson::try_from(value).map_err(|error| Failure::new(Exit::Failed, format!("{option}: {error}")))
    })
}

#[cfg(not(feature = "shell"))]
fn evaluated(option: &str, text: &str, _: &Signals) -> Result<Bson, Failure> {
    let Err(failure) = parse_document(option, text) else {
        return Err(Failure::usage(format!("{option} is not Extended JSON: {}", shown(text))));
    };
    let message = failure.message;
    Err(Failure::usage(format!(
        "{message}; this build of cairn lacks the feature `shell`, so it takes Extended JSON only"
    )))
}
