//! The meaning of patterns, as MongoDB's PCRE2 reads them.

use super::*;
use crate::error::Error;
use crate::pattern::room::BYTES_MAX;

const NEVER: &dyn Fn() -> bool = &|| false;

#[track_caller]
fn check(pattern: &str, options: &str, matching: &[&str], others: &[&str]) {
    let parsed = Pattern::parse(pattern, options, &Room::default()).unwrap();
    for (texts, expected) in [(matching, true), (others, false)] {
        for text in texts {
            assert_eq!(parsed.matches_text(text, NEVER), Ok(expected), "/{pattern}/{options} in {text:?}");
        }
    }
}

#[track_caller]
fn check_spans(pattern: &str, text: &str, start: usize, expected: Option<(usize, usize)>) {
    let parsed = Pattern::parse(pattern, "", &Room::default()).unwrap();
    let found = parsed.find_at(text, start, NEVER).unwrap();
    assert_eq!(
        found.map(|found| (found.span.start, found.span.end)),
        expected,
        "/{pattern}/ in {text:?} from {start}"
    );
}

#[test]
fn looking_ahead_and_behind() {
    check(r"^(?=.*[A-Z])(?=.*\d)(?!.*\s).{8,}$", "", &["Passw0rdX"], &["password1", "Pass w0rd", "Pw1"]);
    check(r"(?<=\$)\d+", "", &["$5"], &["5"]);
    check(r"(?<!a)b", "", &["b", "bb"], &["ab"]);
}

#[test]
fn back_references() {
    check(r"(\w)\1", "", &["aa", "abb"], &["abab"]);
    check(r"(?<q>['x])a\k<q>", "", &["'a'", "xax"], &["'ax"]);
}

#[test]
fn quoted_text() {
    check(r"^\Qa.b[c\E$", "", &["a.b[c"], &["axb[c"]);
    check(r"x\Q*\E+y", "", &["x**y"], &["xy"]);
}

#[test]
fn ends_within_alternatives() {
    check("^a$|^b", "", &["a", "a\n", "bc"], &["ac", "xb"]);
    check("(x|$)", "", &["", "x", "y"], &[]);
    check("a$", "", &["a", "a\n"], &["a\n\n", "a\nb"]);
    check("a$", "m", &["a\nb", "a\n\n"], &["ab"]);
    check("^b", "m", &["a\nb"], &["a b"]);
    // No line starts after the newline that ends a text.
    check("^$", "m", &["", "a\n\nb"], &["a\n"]);
}

#[test]
fn unusual_classes() {
    check(r"^[\w-.]+$", "", &["a-b.c"], &["a b", "a,b"]);
    check("^[]a]+$", "", &["]a"], &["["]);
    check(r"^[\w-.\s-!\d-]+$", "", &["a-b.c !5"], &["a,b"]);
    check(r"^[+-\w]+$", "", &["a-+"], &[","]);
    check("[[:digit:]-]", "", &["-", "7"], &["a"]);
    check("[[a]", "", &["[", "a"], &["]"]);
    check("[a&&b]", "", &["&"], &["c"]);
}

#[test]
fn literal_braces_and_octal_escapes() {
    check("^a{$", "", &["a{"], &["a"]);
    check("^{x}$", "", &["{x}"], &["x"]);
    check("a{,x}", "", &["a{,x}"], &["a"]);
    check(r"^\101\o{102}\x43\x{e9}$", "", &["ABCé"], &["abcé"]);
}

#[test]
fn sets_are_of_ascii_unless_a_pattern_says_otherwise() {
    check(r"\d", "", &["7"], &["٣"]);
    check(r"\w", "", &["a_"], &["é"]);
    check(r"(*UCP)\d", "", &["٣"], &[]);
    check(r"\p{L}", "", &["é"], &["7"]);
    check(r"\p{Greek}", "", &["λ"], &["l"]);
    check("é", "i", &["É"], &["e"]);
    check("straße", "iu", &["STRAßE"], &["STRASSE"]);
}

#[test]
fn options_mean_what_they_do_in_mongodb() {
    check("a.b", "", &["a b"], &["a\nb"]);
    check("a.b", "s", &["a\nb"], &[]);
    check("a b # c", "x", &["ab"], &["a b"]);
    check("A", "i", &["a"], &["b"]);
    check("(?i)a(?-i)b", "", &["Ab"], &["AB"]);
    check("a++b", "", &["aab"], &["a"]);
    check("(?>a|ab)c", "", &["ac"], &["abc"]);
    check(r"(?|(a)|(b))\1", "", &["bb"], &["ab"]);
    check(r"^(\((?:[^()]|(?1))*\))$", "", &["(a(b)c)"], &["(a(b)c"]);
}

#[test]
fn plain_text_is_found_as_pcre_finds_it() {
    check("b.c", "", &["abxc"], &["abc"]);
    check("b\\.c", "", &["ab.cd"], &["abxc"]);
    check("^ab", "", &["abc"], &["cab", "c\nab"]);
    check_spans("b", "abab", 2, Some((3, 4)));
    check_spans("^a", "aa", 1, None);
    check_spans("", "ab", 1, Some((1, 1)));
    check_spans("é", "eé", 1, Some((1, 3)));
}

/// PCRE2's results are known; that the shortcut for plain strings has the same is shown by giving it the same pattern
/// in a form that the shortcut does not accept.
#[test]
fn the_shortcut_for_plain_text_agrees_with_pcre() {
    let patterns = ["", "^", "a", "^a", "\\Aab.*", "a\\.b", "\\Qa|b\\E", "^é", "]}", "a\nb"];
    let texts = ["", "a", "ab", "ba", "a.b", "a|b", "é", "]}", "a\nb", "b\na", "aa"];
    for pattern in patterns {
        let short = Pattern::parse(pattern, "", &Room::default()).unwrap();
        assert!(matches!(short.source.matcher, Matcher::Text { .. }), "{pattern:?}");
        let long = Pattern::parse(&format!("(?:){pattern}"), "", &Room::default()).unwrap();
        for text in texts {
            assert_eq!(
                short.matches_text(text, NEVER),
                long.matches_text(text, NEVER),
                "{pattern:?} {text:?}"
            );
        }
    }
}

#[test]
fn errors_say_what_pcre_says() {
    let refuse = |pattern: &str| {
        let error = Pattern::parse(pattern, "", &Room::default()).unwrap_err();
        let PatternError::Invalid { pattern, reason } = error else { panic!("{error:?}") };
        format!("{pattern}: {reason}")
    };
    assert_eq!(refuse("a("), "a(: missing closing parenthesis, at byte 2");
    assert_eq!(refuse("*"), "*: quantifier does not follow a repeatable item, at byte 0");
    assert_eq!(refuse(r"\1x"), r"\\1x: reference to non-existent subpattern, at byte 1");
}

/// A hundred patterns of 18 bytes used 570 MB once they were compiled.
#[test]
fn the_patterns_of_a_request_take_bounded_memory() {
    let room = Room::default();
    let grown = "((a{100}){100}){6}";
    let mut patterns = Vec::new();
    let refused = loop {
        match Pattern::parse(grown, "", &room) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, PatternError::TooMany { limit } if limit == 16 << 20), "{refused:?}");
    assert!(patterns.len() > 500, "{}", patterns.len());
    drop(patterns);
    assert!(Pattern::parse(grown, "", &room).is_ok());
    let small = (0..100).map(|_| Pattern::parse(r"\p{L}{90}n", "", &room)).collect::<Result<Vec<_>, _>>();
    assert!(small.is_ok());
}

#[test]
fn the_watch_keeps_the_error_of_a_search() {
    let pattern = Pattern::parse("^(a+)+c?$", "", &Room::default()).unwrap();
    let text = format!("{}b", "a".repeat(40));
    let watch = Watch::default();
    assert!(!pattern.matches(RawBsonRef::String(&text), &watch));
    let error = Error::from(watch.outcome(true).unwrap_err());
    assert!(matches!(&error, Error::PatternFailed { pattern, .. } if pattern == "^(a+)+c?$"), "{error}");
    let watch = Watch::default();
    assert!(pattern.matches(RawBsonRef::String("aaa"), &watch));
    assert!(watch.outcome(true).unwrap());
}

#[track_caller]
fn parse_at(last: &LastPattern, pattern: &str, options: &str, room: &Room) -> Pattern {
    last.parse(pattern, options, room).unwrap()
}

#[test]
fn the_same_pattern_is_compiled_once() {
    let (last, room) = (LastPattern::default(), Room::default());
    let first = parse_at(&last, "a+", "i", &room);
    assert!(first.is_same(&parse_at(&last, "a+", "i", &room)));
    assert!(first.is_same(&parse_at(&last.clone(), "a+", "i", &room)));
    for (pattern, options) in [("a+", ""), ("a+b", "i"), ("a+", "i")] {
        let other = parse_at(&last, pattern, options, &room);
        assert_eq!((other.text(), other.options()), (pattern, options));
        assert!(!first.is_same(&other));
        assert!(other.is_same(&parse_at(&last, pattern, options, &room)));
    }
    assert!(last.parse("(", "", &room).is_err());
    assert!(last.parse("(", "", &room).is_err());
}

#[test]
fn what_is_kept_is_charged_until_the_next_one() {
    let (last, room) = (LastPattern::default(), Room::default());
    drop(parse_at(&last, "a+", "", &room));
    assert!(room.take(BYTES_MAX).is_err());
    assert!(last.parse("(", "", &room).is_err());
    assert!(room.take(BYTES_MAX).is_ok());
}

#[test]
fn nothing_is_kept_where_room_is_short() {
    let (last, room) = (LastPattern::default(), Room::default());
    let _others = room.take(BYTES_MAX / 2).unwrap();
    let first = parse_at(&last, "a+", "", &room);
    assert!(!first.is_same(&parse_at(&last, "a+", "", &room)));
    drop(first);
    assert!(room.take(BYTES_MAX / 2).is_ok());
}
