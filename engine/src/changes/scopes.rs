//! Scopes of logging and of streams: a collection, a database or all of them, by their names.

use std::fmt::{self, Display, Formatter};

use base::namespace::Namespace;

use crate::changes::event::{Event, EventKind};

/// The databases of the system, whose collections are never logged.
const SYSTEM: [&str; 3] = ["admin", "config", "local"];

/// A collection, a database, or everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Client,
    Database(String),
    Collection(Namespace),
}

impl Display for Scope {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => formatter.write_str("all databases"),
            Self::Database(db) => write!(formatter, "the database {db}"),
            Self::Collection(namespace) => write!(formatter, "{namespace}"),
        }
    }
}

impl Scope {
    /// The name under which it is stored: no database has an empty name, or one with a dot.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Client => String::new(),
            Self::Database(db) => db.clone(),
            Self::Collection(namespace) => namespace.to_string(),
        }
    }

    /// Whether changes of a collection belong to it.
    pub(crate) fn covers(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Client => is_logged(namespace),
            Self::Database(db) => *db == namespace.db && is_logged(namespace),
            Self::Collection(own) => own == namespace,
        }
    }

    /// Whether a stream on it shows an event.
    pub(crate) fn shows(&self, event: &Event<'_>) -> bool {
        match self {
            Self::Client => true,
            Self::Database(db) => event.db() == db,
            // A stream on a view is refused: one on a collection that is not there yet shows none.
            Self::Collection(_) if event.is_of_view() => false,
            Self::Collection(own) => match event.kind {
                EventKind::Rename => event.is_of(own) || event.is_renamed_to(own),
                EventKind::DropDatabase => false,
                EventKind::Insert
                | EventKind::Replace
                | EventKind::Update
                | EventKind::Delete
                | EventKind::Drop
                | EventKind::Truncate
                | EventKind::Create
                | EventKind::CreateIndexes
                | EventKind::DropIndexes
                | EventKind::Modify => event.is_of(own),
            },
        }
    }

    /// Whether a stored event is of a document of a collection that does not belong to it.
    #[inline]
    pub(crate) fn is_without(&self, event: &[u8]) -> bool {
        Event::collection_of_document(event).is_some_and(|name| !self.has(name))
    }

    /// Whether a collection of a name, as events have it, belongs to it.
    #[inline]
    fn has(&self, name: &[u8]) -> bool {
        let within = |db: &str| name.strip_prefix(db.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        match self {
            Self::Client => true,
            Self::Database(db) => within(db).is_some(),
            Self::Collection(own) => within(&own.db) == Some(own.coll.as_bytes()),
        }
    }

    /// Whether the event ends a stream on it.
    pub(crate) fn is_ended_by(&self, kind: EventKind) -> bool {
        match self {
            Self::Client => false,
            Self::Database(_) => kind == EventKind::DropDatabase,
            Self::Collection(_) => matches!(kind, EventKind::Drop | EventKind::Rename),
        }
    }

    /// The names of all scopes that have its changes too, and its own.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Client => vec![String::new()],
            Self::Database(db) => vec![String::new(), db.clone()],
            Self::Collection(namespace) => names_over(namespace).into(),
        }
    }
}

/// The names of the scopes that a collection may be logged by.
pub(crate) fn names_over(namespace: &Namespace) -> [String; 3] {
    [String::new(), namespace.db.clone(), namespace.to_string()]
}

/// Whether changes of a collection may be logged.
pub(crate) fn is_logged(namespace: &Namespace) -> bool {
    !SYSTEM.contains(&namespace.db.as_str()) && !namespace.coll.starts_with("system.")
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use store::keys::CollectionId;

    use super::*;

    fn namespace(db: &str, coll: &str) -> Namespace {
        Namespace { db: db.to_owned(), coll: coll.to_owned() }
    }

    #[test]
    fn a_scope_covers_its_collections_and_none_of_the_system() {
        let shop = Scope::Database("shop".to_owned());
        for (scope, db, coll, covers) in [
            (&Scope::Client, "shop", "orders", true),
            (&Scope::Client, "admin", "orders", false),
            (&shop, "shop", "orders", true),
            (&shop, "shops", "orders", false),
            (&shop, "shop", "system.out.1", false),
            (&Scope::Collection(namespace("shop", "orders")), "shop", "orders", true),
            (&Scope::Collection(namespace("shop", "orders")), "shop", "orders.old", false),
        ] {
            assert_eq!(scope.covers(&namespace(db, coll)), covers, "{scope:?} {db}.{coll}");
            // What is never logged is asked for by no name.
            let has = covers || db == "admin" || coll.starts_with("system.");
            assert_eq!(scope.has(format!("{db}.{coll}").as_bytes()), has, "{scope:?} {db}.{coll}");
        }
        assert_eq!(Scope::Collection(namespace("shop", "orders")).names(), ["", "shop", "shop.orders"]);
    }

    #[test]
    fn a_rename_is_of_both_names() {
        let detail = rawdoc! { "to": { "db": "shop", "coll": "new" } };
        let event =
            Event { detail: Some(&detail), ..Event::new(EventKind::Rename, CollectionId(1), "shop.orders") };
        for (coll, is_shown) in [("orders", true), ("new", true), ("others", false)] {
            assert_eq!(Scope::Collection(namespace("shop", coll)).shows(&event), is_shown, "{coll}");
        }
    }
}
