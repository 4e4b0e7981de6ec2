//! The content of a store that is dumped: collections and views with their options and indexes, sequences, and
//! auto-increment fields.

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use data_encoding::HEXLOWER;
use formats::dump::metadata::Metadata;
use query::code::Code;

use crate::command::raw;
use crate::dumped::DumpedKind;
use crate::extended_json::{Mode, write_document};
use crate::failure::{Exit, Failure};
use crate::listing::{databases, if_known};
use crate::patterns::Namespaces;
use crate::store::Store;

/// The version that a server of a folder announces.
const MONGODB_VERSION: &str = "8.0.0";

/// A collection or a view.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) kind: DumpedKind,
    pub(crate) options: Document,
    pub(crate) uuid: Option<String>,
}

/// The content of a store that is dumped.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) found: Vec<Found>,
    /// The databases, also those that have sequences alone.
    pub(crate) databases: Vec<String>,
    /// The objects that cannot be dumped, each with the reason.
    pub(crate) left_out: Vec<String>,
}

impl Catalog {
    /// Looks at all of the store. Views come first, because an archive has them so.
    pub(crate) fn read(store: &dyn Store, namespaces: &Namespaces) -> Result<Self, Failure> {
        let mut catalog = Self::default();
        for database in databases(store)? {
            check_database(&database)?;
            catalog.read_database(store, &database, namespaces)?;
            catalog.databases.push(database);
        }
        catalog.found.sort_by_key(|found| found.kind != DumpedKind::View);
        Ok(catalog)
    }

    /// Rejects patterns that have chosen nothing of the store.
    pub(crate) fn check_chosen(&self, store: &dyn Store, namespaces: &Namespaces) -> Result<(), Failure> {
        let is_any = !self.found.is_empty()
            || !self.left_out.is_empty()
            || !sequences(store, &self.databases, namespaces)?.is_empty();
        namespaces.check_chosen(is_any, "the store")
    }

    fn read_database(
        &mut self,
        store: &dyn Store,
        database: &str,
        namespaces: &Namespaces,
    ) -> Result<(), Failure> {
        let mut listed = store.stream(database, raw(&doc! { "listCollections": 1 })?)?;
        while listed.advance()? {
            let one = Document::try_from(listed.current()).map_err(|error| damaged(&error))?;
            let name = one.get_str("name").unwrap_or_default();
            if name.is_empty() || name.starts_with("system.") || !namespaces.has(database, name) {
                continue;
            }
            let kind = match one.get_str("type").unwrap_or("collection") {
                "collection" => DumpedKind::Collection,
                "view" => DumpedKind::View,
                other => {
                    self.left_out
                        .push(format!("{database}.{name}: it is a {other}, which cannot be carried"));
                    continue;
                }
            };
            let mut options = one.get_document("options").cloned().unwrap_or_default();
            // It is in the field `cairndb`, as the options are sent to any server.
            options.remove("autoIncrement");
            self.found.push(Found {
                database: database.to_owned(),
                name: name.to_owned(),
                kind,
                options,
                uuid: one.get_document("info").ok().and_then(uuid),
            });
        }
        Ok(())
    }

    /// Adds the users.
    pub(crate) fn add_users(&mut self) {
        self.found.push(Found {
            database: "admin".to_owned(),
            name: "system.users".to_owned(),
            kind: DumpedKind::Users,
            options: Document::new(),
            uuid: None,
        });
    }
}

impl Found {
    /// The metadata, as a text.
    pub(crate) fn metadata(&self, store: &dyn Store, numbered: Vec<Document>) -> Result<String, Failure> {
        let kind = match self.kind {
            DumpedKind::Collection | DumpedKind::Users => "collection",
            DumpedKind::View => "view",
        };
        let metadata = Metadata {
            options: self.options.clone(),
            indexes: self.indexes(store)?,
            uuid: self.uuid.clone(),
            collection_name: Some(self.name.clone()),
            kind: Some(kind.to_owned()),
            numbered,
        };
        text(&metadata.to_document(), Mode::Canonical)
    }

    fn indexes(&self, store: &dyn Store) -> Result<Vec<Document>, Failure> {
        let mut indexes = Vec::new();
        if self.kind != DumpedKind::Collection {
            return Ok(indexes);
        }
        let list = raw(&doc! { "listIndexes": self.name.as_str() })?;
        let mut listed = match store.stream(&self.database, list) {
            Ok(listed) => listed,
            // It was dropped after it was listed, by others that a server has.
            Err(failure) if failure.code == Some(Code::NAMESPACE_NOT_FOUND.number()) => return Ok(indexes),
            Err(failure) => return Err(failure),
        };
        while listed.advance()? {
            indexes.push(Document::try_from(listed.current()).map_err(|error| damaged(&error))?);
        }
        Ok(indexes)
    }

    /// The auto-increment fields, each with the snapshot of its sequence.
    pub(crate) fn numbered(&self, store: &dyn Store) -> Result<Vec<Document>, Failure> {
        if self.kind != DumpedKind::Collection {
            return Ok(Vec::new());
        }
        let command = raw(&doc! { "listAutoIncrements": self.name.as_str() })?;
        let Some(reply) = if_known(store.run(&self.database, command))? else { return Ok(Vec::new()) };
        let fields = reply.get_array("autoIncrements").map(Vec::as_slice).unwrap_or_default();
        let mut numbered = Vec::new();
        for field in fields.iter().filter_map(Bson::as_document) {
            let mut field = field.clone();
            let name = field.get_str("SequenceName").unwrap_or_default();
            let reply = store.run(&self.database, raw(&doc! { "sequenceSnapshot": name })?)?;
            field.insert("snapshot", reply.get("snapshot").cloned().unwrap_or(Bson::Null));
            numbered.push(field);
        }
        Ok(numbered)
    }

    /// The command that reads the documents. Users have none.
    pub(crate) fn find(&self, filter: Option<&Document>) -> Result<RawDocumentBuf, Failure> {
        let mut find = doc! { "find": self.name.as_str() };
        if let Some(filter) = filter {
            find.insert("filter", filter.clone());
        }
        raw(&find)
    }
}

/// The snapshots of the sequences, by database, without those of fields.
pub(crate) fn sequences(
    store: &dyn Store,
    databases: &[String],
    namespaces: &Namespaces,
) -> Result<Vec<(String, Vec<Document>)>, Failure> {
    let mut found = Vec::new();
    for database in databases {
        let command = raw(&doc! { "sequenceSnapshot": { "Internal": false } })?;
        let Some(reply) = if_known(store.run(database, command))? else { return Ok(found) };
        let snapshots = reply.get_array("snapshots").map(Vec::as_slice).unwrap_or_default();
        let is_meant = |one: &&Document| namespaces.has(database, one.get_str("Name").unwrap_or_default());
        let meant: Vec<_> =
            snapshots.iter().filter_map(Bson::as_document).filter(is_meant).cloned().collect();
        if !meant.is_empty() {
            found.push((database.clone(), meant));
        }
    }
    Ok(found)
}

/// The version that the server announces.
pub(crate) fn server_version(store: &dyn Store) -> Result<String, Failure> {
    match store.run("admin", raw(&doc! { "buildInfo": 1 })?) {
        Ok(reply) => Ok(reply.get_str("version").unwrap_or(MONGODB_VERSION).to_owned()),
        // A folder has no server.
        Err(failure) if failure.code == Some(Code::NOT_IMPLEMENTED.number()) => {
            Ok(MONGODB_VERSION.to_owned())
        }
        Err(failure) => Err(failure),
    }
}

/// A document in Extended JSON.
pub(crate) fn text(document: &Document, mode: Mode) -> Result<String, Failure> {
    let raw = RawDocumentBuf::try_from(document).map_err(|error| damaged(&error))?;
    let mut text = Vec::new();
    write_document(&mut text, &raw, mode)?;
    String::from_utf8(text).map_err(|error| damaged(&error))
}

/// Rejects a name that a server says and no database can have: it becomes the name of a directory.
fn check_database(name: &str) -> Result<(), Failure> {
    let is_part = |character: char| !matches!(character, '/' | '\\' | '.' | '"' | '$' | '*' | ' ' | '\0');
    if !name.is_empty() && name.chars().all(is_part) {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("the store has a database {name:?}, which is not a name for one")))
}

fn uuid(info: &Document) -> Option<String> {
    let Some(Bson::Binary(binary)) = info.get("uuid") else { return None };
    (binary.subtype == BinarySubtype::Uuid).then(|| HEXLOWER.encode(&binary.bytes))
}

fn damaged(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, format!("a document cannot be read: {error}"))
}
