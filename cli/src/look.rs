//! The look of answers at a terminal: indented, in colors, and without a byte that a terminal would obey. What goes
//! into a file or a pipe is as it is stored.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// Whether answers are colored.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Answers")]
pub(crate) struct Coloring {
    /// Color answers: `auto` does at a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// At a terminal that has colors.
    Auto,
    /// Also in a file or a pipe.
    Always,
    /// Nowhere.
    Never,
}

impl Coloring {
    /// The look of answers on standard output.
    pub(crate) fn look(self) -> Look {
        let is_terminal = std::io::stdout().is_terminal();
        let is_colored = match self.color {
            When::Auto => is_terminal && has_colors(),
            When::Always => true,
            When::Never => false,
        };
        Look { is_terminal, is_colored }
    }
}

/// Whether the terminal has colors, and the user wants them.
fn has_colors() -> bool {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    is_wanted && std::env::var_os("TERM").is_some_and(|name| name != "dumb")
}

/// The look of answers. By default as in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) is_terminal: bool,
    pub(crate) is_colored: bool,
}

impl Look {
    /// Whether a person may see the answer, also by a pager: control characters are escapes then.
    pub(crate) fn is_seen(self) -> bool {
        self.is_terminal || self.is_colored
    }

    /// A text with the colors of its marks. At a terminal control characters are escapes, but for tabs and the ends of lines.
    pub(crate) fn text(self, text: &str) -> Cow<'_, str> {
        if !self.is_seen() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let is_line_end = character == '\r' && characters.peek() == Some(&'\n');
            let part = Part::of_mark(character).filter(|_| self.is_colored);
            // Writing to a string does not fail.
            if let Some(part) = part {
                let _ = write!(shown, "{}", part.style());
            } else if self.is_colored && character == END {
                let _ = write!(shown, "{:#}", Part::Typed.style());
            } else if character.is_control() && !is_line_end && !matches!(character, '\n' | '\t') {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        Cow::Owned(shown)
    }

    /// Appends what begins the color of a part.
    pub(crate) fn begin(self, part: Part, out: &mut Vec<u8>) {
        if self.is_colored {
            out.extend_from_slice(part.style().render().to_string().as_bytes());
        }
    }

    /// Appends what ends the color of a part.
    pub(crate) fn end(self, part: Part, out: &mut Vec<u8>) {
        if self.is_colored {
            out.extend_from_slice(part.style().render_reset().to_string().as_bytes());
        }
    }
}

/// A part of an answer that has a color of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The name of a field.
    Name,
    Text,
    Number,
    /// `true` and `false`.
    Truth,
    /// `null` and `undefined`.
    Nothing,
    /// A value of a type that JSON does not have, as an ObjectId.
    Typed,
}

/// Ends a part in a text with marks. Marks are characters that Unicode sets apart for a program's own use: no text has them.
const END: char = '\u{fddf}';

impl Part {
    /// The part that a mark begins. The marks are those of `inspect.js`.
    fn of_mark(mark: char) -> Option<Self> {
        match mark {
            '\u{fdd0}' => Some(Self::Name),
            '\u{fdd1}' => Some(Self::Text),
            '\u{fdd2}' => Some(Self::Number),
            '\u{fdd3}' => Some(Self::Truth),
            '\u{fdd4}' => Some(Self::Nothing),
            '\u{fdd5}' => Some(Self::Typed),
            _ => None,
        }
    }

    /// The colors are those that terminals show well on a dark and on a light ground.
    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Self::Name => color(AnsiColor::Blue).bold(),
            Self::Text => color(AnsiColor::Green),
            Self::Number => color(AnsiColor::Cyan),
            Self::Truth => color(AnsiColor::Yellow),
            Self::Nothing => color(AnsiColor::BrightBlack),
            Self::Typed => color(AnsiColor::Magenta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Look = Look { is_terminal: true, is_colored: false };
    const COLORED: Look = Look { is_terminal: true, is_colored: true };

    #[test]
    fn a_text_is_as_it_is_but_at_a_terminal() {
        let text = "a\tb\r\n\r\u{1b}[31m\u{9b}2J\u{7f}ü";
        assert_eq!(Look::default().text(text), text);
        for look in [SEEN, COLORED] {
            assert_eq!(look.text(text), "a\tb\r\n\\r\\u{1b}[31m\\u{9b}2J\\u{7f}ü");
        }
    }

    #[test]
    fn marks_are_colors_where_there_are_any() {
        let marked = "\u{fdd0}a\u{fddf}: \u{fdd2}1\u{fddf}";
        assert_eq!(COLORED.text(marked), "\u{1b}[1m\u{1b}[34ma\u{1b}[0m: \u{1b}[36m1\u{1b}[0m");
        assert_eq!(SEEN.text(marked), marked);
    }
}
