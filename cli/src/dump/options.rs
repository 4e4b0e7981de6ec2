//! The command line of `cairn dump`, and which of its options do not go together.

use std::path::PathBuf;

use cairndb::bson::Document;

use crate::argument::content;
use crate::clause;
use crate::dumped::DumpPlace;
use crate::failure::Failure;
use crate::patterns::Namespaces;
use crate::signals::Signals;
use crate::store::Access;
use crate::talk::Talk;

/// More would only use memory.
const JOBS_MAX: i64 = 16;

/// Dumps collections in mongodump's format.
///
/// The dump is a directory or an archive. The store is a folder, a Unix socket or a URI. A folder may be open in another process meanwhile; the dump is its
/// state at one moment. Through a server each collection is dumped at a moment of its own, which the report's `moment`
/// says.
///
/// mongorestore accepts what is written. Sequences, and the auto-increment fields, stand where it does not look;
/// `cairn restore` makes them again, with their positions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn dump shop-data shop-dump
      all collections, as files in a directory
  cairn dump shop.sock --archive shop.archive --gzip \\
    --include 'shop.*' --exclude 'shop.log*'
      some of a running server's, in one compressed file
  cairn dump shop-data --archive large --include shop.orders \\
    --filter '{\"total\": {\"$gt\": 20}}'
      some documents of one collection")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    pub(super) store: PathBuf,
    /// The directory to make.
    #[arg(required_unless_present = "archive", conflicts_with = "archive")]
    pub(super) directory: Option<PathBuf>,
    /// Write one archive in place of a directory: a file, or `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    archive: Option<PathBuf>,
    /// Compress the archive, or each file of the directory.
    #[arg(long, help_heading = "Output")]
    pub(super) gzip: bool,
    #[command(flatten)]
    pub(super) namespaces: Namespaces,
    /// Only documents that match, in Extended JSON or as in `cairn shell`, if one collection is dumped; `@FILE` reads a file, and `-`
    /// standard input.
    #[arg(long, value_name = "FILTER", help_heading = "What is dumped")]
    filter: Option<String>,
    /// The number of collections that are dumped at once. Each uses memory of its own.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX), help_heading = "How it runs")]
    pub(super) jobs: u16,
    /// Dump the users as well, with what their passwords are checked by; from a folder alone.
    #[arg(long, help_heading = "What is dumped")]
    pub(super) users: bool,
    /// Replace the dump if there is one.
    #[arg(long, help_heading = "Output")]
    pub(super) overwrite: bool,
    #[command(flatten)]
    pub(super) access: Access,
    #[command(flatten)]
    pub(super) talk: Talk,
}

impl Arguments {
    pub(super) fn place(&self) -> Result<DumpPlace<'_>, Failure> {
        DumpPlace::of(self.directory.as_deref(), self.archive.as_deref())
    }

    pub(super) fn filter(&self, signals: &Signals) -> Result<Option<Document>, Failure> {
        let parsed =
            |text: &String| clause::document("--filter", &content("--filter", text, signals)?, signals);
        self.filter.as_ref().map(parsed).transpose()
    }
}
