//! Checks of what is declared of an index besides its keys: its partial filter and its expiry.

use std::sync::Arc;
use std::time::Duration;

use base::error::{Error, Result};
use bson::{Document, RawDocumentBuf};
use index::spec::IndexSpec;
use query::code::Code;

use crate::catalog::indexes::Index;
use crate::catalog::settings::{
    EXPIRE_AFTER, EXPIRE_AFTER_MAX, HIDDEN, IndexSettings, PARTIAL_FILTER, PartialFault, PartialFilter,
    WILDCARD_PROJECTION,
};
use crate::options::IndexOptions;

/// Checks the settings among the options of an index with a spec.
pub(crate) fn parse(options: &IndexOptions, spec: &IndexSpec) -> Result<IndexSettings> {
    let expire_after_seconds = options.expire_after.map(|time| expiry(time, spec)).transpose()?;
    let partial = options.partial_filter_expression.as_ref();
    let partial = partial.map(|filter| partial_filter(filter, spec)).transpose()?.map(Arc::new);
    Ok(IndexSettings { partial, expire_after_seconds, hidden: options.hidden == Some(true) })
}

/// Adds the settings that are given to a description of the index on `_id`, which may have none of them.
pub(crate) fn describe_given(options: &IndexOptions, description: &mut Document) {
    if let Some(filter) = &options.partial_filter_expression {
        description.insert(PARTIAL_FILTER, filter.clone());
    }
    if let Some(time) = options.expire_after {
        description.insert(EXPIRE_AFTER, i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    }
    if let Some(projection) = &options.wildcard_projection {
        description.insert(WILDCARD_PROJECTION, projection.clone());
    }
    if let Some(hidden) = options.hidden {
        description.insert(HIDDEN, hidden);
    }
}

/// Rejects a definition of an existing index with another expiry. It is changed by `collMod`, not by a second creation.
pub(crate) fn compare_expiry(existing: &Index, settings: &IndexSettings) -> Result<()> {
    if existing.settings.expire_after_seconds == settings.expire_after_seconds {
        return Ok(());
    }
    let message = format!(
        "an equivalent index already exists with the same name but different options: {} has another {EXPIRE_AFTER}",
        existing.name
    );
    Err(Error::command(Code::INDEX_OPTIONS_CONFLICT, message))
}

/// The seconds of an expiry, if an index with a spec may have it.
pub(crate) fn expiry(time: Duration, spec: &IndexSpec) -> Result<u32> {
    if spec.wildcard().is_some() {
        return Err(cannot_create("Index type 'wildcard' does not support TTL indexes".to_owned()));
    }
    if spec.fields().len() != 1 {
        let message = format!(
            "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {}",
            Document::try_from(spec.keys()).unwrap_or_default()
        );
        return Err(cannot_create(message));
    }
    let seconds = u32::try_from(time.as_secs()).ok().filter(|seconds| *seconds <= EXPIRE_AFTER_MAX);
    seconds.ok_or_else(|| {
        let seconds = time.as_secs();
        cannot_create(format!(
            "TTL index '{EXPIRE_AFTER}' option must be within 0 and {EXPIRE_AFTER_MAX}, not {seconds}"
        ))
    })
}

/// A wildcard index on the paths that a projection says.
pub(crate) fn project(spec: IndexSpec, projection: &Document) -> Result<IndexSpec> {
    let projection = RawDocumentBuf::try_from(projection)?;
    spec.with_projection(&projection).map_err(|error| Error::command(Code::BAD_VALUE, error.to_string()))
}

/// The filter of a partial index with a spec.
fn partial_filter(filter: &Document, spec: &IndexSpec) -> Result<PartialFilter> {
    if spec.is_sparse() {
        return Err(cannot_create(format!("cannot mix \"{PARTIAL_FILTER}\" and \"sparse\" options")));
    }
    PartialFilter::parse(RawDocumentBuf::try_from(filter)?, spec.collation()).map_err(|fault| match fault {
        PartialFault::Malformed(error) => Error::from(error),
        PartialFault::Refused(operator) => {
            cannot_create(format!("unsupported expression in partial index: {operator}"))
        }
    })
}

fn cannot_create(message: String) -> Error {
    Error::command(Code::CANNOT_CREATE_INDEX, message)
}
