//! The paths that a file names through `crate`, `self` and `super`, and all that it imports: groups
//! expanded, and `super` resolved by where the file lies, so that no spelling hides an arrow.

use crate::code;
use crate::tree::File;

/// One path with the place it stands at. `*` and `self` are kept as last segments.
#[derive(Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// Every path from the crate's root that the file names outside of tests, in imports or inline,
/// without the leading `crate`.
pub(crate) fn inside_the_crate(file: &File) -> Vec<Named> {
    let home = module_of(&file.path);
    let mut paths = Vec::new();
    for root in ["crate", "super"] {
        for at in code::words(&file.code, root) {
            if is_continuation(&file.code, at) || file.is_test(file.line_at(at)) {
                continue;
            }
            let named = expand(file.code.get(at..).unwrap_or_default());
            paths.extend(named.into_iter().filter_map(|segments| {
                let segments = absolute(&home, segments)?;
                (!segments.is_empty()).then(|| Named { line: file.line_at(at), segments })
            }));
        }
    }
    paths
}

/// Every path that starts with `self::` outside of tests, as from the crate's root.
pub(crate) fn inside_the_module(file: &File) -> Vec<Named> {
    let home = module_of(&file.path);
    let starts = code::words(&file.code, "self").filter(|at| {
        let code = file.code.get(*at..).unwrap_or_default();
        code.starts_with("self::") && !is_continuation(&file.code, *at) && !file.is_test(file.line_at(*at))
    });
    starts
        .flat_map(|at| {
            let line = file.line_at(at);
            let home = &home;
            expand(file.code.get(at..).unwrap_or_default()).into_iter().map(move |segments| Named {
                line,
                segments: home.iter().cloned().chain(segments.into_iter().skip(1)).collect(),
            })
        })
        .collect()
}

/// Everything that `use` declarations name, as written.
pub(crate) fn imports(file: &File) -> Vec<Named> {
    code::words(&file.code, "use")
        .flat_map(|at| {
            let declared = file.code.get(at + "use".len()..).unwrap_or_default().trim_start();
            expand(declared).into_iter().map(move |segments| Named { line: file.line_at(at), segments })
        })
        .collect()
}

/// Whether the word at `at` goes on a path (`a::super`) or is a visibility (`pub(crate)`, `pub(super)`).
fn is_continuation(code: &str, at: usize) -> bool {
    let before = code.get(..at).unwrap_or_default().trim_end();
    before.ends_with("::") || before.ends_with("pub(")
}

/// `engine/src/write/insert.rs` is `[write, insert]`; a crate's root is empty.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    let mut segments: Vec<String> = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if segments.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        segments.pop();
    }
    segments
}

/// A path as from the crate's root; `None` when it leads out of the crate, which is not compiled anyway.
fn absolute(home: &[String], segments: Vec<String>) -> Option<Vec<String>> {
    let supers = segments.iter().take_while(|segment| *segment == "super").count();
    let base = if supers == 0 { &[] } else { home.get(..home.len().checked_sub(supers)?)? };
    let own = segments.into_iter().skip(supers.max(1));
    Some(base.iter().cloned().chain(own).collect())
}

/// The paths of the tree `a::{b, c::d}` at the start of `code`.
fn expand(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    expand_into(code, &[], &mut paths);
    paths
}

/// Adds the paths of one tree; returns what follows the tree.
fn expand_into<'a>(code: &'a str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let mut segments = prefix.to_vec();
    let mut rest = code.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            return expand_group(group, &segments, paths);
        }
        if let Some(after) = rest.strip_prefix('*') {
            segments.push("*".to_owned());
            rest = after;
            break;
        }
        let end = rest.find(|character| !code::is_word(character)).unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        let (segment, after) = rest.split_at(end);
        segments.push(segment.to_owned());
        let Some(next) = after.trim_start().strip_prefix("::") else {
            rest = after;
            break;
        };
        rest = next.trim_start();
    }
    paths.push(segments);
    rest
}

/// Adds the paths of a group after its `{`; returns what follows its `}`.
fn expand_group<'a>(group: &'a str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let mut rest = group;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return rest;
        }
        if let Some(after) = rest.strip_prefix('}') {
            return after;
        }
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
            continue;
        }
        let after = expand_into(rest, prefix, paths);
        // `as name` and whatever else stands behind a path: on to the next comma or brace.
        rest = after.find([',', '}']).and_then(|at| after.get(at..)).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let named = inside_the_crate(&File::new(path, text));
        let joined: Vec<String> = named.iter().map(|named| named.segments.join("::")).collect();
        assert_eq!(joined, expected);
    }

    #[test]
    fn groups_are_expanded() {
        check(
            "e/src/a.rs",
            "use crate::b::{C, d::{self, E as F}, g::*};",
            &["b::C", "b::d::self", "b::d::E", "b::g::*"],
        );
        check("e/src/a.rs", "use crate::{b::C, d};", &["b::C", "d"]);
    }

    #[test]
    fn inline_paths_count_and_visibilities_do_not() {
        check("e/src/a.rs", "pub(crate) fn f() -> crate::b::C { crate::d::<u8>() }", &["b::C", "d"]);
        check("e/src/a/b.rs", "pub(super) struct S;", &[]);
    }

    #[test]
    fn super_is_resolved_by_the_files_place() {
        check("e/src/a.rs", "use super::b::C;", &["b::C"]);
        check("e/src/a/mod.rs", "use super::b::C;", &["b::C"]);
        check("e/src/a/b.rs", "use super::c::D;", &["a::c::D"]);
        check("e/src/a/b.rs", "use super::super::c::D;", &["c::D"]);
    }

    #[test]
    fn tests_and_comments_are_left_out() {
        check(
            "e/src/a.rs",
            "// crate::b\n#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::c::D;\n}\n",
            &[],
        );
    }

    #[test]
    fn imports_are_all_seen() {
        let named = imports(&File::new("e/src/a.rs", "use std::fmt;\npub use b::{C, d::*};\n"));
        let joined: Vec<String> = named.iter().map(|named| named.segments.join("::")).collect();
        assert_eq!(joined, ["std::fmt", "b::C", "b::d::*"]);
    }
}
