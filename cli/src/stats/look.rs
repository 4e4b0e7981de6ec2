//! The facts of a store about its collections, sequences and files.

use std::collections::HashMap;

use cairndb::FileKind;
use cairndb::bson::{Bson, DateTime, Document, doc, serialize_to_bson};

use crate::command::{count, raw};
use crate::failure::{Exit, Failure};
use crate::listing::{Listed, collections, databases, if_there};
use crate::positions::{Position, positions};
use crate::signals::Signals;
use crate::store::{FolderFacts, Store};

/// Which part of a store is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope<'a> {
    database: Option<&'a str>,
    collection: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// Reads `DB` or `DB.COLLECTION`, split at the first dot.
    pub(super) fn parse(text: &'a str) -> Result<Self, Failure> {
        let (database, collection) = match text.split_once('.') {
            Some((database, collection)) => (database, Some(collection)),
            None => (text, None),
        };
        if database.is_empty() || collection == Some("") {
            return Err(Failure::usage(format!("{text:?} is neither a DB nor a DB.COLLECTION")));
        }
        Ok(Self { database: Some(database), collection })
    }
}

/// The facts that were seen so far.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) collections: Vec<Facts>,
    pub(super) positions: Vec<Position>,
    /// `None` through a connection.
    pub(super) folder: Option<FolderFacts>,
    /// The state of the server's scrub. `None` if there is none, or only a part of the store was asked for.
    pub(super) scrub: Option<Document>,
    /// The server's log of changes, and its streams.
    pub(super) change_log: Option<Document>,
    /// The server's transactions, as `serverStatus` counts them. `None` if it counts none.
    pub(super) transactions: Option<Document>,
}

/// A collection, or something without documents of its own, such as a view.
pub(super) struct Facts {
    pub(super) database: String,
    pub(super) listed: Listed,
    /// `None` for what has no documents of its own.
    pub(super) sizes: Option<Sizes>,
}

/// The sizes of a collection, in bytes.
pub(super) struct Sizes {
    pub(super) documents: u64,
    pub(super) data: u64,
    /// The bytes of the documents in tables.
    pub(super) disk: u64,
    /// Whether the tables have nearly all documents, so that both sizes are of the same ones.
    is_in_tables: bool,
    pub(super) indexes: Vec<IndexFacts>,
}

/// An index.
pub(super) struct IndexFacts {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// The number of its uses, and the begin of the counting. `None` where nothing counts it.
    pub(super) uses: Option<(u64, Option<DateTime>)>,
}

/// Looks at what `scope` means, until a signal comes.
pub(super) fn look(
    store: &dyn Store,
    scope: Scope<'_>,
    signals: &Signals,
    looked: &mut Looked,
) -> Result<(), Failure> {
    looked.folder = store.folder()?;
    if looked.folder.is_none() && scope.database.is_none() {
        let status = status(store).unwrap_or_default();
        let own = |name| status.get_document("cairndb").and_then(|own| own.get_document(name));
        looked.scrub = own("scrub").ok().cloned();
        looked.change_log = own("changeLog").ok().cloned();
        looked.transactions = status.get_document("transactions").ok().cloned();
    }
    let names = match scope.database {
        Some(database) => vec![database.to_owned()],
        None => databases(store)?,
    };
    for database in names {
        let listed = collections(store, &database, scope.collection)?;
        let mut found = positions(store, &database, &listed)?;
        if let Some(collection) = scope.collection {
            if listed.is_empty() {
                return Err(Failure::new(
                    Exit::Failed,
                    format!("there is no collection {database}.{collection}"),
                ));
            }
            found.retain(|position| position.field.as_ref().is_some_and(|(of, _)| of == collection));
        } else if scope.database.is_some() && listed.is_empty() && found.is_empty() {
            return Err(Failure::new(Exit::Failed, format!("there is no database {database}")));
        }
        looked.positions.append(&mut found);
        for listed in listed {
            if signals.received().is_some() {
                return Ok(());
            }
            look_at(store, &database, listed, looked)?;
        }
    }
    Ok(())
}

/// The status of a server by itself. It says nothing to those who may not ask.
fn status(store: &dyn Store) -> Option<Document> {
    store.run("admin", raw(&doc! { "serverStatus": 1 }).ok()?).ok()
}

/// Looks at one collection or view. One that others have dropped since is left out.
fn look_at(store: &dyn Store, database: &str, listed: Listed, looked: &mut Looked) -> Result<(), Failure> {
    let mut facts = Facts { database: database.to_owned(), listed, sizes: None };
    // A view has no sizes, and asking for them is an error.
    if facts.listed.is_collection() {
        let command = raw(&doc! { "collStats": facts.listed.name.as_str() })?;
        let Some(reply) = if_there(store.run(database, command))? else { return Ok(()) };
        let mut sizes = Sizes::of(&reply);
        // In a folder the uses would be this process's own, which has made none.
        if looked.folder.is_none() {
            add_uses(store, database, &facts.listed.name, &mut sizes.indexes)?;
        }
        facts.sizes = Some(sizes);
    }
    looked.collections.push(facts);
    Ok(())
}

fn add_uses(
    store: &dyn Store,
    database: &str,
    collection: &str,
    indexes: &mut [IndexFacts],
) -> Result<(), Failure> {
    let command = doc! { "aggregate": collection, "pipeline": [{ "$indexStats": {} }], "cursor": {} };
    let mut uses = HashMap::new();
    let mut stats = store.stream(database, raw(&command)?)?;
    while stats.advance()? {
        let one = stats.current();
        // CairnDB does not count those of the index on `_id`.
        let (Ok(name), Ok(accesses)) = (one.get_str("name"), one.get_document("accesses")) else { continue };
        let ops = accesses.get_i64("ops").or_else(|_| accesses.get_i32("ops").map(i64::from));
        if let Some(ops) = ops.ok().and_then(|ops| u64::try_from(ops).ok()) {
            uses.insert(name.to_owned(), (ops, accesses.get_datetime("since").ok()));
        }
    }
    for index in indexes {
        index.uses = uses.remove(&index.name);
    }
    Ok(())
}

impl Sizes {
    /// Reads the reply of `collStats`.
    fn of(reply: &Document) -> Self {
        let number = |name| count(reply, name).unwrap_or(0);
        let indexes = reply.get_document("indexSizes").cloned().unwrap_or_default();
        let index = |name: &String| IndexFacts {
            name: name.clone(),
            bytes: count(&indexes, name).unwrap_or(0),
            uses: None,
        };
        // MongoDB's own server says what all documents use, and knows no tables.
        let tables = count(reply, "tableSize");
        Self {
            documents: number("count"),
            data: number("size"),
            disk: tables.unwrap_or_else(|| number("storageSize")),
            is_in_tables: tables.is_none() || reply.get_bool("isInTables").unwrap_or(false),
            indexes: indexes.keys().map(index).collect(),
        }
    }

    /// The mean size of a document. `None` if there are no documents.
    pub(super) fn mean(&self) -> Option<u64> {
        self.data.checked_div(self.documents)
    }

    /// The number of bytes of documents in a byte on the disk. `None` if most of them may be in the log alone.
    pub(super) fn ratio(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
        let hundredths = (self.data as f64 / self.disk as f64 * 100.0).round();
        (self.is_in_tables && self.disk > 0 && self.data > 0).then_some(hundredths / 100.0)
    }
}

impl Facts {
    /// The collection in the report.
    pub(super) fn document(&self) -> Document {
        let Listed { name, kind } = &self.listed;
        let mut document =
            doc! { "database": self.database.as_str(), "name": name.as_str(), "type": kind.as_str() };
        let Some(sizes) = &self.sizes else { return document };
        document.insert("documents", long(sizes.documents));
        if let Some(mean) = sizes.mean() {
            document.insert("meanBytes", long(mean));
        }
        document.insert("dataBytes", long(sizes.data));
        document.insert("diskBytes", long(sizes.disk));
        if let Some(ratio) = sizes.ratio() {
            document.insert("ratio", ratio);
        }
        let indexes = sizes.indexes.iter().map(|index| {
            let mut document = doc! { "name": index.name.as_str(), "bytes": long(index.bytes) };
            if let Some((uses, since)) = index.uses {
                document.insert("uses", long(uses));
                if let Some(since) = since {
                    document.insert("since", since);
                }
            }
            document
        });
        document.insert("indexes", indexes.collect::<Bson>());
        document
    }
}

impl Looked {
    /// The sums in the report.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let sizes = || self.collections.iter().filter_map(|facts| facts.sizes.as_ref());
        let views = self.collections.iter().filter(|facts| facts.listed.kind == "view").count();
        vec![
            ("collections", sizes().count() as u64),
            ("views", views as u64),
            ("documents", sizes().map(|sizes| sizes.documents).sum()),
            ("dataBytes", sizes().map(|sizes| sizes.data).sum()),
            ("diskBytes", sizes().map(|sizes| sizes.disk).sum()),
        ]
    }
}

/// A sequence in the report.
pub(super) fn position(position: &Position) -> Document {
    let mut document = position.identity();
    document.insert("contract", position.contract());
    if let Some(next) = position.next() {
        document.insert("next", next);
    }
    for (name, of) in [("remaining", "Remaining"), ("lost", "Lost")] {
        if let Some(number) = position.number(of) {
            document.insert(name, number);
        }
    }
    document.insert("exhausted", position.next().is_none());
    document
}

/// The folder in the report.
pub(super) fn folder(folder: &FolderFacts) -> Document {
    let stats = &folder.stats;
    let files = stats.files.iter().map(|files| {
        doc! {
            "kind": kind(files.kind),
            "files": long(files.files),
            "bytes": long(files.bytes),
            "diskBytes": long(files.disk_bytes),
        }
    });
    let mut document = doc! {
        "path": stats.path.display().to_string(),
        "format": i64::from(stats.format),
        "wasClosedInOrder": stats.was_closed_in_order,
        "files": files.collect::<Bson>(),
    };
    if let Some(holder) = folder.holder {
        document.insert("openIn", i64::from(holder));
    }
    document
}

/// The word for a kind of files.
pub(super) fn kind(kind: FileKind) -> String {
    // The engine's own word, so that a new kind has one too.
    let word = serialize_to_bson(&kind).ok();
    word.as_ref().and_then(Bson::as_str).unwrap_or("other").to_owned()
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_split_at_the_first_dot() {
        let scope = |database, collection| Scope { database: Some(database), collection };
        assert_eq!(Scope::parse("shop").ok(), Some(scope("shop", None)));
        assert_eq!(Scope::parse("shop.a.b").ok(), Some(scope("shop", Some("a.b"))));
        for text in ["", ".", "shop.", ".orders"] {
            assert_eq!(Scope::parse(text).map_err(|failure| failure.exit), Err(Exit::Usage), "{text}");
        }
    }

    #[test]
    fn mongodb_has_no_tables_and_a_ratio_all_the_same() {
        let reply = doc! { "count": 3, "size": 600, "storageSize": 200_i64, "indexSizes": { "_id_": 9 } };
        let sizes = Sizes::of(&reply);
        assert_eq!((sizes.mean(), sizes.ratio(), sizes.indexes.len()), (Some(200), Some(3.0), 1));
        let reply = doc! { "count": 3, "size": 600, "tableSize": 100_i64, "isInTables": false };
        assert_eq!(Sizes::of(&reply).ratio(), None);
        assert_eq!(Sizes::of(&Document::new()).mean(), None);
    }
}
