//! The fixed text that a pattern starts with. It gives the bounds of an index scan, and replaces PCRE2 for
//! patterns that are only this text.
//!
//! The invariant: every text that the pattern matches starts with the prefix found here. In doubt the prefix
//! is shorter or empty.

use std::iter::Peekable;
use std::str::Chars;

use pcre::program::Options;

/// The places at which a fixed string must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// At the start of the searched text.
    Start,
    /// Anywhere.
    Anywhere,
}

/// The fixed text that a pattern starts with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// The characters before the first special one.
    pub(super) text: String,
    /// The places at which they must be found.
    anchor: Anchor,
    /// The anchor, if the pattern is only this text, or this text and `.*`.
    pub(super) whole: Option<Anchor>,
    /// The part after the string that `.*` matches.
    pub(super) tail: Tail,
}

/// The part of a match after the fixed string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing: the pattern ends there.
    Empty,
    /// The rest of the line, by `.*`.
    Line,
    /// The rest of the text, by `.*` where a dot matches newlines, too.
    Text,
}

impl Prefix {
    /// Finds the fixed text at the start of a pattern.
    pub(super) fn of(pattern: &str, options: Options) -> Self {
        // With several lines `^` matches after every line break as well. `\A` never does.
        let from_start = pattern.strip_prefix("\\A");
        let from_start = from_start.or_else(|| pattern.strip_prefix('^').filter(|_| !options.is_multi_line));
        let anchor = if from_start.is_some() { Anchor::Start } else { Anchor::Anywhere };
        let body = from_start.unwrap_or(pattern);
        // Strings that differ in case are not next to each other in an index.
        if options.ignores_case {
            return Self { text: String::new(), anchor, whole: None, tail: Tail::Empty };
        }
        let mut reader = Reader { rest: body.chars().peekable(), text: String::new() };
        let ends_there = reader.read(options.ignores_space);
        let rest = reader.rest.collect::<String>();
        // `.*` also matches the empty text, so at the end it does not change which texts match. It does change what a
        // search finds in them.
        let tail = match (rest.as_str(), options.dot_matches_all) {
            (".*", false) => Tail::Line,
            (".*", true) => Tail::Text,
            (_, _) => Tail::Empty,
        };
        let whole = (ends_there && (rest.is_empty() || rest == ".*")).then_some(anchor);
        if has_alternatives(&rest) {
            return Self { text: String::new(), anchor, whole: None, tail: Tail::Empty };
        }
        Self { text: reader.text, anchor, whole, tail }
    }

    /// The text that every match starts with. Returns `None` if there is none, or if it may stand anywhere.
    pub(super) fn leading(self) -> Option<String> {
        (self.anchor == Anchor::Start && !self.text.is_empty()).then_some(self.text)
    }
}

/// Reads literal characters from the start of a pattern.
struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    text: String,
}

impl Reader<'_> {
    /// Reads characters that match themselves, up to the first special one.
    ///
    /// Returns `false` if the text is not exactly what the pattern matches up to there, because a quantifier
    /// may follow.
    fn read(&mut self, ignores_space: bool) -> bool {
        while let Some(&letter) = self.rest.peek() {
            match letter {
                // These allow zero repetitions, so the character before them need not be there.
                '*' | '?' | '{' => {
                    self.text.pop();
                    return false;
                }
                // At least one repetition: the character is there, but more may follow it.
                '+' => return false,
                '(' => {
                    self.before_group();
                    return false;
                }
                '^' | '$' | '.' | '[' | ')' | '|' => return true,
                '\\' => {
                    // An escaped letter or digit is a class, an assertion or a reference. Escaped punctuation
                    // is literal.
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    match ahead.next() {
                        Some('Q') => {
                            self.rest = ahead;
                            self.quoted();
                        }
                        Some(escaped) if escaped.is_ascii_punctuation() => {
                            self.rest = ahead;
                            self.text.push(escaped);
                        }
                        Some('E') => {
                            // `\E` without `\Q` is ignored, so a quantifier after it applies to the character
                            // before.
                            self.text.pop();
                            return false;
                        }
                        Some(_) | None => return false,
                    }
                }
                // Ignored text may separate a character from its quantifier, which is not searched for here.
                _ if ignores_space && (letter == '#' || letter.is_whitespace() || letter.is_control()) => {
                    self.text.pop();
                    return false;
                }
                _ => {
                    self.rest.next();
                    self.text.push(letter);
                }
            }
        }
        true
    }

    /// Removes the last character if a comment or a directive follows, which looks like a group. A
    /// quantifier after it would apply to the character.
    fn before_group(&mut self) {
        let mut ahead = self.rest.clone();
        ahead.next();
        // `(?:`, `(?=` and their like are groups. `(?#comment)`, `(?C1)` and `(*VERB)` are not.
        let is_special = ahead.next_if(|mark| matches!(mark, '?' | '*')).is_some();
        if is_special && !ahead.peek().is_some_and(|mark| matches!(mark, ':' | '=' | '!' | '<' | '>' | 'P')) {
            self.text.pop();
        }
    }

    /// Reads the characters up to `\E`, or all that are left.
    fn quoted(&mut self) {
        while let Some(letter) = self.rest.next() {
            if letter == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.text.push(letter);
        }
    }
}

/// Whether `rest`, the pattern after the fixed text, may contain another alternative of the whole pattern.
/// That one need not start with the text.
///
/// Bars inside of groups and classes do not count. If `rest` has syntax that this function does not read,
/// every bar does.
fn has_alternatives(rest: &str) -> bool {
    if !rest.contains('|') {
        return false;
    }
    let is_plain = !["(*", "(?C", "(?#", "\\Q", "\\c", "#"].iter().any(|part| rest.contains(part));
    // In these a parenthesis or bracket may be literal, so counting them would be wrong.
    if !is_plain {
        return true;
    }
    // A bar counts only outside of all groups.
    let mut letters = rest.chars();
    let mut depth = 0_usize;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '(' => depth += 1,
            // A parenthesis that closes no group is beyond this reader, too.
            ')' | '|' if depth == 0 => return true,
            ')' => depth -= 1,
            '[' if !skip_class(&mut letters) => return true,
            _ => {}
        }
    }
    depth != 0
}

/// Skips a class, whose opening bracket was read. Returns `false` if it does not end, or has brackets inside.
fn skip_class(letters: &mut Chars<'_>) -> bool {
    let mut is_first = true;
    while let Some(letter) = letters.next() {
        match letter {
            // A bracket that comes first, even after `^`, is a member and does not end the class.
            '^' if is_first => continue,
            '\\' => drop(letters.next()),
            '[' => return false,
            ']' if !is_first => return true,
            _ => {}
        }
        is_first = false;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, whole: Option<Anchor>) {
        let found = Prefix::of(pattern, Options::default());
        assert_eq!((found.text.as_str(), found.whole), (text, whole), "{pattern:?}");
    }

    #[track_caller]
    fn check_leading(pattern: &str, options: Options, expected: Option<&str>) {
        assert_eq!(Prefix::of(pattern, options).leading().as_deref(), expected, "{pattern:?}");
    }

    #[test]
    fn a_pattern_can_be_nothing_but_a_text() {
        check("abc", "abc", Some(Anchor::Anywhere));
        check("^abc", "abc", Some(Anchor::Start));
        check("\\Aabc.*", "abc", Some(Anchor::Start));
        check("a\\.b\\\\", "a.b\\", Some(Anchor::Anywhere));
        check("^\\Qa.b*\\Ec", "a.b*c", Some(Anchor::Start));
        check("\\Qa|b", "a|b", Some(Anchor::Anywhere));
        check("^", "", Some(Anchor::Start));
        check("", "", Some(Anchor::Anywhere));
        check("é]}", "é]}", Some(Anchor::Anywhere));
    }

    #[test]
    fn a_text_ends_where_something_else_begins() {
        check("^ab$", "ab", None);
        check("^ab\\d", "ab", None);
        check("^ab.*c", "ab", None);
        check("^a(b)", "a", None);
    }

    #[test]
    fn a_quantified_character_is_not_fixed() {
        check("^abc*", "ab", None);
        check("^abc?", "ab", None);
        check("^abc{2}", "ab", None);
        check("^abc+", "abc", None);
        check("^\\Qab\\E*", "a", None);
        check("^ab\\E*", "a", None);
        check("^ab\\Q\\E*", "a", None);
        check("^ab(?#c)*", "a", None);
        check("^ab(?C1)*", "a", None);
        check("^ab(?:c)*", "ab", None);
    }

    #[test]
    fn another_branch_need_not_start_so() {
        check("^ab|c", "", None);
        check("^ab(c|d)", "ab", None);
        check("^ab[|]c", "ab", None);
        check("^ab[]|]c", "ab", None);
        check("^ab[^]|]c", "ab", None);
        check("^ab\\|c", "ab|c", Some(Anchor::Start));
        check("^ab(c|d)|e", "", None);
        check("^ab[[:alpha:]|]", "", None);
        check("^ab(*MARK:()(c)|d", "", None);
        check("^ab(?#()c|d", "", None);
        check("^ab.\\c(|d", "", None);
        check("^ab.\\Q(\\E|d", "", None);
        check("^ab(?C'(')|d", "", None);
    }

    #[test]
    fn options_decide_what_is_fixed() {
        let none = Options::default();
        check_leading("^abc", none, Some("abc"));
        check_leading("abc", none, None);
        check_leading("(?i)^abc", none, None);
        check_leading("^(?i)abc", none, None);
        check_leading("^abc", Options { ignores_case: true, ..none }, None);
        check_leading("^abc", Options { is_multi_line: true, ..none }, None);
        check_leading("\\Aabc", Options { is_multi_line: true, ..none }, Some("abc"));
        check_leading("^abc", Options { dot_matches_all: true, ..none }, Some("abc"));
        let spaced = Options { ignores_space: true, ..none };
        check_leading("^abc", spaced, Some("abc"));
        check_leading("^ab c", spaced, Some("a"));
        check_leading("^a *", spaced, None);
        check_leading("^a#c\n*", spaced, None);
    }
}
