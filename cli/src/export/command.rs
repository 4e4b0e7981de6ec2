//! Which documents are exported: the options that become a `find` or an `aggregate`.

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::argument::content;
use crate::clause;
use crate::command::raw;
use crate::failure::Failure;
use crate::signals::Signals;

/// Which documents, in which order. Values are Extended JSON or the shell's language, `@FILE` for the content of a file, or
/// `-` for standard input.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which documents")]
pub(super) struct Selection {
    /// Only documents that match, in Extended JSON or as in `cairn shell`; `@FILE` reads a file, and `-` standard input.
    #[arg(long, value_name = "FILTER", conflicts_with = "pipeline")]
    filter: Option<String>,
    /// Which fields are written, as `find` takes it.
    #[arg(long, value_name = "PROJECTION", conflicts_with = "pipeline")]
    projection: Option<String>,
    /// The order, a document as `find` takes it.
    #[arg(long, value_name = "SORT", conflicts_with = "pipeline")]
    sort: Option<String>,
    /// Leave out this many documents at the beginning.
    #[arg(long, value_name = "N", conflicts_with = "pipeline", value_parser = clap::value_parser!(i64).range(0..))]
    skip: Option<i64>,
    /// Write at most this many documents; 0 for all.
    #[arg(long, value_name = "N", conflicts_with = "pipeline", value_parser = clap::value_parser!(i64).range(0..))]
    limit: Option<i64>,
    /// The index to use: its name, or its keys as a document.
    #[arg(long, value_name = "INDEX")]
    hint: Option<String>,
    /// Write the results of this aggregation, an array of stages.
    #[arg(long, value_name = "STAGES")]
    pipeline: Option<String>,
}

impl Selection {
    /// Whether these are all documents of the collection.
    pub(super) fn is_everything(&self) -> bool {
        self.filter.is_none() && self.skip.is_none() && self.limit.is_none() && self.pipeline.is_none()
    }

    /// The command that has the documents as its result.
    pub(super) fn command(&self, collection: &str, signals: &Signals) -> Result<RawDocumentBuf, Failure> {
        let mut command = if let Some(pipeline) = &self.pipeline {
            let stages = clause::array("--pipeline", &content("--pipeline", pipeline, signals)?, signals)?;
            refuse_writing(&stages)?;
            doc! { "aggregate": collection, "pipeline": stages, "cursor": {} }
        } else {
            self.find(collection, signals)?
        };
        if let Some(hint) = &self.hint {
            let is_keys = hint.trim_start().starts_with('{');
            let hint = if is_keys {
                clause::document("--hint", hint, signals)?.into()
            } else {
                Bson::from(hint.as_str())
            };
            command.insert("hint", hint);
        }
        raw(&command)
    }

    fn find(&self, collection: &str, signals: &Signals) -> Result<Document, Failure> {
        let mut command = doc! { "find": collection };
        let documents = [("filter", &self.filter), ("projection", &self.projection), ("sort", &self.sort)];
        for (name, text) in documents {
            if let Some(text) = text {
                let option = format!("--{name}");
                command.insert(name, clause::document(&option, &content(&option, text, signals)?, signals)?);
            }
        }
        for (name, number) in [("skip", self.skip), ("limit", self.limit)] {
            if let Some(number) = number {
                command.insert(name, number);
            }
        }
        Ok(command)
    }
}

/// A server would run them, and an export only reads.
fn refuse_writing(stages: &[Bson]) -> Result<(), Failure> {
    let writes = stages.iter().filter_map(Bson::as_document).flat_map(Document::keys);
    match writes.into_iter().find(|name| matches!(name.as_str(), "$out" | "$merge")) {
        Some(name) => Err(Failure::usage(format!("--pipeline has the stage {name}, which writes"))),
        None => Ok(()),
    }
}
