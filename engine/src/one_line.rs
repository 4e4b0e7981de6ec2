//! Texts of clients in the log of the embedding program: on one line.
//!
//! Names of collections and fields, values, and errors that name them may have what ends a line, or is a command to a
//! terminal. A subscriber that writes plain text would make lines of them in which anything could stand.

use std::fmt::{self, Display, Write};

/// Shows a value with its control characters as escapes.
pub(crate) struct OneLine<T>(pub(crate) T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f }, "{}", self.0)
    }
}

struct Escaping<'a, 'f> {
    to: &'a mut fmt::Formatter<'f>,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            // A line end for some readers is not a control character.
            if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
                write!(self.to, "{}", character.escape_default())?;
            } else {
                self.to.write_char(character)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escapes() {
        let text = "shop.ä\r\nWARN\u{1b}[2J\u{9b}\u{2028}\0";
        assert_eq!(OneLine(text).to_string(), "shop.ä\\r\\nWARN\\u{1b}[2J\\u{9b}\\u{2028}\\u{0}");
    }
}
