//! Variables that an expression sees besides the document: those of the caller, and the clock. The limits of the
//! operation that evaluates it travel with them.
//!
//! Variables that operators such as `$let` and `$map` define are not here: they are in the scope of evaluation. Only
//! the rules of their names are.

use std::sync::Arc;

use bson::{DateTime, RawBson, RawBsonRef};
use index::collation::Collation;

use crate::expression::error::Error;
use crate::expression::value::Value;
use crate::operation::OperationContext;
use crate::pattern::Room;

/// The variables of an operation: what an expression names with two dollar signs. Cheap to clone.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_query::expression::{Expression, Variables};
///
/// let variables = Variables::new(bson::DateTime::from_millis(0)).with_let(&rawdoc! { "limit": { "$add": [2, 3] } })?;
/// let sum = rawdoc! { "sum": { "$add": ["$n", "$$limit"] } };
/// let expression = Expression::parse(sum.get("sum").unwrap().unwrap(), &variables)?;
/// assert_eq!(expression.evaluate(&rawdoc! { "n": 1 }, &variables)?, Some(RawBson::Int32(6)));
/// # Ok::<(), cairndb_query::expression::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Variables {
    now: DateTime,
    defined: Arc<Vec<(String, Value<'static>)>>,
    /// The memory that the compiled patterns of the request may use together.
    room: Room,
    operation: OperationContext,
    collation: Collation,
}

impl Default for Variables {
    /// No variables, and the first moment of 1970 for `$$NOW`.
    fn default() -> Self {
        Self::new(DateTime::from_millis(0))
    }
}

impl Variables {
    /// Only the system's variables, with `now` as the value of `$$NOW`.
    pub fn new(now: DateTime) -> Self {
        let operation = OperationContext::default();
        let (defined, room, collation) = (Arc::default(), Room::default(), Collation::simple());
        Self { now, defined, room, operation, collation }
    }

    /// Puts the variables into an operation: what is evaluated with them keeps to its limits.
    pub fn within(self, operation: OperationContext) -> Self {
        Self { room: self.room.within(operation.clone()), operation, ..self }
    }

    /// Sets how texts compare, in whatever is parsed and evaluated with the variables.
    pub fn with_collation(self, collation: Collation) -> Self {
        Self { collation, ..self }
    }

    /// The comparison of strings: by their bytes, unless [`with_collation`](Self::with_collation) said otherwise.
    #[inline]
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The operation that the variables belong to: one without limits unless they were put
    /// [`within`](Self::within) another.
    pub fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Sets one variable; `None` is a missing value. A variable of that name is replaced.
    ///
    /// # Errors
    /// [`Error::VariableName`] for a name that a variable cannot have.
    pub fn with(self, name: &str, value: Option<RawBson>) -> Result<Self, Error> {
        check_name(name)?;
        let mut variables = self;
        variables.define(name, value.map_or(Value::Missing, Value::computed));
        Ok(variables)
    }

    /// The names of the variables that the caller defined, in the order of their definition.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.defined.iter().map(|(name, _)| name.as_str())
    }

    /// The names of the variables that have no value, as those of a `$lookup` have none while its pipeline is parsed.
    pub(crate) fn unset_names(&self) -> impl Iterator<Item = &str> {
        self.defined
            .iter()
            .filter(|(_, value)| matches!(value, Value::Missing))
            .map(|(name, _)| name.as_str())
    }

    /// The value of `$$NOW`.
    pub fn clock(&self) -> DateTime {
        self.now
    }

    /// The memory that the compiled patterns of the request may use together.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Sets a variable whose name was checked; one of that name is replaced.
    pub(super) fn define(&mut self, name: &str, value: Value<'static>) {
        // Clones share the list until one of them changes it.
        let defined = Arc::make_mut(&mut self.defined);
        // The list has few entries, so a search through all of them is cheaper than a map.
        defined.retain(|(known, _)| known != name);
        defined.push((name.to_owned(), value));
    }

    /// Removes a variable.
    pub(super) fn undefine(&mut self, name: &str) {
        Arc::make_mut(&mut self.defined).retain(|(known, _)| known != name);
    }

    pub(super) fn now(&self) -> RawBsonRef<'static> {
        RawBsonRef::DateTime(self.now)
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value<'static>> {
        self.defined.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Rejects a name that a definition cannot have.
///
/// A name consists of letters, digits and underscores, and starts with a lower-case letter. Characters beyond ASCII
/// are allowed anywhere. Of the system's variables only `CURRENT` may be defined again.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let refuse = |reason| Err(Error::VariableName { name: name.to_owned(), reason });
    let mut letters = name.chars();
    match letters.next() {
        None => return refuse("it is empty"),
        // `$$CURRENT` is where paths start, so defining it moves that. The other names in capitals are kept
        // for MongoDB.
        Some(_) if name == "CURRENT" => return Ok(()),
        Some(first) if !first.is_ascii_lowercase() && first.is_ascii() => {
            return refuse("it must start with a small letter");
        }
        Some(_) => {}
    }
    check_letters(name, letters)
}

/// Rejects a name that neither a variable of the caller nor one of the system can have.
pub(super) fn check_readable_name(name: &str) -> Result<(), Error> {
    let refuse = |reason| Err(Error::VariableName { name: name.to_owned(), reason });
    let mut letters = name.chars();
    match letters.next() {
        None => refuse("it is empty"),
        Some(first) if !first.is_ascii_alphabetic() && first.is_ascii() => {
            refuse("it must start with a letter")
        }
        Some(_) => check_letters(name, letters),
    }
}

fn check_letters(name: &str, mut letters: impl Iterator<Item = char>) -> Result<(), Error> {
    // Characters beyond ASCII are not judged: MongoDB accepts all of them.
    if letters.any(|letter| letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_') {
        return Err(Error::VariableName {
            name: name.to_owned(),
            reason: "it must consist of letters, digits and underscores",
        });
    }
    Ok(())
}
