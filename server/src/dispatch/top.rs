//! `top`: how often collections were used, and for how long.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cairndb::bson::{Document, RawBsonRef, doc};

use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::usage::{Kind, OfCollection, Uses};

/// Of every collection that exists and was used since the server started, in MongoDB's shape. Locks are not measured: the
/// times of what reads, and of what writes, take their place.
pub(super) fn top(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    if call.command.database() != "admin" {
        return Err(Failure::new(13, "Unauthorized", "top may only be run against the admin database."));
    }
    let mut totals = doc! { "note": "all times in microseconds" };
    let (client, mut databases) = (call.peer.client(), HashMap::new());
    for (namespace, uses) in call.shared.usage.list() {
        let Some((database, collection)) = namespace.split_once('.') else { continue };
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

/// What a command does, and with which collection; none if it names none.
pub(super) fn used(call: &Call) -> Option<(Kind, String)> {
    let fields = call.fields();
    let text = |field: &str| fields.value(field).ok().flatten().and_then(RawBsonRef::as_str);
    let name = call.command.name();
    let collection = if name == "getMore" { text("collection")? } else { text(name)? };
    let kind = match name {
        "find" => Kind::Queries,
        "getMore" => Kind::GetMore,
        "insert" => Kind::Insert,
        "update" => Kind::Update,
        "delete" => Kind::Remove,
        "aggregate" | "count" | "collStats" | "collstats" | "distinct" | "listIndexes" | "validate" => {
            Kind::ReadingCommands
        }
        "collMod" | "create" | "createIndexes" | "deleteIndexes" | "dropIndexes" | "findAndModify"
        | "findandmodify" | "truncate" => Kind::WritingCommands,
        _ => return None,
    };
    Some((kind, format!("{}.{collection}", call.command.database())))
}

fn shown(uses: &OfCollection) -> Document {
    let sum = |of: &dyn Fn(Kind) -> bool| {
        let of = Kind::ALL.iter().zip(uses).filter(|(kind, _)| of(**kind));
        of.fold(Uses::default(), |sum, (_, uses)| Uses {
            count: sum.count + uses.count,
            time: sum.time + uses.time,
        })
    };
    let figure = |of: &dyn Fn(Kind) -> bool| {
        let Uses { count, time } = sum(of);
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        doc! { "time": time, "count": i64::try_from(count).unwrap_or(i64::MAX) }
    };
    doc! {
        "total": figure(&|_| true),
        "readLock": figure(&|kind| !kind.writes()),
        "writeLock": figure(&|kind| kind.writes()),
        "queries": figure(&|kind| kind == Kind::Queries),
        "getmore": figure(&|kind| kind == Kind::GetMore),
        "insert": figure(&|kind| kind == Kind::Insert),
        "update": figure(&|kind| kind == Kind::Update),
        "remove": figure(&|kind| kind == Kind::Remove),
        "commands": figure(&|kind| matches!(kind, Kind::ReadingCommands | Kind::WritingCommands)),
    }
}
