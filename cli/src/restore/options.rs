//! The command line of `cairn restore`.

use std::path::PathBuf;

use crate::dumped::DumpPlace;
use crate::failure::Failure;
use crate::patterns::{Namespaces, Rename};
use crate::store::Access;
use crate::talk::Talk;

/// More would only use memory.
const JOBS_MAX: i64 = 16;

/// Restores a dump in mongodump's format into a store.
///
/// The dump is a directory or an archive, compressed or not, of `cairn dump` or of mongodump. The store is a folder, a
/// Unix socket or a URI. A folder that is absent is made; one that another process has open cannot be written.
///
/// Collections with their options come first, then documents, then indexes and the auto-increment fields, and
/// at last sequences and views. What the store rejects is named, the rest is restored, and the exit status is 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn restore other-data shop-dump
      all of a directory into a folder
  cairn restore shop.sock --archive shop.archive --drop --verify
      over what a running server has, with a comparison at the end
  cairn restore other-data --archive shop.archive \\
    --include 'shop.*' --rename 'shop.*=old.*'
      some collections, under other names
  cairn dump shop-data --archive - | \\
    cairn restore mongodb://db.example/ --archive -
      from one store into another, without a file between them")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    pub(super) store: PathBuf,
    /// The directory of the dump.
    #[arg(required_unless_present = "archive", conflicts_with = "archive")]
    directory: Option<PathBuf>,
    /// Read an archive in place of a directory: a file, or `-` for standard input.
    #[arg(long, value_name = "FILE", help_heading = "Dump")]
    archive: Option<PathBuf>,
    /// The directory has the files of one database, as `mongodump --db` writes them, which gets this name.
    #[arg(long, value_name = "NAME", conflicts_with = "archive", help_heading = "Dump")]
    pub(super) db: Option<String>,
    #[command(flatten)]
    pub(super) namespaces: Namespaces,
    /// Restore under other names, `FROM=TO`: each `*` of TO is what the same of FROM means. The first rule that
    /// matches counts. What views read is renamed with it.
    #[arg(long, value_name = "FROM=TO", value_parser = Rename::parse, help_heading = "Writing")]
    pub(super) rename: Vec<Rename>,
    /// Replace the collections, views and sequences of the dump that are there, and no others: each collection once the
    /// dump was read to its end.
    #[arg(long, help_heading = "Writing")]
    pub(super) drop: bool,
    /// Add to collections that have documents. A document whose `_id` is there is rejected and named.
    #[arg(long, conflicts_with = "drop", help_heading = "Writing")]
    pub(super) into_existing: bool,
    /// Make no indexes.
    #[arg(long, help_heading = "Writing")]
    pub(super) no_indexes: bool,
    /// Make indexes whose keys have `true`, `"1"`, an empty text or the like for a direction, as servers up to 4.0 took it.
    #[arg(long, alias = "convertLegacyIndexes", help_heading = "Writing")]
    pub(super) convert_legacy_indexes: bool,
    /// Make no sequences, and no auto-increment fields.
    #[arg(long, help_heading = "Writing")]
    pub(super) no_sequences: bool,
    /// Restore the users of the dump as well, into a folder alone; with --drop, in place of those of the same names.
    #[arg(long, help_heading = "Writing")]
    pub(super) users: bool,
    /// Compare the store with the dump at the end: documents, indexes and positions.
    #[arg(long, conflicts_with = "into_existing", help_heading = "How it runs")]
    pub(super) verify: bool,
    /// Read and check everything, and write nothing. What only the store can reject is not found.
    #[arg(long, conflicts_with = "verify", help_heading = "How it runs")]
    pub(super) dry_run: bool,
    /// The number of batches that are inserted, and of collections that get their indexes, at once.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX), help_heading = "How it runs")]
    pub(super) jobs: u16,
    #[command(flatten)]
    pub(super) access: Access,
    #[command(flatten)]
    pub(super) talk: Talk,
}

impl Arguments {
    /// The name of the database whose files the directory has.
    pub(super) fn db(&self) -> Result<Option<&str>, Failure> {
        let is_part = |character: char| !matches!(character, '/' | '\\' | '.' | '"' | '$' | '*' | ' ' | '\0');
        match self.db.as_deref() {
            Some(name) if name.is_empty() || !name.chars().all(is_part) => {
                Err(Failure::usage(format!("--db: {name:?} is no name of a database")))
            }
            db => Ok(db),
        }
    }

    pub(super) fn place(&self) -> Result<DumpPlace<'_>, Failure> {
        DumpPlace::of(self.directory.as_deref(), self.archive.as_deref())
    }
}
