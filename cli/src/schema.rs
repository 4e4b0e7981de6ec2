//! `cairn schema`: which fields the documents of a collection have, of which types, and how many have them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use cairndb::bson::spec::ElementType;
use cairndb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use crate::command::{count, raw};
use crate::failure::{Exit, Failure};
use crate::figures::{self, DOCUMENTS, Noun, counted, counted_were};
use crate::grid::Grid;
use crate::listing::check_collection;
use crate::output::print;
use crate::plain::plain;
use crate::signals::Signals;
use crate::store::{Access, Store, namespace, open_for_reading};
use crate::talk::{Report, Talk};

/// The number of documents that are read by default.
const SAMPLE: u32 = 1_000;
/// More fields are rejected: their names would use up the memory.
const FIELDS_MAX: usize = 10_000;
/// Deeper documents are not looked into.
const DEPTH_MAX: usize = 32;
/// The number of rows that fit on a screen.
const ROWS_MAX: usize = 40;

/// Shows which fields the documents of a collection have.
///
/// Each is shown with its types, and with how many of the documents have it. The store is a folder, a Unix socket or a URI. A sample of the documents is looked at, or all of them if there are no more.
/// A field within documents is shown by its path, and the elements of an array by `[]`: `items[].sku`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn schema shop-data shop.orders
      the fields of a thousand documents
  cairn schema shop.sock shop.orders --sample 100000 --json
      of more of them, for programs")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// The database and the collection, with a dot between them.
    #[arg(value_name = "DB.COLLECTION")]
    namespace: String,
    /// Read at most this many documents.
    #[arg(long, value_name = "N", default_value_t = SAMPLE, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// The fields that were seen.
#[derive(Default)]
struct Schema {
    /// The number of documents, and of those that were read.
    documents: u64,
    sampled: u64,
    fields: Vec<Field>,
    by_path: HashMap<String, usize>,
}

/// A field, or the elements of an array.
struct Field {
    path: String,
    /// The number of documents that have it.
    documents: u64,
    /// The last document that was seen to have it.
    last: u64,
    /// The number of values of each type, in the order in which they were seen.
    types: Vec<(&'static str, u64)>,
}

/// Runs the command and reports.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut schema = Schema::default();
    let done = Signals::watch().and_then(|signals| {
        let done = look(arguments, &signals, &mut schema);
        signals.judge(done, "interrupted: not all documents were looked at")
    });
    let done = done.and_then(|()| if arguments.talk.json { Ok(()) } else { show(arguments, &schema) });
    let mut report = Report {
        command: "schema",
        elapsed: started.elapsed(),
        counts: vec![("documents", schema.documents), ("sampled", schema.sampled)],
        names: Vec::new(),
        found: vec![("fields", schema.fields.iter().map(|field| field.document(schema.sampled)).collect())],
        failure: done.err(),
    };
    arguments.talk.report(&mut report, false);
    report.failure.map_or(Ok(()), Err)
}

fn look(arguments: &Arguments, signals: &Signals, schema: &mut Schema) -> Result<(), Failure> {
    let (database, collection) = namespace(&arguments.namespace)?;
    let talk = &arguments.talk;
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut |line| talk.warn(line))?;
    check_collection(&*store, database, collection)?;
    schema.documents = size(&*store, database, collection)?;
    // Without a choice documents come in their order, which says more than a sample of all of them.
    let stages: Vec<Document> = if schema.documents > u64::from(arguments.sample) {
        vec![doc! { "$sample": { "size": i64::from(arguments.sample) } }]
    } else {
        Vec::new()
    };
    let command = doc! { "aggregate": collection, "pipeline": stages, "cursor": {} };
    let mut documents = store.stream(database, raw(&command)?)?;
    while signals.received().is_none() && documents.advance()? {
        schema.sampled += 1;
        schema.add(documents.current(), "", 0)?;
    }
    Ok(())
}

fn size(store: &dyn Store, database: &str, collection: &str) -> Result<u64, Failure> {
    let reply = store.run(database, raw(&doc! { "count": collection })?)?;
    Ok(count(&reply, "n").unwrap_or_default())
}

impl Schema {
    fn add(&mut self, document: &RawDocument, above: &str, depth: usize) -> Result<(), Failure> {
        for (name, value) in document.iter().flatten() {
            let path = if depth == 0 { name.as_str().to_owned() } else { format!("{above}.{name}") };
            self.note(&path, value, depth)?;
        }
        Ok(())
    }

    fn note(&mut self, path: &str, value: RawBsonRef<'_>, depth: usize) -> Result<(), Failure> {
        let at = match self.by_path.get(path) {
            Some(at) => *at,
            None if self.fields.len() == FIELDS_MAX => {
                let message = format!(
                    "there are more than {FIELDS_MAX} fields: names may be values in these documents"
                );
                return Err(Failure::new(Exit::Failed, message));
            }
            None => {
                self.fields.push(Field { path: path.to_owned(), documents: 0, last: 0, types: Vec::new() });
                self.by_path.insert(path.to_owned(), self.fields.len() - 1);
                self.fields.len() - 1
            }
        };
        if let Some(field) = self.fields.get_mut(at) {
            field.documents += u64::from(field.last != self.sampled);
            field.last = self.sampled;
            let name = type_name(value.element_type());
            match field.types.iter_mut().find(|(other, _)| *other == name) {
                Some((_, count)) => *count += 1,
                None => field.types.push((name, 1)),
            }
        }
        if depth >= DEPTH_MAX {
            return Ok(());
        }
        if let Some(inner) = value.as_document() {
            return self.add(inner, path, depth + 1);
        }
        let elements = value.as_array().into_iter().flatten().flatten();
        for element in elements {
            self.note(&format!("{path}[]"), element, depth + 1)?;
        }
        Ok(())
    }
}

impl Field {
    /// The types with their shares, the most frequent first.
    fn shares(&self) -> Vec<(&'static str, u64)> {
        let mut types = self.types.clone();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        types
    }

    fn document(&self, sampled: u64) -> Bson {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let types: Vec<Document> = self
            .shares()
            .iter()
            .map(|(name, count)| doc! { "type": *name, "count": number(*count) })
            .collect();
        doc! {
            "path": self.path.as_str(),
            "documents": number(self.documents),
            "share": share(self.documents, sampled),
            "types": types,
        }
        .into()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of a sample")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A share for people: what is not quite all is never shown as all, and what is there never as nothing.
fn percent(part: u64, whole: u64) -> String {
    let rounded = (share(part, whole) * 100.0).round();
    match (part, rounded) {
        (part, _) if part == whole => "100%".to_owned(),
        (_, rounded) if rounded >= 100.0 => ">99%".to_owned(),
        (_, rounded) if rounded < 1.0 => "<1%".to_owned(),
        (_, rounded) => format!("{rounded}%"),
    }
}

fn show(arguments: &Arguments, schema: &Schema) -> Result<(), Failure> {
    let mut grid = Grid::new(2, &["field", "types", "documents"]);
    for field in schema.fields.iter().take(ROWS_MAX) {
        let all: u64 = field.types.iter().map(|(_, count)| count).sum();
        let types: Vec<String> = match field.shares().as_slice() {
            [(only, _)] => vec![(*only).to_owned()],
            several => {
                several.iter().map(|(name, count)| format!("{name} {}", percent(*count, all))).collect()
            }
        };
        let documents = percent(field.documents, schema.sampled);
        grid.row(vec![plain(&field.path), types.join(", "), documents]);
    }
    let mut text = String::new();
    grid.write(&mut text);
    print(text.as_bytes())?;
    if let Some(more) = schema.fields.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        let are = if more == 1 { "is" } else { "are" };
        let more = counted(more as u64, Noun("more field", "more fields"));
        arguments.talk.say(&format!("{more} {are} in the report of --json"));
    }
    let documents = counted_were(schema.documents, DOCUMENTS);
    arguments.talk.say(&format!("{} of {documents} looked at", figures::count(schema.sampled)));
    Ok(())
}

/// The name of a type, as `$type` accepts it.
fn type_name(of: ElementType) -> &'static str {
    match of {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MinKey => "minKey",
        ElementType::MaxKey => "maxKey",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_shown_as_all_or_nothing_that_it_is_not() {
        let shown = [(0, 3), (1, 1000), (1, 3), (2, 3), (999, 1000), (3, 3)]
            .map(|(part, whole)| percent(part, whole));
        assert_eq!(shown, ["<1%", "<1%", "33%", "67%", ">99%", "100%"]);
    }
}
