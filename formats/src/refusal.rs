//! Errors of records that are not documents, and of columns that make no sense.

/// Which kind of mistake a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The record is not in the format of its file.
    NotParsed,
    /// A value is not of the type that its column has.
    WrongType,
    /// The document is well-formed and larger or deeper than a store accepts.
    OverLimit,
}

/// The reason why a record was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Which kind of mistake it is.
    pub fault: Fault,
    /// One sentence that names the thing and the value.
    pub reason: String,
}

impl Refusal {
    pub(crate) fn not_parsed(reason: impl Into<String>) -> Self {
        Self { fault: Fault::NotParsed, reason: reason.into() }
    }

    pub(crate) fn wrong_type(reason: impl Into<String>) -> Self {
        Self { fault: Fault::WrongType, reason: reason.into() }
    }
}

/// The beginning of a text that is named in a message: a cell may have megabytes.
pub(crate) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{:?}..", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shown("a\"b"), "\"a\\\"b\"");
        assert_eq!(shown(&"ü".repeat(70)), format!("{:?}..", "ü".repeat(60)));
    }
}
