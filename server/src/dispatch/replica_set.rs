//! Commands about the replica set that the server is. A server that is none answers as a MongoDB without replication, or leaves the
//! rejection to the engine.

use cairndb::bson::Document;
use query::code::Code;

use crate::dispatch::call::Call;
use crate::dispatch::engine;
use crate::failure::Failure;
use crate::replica_set::ReplicaSet;
use crate::reply::Reply;

/// `replSetGetStatus`.
pub(super) fn status(call: &Call) -> Result<Reply, Failure> {
    let Some(set) = call.shared.settings.replica_set.as_deref() else {
        return Err(Failure::new(Code::NO_REPLICATION_ENABLED, "not running with --replSet"));
    };
    told(call, set, &["initialSync"], ReplicaSet::status)
}

/// `replSetGetConfig`.
pub(super) fn configuration(call: &Call) -> Result<Reply, Failure> {
    match call.shared.settings.replica_set.as_deref() {
        Some(set) => told(call, set, &["commitmentStatus"], ReplicaSet::configuration),
        None => engine::forward(call),
    }
}

fn told(
    call: &Call,
    set: &ReplicaSet,
    known: &[&str],
    tell: fn(&ReplicaSet) -> Document,
) -> Result<Reply, Failure> {
    on_admin(call)?;
    call.fields().allow(known)?;
    Ok(tell(set).into())
}

/// `replSetInitiate`: the set is there from the start.
pub(super) fn initiate(call: &Call) -> Result<Reply, Failure> {
    refuse(call, Code::ALREADY_INITIALIZED, "already initialized")
}

/// `replSetReconfig`: the set is as the server was started.
pub(super) fn reconfigure(call: &Call) -> Result<Reply, Failure> {
    refuse(
        call,
        Code::ILLEGAL_OPERATION,
        "the configuration of a replica set of one is given when its server is started",
    )
}

/// `replSetStepDown`: there is no other member.
pub(super) fn step_down(call: &Call) -> Result<Reply, Failure> {
    refuse(call, Code::ILLEGAL_OPERATION, "the only member of a replica set is always its primary")
}

fn refuse(call: &Call, code: Code, message: &str) -> Result<Reply, Failure> {
    if call.shared.settings.replica_set.is_none() {
        return engine::forward(call);
    }
    on_admin(call)?;
    Err(Failure::new(code, message))
}

fn on_admin(call: &Call) -> Result<(), Failure> {
    if call.command.database() == "admin" {
        return Ok(());
    }
    let name = call.command.name();
    Err(Failure::new(Code::UNAUTHORIZED, format!("{name} may only be run against the admin database.")))
}
