//! `$merge`: into which collection each document goes, by which fields it finds the one that is there, and what happens if
//! it finds one or none.

use std::collections::BTreeSet;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::FieldPath;

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::path::parse_path;
use crate::pipeline::error::Fault;
use crate::pipeline::options::options;
use crate::pipeline::write_target::{WriteTarget, name};
use crate::raw::Fields;
use crate::value::{describe, elements};

pub(super) const MERGE: &str = "$merge";
/// The variable that holds the document of the pipeline.
const NEW: &str = "new";

/// A parsed `$merge`.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::expression::Variables;
/// use cairndb_query::pipeline::Pipeline;
/// use cairndb_query::pipeline::merge::{WhenMatched, WhenNotMatched};
/// use cairndb_query::pipeline::writer::WritingStage;
///
/// let merge = rawdoc! { "$merge": { "into": "totals", "on": "day", "whenMatched": "replace" } };
/// let pipeline = Pipeline::parse(&[merge], &Variables::default())?;
/// let Some(WritingStage::Merge(merge)) = pipeline.writer() else { panic!("another stage") };
/// assert_eq!(*merge.when_matched(), WhenMatched::Replace);
/// assert_eq!(merge.when_not_matched(), WhenNotMatched::Insert);
/// assert_eq!(merge.on().map(|path| path.as_str()).collect::<Vec<_>>(), ["day"]);
/// # Ok::<(), cairndb_query::pipeline::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Merge {
    target: WriteTarget,
    /// Ascending by name, each once.
    on: Vec<FieldPath>,
    when_matched: WhenMatched,
    when_not_matched: WhenNotMatched,
    /// The variables of `let`.
    definitions: Vec<(String, Expression)>,
}

/// The action of `$merge` for a document that finds one.
#[derive(Clone, Debug, PartialEq)]
pub enum WhenMatched {
    /// It replaces the one that is there.
    Replace,
    /// Nothing.
    KeepExisting,
    /// Its fields are set in the one that is there.
    Merge,
    /// It fails.
    Fail,
    /// The stages of an update change the one that is there.
    Pipeline(Vec<RawDocumentBuf>),
}

/// The action of `$merge` for a document that finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// Nothing.
    Discard,
    /// It fails.
    Fail,
}

impl Merge {
    /// Parses the argument: the name of a collection, or an object.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        // The short form has the defaults of all options.
        if let Some(coll) = operand.as_str() {
            let target = WriteTarget { db: None, coll: coll.to_owned() };
            return Ok(Self {
                target,
                on: by_id()?,
                when_matched: WhenMatched::Merge,
                when_not_matched: WhenNotMatched::Insert,
                definitions: Vec::new(),
            });
        }
        let names = ["into", "on", "let", "whenMatched", "whenNotMatched"];
        let (not_object, unknown) = (Code::TYPE_MISMATCH, Code::IDL_UNKNOWN_FIELD);
        let [into, on, defined, matched, not_matched] = options(MERGE, names, operand, not_object, unknown)?;
        let code = Code::IDL_FAILED_TO_PARSE;
        let into = into.ok_or(Fault::OptionMissing { stage: MERGE, option: "into", code })?;
        let target = parse_into(into)?;
        let on = on.map_or_else(by_id, parse_on)?;
        let when_matched = matched.map_or(Ok(WhenMatched::Merge), WhenMatched::parse)?;
        let when_not_matched = not_matched.map_or(Ok(WhenNotMatched::Insert), WhenNotMatched::parse)?;
        // Before the variables: MongoDB rejects these modes when it first looks at the stage.
        check_modes(&when_matched, when_not_matched)?;
        let definitions = define(defined, &when_matched, when_not_matched, variables)?;
        Ok(Self { target, on, when_matched, when_not_matched, definitions })
    }

    /// The collection that is merged into.
    pub fn target(&self) -> &WriteTarget {
        &self.target
    }

    /// The fields by which a document finds the one that is there, ascending by name.
    pub fn on(&self) -> impl Iterator<Item = &FieldPath> {
        self.on.iter()
    }

    /// Whether a document is found by its `_id` alone.
    pub fn is_by_id(&self) -> bool {
        matches!(self.on.as_slice(), [only] if only.as_str() == "_id")
    }

    /// The action for a document that finds one.
    pub fn when_matched(&self) -> &WhenMatched {
        &self.when_matched
    }

    /// The action for a document that finds none.
    pub fn when_not_matched(&self) -> WhenNotMatched {
        self.when_not_matched
    }

    /// The variables of the pipeline of `whenMatched`, for reading it: they have no values.
    ///
    /// # Errors
    /// If a variable cannot have its name.
    pub fn names(&self, outer: &Variables) -> Result<Variables, Fault> {
        let mut variables = outer.clone();
        for (name, _) in &self.definitions {
            variables = variables.with(name, None)?;
        }
        Ok(variables)
    }

    /// The variables of the pipeline of `whenMatched` for a document.
    ///
    /// # Errors
    /// If an expression of `let` fails for it.
    pub fn variables(&self, document: &RawDocument, outer: &Variables) -> Result<Variables, Fault> {
        let mut variables = outer.clone();
        for (name, expression) in &self.definitions {
            // Each sees the variables of the command, and none of the same `let`.
            variables = variables.with(name, expression.evaluate(document, outer)?)?;
        }
        Ok(variables)
    }

    /// The values by which a document finds the one that is there, in the order of [`on`](Self::on).
    ///
    /// # Errors
    /// If a field is an array, or null, or not there.
    pub fn key(&self, document: &RawDocument) -> Result<Vec<RawBson>, Fault> {
        self.on.iter().map(|path| key_value(document, path)).collect()
    }
}

/// The value at the end of a path that goes through objects alone.
fn key_value(document: &RawDocument, path: &FieldPath) -> Result<RawBson, Fault> {
    let refused = |reason, code| {
        let field = path.as_str().to_owned();
        Err(Fault::OnField { field, reason, code })
    };
    let mut value = Some(RawBsonRef::Document(document));
    for name in path.components() {
        value = match value {
            Some(RawBsonRef::Document(object)) => object.get(name).ok().flatten(),
            // A scalar has no fields.
            Some(_) | None => None,
        };
        // In an array there can be several values, of which none is the key.
        if matches!(value, Some(RawBsonRef::Array(_))) {
            return refused("is an array", Code::MERGE_ON_ARRAY);
        }
    }
    match value {
        Some(RawBsonRef::Null | RawBsonRef::Undefined) | None => {
            refused("cannot be missing, null, undefined or an array", Code::MERGE_ON_MISSING)
        }
        Some(value) => Ok(value.into()),
    }
}

fn by_id() -> Result<Vec<FieldPath>, Fault> {
    Ok(vec![path("_id")?])
}

fn path(text: &str) -> Result<FieldPath, Fault> {
    let refused = |refusal| Fault::Path { stage: MERGE, path: crate::value::shorten(text), refusal };
    parse_path(text).map_err(refused)
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: MERGE, expected, found: describe(found), code }
}

/// Parses `into`.
fn parse_into(into: RawBsonRef<'_>) -> Result<WriteTarget, Fault> {
    if let Some(coll) = into.as_str() {
        if coll.is_empty() {
            let expected = "the name of a collection as 'into'";
            return Err(wrong(expected, into, Code::MERGE_INTO_EMPTY));
        }
        return Ok(WriteTarget { db: None, coll: coll.to_owned() });
    }
    if into.as_document().is_none() {
        return Err(wrong("a string or an object as 'into'", into, Code::MERGE_INTO_TYPE));
    }
    let (not_object, unknown) = (Code::MERGE_INTO_TYPE, Code::IDL_UNKNOWN_FIELD);
    let [db, coll] = options(MERGE, ["db", "coll"], into, not_object, unknown)?;
    // Null is not a name either: MongoDB has one number for all three.
    let coll = coll.filter(|coll| !matches!(coll, RawBsonRef::Null | RawBsonRef::Undefined));
    let coll = coll.map(|coll| name(MERGE, "coll", coll)).transpose()?.filter(|coll| !coll.is_empty());
    let expected = "an object with the name of a collection as 'into'";
    let coll = coll.ok_or_else(|| wrong(expected, into, Code::MERGE_INTO_COLL))?;
    Ok(WriteTarget { db: db.map(|db| name(MERGE, "db", db)).transpose()?, coll })
}

/// Parses `on`.
fn parse_on(on: RawBsonRef<'_>) -> Result<Vec<FieldPath>, Fault> {
    // In one order whatever the given one is, as in MongoDB: an upsert makes the fields in it.
    let mut names: BTreeSet<&str> = BTreeSet::new();
    if let Some(only) = on.as_str() {
        names.insert(only);
    } else if let Some(list) = on.as_array() {
        for element in elements(list) {
            let expected = "strings in 'on'";
            let field = element.as_str();
            let field = field.ok_or_else(|| wrong(expected, element, Code::MERGE_ON_ELEMENT_TYPE))?;
            if !names.insert(field) {
                return Err(wrong("different fields in 'on'", element, Code::MERGE_ON_TWICE));
            }
        }
    } else {
        return Err(wrong("a string or an array of strings as 'on'", on, Code::MERGE_ON_TYPE));
    }
    if names.is_empty() {
        return Err(wrong("at least one field as 'on'", on, Code::MERGE_ON_EMPTY));
    }
    names.into_iter().map(path).collect()
}

impl WhenMatched {
    fn parse(given: RawBsonRef<'_>) -> Result<Self, Fault> {
        if let Some(stages) = given.as_array() {
            let stage = |stage: RawBsonRef<'_>| {
                let document = stage.as_document().map(RawDocument::to_owned);
                document.ok_or_else(|| wrong("stages that are objects", stage, Code::TYPE_MISMATCH))
            };
            return Ok(Self::Pipeline(elements(stages).map(stage).collect::<Result<_, _>>()?));
        }
        let expected = "a string or an array of stages as 'whenMatched'";
        let mode = given.as_str().ok_or_else(|| wrong(expected, given, Code::MERGE_WHEN_MATCHED_TYPE))?;
        Ok(match mode {
            "replace" => Self::Replace,
            "keepExisting" => Self::KeepExisting,
            "merge" => Self::Merge,
            "fail" => Self::Fail,
            _ => {
                let expected =
                    "'replace', 'keepExisting', 'merge', 'fail' or an array of stages as 'whenMatched'";
                return Err(wrong(expected, given, Code::BAD_VALUE));
            }
        })
    }

    fn mode(&self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::KeepExisting => "keepExisting",
            Self::Merge => "merge",
            Self::Fail => "fail",
            Self::Pipeline(_) => "pipeline",
        }
    }
}

impl WhenNotMatched {
    fn parse(given: RawBsonRef<'_>) -> Result<Self, Fault> {
        let expected = "'insert', 'discard' or 'fail' as 'whenNotMatched'";
        Ok(match given.as_str().ok_or_else(|| wrong(expected, given, Code::TYPE_MISMATCH))? {
            "insert" => Self::Insert,
            "discard" => Self::Discard,
            "fail" => Self::Fail,
            _ => return Err(wrong(expected, given, Code::BAD_VALUE)),
        })
    }

    fn mode(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Discard => "discard",
            Self::Fail => "fail",
        }
    }
}

/// Rejects modes that say together that nothing is ever written.
fn check_modes(when_matched: &WhenMatched, when_not_matched: WhenNotMatched) -> Result<(), Fault> {
    let is_written = match when_matched {
        WhenMatched::Replace | WhenMatched::Merge | WhenMatched::Pipeline(_) => true,
        WhenMatched::KeepExisting | WhenMatched::Fail => when_not_matched == WhenNotMatched::Insert,
    };
    if is_written {
        return Ok(());
    }
    Err(Fault::MergeModes { when_matched: when_matched.mode(), when_not_matched: when_not_matched.mode() })
}

/// Parses `let`, which only a pipeline may have. Without it there is the variable `new`.
fn define(
    defined: Option<RawBsonRef<'_>>,
    when_matched: &WhenMatched,
    when_not_matched: WhenNotMatched,
    variables: &Variables,
) -> Result<Vec<(String, Expression)>, Fault> {
    let WhenMatched::Pipeline(_) = when_matched else {
        return match defined {
            Some(defined) => {
                Err(wrong("no 'let' without a pipeline", defined, Code::MERGE_LET_WITHOUT_PIPELINE))
            }
            None => Ok(Vec::new()),
        };
    };
    let root = || Expression::parse(RawBsonRef::String("$$ROOT"), variables);
    let Some(defined) = defined else { return Ok(vec![(NEW.to_owned(), root()?)]) };
    let expected = "an object as 'let'";
    let object = defined.as_document().ok_or_else(|| wrong(expected, defined, Code::TYPE_MISMATCH))?;
    let mut definitions = Vec::new();
    for field in Fields::of(object) {
        let field = field?;
        let value = field.value()?;
        if field.name() == NEW && value.as_str() != Some("$$ROOT") {
            return Err(wrong("'$$ROOT' as the variable 'new'", value, Code::MERGE_LET_NEW));
        }
        // The name is checked here, because it is used for the first time when a document is there.
        variables.clone().with(field.name(), None)?;
        definitions.push((field.name().to_owned(), Expression::parse(value, variables)?));
    }
    // MongoDB hands the document over where it may be inserted, and then it can be read as well.
    let has_new = definitions.iter().any(|(name, _)| name == NEW);
    if !has_new && when_not_matched == WhenNotMatched::Insert {
        definitions.push((NEW.to_owned(), root()?));
    }
    Ok(definitions)
}
