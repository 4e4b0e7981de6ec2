//! The command line of `cairn import`, and which of its options do not go together.

use std::path::PathBuf;

use cairndb::bson::raw::CString;
use clap::ValueEnum;
use formats::large::LargeIntegers;

use crate::failure::Failure;
use crate::format::Format;
use crate::import::columns::TableOptions;
use crate::import::rejects::Limit;
use crate::import::write::{Mode, Target};
use crate::store::{Access, namespace};
use crate::talk::Talk;

/// The documents of a batch, unless the user says otherwise, and at most.
const BATCH: u32 = 1_000;
const BATCH_MAX: i64 = 100_000;

/// Reads documents from files into a collection.
///
/// The store is a folder, a Unix socket or a URI. A folder that is absent is made; one that another process has
/// open cannot be written.
///
/// The format is that of the file's name, else that of its first bytes. gzip and Zstandard are recognized. What cannot
/// be imported is a line in a file of rejects, with its number, its offset and the reason; the exit status is 3
/// then. Status 0 means that everything is imported and on stable storage.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn import shop-data shop.orders orders.csv
      numbers, dates and truth values are recognized where nothing is lost
  cairn import shop-data shop.orders orders.tsv.gz --no-header --types typed \\
    --fields '_id.int32,at.date(%d.%m.%Y)'
      columns that are named, with their types
  cairn import shop.sock shop.customers customers.ndjson \\
    --mode upsert --match email
      into a running server; a customer who is there is replaced
  cairn import mongodb://ada@db.example/ shop.orders *.bson.gz \\
    --password-file ada.txt --max-rejects all")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    pub(super) store: PathBuf,
    /// The database and the collection, with a dot between them.
    #[arg(value_name = "DB.COLLECTION")]
    pub(super) namespace: String,
    /// The files, one after the other; `-`, or none, for standard input.
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The format of the files.
    #[arg(long, help_heading = "Input")]
    pub(super) format: Option<Format>,
    /// The action for a document; all but `insert` look for one that matches.
    #[arg(long, default_value = "insert", help_heading = "Writing")]
    pub(super) mode: Mode,
    /// The fields by which a document matches, separated by commas; `_id` unless others are named.
    #[arg(long = "match", value_name = "FIELDS", help_heading = "Writing")]
    pub(super) match_fields: Option<String>,
    /// Pass over documents whose `_id` or unique key is taken, in the mode `insert`.
    #[arg(long, help_heading = "Writing")]
    pub(super) skip_existing: bool,
    /// Documents sent at once. Large ones are sent in smaller numbers.
    #[arg(long, value_name = "N", default_value_t = BATCH, value_parser = clap::value_parser!(u32).range(1..=BATCH_MAX), help_heading = "Writing")]
    pub(super) batch: u32,
    /// The file for lines that are rejected, otherwise `FILE.rejects.ndjson` beside each file; of standard input
    /// they are lines on standard error.
    #[arg(long, value_name = "FILE", help_heading = "Rejects")]
    pub(super) rejects: Option<PathBuf>,
    /// Stop after this many rejects, or never with `all`; 0 stops at the first.
    #[arg(long, value_name = "N", default_value = "100", value_parser = Limit::parse, help_heading = "Rejects")]
    pub(super) max_rejects: Limit,
    /// Replace the collection, once all documents are in.
    #[arg(long, conflicts_with = "truncate", help_heading = "Writing")]
    pub(super) drop: bool,
    /// Replace the documents of the collection, once all are in. Its indexes and the auto-increment fields stay.
    #[arg(long, help_heading = "Writing")]
    pub(super) truncate: bool,
    /// The treatment of an integer in JSON that has more than 64 bits.
    #[arg(long, value_name = "HOW", default_value = "refuse", help_heading = "Input")]
    pub(super) large_integers: Large,
    #[command(flatten)]
    pub(super) table: TableOptions,
    /// Go on where an interrupted import of the same files stopped, if there is one. For this the state is kept
    /// beside the first file, in `FILE.cairn-import`.
    #[arg(long, conflicts_with = "dry_run", help_heading = "How it runs")]
    pub(super) resume: bool,
    /// Read and check everything, and write nothing. What only the store can reject is not found.
    #[arg(long, help_heading = "How it runs")]
    pub(super) dry_run: bool,
    /// Replace files of rejects that are there.
    #[arg(long, help_heading = "Rejects")]
    pub(super) overwrite: bool,
    #[command(flatten)]
    pub(super) access: Access,
    #[command(flatten)]
    pub(super) talk: Talk,
}

/// The treatment of integers beyond 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Large {
    /// Their lines are rejected.
    Refuse,
    /// Decimals of up to 34 digits.
    Decimal,
    /// The nearest doubles.
    Double,
}

impl Large {
    pub(super) fn meaning(self) -> LargeIntegers {
        match self {
            Self::Refuse => LargeIntegers::Refuse,
            Self::Decimal => LargeIntegers::Decimal,
            Self::Double => LargeIntegers::Double,
        }
    }
}

impl Arguments {
    /// The options that must be the same when an import is resumed.
    pub(super) fn lasting(&self) -> String {
        let Self {
            namespace,
            format,
            mode,
            match_fields,
            skip_existing,
            rejects,
            drop,
            truncate,
            large_integers,
            table,
            ..
        } = self;
        format!(
            "{namespace} {format:?} {mode:?} {match_fields:?} {skip_existing} {rejects:?} {drop} {truncate} {large_integers:?} {table:?}"
        )
    }

    /// The target of documents, after checking that the options go together.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        let (database, collection) = namespace(&self.namespace)?;
        if self.skip_existing && self.mode != Mode::Insert {
            return Err(Failure::usage("--skip-existing is for --mode insert"));
        }
        if self.match_fields.is_some() && self.mode == Mode::Insert {
            return Err(Failure::usage("--match is for the modes upsert, merge and delete"));
        }
        if self.resume
            && self.mode == Mode::Delete
            && self.match_fields.as_deref().is_some_and(|fields| fields != "_id")
        {
            return Err(Failure::usage(
                "--resume with --mode delete needs --match _id: a line that is repeated would delete another document",
            ));
        }
        let fields = self.match_fields.as_deref().unwrap_or("_id").split(',').map(str::trim);
        let match_fields = fields
            .map(|field| {
                let is_path = field.split('.').all(|part| !part.is_empty() && !part.starts_with('$'));
                CString::try_from(field)
                    .ok()
                    .filter(|_| is_path)
                    .ok_or_else(|| Failure::usage(format!("--match has a name that is none: {field:?}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Target {
            database: database.to_owned(),
            collection: collection.to_owned(),
            mode: self.mode,
            match_fields,
            // If any number of rejections is wanted, a batch need not end at each.
            is_ordered: self.max_rejects != Limit::Never && !self.skip_existing,
        })
    }
}
