//! The fixed text that a pattern starts with: for the bounds of an index, and for patterns that are nothing else.
//!
//! The invariant: every text that the pattern matches begins with the leading text told here. In doubt nothing is told.

use std::iter::Peekable;
use std::str::Chars;

use pcre::program::Options;

/// Where a text must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// At the start of what is searched.
    Start,
    /// Anywhere.
    Anywhere,
}

/// The text that a pattern begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// The characters up to the first that stands for something else.
    pub(super) text: String,
    /// Where they must stand.
    anchor: Anchor,
    /// The anchor, if the pattern is nothing but this text.
    pub(super) whole: Option<Anchor>,
}

impl Prefix {
    /// Reads the start of a pattern.
    pub(super) fn of(pattern: &str, options: Options) -> Self {
        let from_start = pattern.strip_prefix("\\A");
        let from_start = from_start.or_else(|| pattern.strip_prefix('^').filter(|_| !options.is_multi_line));
        let anchor = if from_start.is_some() { Anchor::Start } else { Anchor::Anywhere };
        let body = from_start.unwrap_or(pattern);
        if options.ignores_case {
            return Self { text: String::new(), anchor, whole: None };
        }
        let mut reader = Reader { rest: body.chars().peekable(), text: String::new() };
        let ends_there = reader.read(options.ignores_space);
        let rest = reader.rest.collect::<String>();
        let whole = (ends_there && (rest.is_empty() || rest == ".*")).then_some(anchor);
        if has_alternatives(&rest) {
            return Self { text: String::new(), anchor, whole: None };
        }
        Self { text: reader.text, anchor, whole }
    }

    /// What every text that the pattern matches starts with.
    pub(super) fn leading(self) -> Option<String> {
        (self.anchor == Anchor::Start && !self.text.is_empty()).then_some(self.text)
    }
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    text: String,
}

impl Reader<'_> {
    /// Takes characters that stand for themselves. Whether all that was passed is in the text: not if a quantifier
    /// follows, which says how often the last one stands there.
    fn read(&mut self, ignores_space: bool) -> bool {
        while let Some(&letter) = self.rest.peek() {
            match letter {
                '*' | '?' | '{' => {
                    self.text.pop();
                    return false;
                }
                '+' => return false,
                '(' => {
                    self.before_group();
                    return false;
                }
                '^' | '$' | '.' | '[' | ')' | '|' => return true,
                '\\' => {
                    // Only what is surely the character itself goes on.
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
                            // It means nothing here, so that a quantifier behind it is the last character's.
                            self.text.pop();
                            return false;
                        }
                        Some(_) | None => return false,
                    }
                }
                // What is left out can stand between a character and its quantifier.
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

    /// Takes back the last character where what looks like a group is none, so that a quantifier behind it may be the
    /// character's.
    fn before_group(&mut self) {
        let mut ahead = self.rest.clone();
        ahead.next();
        let is_special = ahead.next_if(|mark| matches!(mark, '?' | '*')).is_some();
        if is_special && !ahead.peek().is_some_and(|mark| matches!(mark, ':' | '=' | '!' | '<' | '>' | 'P')) {
            self.text.pop();
        }
    }

    /// Takes what stands before `\E`, or all that is left.
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

/// Whether what follows the fixed text may be followed by another branch of the whole pattern, which need not start with that
/// text. Bars within groups and classes are none; where reading on would need more of PCRE's syntax than is known
/// here, every bar counts.
fn has_alternatives(rest: &str) -> bool {
    if !rest.contains('|') {
        return false;
    }
    let is_plain = !["(*", "(?C", "(?#", "\\Q", "\\c", "#"].iter().any(|part| rest.contains(part));
    if !is_plain {
        return true;
    }
    let mut letters = rest.chars();
    let mut depth = 0_usize;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '(' => depth += 1,
            ')' | '|' if depth == 0 => return true,
            ')' => depth -= 1,
            '[' if !skip_class(&mut letters) => return true,
            _ => {}
        }
    }
    depth != 0
}

/// Goes behind the bracket that ends a class; whether there is one, in a class without brackets of its own.
fn skip_class(letters: &mut Chars<'_>) -> bool {
    let mut is_first = true;
    while let Some(letter) = letters.next() {
        match letter {
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
