//! The command line of `cairn inspect`, and what its two looks share.

use std::path::PathBuf;

use cairndb::bson::Bson;
use clap::{ArgGroup, ValueEnum};

use crate::store::Access;
use crate::talk::Talk;

/// Says why a number is missing, or what is stored of a document.
///
/// With `--id`: the key and the length of the document, the document, and for every index the entries that it should have
/// and has, as values and in hexadecimal. The folder itself is read, and each index of the collection to its end. The exit
/// status is 4 if an entry is missing, differs or is surplus.
///
/// With `--number` and `--sequence`: one of six verdicts, a sentence and the facts. `present`: documents have the value.
/// `not-yet`: the sequence will come to it. `never`: it is not a value of the sequence. `lost`: the ledger of gaps has it, with
/// cause and time. `lost-unlisted`: the ledger does not have it, and has dropped older gaps. `used`: it was handed out, and
/// no document has it.
///
/// The verdict is about the sequence as it is declared now, and since its last restart.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).args(["id", "number", "sequence"])))]
#[command(after_help = "\
Examples:
  cairn inspect shop-data shop.orders --id 4711
      the document, and its entries in all indexes
  cairn inspect shop-data shop.orders --number number=4711
      why no document has the number 4711
  cairn inspect shop.sock shop --sequence tickets=4711 --json
      what became of a value of a sequence, from a running server
  cairn inspect shop-data shop.orders --number number=1 --expect present
      for scripts: exit status 4 if it is not there")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`); with `--id` a folder.
    pub(super) store: PathBuf,
    /// The collection, or with `--sequence` the database.
    #[arg(value_name = "DB[.COLLECTION]")]
    pub(super) scope: String,
    /// The `_id` of a document: Extended JSON, `ObjectId("…")` and the like, or 24 hexadecimal digits of an ObjectId.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(super) id: Option<String>,
    /// An auto-increment field, and the number that is looked for.
    #[arg(long, value_name = "FIELD=NUMBER")]
    pub(super) number: Option<String>,
    /// A sequence, and the value that is looked for.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) sequence: Option<String>,
    /// The expected verdict: any other gives exit status 4.
    #[arg(long, value_name = "VERDICT", conflicts_with = "id")]
    pub(super) expect: Option<Verdict>,
    #[command(flatten)]
    pub(super) access: Access,
    #[command(flatten)]
    pub(super) talk: Talk,
}

/// The verdict on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// Documents have it.
    Present,
    /// The sequence will come to it.
    NotYet,
    /// It is not a value of the sequence.
    Never,
    /// The ledger of gaps has it.
    Lost,
    /// The ledger does not have it, and has dropped older gaps.
    LostUnlisted,
    /// It was handed out, and no document has it.
    Used,
}

/// The question.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) database: &'a str,
    /// The collection of an auto-increment field.
    pub(super) collection: Option<&'a str>,
    /// The field, or the sequence.
    pub(super) name: &'a str,
    pub(super) value: i64,
}

/// The findings, for the report.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) counts: Vec<(&'static str, u64)>,
    pub(super) names: Vec<(&'static str, String)>,
    pub(super) found: Vec<(&'static str, Bson)>,
}

impl Verdict {
    /// The name, as the command line has it.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
