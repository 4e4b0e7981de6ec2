//! `top`: how often collections were used, and for how long.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cairndb::bson::{Document, RawBsonRef, doc};
use query::code::Code;

use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::usage::{CollectionUses, UseKind, Uses};

/// `top`: every collection that exists and was used since the server started, in MongoDB's shape. The server
/// does not measure locks: `readLock` and `writeLock` are the times of commands that read and that write.
pub(super) fn top(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    if call.command.database() != "admin" {
        return Err(Failure::new(Code::UNAUTHORIZED, "top may only be run against the admin database."));
    }
    let mut totals = doc! { "note": "all times in microseconds" };
    let (client, mut databases) = (call.peer.client(), HashMap::new());
    for (namespace, uses) in call.shared.usage.list() {
        let Some((database, collection)) = namespace.split_once('.') else { continue };
        // Each database is asked once. Collections that were dropped since are left out.
        let names = match databases.entry(database.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                vacant.insert(client.database(database).list_collection_names().run().unwrap_or_default())
            }
        };
        if names.iter().any(|name| name == collection) {
            totals.insert(namespace, shown(&uses));
        }
    }
    Ok(doc! { "totals": totals }.into())
}

/// The kind of use and the collection of a command. Returns `None` if the command names no collection.
pub(super) fn used(call: &Call) -> Option<(UseKind, String)> {
    let fields = call.fields();
    let text = |field: &str| fields.value(field).ok().flatten().and_then(RawBsonRef::as_str);
    let name = call.command.name();
    // The number of the cursor is the value of `getMore`, and the collection a field of its own.
    let collection = if name == "getMore" { text("collection")? } else { text(name)? };
    let kind = match name {
        "find" => UseKind::Queries,
        "getMore" => UseKind::GetMore,
        "insert" => UseKind::Insert,
        "update" => UseKind::Update,
        "delete" => UseKind::Remove,
        "aggregate" | "count" | "collStats" | "collstats" | "distinct" | "listIndexes" | "validate" => {
            UseKind::ReadingCommands
        }
        "collMod" | "create" | "createIndexes" | "deleteIndexes" | "dropIndexes" | "findAndModify"
        | "findandmodify" | "truncate" => UseKind::WritingCommands,
        // The others name no collection, or do not use the one that they name.
        _ => return None,
    };
    Some((kind, format!("{}.{collection}", call.command.database())))
}

fn shown(uses: &CollectionUses) -> Document {
    // The sums are made here and not when a command ends: `top` is rare, and commands are not.
    let sum = |of: &dyn Fn(UseKind) -> bool| {
        let of = UseKind::ALL.iter().zip(uses).filter(|(kind, _)| of(**kind));
        of.fold(Uses::default(), |sum, (_, uses)| Uses {
            count: sum.count + uses.count,
            time: sum.time + uses.time,
        })
    };
    let figure = |of: &dyn Fn(UseKind) -> bool| {
        let Uses { count, time } = sum(of);
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        doc! { "time": time, "count": i64::try_from(count).unwrap_or(i64::MAX) }
    };
    doc! {
        "total": figure(&|_| true),
        "readLock": figure(&|kind| !kind.writes()),
        "writeLock": figure(&|kind| kind.writes()),
        "queries": figure(&|kind| kind == UseKind::Queries),
        "getmore": figure(&|kind| kind == UseKind::GetMore),
        "insert": figure(&|kind| kind == UseKind::Insert),
        "update": figure(&|kind| kind == UseKind::Update),
        "remove": figure(&|kind| kind == UseKind::Remove),
        "commands": figure(&|kind| matches!(kind, UseKind::ReadingCommands | UseKind::WritingCommands)),
    }
}
