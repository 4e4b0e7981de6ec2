//! Collections in which documents are gathered that are to replace those of others: what is there stays until the new collection is
//! whole, and goes with one rename.
//!
//! The name says what such a collection is, and for which one it is made. A process that is killed leaves it; the next one that
//! replaces the same collection removes it, once it knows by the sign beside it that its maker is gone.

use std::collections::BTreeMap;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, doc};
use data_encoding::HEXLOWER;
use query::code::Code;
use sha2::{Digest, Sha256};

use crate::command::raw;
use crate::failure::Failure;
use crate::store::Store;

/// The beginning of the names. An id and the name of the collection that is replaced follow, with dots between.
const PREFIX: &str = "cairn-loading.";
const ID_DIGITS: usize = 24;
/// The longest name of a collection with its database, as in MongoDB.
const NAMESPACE_BYTES: usize = 255;
const DIGEST_BYTES: usize = 16;

/// An id for a name, which no other process has.
pub(crate) fn choose_id() -> ObjectId {
    ObjectId::new()
}

/// The name of the collection that is to replace `collection`.
pub(crate) fn name(database: &str, collection: &str, id: ObjectId) -> String {
    format!("{PREFIX}{id}.{}", ending(database, collection))
}

/// The name of what is replaced, or its digest where the whole would be too long.
fn ending(database: &str, collection: &str) -> String {
    let len = database.len() + 1 + PREFIX.len() + ID_DIGITS + 1 + collection.len();
    if len <= NAMESPACE_BYTES {
        return collection.to_owned();
    }
    let digest = Sha256::digest(collection.as_bytes());
    HEXLOWER.encode(digest.get(..DIGEST_BYTES).unwrap_or_default())
}

/// The end of a name that a collection has which replaces another. `None` of other names.
fn ending_of(name: &str) -> Option<&str> {
    let (id, ending) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(ending)
}

/// Whether `name` is that of a collection that was to replace `collection`.
pub(crate) fn is_for(database: &str, collection: &str, name: &str) -> bool {
    ending_of(name) == Some(&ending(database, collection))
}

/// Whether `name` is that of a collection that was to replace another one.
pub(crate) fn is_aside(name: &str) -> bool {
    ending_of(name).is_some()
}

/// The name of the collection that says whether the maker of those with this id is at work.
pub(crate) fn sign_name(id: ObjectId) -> String {
    format!("{PREFIX}{id}")
}

/// The name of the collection that `name` was to replace, or what means a long one.
pub(crate) fn shown_ending(name: &str) -> &str {
    ending_of(name).unwrap_or(name)
}

/// The id in the name of a collection aside, or of a sign.
fn id_of(name: &str) -> Option<ObjectId> {
    let rest = name.strip_prefix(PREFIX)?;
    let id = rest.get(..ID_DIGITS)?;
    let is_whole = matches!(rest.as_bytes().get(ID_DIGITS), None | Some(b'.'));
    ObjectId::parse_str(id).ok().filter(|_| is_whole)
}

/// The leftovers and running work of processes in a database that replace collections that are `meant`, by the ids in
/// the names; with their signs, and signs that are alone.
pub(crate) fn leftovers(
    store: &dyn Store,
    database: &str,
    is_meant: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<ObjectId, Vec<String>>, Failure> {
    let list = raw(&doc! { "listCollections": 1, "nameOnly": true })?;
    let mut listed = match store.stream(database, list) {
        Ok(listed) => listed,
        // A user who may write need not be allowed to ask.
        Err(failure) if failure.code == Some(Code::UNAUTHORIZED.number()) => return Ok(BTreeMap::new()),
        Err(failure) => return Err(failure),
    };
    let mut all: BTreeMap<ObjectId, Vec<String>> = BTreeMap::new();
    while listed.advance()? {
        let name = listed.current().get_str("name").unwrap_or_default();
        if let Some(id) = id_of(name) {
            all.entry(id).or_default().push(name.to_owned());
        }
    }
    for (id, names) in &mut all {
        let (sign, has_others) = (sign_name(*id), names.iter().any(|name| is_aside(name) && !is_meant(name)));
        // A sign stays for the others that it speaks for.
        names.retain(|name| is_meant(name) || *name == sign && !has_others);
    }
    all.retain(|_, names| !names.is_empty());
    Ok(all)
}

/// Puts the collection `name` in place of `collection`, or of a view of that name.
pub(crate) fn put_in_place(
    store: &dyn Store,
    database: &str,
    name: &str,
    collection: &str,
) -> Result<(), Failure> {
    let rename = doc! {
        "renameCollection": format!("{database}.{name}"),
        "to": format!("{database}.{collection}"),
        "dropTarget": true,
    };
    match store.run("admin", raw(&rename)?) {
        // No rename replaces a view, which has no documents of its own.
        Err(failure) if failure.code == Some(Code::NAMESPACE_EXISTS.number()) => {
            remove(store, database, collection)?;
            store.run("admin", raw(&rename)?).map(drop)
        }
        renamed => renamed.map(drop),
    }
}

/// Removes a collection or a view. That there is none is not an error.
pub(crate) fn remove(store: &dyn Store, database: &str, name: &str) -> Result<(), Failure> {
    let command: Document = doc! { "drop": name, "writeConcern": { "j": true } };
    match store.run(database, raw(&command)?) {
        Err(failure) if failure.code != Some(Code::NAMESPACE_NOT_FOUND.number()) => Err(failure),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_it_is_for() {
        let id = ObjectId::from_bytes([0xa5; 12]);
        let made = name("shop", "orders", id);
        assert_eq!(made, "cairn-loading.a5a5a5a5a5a5a5a5a5a5a5a5.orders");
        assert!(is_for("shop", "orders", &made) && is_aside(&made));
        assert!(!is_for("shop", "order", &made) && !is_for("shop", "rders", &made));
        for other in ["cairn-loading.orders", "cairn-loading.a5.orders", "orders", "cairn-loading"] {
            assert!(!is_aside(other), "{other}");
        }
    }

    #[test]
    fn a_sign_has_the_id_of_what_it_speaks_for() {
        let id = ObjectId::from_bytes([0xa5; 12]);
        let sign = sign_name(id);
        assert_eq!((id_of(&sign), id_of(&name("shop", "orders", id))), (Some(id), Some(id)));
        assert!(!is_aside(&sign) && !is_for("shop", "orders", &sign));
        assert_eq!(id_of("cairn-loading.a5a5a5a5a5a5a5a5a5a5a5a5x"), None);
        assert_eq!(id_of("cairn-loading.plans"), None);
    }

    #[test]
    fn a_name_is_never_too_long() {
        let long = "x".repeat(240);
        let (one, other) = (name("shop", &long, ObjectId::new()), format!("{long}y"));
        assert!("shop.".len() + one.len() <= NAMESPACE_BYTES, "{one}");
        assert!(is_for("shop", &long, &one) && !is_for("shop", &other, &one));
    }
}
