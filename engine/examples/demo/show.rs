//! The output, step by step: figures, documents, refused duplicates, and what is found after reopening.

use std::io::Write;
use std::time::Duration;

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb::{Client, Collection, IndexModel, IndexOptions};

use super::json::Json;
use super::load::Loaded;
use super::outcome::Outcome;

/// Documents that are shown, and lines of each.
const DOCUMENTS: i64 = 3;
const DOCUMENT_LINES: usize = 16;
/// Characters of a line of a document, and of a message.
const LINE_CHARS: usize = 110;
const MESSAGE_CHARS: usize = 400;
/// The number of fields that a unique index is tried on, if no unique field is known.
const CANDIDATES: usize = 4;
const UNIQUE_INDEX: &str = "demo_unique";

/// Shows how much was stored, and how fast.
pub(crate) fn figures(out: &mut dyn Write, loaded: &Loaded) -> Outcome<()> {
    let Loaded { stored, refused, malformed, bytes, inserting, elapsed } = loaded;
    heading(out, "Loading")?;
    writeln!(out, "{} documents stored, {refused} refused, {malformed} lines skipped", grouped(*stored))?;
    if *stored > 0 {
        writeln!(
            out,
            "insert_many took {:.3} s: {} documents/s, {} MB/s of BSON",
            inserting.as_secs_f64(),
            grouped(rate(*stored, *inserting)),
            megabytes(rate(*bytes, *inserting))
        )?;
        writeln!(
            out,
            "with reading and parsing {:.3} s: {} documents/s",
            elapsed.as_secs_f64(),
            grouped(rate(*stored, *elapsed))
        )?;
    }
    Ok(())
}

/// Shows the first documents in the order of their ids.
pub(crate) fn first_documents(out: &mut dyn Write, documents: &Collection<Document>) -> Outcome<()> {
    heading(out, "The first documents, as they are stored")?;
    for document in documents.find(doc! {}).limit(DOCUMENTS).run()? {
        let text = serde_json::to_string_pretty(&Json(Bson::Document(document?)))?;
        for line in text.lines().take(DOCUMENT_LINES) {
            writeln!(out, "{}", shortened(line, LINE_CHARS))?;
        }
        let omitted = text.lines().count().saturating_sub(DOCUMENT_LINES);
        if omitted > 0 {
            writeln!(out, "  … {omitted} lines more")?;
        }
    }
    Ok(())
}

/// Shows that a second document with the same `_id` is refused.
pub(crate) fn refused_id(out: &mut dyn Write, documents: &Collection<Document>) -> Outcome<()> {
    heading(out, "A second document with the same _id")?;
    let id = sample(documents, doc! {})?.remove("_id").ok_or("a stored document has no _id")?;
    insert_refused(out, documents, &doc! { "_id": id })
}

/// Creates a unique index, and shows that a second document with the same value in its field is refused.
pub(crate) fn refused_key(
    out: &mut dyn Write,
    documents: &Collection<Document>,
    unique_field: Option<&str>,
) -> Outcome<()> {
    heading(out, "A unique index")?;
    let fields = match unique_field {
        Some(field) => vec![field.to_owned()],
        None => candidates(&sample(documents, doc! {})?),
    };
    for field in fields {
        if !create_unique_index(out, documents, &field)? {
            continue;
        }
        let filter = doc! { field.clone(): { "$exists": true } };
        let value =
            sample(documents, filter)?.remove(&field).ok_or("a found document does not have the field")?;
        return insert_refused(out, documents, &doc! { field: value });
    }
    writeln!(out, "No field was found that differs in all documents, so there is no unique index to show.")?;
    Ok(())
}

/// Shows what is found after reopening, and verifies it. Returns the number of documents.
pub(crate) fn survivors(
    out: &mut dyn Write,
    client: &Client,
    documents: &Collection<RawDocumentBuf>,
) -> Outcome<u64> {
    heading(out, "Closed, opened again, verified")?;
    let found = documents.count_documents(doc! {}).run()?;
    writeln!(out, "{} documents found", grouped(found))?;
    let report = client.verify()?;
    writeln!(
        out,
        "verify read {} documents ({} MB), {} indexes and {} entries, and found {} disagreements",
        grouped(report.documents),
        megabytes(report.document_bytes),
        report.indexes,
        grouped(report.entries),
        report.findings.len()
    )?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("the database does not verify: {}: {}", finding.place, finding.problem).into());
    }
    // The next run in this folder may have documents that the index would refuse.
    if documents.list_index_names().run()?.iter().any(|name| name == UNIQUE_INDEX) {
        documents.drop_index(UNIQUE_INDEX).run()?;
    }
    Ok(found)
}

/// Inserts a document that must be refused as a duplicate.
fn insert_refused(out: &mut dyn Write, documents: &Collection<Document>, document: &Document) -> Outcome<()> {
    match documents.insert_one(document).run() {
        Err(error) if error.is_duplicate_key() => {
            writeln!(out, "insert_one is refused: {}", shortened(&error.to_string(), MESSAGE_CHARS))?;
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("a duplicate was stored: {document}").into()),
    }
}

/// Creates a unique index on `field`. Returns `false` if that is not possible, because documents have the same value or one
/// that is too large for a key.
fn create_unique_index(out: &mut dyn Write, documents: &Collection<Document>, field: &str) -> Outcome<bool> {
    let options = IndexOptions::builder().name(UNIQUE_INDEX.to_owned()).unique(true).sparse(true).build();
    let index = IndexModel::builder().keys(doc! { field: 1 }).options(options).build();
    match documents.create_index(index).run() {
        Ok(_) => {
            writeln!(out, "create_index created one on {}", shortened(&format!("{field:?}"), LINE_CHARS))?;
            Ok(true)
        }
        Err(error) if error.code().is_some() => {
            writeln!(out, "create_index is refused: {}", shortened(&error.to_string(), MESSAGE_CHARS))?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// One document that matches.
fn sample(documents: &Collection<Document>, filter: Document) -> Outcome<Document> {
    Ok(documents.find_one(filter).run()?.ok_or("a document that was stored is not found")?)
}

/// The first fields of a document that can have an index.
fn candidates(document: &Document) -> Vec<String> {
    let can_be_indexed = |(name, value): &(&String, &Bson)| {
        let is_path = !name.is_empty() && !name.contains('.') && !name.starts_with('$');
        is_path && *name != "_id" && value.as_array().is_none()
    };
    document.iter().filter(can_be_indexed).map(|(name, _)| name.clone()).take(CANDIDATES).collect()
}

fn heading(out: &mut dyn Write, text: &str) -> Outcome<()> {
    writeln!(out, "\n== {text}")?;
    Ok(())
}

/// A line that fits the screen, without control characters.
fn shortened(line: &str, chars_max: usize) -> String {
    let mut characters = line.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut text: String = characters.by_ref().take(chars_max).collect();
    if characters.next().is_some() {
        text.push('…');
    }
    text
}

/// `count` in a second.
fn rate(count: u64, time: Duration) -> u64 {
    let nanoseconds = time.as_nanos().max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

/// Bytes in megabytes, with one decimal.
fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10)
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
