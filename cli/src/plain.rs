//! Texts for people: names and messages may have what ends a line or moves the cursor of a terminal, also those that come from
//! a store, a dump, a server or a script. All that the tool itself prints as a line goes through here; documents do not.

use std::fmt::Write as _;

/// The text on one line: control characters as escapes.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A line of JSON on which no reader sees more than one: what ends a line for some, or is a command to some terminals, stands
/// in texts alone, where JSON has an escape for it.
pub(crate) fn json_line(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escapes() {
        assert_eq!(plain("ü\n\u{1b}[31m\u{7}\u{9b}"), "ü\\n\\u{1b}[31m\\u{7}\\u{9b}");
        assert_eq!(json_line("{\"ü\":\"\u{9b}\u{2028}\"}"), "{\"ü\":\"\\u009b\\u2028\"}");
    }
}
