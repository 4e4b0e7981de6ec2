//! `hostInfo` and `serverStatus`: the machine, and what the server has done on it.

use std::sync::atomic::{AtomicU64, Ordering};

use cairndb::bson::{self, Bson, DateTime, Document, doc};

use crate::dispatch::call::Call;
use crate::dispatch::diagnostic::MONGODB_VERSION;
use crate::failure::Failure;
use crate::reply::Reply;

pub(super) fn host(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    // The cores that this process may use, which can be fewer than those of the machine.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let names = rustix::system::uname();
    Ok(doc! {
        "system": {
            "currentTime": DateTime::now(),
            "hostname": names.nodename().to_string_lossy().into_owned(),
            "cpuAddrSize": i32::try_from(usize::BITS).unwrap_or(64),
            "numCores": i32::try_from(cores).unwrap_or(i32::MAX),
            "cpuArch": std::env::consts::ARCH,
        },
        "os": {
            "type": names.sysname().to_string_lossy().into_owned(),
            "name": std::env::consts::OS,
            "version": names.release().to_string_lossy().into_owned(),
        },
        "extra": {},
    }
    .into())
}

/// `serverStatus`. All sections are returned, whichever the client asks for.
pub(super) fn status(call: &Call) -> Result<Reply, Failure> {
    // One look for all sections, so that they agree. RocksDB's numbers are behind its lock.
    let metrics = call.shared.client.metrics()?;
    let shared = &call.shared;
    let counters = &shared.counters;
    let uptime = shared.started.elapsed();
    let current = counters.connections.load(Ordering::Relaxed);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut status = doc! {
        "host": host,
        "version": MONGODB_VERSION,
        "process": "cairn",
        "pid": i64::from(std::process::id()),
        "uptime": long(uptime.as_secs()),
        "uptimeMillis": i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "uptimeEstimate": long(uptime.as_secs()),
        "localTime": DateTime::now(),
        // MongoDB's word for errors: `user` are rejected commands, `msg` malformed messages.
        "asserts": {
            "regular": 0, "warning": 0, "msg": number(&counters.malformed), "user": number(&counters.refusals),
            "rollovers": 0,
        },
        "connections": {
            "current": long(current),
            // The number of further connections that the limit allows.
            "available": long(u64::from(shared.settings.connections_max).saturating_sub(current)),
            "totalCreated": number(&counters.connections_total),
            "rejected": number(&counters.connections_refused),
        },
        "logicalSessionRecordCache": { "activeSessionsCount": long(shared.sessions.len() as u64) },
        "network": {
            "bytesIn": number(&counters.bytes_in),
            "bytesOut": number(&counters.bytes_out),
            "numRequests": number(&counters.requests),
        },
        "opcounters": {
            "insert": number(&counters.inserts),
            "query": number(&counters.queries),
            "update": number(&counters.updates),
            "delete": number(&counters.deletes),
            "getmore": number(&counters.get_mores),
            "command": number(&counters.commands),
        },
        "transactions": transactions(call),
        "storageEngine": { "name": "rocksdb", "readOnly": shared.client.is_read_only(), "persistent": true },
        "mem": memory(),
        // MongoDB's names for what it counts as well.
        "metrics": {
            "cursor": cursors(call),
            "document": {
                "deleted": long(metrics.documents.deleted),
                "inserted": long(metrics.documents.inserted),
                "returned": long(metrics.documents.returned),
                "updated": long(metrics.documents.updated),
            },
            "queryExecutor": {
                "scanned": long(metrics.searches.keys_examined),
                "scannedObjects": long(metrics.searches.documents_examined),
                "collectionScans": { "total": long(metrics.searches.collection_scans) },
            },
        },
        "logLinesLost": number(&shared.settings.log_lines_lost),
        // The metrics of `Client::metrics`.
        "cairndb": bson::serialize_to_document(&metrics).map_err(cairndb::Error::from)?,
    };
    if let Some(set) = &shared.settings.replica_set {
        status.insert("repl", set.hello());
    }
    Ok(status.into())
}

/// Transactions of clients, by MongoDB's names.
fn transactions(call: &Call) -> Document {
    let counters = &call.shared.sessions.transactions;
    let (open, active) = (counters.open.load(Ordering::Relaxed), counters.active.load(Ordering::Relaxed));
    doc! {
        "currentActive": long(active),
        "currentInactive": long(open.saturating_sub(active)),
        "currentOpen": long(open),
        "totalStarted": number(&counters.started),
        "totalCommitted": number(&counters.committed),
        "totalAborted": number(&counters.aborted),
    }
}

fn cursors(call: &Call) -> Document {
    let counts = call.shared.cursors.counts();
    doc! {
        "timedOut": long(counts.timed_out),
        "open": {
            "total": long(counts.open),
            "pinned": long(counts.in_use),
            "noTimeout": long(counts.without_timeout),
        },
    }
}

/// The memory of the process in mebibytes, on systems that report it.
fn memory() -> Document {
    // Linux: the first two numbers are the virtual and the resident size, in pages.
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    // Not always 4 KiB.
    let page = rustix::param::page_size() as u64;
    let mut mebibytes =
        pages.split(' ').map(|pages| pages.parse::<u64>().ok().map(|pages| (pages * page) >> 20));
    let sizes = (mebibytes.next().flatten(), mebibytes.next().flatten());
    if let (Some(whole), Some(resident)) = sizes {
        doc! { "bits": 64, "resident": long(resident), "virtual": long(whole), "supported": true }
    } else {
        doc! { "bits": 64, "supported": false }
    }
}

fn number(counter: &AtomicU64) -> Bson {
    long(counter.load(Ordering::Relaxed))
}

fn long(number: u64) -> Bson {
    // BSON has no unsigned numbers.
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}
