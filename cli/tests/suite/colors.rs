//! How answers look at a terminal, and that no byte of a document is obeyed by it.

#![cfg(feature = "shell")]

use std::process::Command;

use cairndb::bson::{Bson, Document, doc, oid::ObjectId};

use crate::fixture::screen::printed_at_a_terminal;
use crate::fixture::{Fixture, every_type, on_both};

const BLUE: &str = "\u{1b}[1m\u{1b}[34m";
const GREEN: &str = "\u{1b}[32m";
const CYAN: &str = "\u{1b}[36m";
const YELLOW: &str = "\u{1b}[33m";
const GRAY: &str = "\u{1b}[90m";
const MAGENTA: &str = "\u{1b}[35m";
const END: &str = "\u{1b}[0m";

/// A text without the colors that the tool gives.
fn uncolored(text: &str) -> String {
    let codes = [END, "\u{1b}[1m", "\u{1b}[34m", GREEN, CYAN, YELLOW, GRAY, MAGENTA];
    codes.into_iter().fold(text.to_owned(), |text, code| text.replace(code, ""))
}

fn at_a_terminal(fixture: &Fixture, name: &str, more: &[&str], settings: &[(&str, &str)]) -> String {
    let mut command = fixture.run(name, more);
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(settings.iter().copied());
    printed_at_a_terminal(command)
}

fn in_a_pipe(fixture: &Fixture, name: &str, more: &[&str]) -> String {
    let mut command: Command = fixture.run(name, more);
    let output = command.env_remove("NO_COLOR").env("TERM", "xterm").output().expect("it works");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

fn nested() -> Document {
    doc! { "_id": 1, "name": "Ada", "items": [{ "sku": "a", "n": 2.5 }, {}], "paid": true, "note": Bson::Null }
}

#[test]
fn a_query_at_a_terminal_is_indented_and_colored() {
    on_both(&[nested()], |fixture| {
        let indented = "{\n  \"_id\": 1,\n  \"name\": \"Ada\",\n  \"items\": [\n    {\n      \"sku\": \"a\",\n      \"n\": 2.5\n    },\n    {}\n  ],\n  \
                        \"paid\": true,\n  \"note\": null\n}\n";
        for expression in ["db.orders.find()", "db.orders.findOne()"] {
            let shown = at_a_terminal(fixture, "query", &[expression], &[]);
            assert_eq!(uncolored(&shown), indented, "{expression}");
            for part in [
                format!("{BLUE}\"name\"{END}: {GREEN}\"Ada\"{END}"),
                format!("{BLUE}\"_id\"{END}: {CYAN}1{END}"),
                format!("{CYAN}2.5{END}"),
                format!("{YELLOW}true{END}"),
                format!("{GRAY}null{END}"),
            ] {
                assert!(shown.contains(&part), "{part:?} is not in {shown:?}");
            }
        }
        let array = at_a_terminal(fixture, "query", &["db.orders.find()", "--format", "json"], &[]);
        let deeper = indented.trim_end().replace('\n', "\n  ");
        assert_eq!(uncolored(&array), format!("[\n  {deeper}\n]\n"));
        // What asks for a line gets one.
        let line = at_a_terminal(fixture, "query", &["db.orders.find()", "--format", "ndjson"], &[]);
        assert!(line.contains(CYAN), "{line:?}");
        assert_eq!(uncolored(&line), in_a_pipe(fixture, "query", &["db.orders.find()"]));
        let canonical = at_a_terminal(fixture, "query", &["db.orders.find()", "--canonical"], &[]);
        assert!(
            uncolored(&canonical).starts_with("{\n  \"_id\": {\"$numberInt\":\"1\"},\n"),
            "{canonical:?}"
        );
    });
}

/// A table shows documents whole, or is not chosen.
#[test]
fn documents_that_fit_in_a_table_are_one() {
    let fixture =
        Fixture::new(&[doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 20, "name": Bson::Null }], false);
    let shown = at_a_terminal(&fixture, "query", &["db.orders.find()"], &[]);
    assert_eq!(uncolored(&shown), "_id  name\n  1  Ada\n 20  null\n");
    assert!(shown.starts_with(&format!("{BLUE}_id{END}  {BLUE}name{END}\n")), "{shown:?}");
    assert!(shown.contains(&format!("  {CYAN}1{END}  {GREEN}Ada{END}\n")), "{shown:?}");
    let long = doc! { "_id": 1, "text": "x".repeat(41) };
    let fixture = Fixture::new(&[long], false);
    let shown = at_a_terminal(&fixture, "query", &["db.orders.find()"], &[]);
    assert!(uncolored(&shown).starts_with("{\n  \"_id\": 1,\n"), "{shown:?}");
    let table = at_a_terminal(&fixture, "query", &["db.orders.find()", "--format", "table"], &[]);
    assert!(uncolored(&table).starts_with("_id  text\n"), "{table:?}");
}

#[test]
fn a_shell_at_a_terminal_is_colored_and_laid_out_as_without_colors() {
    let document = doc! {
        "_id": ObjectId::from_bytes([1; 12]), "name": "Ada", "a b": [1, 2], "paid": false, "note": Bson::Null,
        "many": (0..30).collect::<Vec<i32>>(), "items": [{ "text": "x".repeat(30), "more": "y".repeat(30) }],
    };
    on_both(&[document, every_type()], |fixture| {
        for code in [
            "db.orders.find()",
            "db.orders.findOne()",
            "printjson(db.orders.findOne())",
            "[1, 'a', undefined]",
            "print({a: 1})",
        ] {
            let shown = at_a_terminal(fixture, "shell", &["--eval", code], &[]);
            assert_eq!(uncolored(&shown), in_a_pipe(fixture, "shell", &["--eval", code]), "{code}");
            assert!(shown.contains(CYAN), "{shown:?}");
        }
        let shown = at_a_terminal(fixture, "shell", &["--eval", "db.orders.findOne()"], &[]);
        for part in [
            format!("{BLUE}_id{END}: {MAGENTA}ObjectId('010101010101010101010101'){END}"),
            format!("{BLUE}name{END}: {GREEN}'Ada'{END}"),
            format!("{BLUE}'a b'{END}: [ {CYAN}1{END}, {CYAN}2{END} ]"),
            format!("{YELLOW}false{END}"),
            format!("{GRAY}null{END}"),
        ] {
            assert!(shown.contains(&part), "{part:?} is not in {shown:?}");
        }
        // What is no value has no colors, and errors and comparisons none of their texts.
        assert_eq!(at_a_terminal(fixture, "shell", &["--eval", "tojson({a: 1})"], &[]), "{ a: 1 }\n");
        assert_eq!(at_a_terminal(fixture, "shell", &["--eval", "'text'"], &[]), "text\n");
    });
}

#[test]
fn colors_are_there_when_they_are_wanted() {
    let fixture = Fixture::new(&[nested()], false);
    let query = ["db.orders.findOne({}, {name: 1})"];
    let colored = at_a_terminal(&fixture, "query", &query, &[]);
    assert!(colored.contains(CYAN), "{colored:?}");
    for settings in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let shown = at_a_terminal(&fixture, "query", &query, &settings);
        assert_eq!(shown, uncolored(&colored), "{settings:?}");
        let forced = [&query[..], &["--color", "always"]].concat();
        assert_eq!(at_a_terminal(&fixture, "query", &forced, &settings), colored, "{settings:?}");
    }
    // One that is empty is not set.
    assert_eq!(at_a_terminal(&fixture, "query", &query, &[("NO_COLOR", "")]), colored);
    let never = [&query[..], &["--color", "never"]].concat();
    assert_eq!(at_a_terminal(&fixture, "query", &never, &[]), uncolored(&colored));
    // A pipe has none, unless they are asked for, and lines in any case.
    let plain = in_a_pipe(&fixture, "query", &query);
    assert_eq!(plain, "{\"_id\":1,\"name\":\"Ada\"}\n");
    let always = in_a_pipe(&fixture, "query", &[query[0], "--color", "always"]);
    assert!(always.contains(CYAN) && uncolored(&always) == plain, "{always:?}");
    for name in ["auto", "never"] {
        let shown = in_a_pipe(&fixture, "shell", &["--eval", "[1]", "--color", name]);
        assert_eq!(shown, "[ 1 ]\n");
    }
}

/// A document can move the cursor of a terminal, change its title, or have it type: no byte of it that a terminal obeys may come
/// there. In a pipe it is as it is stored.
#[test]
fn no_byte_of_a_document_is_obeyed_by_a_terminal() {
    // The control characters of ASCII and beyond, the marks of the tool's own colors, and its colors.
    let evil: String =
        (0..0xa0).filter_map(char::from_u32).filter(|one| one.is_control() && *one != '\0').collect();
    let evil = format!("{evil}\u{fdd1}\u{fddf}\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[32m");
    let pattern: cairndb::bson::Regex = cairndb::bson::Regex {
        pattern: evil.clone().try_into().expect("it has no NUL"),
        options: "i".try_into().expect("it has no NUL"),
    };
    let name = evil.replace(['.', '$'], "");
    let mut document = doc! {
        "_id": &evil, "pattern": pattern, "code": Bson::JavaScriptCode(evil.clone()), "symbol": Bson::Symbol(evil.clone()),
        "nested": { "list": [&evil] },
    };
    document.insert(&name, 1);
    on_both(&[document], |fixture| {
        let asked = [
            "db.orders.find()",
            "db.orders.findOne()",
            "db.orders.findOne()._id",
            "db.orders.distinct('_id')",
            "Object.keys(db.orders.findOne())",
            "print(db.orders.findOne()._id, db.orders.findOne())",
            "printjson(db.orders.findOne())",
            "console.log(db.orders.findOne().pattern)",
            "db.getCollection(db.orders.findOne()._id.slice(1))",
            "new Error(db.orders.findOne()._id)",
            "Symbol(db.orders.findOne()._id)",
        ];
        let check = |shown: &str, what: &str| {
            let left = uncolored(shown);
            let obeyed = |one: char| one.is_control() && one != '\n' && one != '\t';
            assert!(!left.contains(obeyed), "{what}: {left:?}");
            assert!(shown.len() > 100, "{what}: {shown:?}");
        };
        for color in ["auto", "never"] {
            for expression in asked {
                let shown = at_a_terminal(fixture, "shell", &["--eval", expression, "--color", color], &[]);
                check(&shown, expression);
                if expression.starts_with("db.orders") {
                    let shown = at_a_terminal(fixture, "query", &[expression, "--color", color], &[]);
                    check(&shown, expression);
                }
            }
            for form in ["ndjson", "json", "table", "csv"] {
                let more = ["db.orders.find()", "--format", form, "--color", color];
                check(&at_a_terminal(fixture, "query", &more, &[]), form);
            }
        }
        // A pager shows the same.
        let paged = in_a_pipe(fixture, "query", &["db.orders.findOne()._id", "--color", "always"]);
        check(&paged, "a pager");
        let stored = in_a_pipe(fixture, "query", &["db.orders.findOne()._id"]);
        assert_eq!(stored, format!("{evil}\n"));
    });
}
