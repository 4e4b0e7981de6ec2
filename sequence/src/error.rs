//! What can go wrong in this crate: so far, text that is no `ObjectId`.
//!
//! Every variant is the caller's mistake and carries the value it is about, shortened when it is long, so
//! that an error never grows with its input.

/// Why text is not an [`ObjectId`](crate::object_id::ObjectId).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not have 24 characters.
    #[error("\"{value}\" is not an ObjectId: it has {characters} characters, not 24")]
    ObjectIdLength {
        /// The text, shortened.
        value: String,
        /// How many characters the text has.
        characters: usize,
    },
    /// The text holds a character that is no hexadecimal digit.
    #[error("\"{value}\" is not an ObjectId: character {position} is '{character}', not a hexadecimal digit")]
    ObjectIdDigit {
        /// The text, shortened.
        value: String,
        /// The first character that is no digit, escaped if it is not printable.
        character: String,
        /// Where it stands, counted in characters from 1.
        position: usize,
    },
}

/// How many characters of a rejected value an error repeats.
const VALUE_CHARACTERS_MAX: usize = 48;

/// The beginning of `value` for an error's text: control characters escaped, the rest of a long value left out.
pub(crate) fn shorten(value: &str) -> String {
    let mut shown = value.chars().take(VALUE_CHARACTERS_MAX).flat_map(char::escape_debug).collect::<String>();
    if value.chars().nth(VALUE_CHARACTERS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_are_repeated_whole() {
        assert_eq!(shorten("12ab"), "12ab");
        assert_eq!(shorten(&"x".repeat(VALUE_CHARACTERS_MAX)), "x".repeat(VALUE_CHARACTERS_MAX));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let shown = shorten(&"ö".repeat(1_000));
        assert_eq!(shown, format!("{}...", "ö".repeat(VALUE_CHARACTERS_MAX)));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shorten("a\nb\0"), "a\\nb\\0");
    }
}
