//! Errors of the document of a collation.

use thiserror::Error as ThisError;

/// The reason why a collation was rejected.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The document has no `locale`.
    #[error("BSON field 'collation.locale' is missing but a required field")]
    LocaleMissing,
    /// The document has a field that no collation has.
    #[error("BSON field 'collation.{field}' is an unknown field.")]
    UnknownField {
        /// The name of the field.
        field: String,
    },
    /// A field is of a type that it must not be of.
    #[error("BSON field 'collation.{field}' is the wrong type '{found}', expected type '{expected}'")]
    WrongType {
        /// The name of the field.
        field: &'static str,
        /// The type of its value.
        found: String,
        /// The type that it must be of.
        expected: &'static str,
    },
    /// A field has none of the values that are allowed.
    #[error("field 'collation.{field}' must be {expected}, not '{found}'")]
    Value {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// A language that MongoDB does not know either.
    #[error("field 'locale' is invalid in the collation: '{locale}'{}", did_you_mean(suggestion.as_deref()))]
    UnknownLocale {
        /// The given locale.
        locale: String,
        /// The language that was perhaps meant.
        suggestion: Option<String>,
    },
    /// Other fields beside the locale `simple`.
    #[error("if locale is 'simple', no other field may be present in the collation, but there is '{field}'")]
    SimpleWithOptions {
        /// The name of the first of them.
        field: String,
    },
    /// Options that have no effect together.
    #[error("the collation's '{field}' is invalid {reason}")]
    Combination {
        /// The option without effect.
        field: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// A version of the rules that is not here.
    #[error("requested collation version {found} but the only available collator version was {available}")]
    Version {
        /// The given value.
        found: String,
        /// The available values.
        available: &'static str,
    },
    /// An option that MongoDB has and this library does not.
    #[error("the collation with {what} is not supported{}", reason)]
    Unsupported {
        /// The option and its value.
        what: String,
        /// The reason, or the alternative; with a leading comma.
        reason: &'static str,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|locale| format!(". Did you mean '{locale}'?")).unwrap_or_default()
}
