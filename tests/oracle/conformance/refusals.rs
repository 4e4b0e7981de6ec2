//! The rejections, and why: one short table at the head of the page, in which everything that the other tables
//! reject, and MongoDB does not, is listed under its reason.
//!
//! `refusals.json` has the reasons. Each names the notes of other tables by how they begin, so that a new rejection needs a
//! reason, and a reason without rejections goes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The most rows that the table may have.
const ROWS_MAX: usize = 40;
/// The number of names that a row lists.
const NAMES_MAX: usize = 12;

/// MongoDB's codes for what it accepts and is rejected here: `NotImplemented`, `CannotCreateIndex`, and that of a pattern.
const CODES: [i32; 3] = [238, 67, 51_091];
/// The beginning of notes about what MongoDB rejects as well.
const AS_MONGODB: &str = "as in MongoDB";

/// Something that is rejected.
pub(crate) struct Refused {
    /// As the page has it, in backticks where it is code.
    pub(crate) name: String,
    /// The note of its table.
    pub(crate) note: String,
}

impl Refused {
    /// The rejection in a row of another table, if it is something that MongoDB accepts.
    pub(crate) fn of_row(name: &str, code: Option<i32>, note: &str) -> Option<Self> {
        let is_told = code.is_some_and(|code| CODES.contains(&code)) && !note.starts_with(AS_MONGODB);
        is_told.then(|| Self { name: name.to_owned(), note: note.to_owned() })
    }
}

/// The reason why things are rejected.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefusalReason {
    about: String,
    why: String,
    /// The way in which the notes of these things begin.
    notes: Vec<String>,
}

impl RefusalReason {
    fn holds(&self, refused: &Refused) -> bool {
        self.notes.iter().any(|note| refused.note.starts_with(note.as_str()))
    }
}

/// Reads the reasons.
pub(crate) fn load(folder: &Path) -> Vec<RefusalReason> {
    let text = fs::read_to_string(folder.join("refusals.json")).expect("the reasons are there");
    serde_json::from_str(&text).expect("a list of reasons")
}

/// Rejections without a reason or with two, and reasons for nothing.
pub(crate) fn failures(reasons: &[RefusalReason], refused: &[Refused]) -> Vec<String> {
    let mut failures = Vec::new();
    for thing in refused {
        let held: Vec<&str> =
            reasons.iter().filter(|reason| reason.holds(thing)).map(|reason| reason.about.as_str()).collect();
        if held.len() != 1 {
            failures.push(format!("{} ('{}') has these reasons: {held:?}", thing.name, thing.note));
        }
    }
    let notes = reasons.iter().flat_map(|reason| &reason.notes);
    let idle = notes.filter(|note| !refused.iter().any(|thing| thing.note.starts_with(note.as_str())));
    failures.extend(idle.map(|note| format!("nothing is refused with the note '{note}'")));
    if reasons.len() > ROWS_MAX {
        failures.push(format!("{} reasons, where {ROWS_MAX} are the limit", reasons.len()));
    }
    failures
}

/// The table.
pub(crate) fn print(reasons: &[RefusalReason], refused: &[Refused], page: &mut String) {
    page.push_str(HEAD);
    for reason in reasons {
        let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
        // In the order of the page; a name that several tables have is listed once.
        for thing in refused.iter().filter(|thing| reason.holds(thing)) {
            if seen.insert(thing.name.as_str()) {
                names.push(thing.name.as_str());
            }
        }
        let rest = names.len().saturating_sub(NAMES_MAX);
        names.truncate(NAMES_MAX);
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        let _ = writeln!(page, "| {} | {}{more} | {} |", reason.about, names.join(", "), reason.why);
    }
}

const HEAD: &str = "
## What is not supported

What MongoDB has and CairnDB does not support, by the reason. The tables below have each thing with its code.

| about | what | why |
|---|---|---|
";
