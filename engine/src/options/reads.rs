//! Options of the verbs that read.

use std::time::Duration;

use bson::{Bson, Document};

use crate::options::indexes::Hint;

/// Options of `find` and `find_one`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOptions {
    /// Accepted: documents are read one by one, so there are no batches to size.
    pub batch_size: Option<u32>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// At most this many documents; 0 is no limit; a negative number is taken without its sign.
    pub limit: Option<i64>,
    /// Give up with code 50 after this long. Time between two calls of the cursor does not count.
    pub max_time: Option<Duration>,
    /// Which fields are shown, and which are computed.
    pub projection: Option<Document>,
    /// Skip this many matching documents first.
    pub skip: Option<u64>,
    /// In which order the documents come; that of their `_id`s if absent.
    pub sort: Option<Document>,
}

/// Options of `aggregate`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AggregateOptions {
    /// Accepted, as it only allows: nothing is ever moved to disk. A stage that holds more than 100 MiB fails with code
    /// 292 either way.
    pub allow_disk_use: Option<bool>,
    /// Accepted: documents are read one by one, so there are no batches to size.
    pub batch_size: Option<u32>,
    /// Accepted: no stage writes, so there is nothing to validate.
    pub bypass_document_validation: Option<bool>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Give up with code 50 after this long. Time between two calls of the cursor does not count.
    pub max_time: Option<Duration>,
}

/// Options of `count_documents`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CountOptions {
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Count at most this many; it must be positive.
    pub limit: Option<u64>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// Skip this many matching documents first.
    pub skip: Option<u64>,
}

/// Options of `distinct`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DistinctOptions {
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
}

/// How texts compare. Only the simple collation is there, by which they compare as their bytes do.
///
/// ```
/// use cairndb::Collation;
///
/// assert_eq!(Collation::simple().locale, "simple");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collation {
    /// The language whose rules apply; any other than `simple` is refused when the call runs.
    pub locale: String,
}

impl Collation {
    pub(crate) const SIMPLE: &'static str = "simple";

    /// The simple collation.
    pub fn simple() -> Self {
        Self::with_locale(Self::SIMPLE)
    }

    /// The collation of a language.
    pub fn with_locale(locale: impl Into<String>) -> Self {
        Self { locale: locale.into() }
    }
}
