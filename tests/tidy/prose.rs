//! What people read in the sources: phrases that a reader stumbles over, and examples of what users of the engine call;
//! and parameters that hide how many there are.

use crate::code;
use crate::tree::{File, Finding, Tree, has_extension};

/// Phrases that plain English has a better word for, and the better word.
pub(crate) const PHRASES: [(&str, &str); 17] = [
    ("nothing if there is none", "returns `None` if"),
    ("none if there is none", "returns `None` if"),
    ("so many bytes", "name the parameter: `count` bytes"),
    ("so many documents", "name the parameter: `count` documents"),
    ("so many terms", "name the parameter: `count` terms"),
    ("foremost", "lowest"),
    ("hindmost", "highest"),
    ("it stands on", "the current document"),
    ("stood on", "the current document"),
    ("of old", "legacy"),
    ("whoever", "the caller, a reader"),
    ("nobody", "no caller, no thread"),
    ("the same for ", "say what it does"),
    ("never, because", "delete the section"),
    ("came about", "say what failed"),
    ("as many as may be", "the limit is reached"),
    ("what is more", "also"),
];

/// Where a text that people read uses one of the phrases.
pub(crate) fn phrases(file: &File) -> Vec<Finding> {
    let is_prose = has_extension(&file.path, "md");
    // The table of phrases names them.
    if !(is_prose || has_extension(&file.path, "rs")) || file.path.starts_with("tests/tidy/") {
        return Vec::new();
    }
    let codes = file.code.lines().chain(std::iter::repeat(""));
    let found = file.text.lines().zip(codes).enumerate().flat_map(|(at, (text, code))| {
        let prose = (if is_prose { text.to_owned() } else { only_hidden(text, code) }).to_lowercase();
        let broken = PHRASES.into_iter().filter(move |phrase| contains_phrase(&prose, phrase.0));
        broken.map(move |(phrase, better)| (at + 1, format!("'{phrase}': {better}")))
    });
    found.map(|(line, what)| file.finding(line, what)).collect()
}

/// What the blanked code of a line hides: its comments and literals.
fn only_hidden(text: &str, code: &str) -> String {
    let hidden = text.char_indices().map(|(at, character)| {
        let is_hidden = code.as_bytes().get(at).is_none_or(u8::is_ascii_whitespace);
        if is_hidden { character } else { ' ' }
    });
    hidden.collect()
}

fn contains_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + phrase.len()..).and_then(|after| after.chars().next());
        let borders = |side: Option<char>| !side.is_some_and(code::is_word);
        borders(before) && (phrase.ends_with(' ') || borders(after))
    })
}

/// Parameters that destructure tuples: `(one, other): (One, Other)` passes for one parameter and is two.
pub(crate) fn tuple_parameters(file: &File) -> Vec<Finding> {
    // `fn(u8)` is a type and has no name.
    let has_name = |at: usize| file.code.get(at + "fn".len()..).is_some_and(|after| after.starts_with(' '));
    let functions =
        code::words(&file.code, "fn").filter(|at| has_name(*at) && !file.is_test(file.line_at(*at)));
    functions
        .flat_map(|at| {
            parameters(file.code.get(at..).unwrap_or_default())
                .filter(|parameter| parameter.trim_start().starts_with('('))
                .map(move |parameter| {
                    file.finding(file.line_at(at), format!("a tuple taken apart: {parameter}"))
                })
        })
        .collect()
}

/// The parameters of the function whose declaration `code` starts with, as written.
fn parameters(code: &str) -> impl Iterator<Item = &str> {
    // Type parameters may hold parentheses of their own: `<F: Fn(u8)>`.
    let mut angles = 0_usize;
    let mut previous = ' ';
    let open = code.char_indices().find(|(_, character)| {
        match character {
            '<' => angles += 1,
            '>' if previous != '-' => angles = angles.saturating_sub(1),
            _ => {}
        }
        previous = *character;
        angles == 0 && matches!(character, '(' | ';' | '{')
    });
    let list = open
        .filter(|(_, character)| *character == '(')
        .and_then(|(at, _)| code.get(at + 1..))
        .unwrap_or_default();
    split_parameters(list).into_iter()
}

fn split_parameters(list: &str) -> Vec<&str> {
    let mut parameters = Vec::new();
    let (mut depth, mut start, mut previous) = (0_usize, 0, ' ');
    for (at, character) in list.char_indices() {
        match character {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if previous == '-' => {}
            ')' | ']' | '}' | '>' if depth == 0 => {
                parameters.extend(list.get(start..at));
                break;
            }
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parameters.extend(list.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
        previous = character;
    }
    parameters
}

/// Two numbers of which one is a part of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) part: usize,
    pub(crate) whole: usize,
}

/// Verbs and setters of the engine with an example in their documentation, of all of them: public functions that are given
/// something besides `self`. In the crates that no user sees, an example is written where it teaches.
pub(crate) fn examples(tree: &Tree) -> Share {
    let mut share = Share::default();
    let is_of_the_engine = |file: &&File| file.path.starts_with("engine/src/") && !file.is_test_file();
    for file in tree.rust().filter(is_of_the_engine) {
        let (mut has_example, mut start) = (false, 0);
        for (at, (text, code)) in file.text.lines().zip(file.code.lines()).enumerate() {
            let trimmed = text.trim_start();
            if trimmed.starts_with("///") {
                has_example |= trimmed.starts_with("/// ```");
            } else if !trimmed.starts_with("#[") {
                let declaration = file.code.get(start..).unwrap_or_default().trim_start_matches(' ');
                let is_item = is_verb_or_setter(declaration) && !file.is_test(at + 1);
                share.part += usize::from(is_item && has_example);
                share.whole += usize::from(is_item);
                has_example = false;
            }
            start += code.len() + 1;
        }
    }
    share
}

fn is_verb_or_setter(declaration: &str) -> bool {
    let is_self =
        |parameter: &str| parameter.split(':').next().is_some_and(|name| name.trim().ends_with("self"));
    ["pub fn ", "pub const fn "].iter().any(|start| declaration.starts_with(start))
        && parameters(declaration).any(|parameter| !parameter.trim().is_empty() && !is_self(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_in_prose_and_messages_only() {
        let file = File::new(
            "engine/src/a.rs",
            "/// The value; nothing if there is none.\nfn whoever() { say(\"Nobody is there\") }\nlet nobody = 1;\n",
        );
        let lines: Vec<usize> = phrases(&file).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2]);
        assert_eq!(phrases(&File::new("docs/a.md", "A letter of older days.\nOne of old.\n")).len(), 1);
    }

    #[test]
    fn tuples_are_found_among_parameters() {
        let count = |text: &str| tuple_parameters(&File::new("engine/src/a.rs", text)).len();
        assert_eq!(count("fn f((a, b): (A, B), c: (C, D)) {}"), 1);
        assert_eq!(count("fn f<F: Fn(u8) -> u8>(&self, f: F, (a, _): (A, B), (c, d): (C, D)) {}"), 2);
        assert_eq!(count("fn f(a: Vec<(A, B)>, g: fn((A, B)) -> C) -> (A, B) { (a, b) }"), 0);
        assert_eq!(count("#[cfg(test)]\nmod tests {\n    fn f((a, b): (A, B)) {}\n}\n"), 0);
    }

    #[test]
    fn verbs_and_setters_with_an_example_are_counted() {
        let text = "/// One.\n///\n/// ```\n/// f();\n/// ```\n#[inline]\npub fn f(&self, a: A) {}\n\n/// Two.\n\
                    pub fn g<F>(\n    mut self,\n    b: F,\n) {}\npub fn run(self) {}\npub fn h() {}\npub struct S;\n\
                    pub(crate) fn i(a: A) {}\npub use a::B;\n";
        let share = |path: &str| examples(&Tree::new(vec![File::new(path, text)]));
        assert_eq!(share("engine/src/a.rs"), Share { part: 1, whole: 2 });
        assert_eq!(share("index/src/a.rs"), Share::default());
    }
}
