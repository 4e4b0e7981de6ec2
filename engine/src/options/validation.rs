//! Whether a collection checks its documents, and what it does about those that are not valid.

/// Which writes are checked by the validator of a collection.
///
/// ```
/// # use cairndb::{Client, ValidationLevel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let app = client.database("app");
/// let people = app.collection::<Document>("people");
/// people.insert_one(doc! { "_id": 1 }).run()?;
/// let named = doc! { "name": { "$type": "string" } };
/// app.modify_collection("people").validator(named).validation_level(ValidationLevel::Moderate).run()?;
///
/// // A document that was not valid before may be changed, and new ones are checked.
/// people.update_one(doc! { "_id": 1 }, doc! { "$set": { "age": 36 } }).run()?;
/// assert_eq!(people.insert_one(doc! { "_id": 2 }).run().unwrap_err().code(), Some(121));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidationLevel {
    /// Nothing is checked.
    Off,
    /// Every document that is inserted or changed is checked.
    #[default]
    Strict,
    /// Every document that is inserted is checked, and of those that are changed the ones that were valid before.
    Moderate,
}

/// The treatment of an invalid document.
///
/// ```
/// # use cairndb::{Client, ValidationAction, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let app = client.database("app");
/// let named = doc! { "name": { "$type": "string" } };
/// app.create_collection("people").validator(named).validation_action(ValidationAction::Warn).run()?;
/// // Stored, and a warning is logged.
/// app.collection::<Document>("people").insert_one(doc! { "_id": 1 }).run()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidationAction {
    /// The write is rejected with code 121 (`DocumentValidationFailure`).
    #[default]
    Error,
    /// The write is done, and a warning is logged.
    Warn,
    /// The write is rejected, and a warning is logged.
    ErrorAndLog,
}

impl ValidationLevel {
    /// The names in commands and in the catalog.
    pub(crate) const NAMES: [&'static str; 3] = ["off", "strict", "moderate"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Strict => "strict",
            Self::Moderate => "moderate",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Off, Self::Strict, Self::Moderate].into_iter().find(|level| level.name() == name)
    }
}

impl ValidationAction {
    /// The names in commands and in the catalog.
    pub(crate) const NAMES: [&'static str; 3] = ["error", "warn", "errorAndLog"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::ErrorAndLog => "errorAndLog",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Error, Self::Warn, Self::ErrorAndLog].into_iter().find(|action| action.name() == name)
    }
}
