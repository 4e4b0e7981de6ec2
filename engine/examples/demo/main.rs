//! The demo: it stores real documents, shows that duplicates are refused, and closes, reopens and verifies the database.
//!
//! The documents come from standard input as newline-delimited JSON, also as Extended JSON, and optionally compressed with
//! Zstandard. Without input they come from `cargo metadata`: the packages that CairnDB is built from. `demo [FOLDER]` keeps
//! the database in that folder. Without a folder it is temporary, and removed at the end.
//!
//! No input makes the demo panic: a line that is not a document is reported and skipped.

mod json;
mod lines;
mod load;
pub(crate) mod outcome;
mod packages;
mod show;
pub(crate) mod source;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use cairndb::Client;
use cairndb::bson::RawDocumentBuf;
use tempfile::TempDir;

use self::outcome::{Outcome, complain};
use self::source::Source;

const USAGE: &str = "usage: demo [FOLDER], with newline-delimited JSON on standard input if you like";
const DATABASE: &str = "demo";
const COLLECTION: &str = "documents";

/// The folder of the database.
pub(crate) struct Folder {
    path: PathBuf,
    /// `Some` if the folder is removed when this is dropped.
    temporary: Option<TempDir>,
}

impl Folder {
    /// Creates a folder that is removed at the end.
    pub(crate) fn temporary() -> Outcome<Self> {
        let temporary = tempfile::tempdir()?;
        Ok(Self { path: temporary.path().join("db"), temporary: Some(temporary) })
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output closed it, for example `head`: that is no failure.
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
    let folder = match arguments.as_slice() {
        [] => Folder::temporary()?,
        [flag] if flag == "--help" || flag == "-h" => {
            writeln!(out, "{USAGE}")?;
            return Ok(());
        }
        [path] if !path.as_encoded_bytes().starts_with(b"-") => {
            Folder { path: PathBuf::from(path), temporary: None }
        }
        _ => return Err(USAGE.into()),
    };
    take_in(folder, Source::open()?, &mut out)
}

/// Stores the documents of `source`, shows what the database does with them, and opens it again.
pub(crate) fn take_in(folder: Folder, source: Source, mut out: &mut dyn Write) -> Outcome<()> {
    writeln!(out, "documents: {}", source.name)?;
    writeln!(out, "database:  {}", folder.path.display())?;

    let client = Client::open(&folder.path)?;
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
    reopen(&mut out, client, &folder, before + loaded.stored)?;

    match folder.temporary {
        Some(temporary) => temporary.close()?,
        None => writeln!(out, "\nThe database stays in {}.", folder.path.display())?,
    }
    Ok(())
}

/// Closes the database, opens it again, and compares the number of documents with what was stored.
fn reopen(out: &mut dyn Write, client: Client, folder: &Folder, expected: u64) -> Outcome<()> {
    client.close()?;
    let client = Client::open(&folder.path)?;
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

/// An error with all its causes.
fn sentence(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
