//! Rust text without what only people read: comments and the insides of literals become blanks, byte
//! for byte, so that offsets and lines stay what they were. It knows raw strings, nested comments and
//! the difference between a character and a lifetime; it does not know macros.

/// The text with comments and literals blanked.
pub(crate) fn blank(text: &str) -> String {
    let mut rest = text;
    let mut code = String::with_capacity(text.len());
    let mut previous = ' ';
    while let Some(next) = rest.chars().next() {
        let hidden = hidden_bytes(rest, previous);
        let taken = if hidden == 0 { next.len_utf8() } else { hidden };
        let (piece, after) = rest.split_at(taken);
        if hidden == 0 {
            code.push(next);
        } else {
            code.extend(piece.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        }
        previous = piece.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    code
}

/// How many bytes at the start of `rest` are a comment or a literal.
fn hidden_bytes(rest: &str, previous: char) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_bytes(rest);
    }
    if rest.starts_with('"') {
        return quoted_bytes(rest, '"');
    }
    if rest.starts_with('\'') {
        return character_bytes(rest);
    }
    if is_word(previous) { 0 } else { prefixed_bytes(rest) }
}

fn block_comment_bytes(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(after) = rest.get(at..).filter(|after| !after.is_empty()) {
        if after.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if after.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += after.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted_bytes(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, next) in rest.char_indices().skip(1) {
        match next {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if next == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; 0 for a lifetime.
fn character_bytes(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => quoted_bytes(rest, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// `r"…"`, `r#"…"#`, `b"…"`, `br"…"`, `c"…"`, `b'…'`; 0 for anything else.
fn prefixed_bytes(rest: &str) -> usize {
    let letters = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    let (prefix, literal) = rest.split_at(letters);
    if prefix.is_empty() || prefix.len() > 2 {
        return 0;
    }
    if prefix == "b" && literal.starts_with('\'') {
        return letters + character_bytes(literal);
    }
    let hashes = literal.len() - literal.trim_start_matches('#').len();
    if !literal.trim_start_matches('#').starts_with('"') {
        return 0;
    }
    if !prefix.ends_with('r') {
        return if hashes == 0 { letters + quoted_bytes(literal, '"') } else { 0 };
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let open = hashes + 1;
    literal
        .get(open..)
        .and_then(|inside| inside.find(&end))
        .map_or(rest.len(), |at| letters + open + at + end.len())
}

/// By line of blanked code: whether it belongs to an item under `#[cfg(test)]`.
pub(crate) fn test_lines(code: &str) -> Vec<bool> {
    let mut tests = vec![false; code.lines().count()];
    for attribute in ["#[cfg(test)]", "#[cfg(all(test,"] {
        for (start, _) in code.match_indices(attribute) {
            let item = code.get(start..).unwrap_or_default();
            let first = line_of(code, start);
            let last = line_of(code, start + item_bytes(item));
            tests.iter_mut().take(last + 1).skip(first).for_each(|test| *test = true);
        }
    }
    tests
}

fn line_of(code: &str, offset: usize) -> usize {
    code.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The length of the item at the start: up to its closing brace, or its semicolon if that comes first.
fn item_bytes(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, next) in item.char_indices() {
        match next {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && next == '}' {
                    return at;
                }
            }
            ';' if depth == 0 => return at,
            _ => {}
        }
    }
    item.len()
}

/// Whether a character can be part of an identifier.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Offsets at which `word` stands as a word of its own.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code.get(..*at).and_then(|text| text.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"f("g \" h", i)"#, "f( , i)");
        check(r##"f(r#"g " h"#, i)"##, "f( , i)");
        check("f(b\"g\", br\"h\", c\"i\")", "f( , , )");
        check("f('g', '\\'', b'h', 'é')", "f( , , , )");
    }

    #[test]
    fn lifetimes_and_names_that_end_like_a_prefix_stay() {
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("number\"x\"", "number");
        check("r#type", "r#type");
    }

    #[test]
    fn items_for_tests_end_with_their_brace_or_semicolon() {
        let code = "a\n#[cfg(test)]\nmod tests {\n  fn f() {}\n}\nb\n#[cfg(test)]\nmod cases;\nc\n";
        assert_eq!(test_lines(code), [false, true, true, true, true, false, true, true, false]);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("use_x use x reuse use", "use").collect::<Vec<_>>(), [6, 18]);
    }
}
