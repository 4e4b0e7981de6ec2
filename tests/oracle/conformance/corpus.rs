//! The corpus as it lies in files: an array of cases, one on each line, so that a case has a place to be named by.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bson::{Bson, Document};
use serde::{Deserialize, Deserializer};

use crate::conformance::expectation::Expectation;
use crate::conformance::json::Json;
use crate::conformance::value::document;

/// One case.
pub(crate) struct Case {
    /// `file:line`.
    pub(crate) place: String,
    /// The line as it is in the file.
    pub(crate) text: String,
    /// The documented rule that it shows.
    pub(crate) rule: String,
    pub(crate) documents: Vec<Document>,
    /// The collections besides that of the documents.
    pub(crate) others: Vec<OtherCollection>,
    pub(crate) command: Command,
    /// The collection whose documents are the outcome, where the command gives none. Only the engine has it.
    pub(crate) then: Option<String>,
    pub(crate) expect: Expectation,
    /// The engine's result, where documents that are stored cannot be those of the case.
    pub(crate) stored: Option<Stored>,
}

/// A collection besides that of the documents.
pub(crate) struct OtherCollection {
    pub(crate) name: String,
    pub(crate) documents: Vec<Document>,
    /// The keys of its unique indexes.
    pub(crate) unique: Vec<Document>,
}

/// The difference between the engine and the case, and its reason.
pub(crate) struct Stored {
    pub(crate) why: String,
    pub(crate) expect: Expectation,
}

/// The work with the documents.
pub(crate) enum Command {
    Find(Find),
    Update(Change),
    Distinct { path: String, filter: Document },
    Expression { expression: Bson, variables: Document },
    Aggregate { stages: Vec<Document>, variables: Document },
}

/// Documents are found, sorted and shown.
#[derive(Default)]
pub(crate) struct Find {
    pub(crate) filter: Document,
    pub(crate) projection: Option<Document>,
    pub(crate) sort: Option<Document>,
    pub(crate) skip: usize,
    pub(crate) limit: Option<usize>,
    pub(crate) variables: Document,
}

/// Documents are changed.
pub(crate) struct Change {
    pub(crate) filter: Document,
    pub(crate) update: Modification,
    pub(crate) array_filters: Vec<Document>,
    pub(crate) reach: Reach,
    pub(crate) upsert: Upsert,
    pub(crate) variables: Document,
}

/// The treatment of a document.
pub(crate) enum Modification {
    Operators(Document),
    Pipeline(Vec<Document>),
}

/// The number of documents that an update changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    One,
    Many,
}

/// Whether an update that finds nothing inserts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upsert {
    No,
    Yes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    rule: String,
    documents: Vec<Json>,
    #[serde(default)]
    collections: BTreeMap<String, Vec<Json>>,
    #[serde(default)]
    unique: BTreeMap<String, Vec<Json>>,
    command: CommandLine,
    then: Option<String>,
    expect: Json,
    engine: Option<StoredLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLine {
    why: String,
    expect: Json,
}

/// All that a command may have; which one it is shows by its first field.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CommandLine {
    filter: Option<Json>,
    projection: Option<Json>,
    sort: Option<Json>,
    skip: Option<usize>,
    limit: Option<usize>,
    r#let: Option<Json>,
    update: Option<Json>,
    upsert: bool,
    multi: bool,
    array_filters: Vec<Json>,
    /// Null is an expression as well.
    #[serde(deserialize_with = "present")]
    expression: Option<Json>,
    distinct: Option<String>,
    aggregate: Option<Vec<Json>>,
}

/// All cases, by file and line.
pub(crate) fn load(folder: &Path) -> Vec<Case> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("its folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    names.sort();
    names.iter().flat_map(|path| load_file(path)).collect()
}

fn load_file(path: &Path) -> Vec<Case> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = fs::read_to_string(path).expect("a file of the corpus is text");
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let cases = lines.filter(|(_, line)| !matches!(*line, "[" | "]" | ""));
    cases
        .map(|(at, line)| {
            let place = format!("{name}:{at}");
            let text = line.strip_suffix(',').unwrap_or(line);
            parse(&place, text).unwrap_or_else(|reason| panic!("{place}: {reason}"))
        })
        .collect()
}

fn parse(place: &str, text: &str) -> Result<Case, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Case {
        place: place.to_owned(),
        text: text.to_owned(),
        rule: line.rule,
        documents: line.documents.iter().map(document).collect::<Result<_, _>>()?,
        others: others(&line.collections, &line.unique)?,
        command: line.command.read()?,
        then: line.then,
        expect: Expectation::parse(&line.expect)?,
        stored: line.engine.map(StoredLine::read).transpose()?,
    })
}

/// The other collections of a case. One that has a unique index must be listed, if only as an empty one.
fn others(
    collections: &BTreeMap<String, Vec<Json>>,
    unique: &BTreeMap<String, Vec<Json>>,
) -> Result<Vec<OtherCollection>, String> {
    let read = |list: &[Json]| list.iter().map(document).collect::<Result<Vec<_>, _>>();
    if let Some(name) = unique.keys().find(|name| !collections.contains_key(*name)) {
        return Err(format!("'{name}' has an index and is no collection"));
    }
    let other = |(name, documents): (&String, &Vec<Json>)| {
        let unique = unique.get(name).map_or(Ok(Vec::new()), |keys| read(keys))?;
        Ok(OtherCollection { name: name.clone(), documents: read(documents)?, unique })
    };
    collections.iter().map(other).collect()
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl StoredLine {
    fn read(self) -> Result<Stored, String> {
        Ok(Stored { why: self.why, expect: Expectation::parse(&self.expect)? })
    }
}

impl CommandLine {
    /// The command that the fields make.
    pub(crate) fn read(&self) -> Result<Command, String> {
        let optional = |value: &Option<Json>| value.as_ref().map(document).transpose();
        let filter = optional(&self.filter)?.unwrap_or_default();
        let variables = optional(&self.r#let)?.unwrap_or_default();
        if let Some(expression) = &self.expression {
            return Ok(Command::Expression { expression: expression.bson()?, variables });
        }
        if let Some(stages) = &self.aggregate {
            let stages = stages.iter().map(document).collect::<Result<_, _>>()?;
            return Ok(Command::Aggregate { stages, variables });
        }
        if let Some(path) = &self.distinct {
            return Ok(Command::Distinct { path: path.clone(), filter });
        }
        if let Some(update) = &self.update {
            let update = match update.list() {
                Some(stages) => {
                    Modification::Pipeline(stages.iter().map(document).collect::<Result<_, _>>()?)
                }
                None => Modification::Operators(document(update)?),
            };
            let array_filters = self.array_filters.iter().map(document).collect::<Result<_, _>>()?;
            let reach = if self.multi { Reach::Many } else { Reach::One };
            let upsert = if self.upsert { Upsert::Yes } else { Upsert::No };
            return Ok(Command::Update(Change { filter, update, array_filters, reach, upsert, variables }));
        }
        let (projection, sort) = (optional(&self.projection)?, optional(&self.sort)?);
        let (skip, limit) = (self.skip.unwrap_or_default(), self.limit);
        Ok(Command::Find(Find { filter, projection, sort, skip, limit, variables }))
    }
}
