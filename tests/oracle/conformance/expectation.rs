//! The result of a command, the expectation of a case, and whether they agree.

use std::fmt;

use bson::{Bson, Document};

use crate::conformance::json::Json;
use crate::conformance::value::{document, is_same, optional, show};

/// The result of a command.
pub(crate) enum Outcome {
    /// Documents found, or all documents after an update.
    Documents(Vec<Document>),
    /// Distinct values, or the values of an expression.
    Values(Vec<Option<Bson>>),
    /// The number of documents that match.
    Number(usize),
    /// An error, with MongoDB's number.
    Refused { code: i32, text: String },
}

/// The expectation of a case.
pub(crate) enum Expectation {
    /// Documents or values, in order; a value may be missing.
    List(Vec<Option<Bson>>),
    /// Documents with these `_id`s, in order.
    Ids(Vec<Bson>),
    /// An error with a number, and a part of its text.
    Refused { code: i32, text: String },
}

impl Expectation {
    /// Reads `[...]`, `{"ids": [...]}` or `{"error": {"code": n, "text": "..."}}`.
    pub(crate) fn parse(expect: &Json) -> Result<Self, String> {
        if let Some(list) = expect.list() {
            return Ok(Self::List(list.iter().map(optional).collect::<Result<_, _>>()?));
        }
        if let Some(ids) = expect.get("ids").and_then(Json::list) {
            return Ok(Self::Ids(ids.iter().map(Json::bson).collect::<Result<_, _>>()?));
        }
        let error = expect.get("error").ok_or("an expectation is a list, ids or an error")?;
        let error = document(error)?;
        let code = error.get_i32("code").map_err(|_| "an error has a code")?;
        Ok(Self::Refused { code, text: error.get_str("text").unwrap_or_default().to_owned() })
    }

    /// The wanted outcome, if it is not what came.
    pub(crate) fn difference(&self, outcome: &Outcome) -> Option<String> {
        let agrees = match (self, outcome) {
            (Self::List(wanted), Outcome::Documents(found)) => {
                let found = found.iter().map(|document| Some(Bson::Document(document.clone())));
                is_same_list(wanted, &found.collect::<Vec<_>>())
            }
            (Self::List(wanted), Outcome::Values(found)) => is_same_list(wanted, found),
            (Self::Ids(wanted), Outcome::Documents(found)) => {
                let found = found.iter().map(|document| document.get("_id").cloned());
                let wanted = wanted.iter().cloned().map(Some);
                is_same_list(&wanted.collect::<Vec<_>>(), &found.collect::<Vec<_>>())
            }
            (Self::List(wanted), Outcome::Number(found)) => wanted.len() == *found,
            (Self::Ids(wanted), Outcome::Number(found)) => wanted.len() == *found,
            (Self::Refused { code, text }, Outcome::Refused { code: found, text: found_text }) => {
                code == found && found_text.contains(text.as_str())
            }
            (Self::Ids(_), Outcome::Values(_))
            | (Self::Refused { .. }, Outcome::Documents(_) | Outcome::Values(_) | Outcome::Number(_))
            | (Self::List(_) | Self::Ids(_), Outcome::Refused { .. }) => false,
        };
        (!agrees).then(|| self.to_string())
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(list) => show_list(formatter, list),
            Self::Ids(ids) => {
                formatter.write_str("ids ")?;
                show_list(formatter, &ids.iter().cloned().map(Some).collect::<Vec<_>>())
            }
            Self::Refused { code, text } => write!(formatter, "error {code} with '{text}'"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Documents(documents) => {
                let list = documents.iter().map(|document| Some(Bson::Document(document.clone())));
                show_list(formatter, &list.collect::<Vec<_>>())
            }
            Self::Values(values) => show_list(formatter, values),
            Self::Number(number) => write!(formatter, "{number} documents"),
            Self::Refused { code, text } => write!(formatter, "error {code}: {text}"),
        }
    }
}

fn is_same_list(wanted: &[Option<Bson>], found: &[Option<Bson>]) -> bool {
    let is_same = |(wanted, found): (&Option<Bson>, &Option<Bson>)| match (wanted, found) {
        (Some(wanted), Some(found)) => is_same(wanted, found),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    wanted.len() == found.len() && wanted.iter().zip(found).all(is_same)
}

fn show_list(formatter: &mut fmt::Formatter<'_>, list: &[Option<Bson>]) -> fmt::Result {
    let shown = list.iter().map(|value| value.as_ref().map_or("missing".to_owned(), show));
    write!(formatter, "[{}]", shown.collect::<Vec<_>>().join(", "))
}
