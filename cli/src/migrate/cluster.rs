//! The other side: its version, its topology, and its features.

use cairndb::bson::{Bson, Document, doc};
use query::code::Code;

use crate::command::{count, raw};
use crate::failure::Failure;
use crate::listing::if_known;
use crate::restore::tally::refusal;
use crate::store::Store;

/// The wire version of MongoDB 4.4, which has hidden indexes.
const WIRE_HIDDEN: u64 = 9;
/// That of 7.0, whose wildcard indexes may have other fields besides.
const WIRE_COMPOUND_WILDCARD: u64 = 21;

/// A server's own words on itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) version: String,
    pub(super) topology: Topology,
    wire: u64,
    pub(super) is_writable: bool,
    /// Whether it is a store of CairnDB, which MongoDB's commands do not say.
    pub(super) has_sequences: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Topology {
    #[default]
    Standalone,
    ReplicaSet,
    Sharded,
}

impl Topology {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Standalone => "a standalone",
            Self::ReplicaSet => "a replica set",
            Self::Sharded => "a sharded cluster",
        }
    }
}

impl Cluster {
    /// Asks a server.
    pub(super) fn ask(store: &dyn Store) -> Result<Self, Failure> {
        let hello = store.run("admin", raw(&doc! { "hello": 1 })?)?;
        let build = store.run("admin", raw(&doc! { "buildInfo": 1 })?)?;
        let sequences = if_known(store.run("admin", raw(&doc! { "listSequences": 1 })?))?;
        Ok(Self {
            version: build.get_str("version").unwrap_or("an unknown version").to_owned(),
            has_sequences: sequences.is_some(),
            ..Self::of(&hello)
        })
    }

    fn of(hello: &Document) -> Self {
        let topology = if hello.get_str("msg").ok() == Some("isdbgrid") {
            Topology::Sharded
        } else if hello.contains_key("setName") {
            Topology::ReplicaSet
        } else {
            Topology::Standalone
        };
        let flag = |name: &str| hello.get_bool(name).unwrap_or(false);
        Self {
            version: String::new(),
            topology,
            wire: count(hello, "maxWireVersion").unwrap_or_default(),
            is_writable: flag("isWritablePrimary") || flag("ismaster"),
            has_sequences: false,
        }
    }

    /// The reason why this version does not support an index, if it does not.
    pub(super) fn lacks(&self, index: &Document) -> Option<&'static str> {
        let key = index.get_document("key").ok()?;
        let is_wildcard = key.keys().any(|name| name == "$**" || name.ends_with(".$**"));
        if is_wildcard && key.len() > 1 && self.wire < WIRE_COMPOUND_WILDCARD {
            return Some("wildcard indexes with other fields need MongoDB 7.0");
        }
        if index.get_bool("hidden").unwrap_or(false) && self.wire < WIRE_HIDDEN {
            return Some("hidden indexes need MongoDB 4.4");
        }
        None
    }
}

/// The fields by which a collection is sharded. Returns `None` without the right to ask: creating indexes will show them.
pub(super) fn shard_key(store: &dyn Store, database: &str, name: &str) -> Result<Option<Document>, Failure> {
    let filter = doc! { "_id": format!("{database}.{name}") };
    let find = raw(&doc! { "find": "collections", "filter": filter, "limit": 1 })?;
    let mut found = match store.stream("config", find) {
        Ok(found) => found,
        Err(failure) if failure.code == Some(Code::UNAUTHORIZED.number()) => return Ok(None),
        Err(failure) => return refusal(failure).map(|_| None),
    };
    if !found.advance()? {
        return Ok(None);
    }
    let found = Document::try_from(found.current()).unwrap_or_default();
    Ok(found.get_document("key").ok().cloned())
}

/// Whether a sharded collection can have an index: a unique one begins with the shard key.
pub(super) fn fits_shard_key(index: &Document, shard_key: &Document) -> bool {
    let is_unique = index.get("unique").is_some_and(|flag| matches!(flag, Bson::Boolean(true)));
    let Ok(key) = index.get_document("key") else { return true };
    !is_unique || shard_key.keys().eq(key.keys().take(shard_key.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_what_they_are() {
        let topology = |hello: Document| Cluster::of(&hello).topology;
        assert_eq!(topology(doc! { "msg": "isdbgrid" }), Topology::Sharded);
        assert_eq!(topology(doc! { "setName": "rs0" }), Topology::ReplicaSet);
        assert_eq!(topology(doc! {}), Topology::Standalone);
        assert!(Cluster::of(&doc! { "isWritablePrimary": true }).is_writable);
        assert!(!Cluster::of(&doc! { "isWritablePrimary": false, "secondary": true }).is_writable);
    }

    #[test]
    fn old_versions_lack_kinds_of_indexes() {
        let at = |wire: i32| Cluster::of(&doc! { "maxWireVersion": wire });
        let (hidden, mixed) =
            (doc! { "key": { "a": 1 }, "hidden": true }, doc! { "key": { "a": 1, "b.$**": 1 } });
        assert!(at(8).lacks(&hidden).is_some() && at(9).lacks(&hidden).is_none());
        assert!(at(20).lacks(&mixed).is_some() && at(21).lacks(&mixed).is_none());
        assert!(at(8).lacks(&doc! { "key": { "$**": 1 } }).is_none());
    }

    #[test]
    fn a_unique_index_of_a_sharded_collection_begins_with_the_shard_key() {
        let index = |key: Document| doc! { "key": key, "unique": true };
        let by = doc! { "zone": 1, "user": "hashed" };
        assert!(fits_shard_key(&index(doc! { "zone": 1, "user": 1, "n": 1 }), &by));
        assert!(!fits_shard_key(&index(doc! { "zone": 1 }), &by));
        assert!(!fits_shard_key(&index(doc! { "n": 1 }), &by));
        assert!(fits_shard_key(&doc! { "key": { "n": 1 } }, &by));
    }
}
