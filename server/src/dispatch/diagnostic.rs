//! Questions of shells and tools to a server about itself.

use cairndb::bson::{Bson, Document, doc};
use query::code::Code;

use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::reply::Reply;

/// The version of MongoDB that the server presents itself as.
pub(super) const MONGODB_VERSION: &str = "8.0.0";

pub(super) fn ping(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    Ok(doc! {}.into())
}

pub(super) fn build(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let nothing = Vec::<Bson>::new();
    let parts = MONGODB_VERSION.split('.').filter_map(|part| part.parse().ok());
    let parts: Vec<i32> = parts.chain([0]).collect();
    Ok(doc! {
        "version": MONGODB_VERSION,
        "gitVersion": "none",
        "modules": nothing.clone(),
        "allocator": "system",
        "javascriptEngine": "none",
        "sysInfo": "deprecated",
        // Tools compare this one; the text above is for people.
        "versionArray": parts,
        "openssl": { "running": "disabled", "compiled": "disabled" },
        "bits": 64,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": i32::try_from(DOCUMENT_BYTES_MAX).unwrap_or(i32::MAX),
        "storageEngines": ["rocksdb"],
        "cairndb": { "version": env!("CARGO_PKG_VERSION") },
    }
    .into())
}

/// `getCmdLineOpts`. `parsed` is empty: the server has no configuration file, and the program that embeds it
/// reads the command line.
pub(super) fn command_line(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Ok(doc! { "argv": arguments, "parsed": {} }.into())
}

/// `getLog`. No lines are kept in memory, so the only log is an empty one of warnings at the start.
pub(super) fn log(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&[])?;
    match fields.text("getLog")? {
        Some("*") => Ok(doc! { "names": ["startupWarnings"] }.into()),
        Some("startupWarnings") => Ok(doc! { "totalLinesWritten": 0, "log": Vec::<Bson>::new() }.into()),
        // The words are MongoDB's.
        other => {
            let found = other.unwrap_or_default();
            Err(Failure::new(Code::OPERATION_FAILED, format!("No log named '{found}'")))
        }
    }
}

/// `fsync`: syncs all writes to stable storage. It does not lock out writes.
pub(super) fn fsync(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["async", "lock"])?;
    if fields.boolean("lock")? == Some(true) {
        return Err(Failure::new(Code::NOT_IMPLEMENTED, "the field 'lock' of 'fsync' is not supported"));
    }
    // A store that is opened for reading has nothing to sync; tools expect success all the same.
    if !call.shared.client.is_read_only() {
        call.shared.client.sync()?;
    }
    Ok(doc! { "numFiles": 1 }.into())
}

/// `profile`. There is no profiler, so it can only be switched off.
pub(super) fn profile(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["filter", "sampleRate", "slowms"])?;
    match fields.integer("profile")? {
        // 0 switches it off, and a negative number asks for its state.
        Some(..=0) => Ok(doc! { "was": 0, "slowms": 100, "sampleRate": 1.0 }.into()),
        _ => Err(Failure::new(Code::NOT_IMPLEMENTED, "there is no profiler to switch on")),
    }
}

pub(super) fn roles(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&["showAuthenticationRestrictions", "showBuiltinRoles", "showPrivileges"])?;
    Ok(doc! { "roles": Vec::<Bson>::new() }.into())
}

pub(super) fn address(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let you: Document = doc! { "you": &call.peer.remote.address };
    Ok(you.into())
}
