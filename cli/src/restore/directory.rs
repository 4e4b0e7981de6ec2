//! What files a directory of a dump has, and which collections they are of.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use formats::dump::metadata::Metadata;
use formats::dump::names::{Named, collection_name};
use formats::dump::prelude::{Carried, Prelude};

use crate::failure::{Exit, Failure};
use crate::restore::file::{open, refused};
use crate::restore::plan::Described;
use crate::talk::warn;

/// The largest description that is read.
const METADATA_BYTES_MAX: u64 = 16 << 20;
/// What the descriptions of all collections may take.
const ALL_METADATA_BYTES_MAX: usize = 32 << 20;
/// What a folder of a store has, and one of generations of backups.
const STORE_MARKERS: [&str; 2] = ["CAIRNDB", "CAIRNDB.backups"];

/// What was found.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) carried: Option<Carried>,
    pub(super) described: Vec<Described>,
    /// For each that is described, its file with documents.
    pub(super) bodies: Vec<Option<PathBuf>>,
    /// How many bytes the files with documents have.
    pub(super) len: u64,
}

/// The two files of a collection.
#[derive(Default)]
struct Pair {
    body: Option<PathBuf>,
    metadata: Option<PathBuf>,
}

/// Looks through a directory.
pub(super) fn list(root: &Path) -> Result<Listed, Failure> {
    check_root(root)?;
    let mut listed = Listed::default();
    let mut is_dump = false;
    for name in ["prelude.json", "prelude.json.gz"] {
        let path = root.join(name);
        if path.exists() {
            is_dump = true;
            let prelude = Prelude::parse(read(&path)?.as_bytes())
                .map_err(|error| refused(&path.display().to_string(), &error))?;
            listed.carried = prelude.carried;
        }
    }
    let mut databases = Vec::new();
    for (name, path) in entries(root)? {
        if path.is_dir() {
            databases.push((name, path));
        } else if name.starts_with("oplog.bson") {
            return Err(Failure::usage(format!("{}: dumps with an oplog are not supported", path.display())));
        } else if ending(&name).is_some() {
            let shown = root.display();
            return Err(Failure::usage(format!(
                "{shown} has files of collections: give the directory above it"
            )));
        }
    }
    let (mut metadata_bytes, mut passed_over) = (0, Vec::new());
    for (database, path) in databases {
        for (stem, pair) in pairs(&path, &mut passed_over)? {
            let described = described(&database, &stem, &pair)?;
            metadata_bytes += described.metadata.as_ref().map_or(0, String::len);
            if metadata_bytes > ALL_METADATA_BYTES_MAX {
                let message = "the descriptions of the collections are larger than 32 MiB: give --include";
                return Err(Failure::new(Exit::Failed, message));
            }
            let len = pair.body.as_ref().and_then(|body| std::fs::metadata(body).ok());
            listed.len += len.map_or(0, |metadata| metadata.len());
            listed.described.push(described);
            listed.bodies.push(pair.body);
        }
    }
    // The dump of a store without collections has its prelude. Another directory was not meant, and a restore of nothing would
    // look like one of everything.
    if !is_dump && listed.described.is_empty() {
        let shown = root.display();
        return Err(Failure::usage(format!(
            "{shown} is not a dump: it has neither prelude.json nor a directory with files .bson and .metadata.json"
        )));
    }
    // Of a directory that is no dump there is only that to say.
    for path in passed_over {
        warn(&format!("{} is not a file of a dump, and is passed over", path.display()));
    }
    Ok(listed)
}

/// Says what was meant, where a store was given for a dump.
fn check_root(root: &Path) -> Result<(), Failure> {
    let shown = root.display();
    if STORE_MARKERS.iter().any(|marker| root.join(marker).exists()) {
        return Err(Failure::usage(format!(
            "{shown} is a store or a backup of one, and no dump: copy the folder, or open it where it is"
        )));
    }
    let metadata = std::fs::metadata(root).map_err(|error| Failure::io(&shown.to_string(), &error))?;
    if metadata.is_dir() {
        return Ok(());
    }
    Err(Failure::usage(format!("{shown} is not a directory: an archive is given by --archive {shown}")))
}

/// The files of a database, by the names of its collections. Other files are added to `passed_over`.
fn pairs(folder: &Path, passed_over: &mut Vec<PathBuf>) -> Result<BTreeMap<String, Pair>, Failure> {
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for (name, path) in entries(folder)? {
        let Some((stem, is_metadata)) = ending(&name) else {
            passed_over.push(path);
            continue;
        };
        let pair = pairs.entry(stem.to_owned()).or_default();
        let place = if is_metadata { &mut pair.metadata } else { &mut pair.body };
        if let Some(other) = place.replace(path.clone()) {
            let (path, other) = (path.display(), other.display());
            return Err(Failure::new(Exit::Failed, format!("{path} and {other} are of the same collection")));
        }
    }
    Ok(pairs)
}

/// The name of a file without its ending, and whether it is metadata.
fn ending(name: &str) -> Option<(&str, bool)> {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    match plain.strip_suffix(".metadata.json") {
        Some(stem) => Some((stem, true)),
        None => plain.strip_suffix(".bson").map(|stem| (stem, false)),
    }
}

fn described(database: &str, stem: &str, pair: &Pair) -> Result<Described, Failure> {
    let text = pair.metadata.as_deref().map(read).transpose()?;
    let metadata = match (&text, &pair.metadata) {
        (Some(text), Some(path)) => {
            Metadata::parse(text.as_bytes()).map_err(|error| refused(&path.display().to_string(), &error))?
        }
        _ => Metadata::default(),
    };
    let shown = || format!("{database}/{stem}");
    let is_without = metadata.is_view() || metadata.kind.as_deref() == Some("timeseries");
    if pair.body.is_none() && !is_without {
        // A collection without documents has an empty file.
        return Err(Failure::new(Exit::Failed, format!("{}.bson is missing", shown())));
    }
    let name = match (metadata.collection_name, collection_name(stem)) {
        (Some(name), _) | (None, Some(Named::Whole(name))) => name,
        (None, Some(Named::Shortened)) => {
            let message = format!("{}: the name is shortened, and its metadata is missing", shown());
            return Err(Failure::new(Exit::Failed, message));
        }
        (None, None) => {
            return Err(Failure::new(Exit::Failed, format!("{} is not an escaped name", shown())));
        }
    };
    let place = pair.metadata.as_ref().map_or_else(shown, |path| path.display().to_string());
    Ok(Described { database: database.to_owned(), name, metadata: text, place })
}

/// The entries of a directory by their names, in one order everywhere.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let failed = |error: std::io::Error| Failure::io(&folder.display().to_string(), &error);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            let path = folder.join(name);
            Failure::new(Exit::Failed, format!("{} is not UTF-8", path.display()))
        })?;
        entries.push((name, entry.path()));
    }
    entries.sort();
    Ok(entries)
}

/// A small file, whether it is compressed or not.
fn read(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let mut text = String::new();
    let (stream, _) = open(path)?;
    stream
        .take(METADATA_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::io(&name, &error))?;
    if text.len() as u64 > METADATA_BYTES_MAX {
        return Err(Failure::new(Exit::Failed, format!("{name} is larger than 16 MiB")));
    }
    Ok(text)
}
