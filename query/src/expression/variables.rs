//! Variables that an expression sees besides the document: those of the caller, and the clock. What the operation that
//! evaluates it may use travels with them.
//!
//! Variables that operators such as `$let` and `$map` define live in the tree and are no business of this file, but
//! for the rules of their names.

use std::sync::Arc;

use bson::{DateTime, RawBson, RawBsonRef, RawDocument};

use crate::expression::error::Error;
use crate::expression::node::Scope;
use crate::expression::parse::parse;
use crate::expression::value::Value;
use crate::operation::OperationContext;
use crate::pattern::Room;

/// What an expression may refer to with two dollar signs, beside the document itself. Cheap to clone.
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
    /// What the compiled patterns of the request may take.
    room: Room,
    operation: OperationContext,
}

impl Default for Variables {
    /// No variables, and a clock that stands at 1970.
    fn default() -> Self {
        Self::new(DateTime::from_millis(0))
    }
}

impl Variables {
    /// No variables but the system's, with the time that `$$NOW` shall be.
    pub fn new(now: DateTime) -> Self {
        let operation = OperationContext::default();
        Self { now, defined: Arc::default(), room: Room::default(), operation }
    }

    /// The variables for an operation: what is evaluated with them works within what it may use.
    pub fn within(self, operation: OperationContext) -> Self {
        Self { operation, ..self }
    }

    /// The operation that the variables belong to; one without limits unless they were put
    /// [`within`](Self::within) another.
    pub fn operation(&self) -> &OperationContext {
        &self.operation
    }

    /// Adds the variables of a command's `let`: names with constant expressions, each of which may use the variables
    /// before it.
    ///
    /// # Errors
    /// [`Error::VariableName`] for a name that no variable can have, [`Error::VariableNotConstant`] for an
    /// expression that reads a field, and what parsing and evaluating the expressions gives.
    pub fn with_let(self, let_document: &RawDocument) -> Result<Self, Error> {
        let mut variables = self;
        let empty = bson::RawDocumentBuf::new();
        for element in let_document {
            let (name, value) = element.map_err(|error| Error::InvalidBson { reason: error.to_string() })?;
            let name = name.as_str();
            check_name(name)?;
            let tree = parse(value, &variables)?;
            if tree.reads_document() {
                return Err(Error::VariableNotConstant { name: name.to_owned() });
            }
            let value = tree.evaluate(Scope::new(&empty, &variables))?.into_static();
            define(Arc::make_mut(&mut variables.defined), name, value);
        }
        Ok(variables)
    }

    /// Adds or replaces one variable by its value; `None` is a missing value.
    ///
    /// # Errors
    /// [`Error::VariableName`] for a name that no variable can have.
    pub fn with(self, name: &str, value: Option<RawBson>) -> Result<Self, Error> {
        check_name(name)?;
        let mut variables = self;
        define(Arc::make_mut(&mut variables.defined), name, value.map_or(Value::Missing, Value::computed));
        Ok(variables)
    }

    /// The names of the variables that a caller defined.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.defined.iter().map(|(name, _)| name.as_str())
    }

    /// The time that `$$NOW` is.
    pub fn clock(&self) -> DateTime {
        self.now
    }

    /// What the compiled patterns of the request may take.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn now(&self) -> RawBsonRef<'static> {
        RawBsonRef::DateTime(self.now)
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value<'static>> {
        self.defined.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Whether a variable of this name can be defined: letters, digits and underscores, the first a small letter, or
/// anything beyond ASCII. `CURRENT` may be defined anew.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let refuse = |reason| Err(Error::VariableName { name: name.to_owned(), reason });
    let mut letters = name.chars();
    match letters.next() {
        None => return refuse("it is empty"),
        Some(_) if name == "CURRENT" => return Ok(()),
        Some(first) if !first.is_ascii_lowercase() && first.is_ascii() => {
            return refuse("it must start with a small letter");
        }
        Some(_) => {}
    }
    check_letters(name, letters)
}

/// Whether a variable of this name can exist, perhaps as the system's.
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
    if letters.any(|letter| letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_') {
        return Err(Error::VariableName {
            name: name.to_owned(),
            reason: "it must consist of letters, digits and underscores",
        });
    }
    Ok(())
}

fn define(defined: &mut Vec<(String, Value<'static>)>, name: &str, value: Value<'static>) {
    defined.retain(|(known, _)| known != name);
    defined.push((name.to_owned(), value));
}
