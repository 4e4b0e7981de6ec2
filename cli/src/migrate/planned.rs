//! One collection or view on its way: what it is on one side, and what is made of it on the other.

use cairndb::bson::{Document, doc};
use formats::dump::metadata::Metadata;

use crate::command::{count, raw};
use crate::dump::catalog::{Found, text};
use crate::dumped::DumpedKind;
use crate::extended_json::Mode;
use crate::failure::{Exit, Failure};
use crate::patterns::{Rename, renamed_collection};
use crate::restore::plan::Planned;
use crate::store::Store;

/// The options that say which documents a collection accepts. They come after the documents.
pub(super) const VALIDATION: [&str; 3] = ["validator", "validationLevel", "validationAction"];

/// A collection or view of the source, and what it becomes.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) found: Found,
    pub(super) planned: Planned,
    /// About how many documents it has.
    pub(super) documents: u64,
}

impl Moved {
    /// Looks at a collection or view of the source.
    pub(super) fn of(source: &dyn Store, found: Found, renames: &[Rename]) -> Result<Self, Failure> {
        let target = renamed_collection(renames, &found.database, &found.name)?;
        let metadata = found.metadata(source, Vec::new())?;
        let documents = if found.kind == DumpedKind::Collection {
            let reply = source.run(&found.database, raw(&doc! { "count": found.name.as_str() })?)?;
            count(&reply, "n").unwrap_or_default()
        } else {
            0
        };
        let namespace = format!("{}.{}", found.database, found.name);
        let planned = Planned::of(namespace, target, found.kind, metadata);
        Ok(Self { found, planned, documents })
    }

    pub(super) fn is_view(&self) -> bool {
        self.found.kind == DumpedKind::View
    }

    /// Keeps only some indexes and options.
    pub(super) fn retain(
        &mut self,
        mut index: impl FnMut(&Document) -> bool,
        mut option: impl FnMut(&str) -> bool,
    ) -> Result<(), Failure> {
        let mut metadata = self.planned.metadata()?;
        metadata.indexes.retain(|one| index(one));
        let left = |(name, _): &(String, _)| option(name);
        metadata.options = metadata.options.into_iter().filter(left).collect();
        let Planned { source, database, name, kind, .. } = &self.planned;
        let target = (database.clone(), name.clone());
        self.planned =
            Planned::of(source.clone(), target, *kind, text(&metadata.to_document(), Mode::Canonical)?);
        Ok(())
    }

    /// Removes the options of a capped collection from the description: documents are copied in the order of their `_id`s, and
    /// not in that of their inserts, which such a collection keeps. Returns what to say of it, if it is one.
    pub(super) fn leave_order_out(&mut self) -> Result<Option<&'static str>, Failure> {
        if !self.planned.metadata()?.options.get_bool("capped").unwrap_or(false) {
            return Ok(None);
        }
        self.retain(|_| true, |name| !matches!(name, "capped" | "max" | "size"))?;
        Ok(Some("capped: documents are copied in the order of their _ids, into an ordinary collection"))
    }

    /// The options that it is made with: a validator would reject documents that were stored before it.
    pub(super) fn options_without_validation(&self) -> Result<Document, Failure> {
        let mut options = self.planned.metadata()?.options;
        for name in VALIDATION {
            options.remove(name);
        }
        Ok(options)
    }

    /// The command that sets the validator, if there is one.
    pub(super) fn validation(&self) -> Result<Option<Document>, Failure> {
        let options = self.planned.metadata()?.options;
        let mut command = doc! { "collMod": self.planned.name.as_str() };
        for name in VALIDATION {
            command.extend(options.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        Ok((command.len() > 1).then_some(command))
    }

    /// The line of a plan, as a document.
    pub(super) fn document(&self) -> Result<Document, Failure> {
        let Metadata { options, indexes, .. } = self.planned.metadata()?;
        let names: Vec<&str> = indexes.iter().filter_map(|index| index.get_str("name").ok()).collect();
        let mut document = doc! {
            "source": self.planned.source.as_str(),
            "target": self.planned.namespace(),
            "kind": if self.is_view() { "view" } else { "collection" },
        };
        if !self.is_view() {
            document.insert("documents", i64::try_from(self.documents).unwrap_or(i64::MAX));
            document.insert("indexes", names);
            document.insert("validator", options.contains_key("validator"));
        }
        Ok(document)
    }
}

/// The options of an existing collection.
pub(super) fn options_of(store: &dyn Store, database: &str, name: &str) -> Result<Option<Document>, Failure> {
    let list = doc! { "listCollections": 1, "filter": { "name": name } };
    let mut listed = store.stream(database, raw(&list)?)?;
    if !listed.advance()? {
        return Ok(None);
    }
    let one = Document::try_from(listed.current());
    let one = one.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    Ok(Some(one.get_document("options").cloned().unwrap_or_default()))
}
