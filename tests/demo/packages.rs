//! Documents that every machine with this source has: the packages that CairnDB is built from, as `cargo metadata`
//! describes them, with nested dependencies, targets and features.
//!
//! Each package is a document, and so is each of its dependencies and targets.

use std::path::PathBuf;
use std::process::Command;

use cairndb::bson::{Bson, Document, RawDocumentBuf};

use crate::json::Json;
use crate::outcome::{Outcome, complain};
use crate::source::{Item, Source};

/// The options to try, in this order: first without the network, last without other packages.
const ATTEMPTS: [&[&str]; 3] =
    [&["--locked", "--offline"], &["--locked"], &["--locked", "--offline", "--no-deps"]];

/// The packages of this workspace and all their dependencies.
pub(crate) fn source() -> Outcome<Source> {
    let text = metadata()?;
    let Json(metadata) = serde_json::from_slice(&text)
        .map_err(|error| format!("cargo metadata did not print what was expected: {error}"))?;
    let packages = metadata.as_document().and_then(|metadata| metadata.get("packages"));
    let Some(packages) = packages.and_then(Bson::as_array) else {
        return Err("cargo metadata lists no packages".into());
    };
    let count = packages.len();
    let mut documents = Vec::new();
    for package in packages.iter().filter_map(Bson::as_document) {
        documents.push(RawDocumentBuf::try_from(package)?);
        append_parts(package, &mut documents)?;
    }
    Ok(Source {
        name: format!("{count} packages from cargo metadata, their dependencies and targets"),
        len: Some(documents.len() as u64),
        unique_field: Some("id"),
        question: Some("package"),
        items: Box::new((1..).zip(documents).map(|(line, document)| Ok(Item::Document { line, document }))),
    })
}

/// Adds the dependencies and targets of a package, each with the name of the package.
fn append_parts(package: &Document, documents: &mut Vec<RawDocumentBuf>) -> Outcome<()> {
    for list in ["dependencies", "targets"] {
        for part in package.get_array(list).into_iter().flatten().filter_map(Bson::as_document) {
            let mut document = Document::new();
            document.insert("package", package.get("name").cloned());
            document.insert("package_version", package.get("version").cloned());
            document.insert("part_of", list);
            document.extend(part.clone());
            documents.push(RawDocumentBuf::try_from(&document)?);
        }
    }
    Ok(())
}

/// The output of `cargo metadata` for this workspace.
fn metadata() -> Outcome<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest = PathBuf::from(folder).join("Cargo.toml");
    let mut complaint = String::new();
    for attempt in ATTEMPTS {
        let mut command = Command::new(&cargo);
        command.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(&manifest).args(attempt);
        let output =
            command.output().map_err(|error| format!("cannot run {}: {error}", cargo.to_string_lossy()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        complain(&format!("demo: cargo metadata {} did not succeed", attempt.join(" ")));
    }
    Err(format!("cargo metadata did not succeed: {}", complaint.trim()).into())
}
