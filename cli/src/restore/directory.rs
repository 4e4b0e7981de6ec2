//! The files in a directory of a dump, and their collections.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use formats::dump::metadata::Metadata;
use formats::dump::names::{Named, collection_name};
use formats::dump::prelude::{Carried, Prelude};

use crate::failure::{Exit, Failure};
use crate::restore::file::{open, refused};
use crate::restore::plan::{Described, Problem};
use crate::talk::warn;

/// The largest description that is read.
const METADATA_BYTES_MAX: u64 = 16 << 20;
/// The limit of the memory for the descriptions of all collections.
const ALL_METADATA_BYTES_MAX: usize = 32 << 20;
/// The files in which a dump describes itself. mongodump writes it beside the files of a database if it dumps one.
const PRELUDES: [&str; 2] = ["prelude.json", "prelude.json.gz"];
/// The files that mark a folder of a store, and one of generations of backups.
const STORE_MARKERS: [&str; 2] = ["CAIRNDB", "CAIRNDB.backups"];

/// The files that were found.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) carried: Option<Carried>,
    pub(super) described: Vec<Described>,
    /// For each that is described, its file with documents.
    pub(super) bodies: Vec<Option<PathBuf>>,
    /// The bytes of the files with documents.
    pub(super) len: u64,
    /// Whether the directory has what only a dump has.
    is_dump: bool,
    metadata_bytes: usize,
}

/// The two files of a collection.
#[derive(Default)]
struct Pair {
    body: Option<PathBuf>,
    metadata: Option<PathBuf>,
    /// Two files that cannot both be it.
    twice: Option<String>,
}

/// Looks through a directory. `db` is the name of the database if it has the files of one.
pub(super) fn list(root: &Path, db: Option<&str>) -> Result<Listed, Failure> {
    check_root(root)?;
    let (mut listed, mut passed_over) = (Listed::default(), Vec::new());
    if let Some(database) = db {
        listed.add(database, root, &mut passed_over)?;
    } else {
        let databases = listed.look_at(root)?;
        for (database, path) in databases {
            listed.add(&database, &path, &mut passed_over)?;
        }
    }
    // The dump of a store without collections has its prelude. Another directory was not meant, and a restore of nothing would
    // look like one of everything.
    if !listed.is_dump && listed.described.is_empty() {
        let shown = root.display();
        return Err(Failure::usage(match db {
            Some(_) => format!("{shown} has no files of collections, .bson and .metadata.json, for --db"),
            None => format!(
                "{shown} is not a dump: it has neither prelude.json nor a directory with files .bson and .metadata.json"
            ),
        }));
    }
    // Of a directory that is not a dump there is only that to say.
    for path in passed_over {
        warn(&format!("{} is not a file of a dump, and is passed over", path.display()));
    }
    Ok(listed)
}

impl Listed {
    /// Reads the prelude of a dump. Returns the directories of its databases.
    fn look_at(&mut self, root: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
        for name in PRELUDES {
            let path = root.join(name);
            if path.exists() {
                self.is_dump = true;
                let prelude = Prelude::parse(read(&path)?.as_bytes())
                    .map_err(|error| refused(&path.display().to_string(), &error))?;
                self.carried = prelude.carried;
            }
        }
        let mut databases = Vec::new();
        for (name, path) in entries(root)? {
            let shown = path.display();
            if path.is_dir() {
                databases.push((name, path));
            } else if name.starts_with("oplog.bson") {
                return Err(Failure::usage(format!("{shown}: dumps with an oplog are not supported")));
            } else if ending(&name).is_some() {
                let shown = root.display();
                return Err(Failure::usage(format!(
                    "{shown} has files of collections: give the directory above it, or --db NAME"
                )));
            }
        }
        Ok(databases)
    }

    /// Adds the collections of a database.
    fn add(&mut self, database: &str, folder: &Path, passed_over: &mut Vec<PathBuf>) -> Result<(), Failure> {
        for (stem, pair) in pairs(folder, passed_over)? {
            let described = described(database, &stem, &pair)?;
            self.metadata_bytes += described.metadata.as_ref().map_or(0, String::len);
            if self.metadata_bytes > ALL_METADATA_BYTES_MAX {
                let message = "the descriptions of the collections are larger than 32 MiB: give --include";
                return Err(Failure::new(Exit::Failed, message));
            }
            let len = pair.body.as_ref().and_then(|body| std::fs::metadata(body).ok());
            self.len += len.map_or(0, |metadata| metadata.len());
            self.described.push(described);
            self.bodies.push(pair.body);
        }
        Ok(())
    }
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
    let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(Failure::usage(match ending(&name) {
        Some((_, false)) => format!(
            "{shown} has the documents of one collection: cairn import STORE DB.COLLECTION {shown}, or give the directory above it"
        ),
        Some((_, true)) | None => {
            format!("{shown} is not a directory: an archive is given by --archive {shown}")
        }
    }))
}

/// The files of a database, by the names of its collections. Other files are added to `passed_over`.
fn pairs(folder: &Path, passed_over: &mut Vec<PathBuf>) -> Result<BTreeMap<String, Pair>, Failure> {
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for (name, path) in entries(folder)? {
        let Some((stem, is_metadata)) = ending(&name) else {
            if !PRELUDES.contains(&name.as_str()) {
                passed_over.push(path);
            }
            continue;
        };
        let pair = pairs.entry(stem.to_owned()).or_default();
        let place = if is_metadata { &mut pair.metadata } else { &mut pair.body };
        if let Some(other) = place.replace(path.clone()) {
            let (path, other) = (path.display(), other.display());
            pair.twice = Some(format!("{path} and {other} are of the same collection"));
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

/// The description of a collection in the two files, and its flaw.
fn described(database: &str, stem: &str, pair: &Pair) -> Result<Described, Failure> {
    let text = pair.metadata.as_deref().map(read).transpose()?;
    let (metadata, mut problem) = match (&text, &pair.metadata) {
        (Some(text), Some(path)) => match Metadata::parse(text.as_bytes()) {
            Ok(metadata) => (metadata, None),
            Err(error) => {
                (Metadata::default(), Some(Problem::Refused(format!("{}: {error}", path.display()))))
            }
        },
        _ => (Metadata::default(), None),
    };
    let place = pair.body.as_ref().or(pair.metadata.as_ref()).and_then(|path| path.parent());
    let shown = place.map_or_else(|| stem.to_owned(), |folder| folder.join(stem).display().to_string());
    let is_without = metadata.is_view() || metadata.kind.as_deref() == Some("timeseries");
    if problem.is_none() && pair.body.is_none() && !is_without {
        // A collection without documents has an empty file.
        let reason = format!("the file {stem}.bson with its documents is missing");
        problem = Some(Problem::WithoutDocuments(reason));
    }
    let named = collection_name(stem);
    let reason = match (&metadata.collection_name, &named) {
        (None, Some(Named::Shortened)) => Some("the name is shortened, and its metadata is missing"),
        (None, None) => Some("is not an escaped name"),
        (Some(_), _) | (None, Some(Named::Whole(_))) => None,
    };
    if let Some(reason) = reason {
        let colon = if named.is_some() { ":" } else { "" };
        problem.get_or_insert(Problem::LeftOut(format!("{shown}{colon} {reason}")));
    }
    if let Some(twice) = &pair.twice {
        problem = Some(Problem::Refused(twice.clone()));
    }
    let name = match (metadata.collection_name, named) {
        (Some(name), _) | (None, Some(Named::Whole(name))) => name,
        // It is known by the name of the file alone.
        (None, Some(Named::Shortened) | None) => stem.to_owned(),
    };
    let place = pair.metadata.as_ref().map_or(shown, |path| path.display().to_string());
    Ok(Described { database: database.to_owned(), name, metadata: text, place, problem })
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
