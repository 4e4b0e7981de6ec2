//! The formats of files, as the command line names them.

use std::path::Path;

use clap::ValueEnum;
use formats::format::FileFormat;

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Extended JSON, a document on each line.
    Ndjson,
    /// Extended JSON, one array of documents.
    Json,
    /// Comma-separated values, with a header.
    Csv,
    /// Tab-separated values, with a header.
    Tsv,
    /// BSON, one document after the other.
    Bson,
}

impl Format {
    /// The format that a file's name says.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        FileFormat::of_name(path).map(|format| match format {
            FileFormat::Lines => Self::Ndjson,
            FileFormat::Json => Self::Json,
            FileFormat::Csv => Self::Csv,
            FileFormat::Tsv => Self::Tsv,
            FileFormat::Bson => Self::Bson,
        })
    }

    /// The format of documents that are read.
    pub(crate) fn read(self) -> FileFormat {
        match self {
            Self::Ndjson => FileFormat::Lines,
            Self::Json => FileFormat::Json,
            Self::Csv => FileFormat::Csv,
            Self::Tsv => FileFormat::Tsv,
            Self::Bson => FileFormat::Bson,
        }
    }
}
