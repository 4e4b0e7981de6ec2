//! The demo: real documents go in, a duplicate is refused, the database is closed, opened again and verified.
//!
//! Documents come from a pipe (newline-delimited JSON, Extended JSON included, compressed with Zstandard or not), or,
//! without one, from `cargo metadata`: the packages that CairnDB itself is built from. `demo [FOLDER]` keeps the
//! database in that folder; without it, a temporary folder goes away at the end.
//!
//! Whatever is in the pipe, nothing here panics: a line that is no document is reported and skipped.

mod json;
mod lines;
mod load;
mod outcome;
mod packages;
mod show;
mod source;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use cairndb::Client;
use cairndb::bson::RawDocumentBuf;
use tempfile::TempDir;

use crate::outcome::{Outcome, complain};
use crate::source::Source;

const USAGE: &str = "usage: demo [FOLDER], with newline-delimited JSON on standard input if you like";
const DATABASE: &str = "demo";
const COLLECTION: &str = "documents";

/// Where the database lies, and what removes it afterwards.
struct Place {
    path: PathBuf,
    /// `Some` if the folder goes away when this is dropped.
    temporary: Option<TempDir>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output had enough of it.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("demo: {}", sentence(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let mut out = io::stdout().lock();
    let place = match arguments.as_slice() {
        [] => {
            let folder = tempfile::tempdir()?;
            Place { path: folder.path().join("db"), temporary: Some(folder) }
        }
        [flag] if flag == "--help" || flag == "-h" => {
            writeln!(out, "{USAGE}")?;
            return Ok(());
        }
        [folder] if !folder.as_encoded_bytes().starts_with(b"-") => {
            Place { path: PathBuf::from(folder), temporary: None }
        }
        _ => return Err(USAGE.into()),
    };
    let source = Source::open()?;
    writeln!(out, "documents: {}", source.name)?;
    writeln!(out, "database:  {}", place.path.display())?;

    let client = Client::open(&place.path)?;
    let documents = client.database(DATABASE).collection::<RawDocumentBuf>(COLLECTION);
    let before = documents.estimated_document_count().run()?;
    let unique_field = source.unique_field;
    let loaded = load::load(&documents, source)?;
    show::figures(&mut out, &loaded)?;
    if loaded.documents() == 0 {
        return Err("the input holds no document".into());
    }
    let documents = documents.clone_with_type();
    show::first_documents(&mut out, &documents)?;
    show::refused_id(&mut out, &documents)?;
    show::refused_key(&mut out, &documents, unique_field)?;
    drop(documents);
    reopen(&mut out, client, &place, before + loaded.stored)?;

    match place.temporary {
        Some(folder) => folder.close()?,
        None => writeln!(out, "\nThe database stays in {}.", place.path.display())?,
    }
    Ok(())
}

/// Closes the database, opens it again, and holds it to what was stored.
fn reopen(out: &mut dyn Write, client: Client, place: &Place, expected: u64) -> Outcome<()> {
    client.close()?;
    let client = Client::open(&place.path)?;
    let documents = client.database(DATABASE).collection::<RawDocumentBuf>(COLLECTION);
    let found = show::survivors(out, &client, &documents)?;
    client.close()?;
    if found != expected {
        return Err(
            format!("{found} documents were found after reopening, where {expected} are stored").into()
        );
    }
    Ok(())
}

/// An error with everything that caused it.
fn sentence(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
