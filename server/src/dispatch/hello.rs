//! `hello` and its legacy names: who the server is, and what both sides support.

use std::time::Duration;

use cairndb::bson::{Bson, DateTime, Document, RawDocument, doc};
use query::code::Code;
use tokio::time::timeout;

use crate::dispatch::call::Call;
use crate::dispatch::sasl;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::MESSAGE_BYTES_MAX;
use crate::frame::compressed::Compressor;
use crate::limits::{DOCUMENT_BYTES_MAX, NAMED_TEXTS_MAX, SESSION_TIMEOUT, WRITE_BATCH_LEN_MAX};
use crate::reply::Reply;

/// The version of MongoDB's wire protocol that the server speaks, that of MongoDB 8.0. Drivers choose by it what they send.
///
/// ```
/// assert_eq!(cairndb_server::WIRE_VERSION_MAX, 25);
/// ```
pub const WIRE_VERSION_MAX: i32 = 25;
/// The number of changes of the topology. It has one server, which never changes.
const COUNTER: i64 = 0;
/// The longest time that a hello waits. A client that disconnects is noticed only when it is answered.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The largest metadata of a client, in bytes.
const CLIENT_BYTES_MAX: usize = 512;

pub(super) fn hello(call: &Call) -> Result<Reply, Failure> {
    let mut reply = doc! { "isWritablePrimary": true };
    reply.extend(common_reply(call)?);
    Ok(reply.into())
}

pub(super) fn is_master(call: &Call) -> Result<Reply, Failure> {
    let mut reply = doc! { "ismaster": true };
    if call.fields().boolean("helloOk")? == Some(true) {
        reply.insert("helloOk", true);
    }
    reply.extend(common_reply(call)?);
    Ok(reply.into())
}

/// The fields that all forms of hello share. Unknown fields are ignored: newer drivers send fields for newer
/// servers.
fn common_reply(call: &Call) -> Result<Document, Failure> {
    let fields = call.fields();
    if let Some(client) = fields.document("client")? {
        if client.as_bytes().len() > CLIENT_BYTES_MAX {
            let message = format!("the client's metadata has more than {CLIENT_BYTES_MAX} bytes");
            return Err(Failure::new(Code::CLIENT_METADATA_DOCUMENT_TOO_LARGE, message));
        }
        // MongoDB rejects a second document too: logs and fail points rely on the first one.
        if !call.peer.remote.note(Document::try_from(client)?, application(client)?) {
            let message = "The client metadata document may only be sent in the first hello";
            return Err(Failure::new(Code::CLIENT_METADATA_CANNOT_BE_MUTATED, message));
        }
    }
    let mut reply = doc! {
        "maxBsonObjectSize": size(DOCUMENT_BYTES_MAX),
        "maxMessageSizeBytes": size(MESSAGE_BYTES_MAX),
        "maxWriteBatchSize": WRITE_BATCH_LEN_MAX,
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": i64::try_from(SESSION_TIMEOUT.as_secs() / 60).unwrap_or(i64::MAX),
        "connectionId": call.peer.remote.connection,
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION_MAX,
        "readOnly": call.shared.client.is_read_only(),
        "topologyVersion": { "processId": call.shared.process, "counter": COUNTER },
    };
    if let Some(set) = &call.shared.settings.replica_set {
        reply.extend(set.hello());
    }
    if let Some(asked) = fields.array("compression", NAMED_TEXTS_MAX)? {
        let mut agreed: Vec<Compressor> = Vec::new();
        for name in asked {
            // A client may repeat a name.
            let found = name?.as_str().and_then(compressor).filter(|found| !agreed.contains(found));
            agreed.extend(found);
        }
        let names: Vec<Bson> = agreed.iter().map(|compressor| compressor.name().into()).collect();
        // As in MongoDB the field is absent if nothing was agreed on.
        if !names.is_empty() {
            reply.insert("compression", names);
        }
        call.peer.agree_on(agreed);
    }
    if let Some(mechanisms) = sasl::mechanisms(fields)? {
        reply.insert("saslSupportedMechs", mechanisms);
    }
    // Last, because it changes the connection: a hello that is rejected above must not have begun a login.
    if let Some(start) = fields.document("speculativeAuthenticate")?
        && let Some(started) = sasl::speculate(call, start)?
    {
        reply.insert("speculativeAuthenticate", started);
    }
    Ok(reply)
}

/// Waits, if the client asked for it: it sends the topology that it knows, and how long to wait for a change.
/// The topology never changes, but the server may stop, and after a restart it is another process.
pub(super) async fn wait(call: &Call) -> Result<(), Failure> {
    let Some(time) = waiting_time(call)? else { return Ok(()) };
    let mut stopping = call.shared.stopping.clone();
    let stopped = stopping.wait_for(|stopping| *stopping);
    // No change within the time is the ordinary case: the hello is then answered as usual.
    if timeout(time.min(WAIT_MAX), stopped).await.is_err() {
        return Ok(());
    }
    // As in MongoDB: the higher counter makes clients look for another server at once.
    let topology = doc! { "processId": call.shared.process, "counter": COUNTER + 1 };
    let failure = Failure::new(Code::SHUTDOWN_IN_PROGRESS, "the server is stopping");
    Err(failure.with_field("topologyVersion", topology))
}

/// The time to wait. Returns `None` if the client does not ask to wait, or does not know this process yet.
fn waiting_time(call: &Call) -> Result<Option<Duration>, Failure> {
    let fields = call.fields();
    let (known, time) = (fields.document("topologyVersion")?, fields.integer("maxAwaitTimeMS")?);
    // The two fields come together or not at all. The codes and messages are MongoDB's.
    let (known, time) = match (known, time) {
        (Some(known), Some(time)) => (Fields::of("topologyVersion", known), time),
        (None, None) if call.command.allows_exhaust() => {
            let message = "A hello request with exhaust must specify 'maxAwaitTimeMS'";
            return Err(Failure::new(Code::EXHAUST_WITHOUT_MAX_AWAIT_TIME, message));
        }
        (None, None) => return Ok(None),
        (Some(_), None) => {
            let message = "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'";
            return Err(Failure::new(Code::TOPOLOGY_VERSION_WITHOUT_MAX_AWAIT_TIME, message));
        }
        (None, Some(_)) => {
            let message = "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'";
            return Err(Failure::new(Code::TOPOLOGY_VERSION_WITHOUT_MAX_AWAIT_TIME, message));
        }
    };
    let process = known.value("processId")?.ok_or_else(|| known.missing("processId"))?;
    let process = process.as_object_id().ok_or_else(|| known.wrong_type("processId", process, "objectId"))?;
    let counter = known.integer("counter")?.ok_or_else(|| known.missing("counter"))?;
    if counter < 0 {
        return Err(Failure::new(
            Code::TOPOLOGY_VERSION_COUNTER_NEGATIVE,
            "topologyVersion must have a non-negative counter",
        ));
    }
    let Ok(time) = u64::try_from(time) else {
        return Err(Failure::new(
            Code::MAX_AWAIT_TIME_NEGATIVE,
            "maxAwaitTimeMS must be a non-negative integer",
        ));
    };
    // A client that received an answer without asking for it knows what that answer said, not what it sent
    // itself.
    if process != call.shared.process && !call.command.is_repeated() {
        return Ok(None);
    }
    // Such a counter was never sent by this process, so the client mixes something up.
    if counter > COUNTER && process == call.shared.process {
        let message = format!(
            "Received a topology version with counter: {counter} which is greater than the server topology version counter: {COUNTER}"
        );
        return Err(Failure::new(Code::TOPOLOGY_VERSION_COUNTER_TOO_LARGE, message));
    }
    Ok(Some(Duration::from_millis(time)))
}

/// The name of the client's program, if the command contains it.
pub(super) fn application_of(call: &Call) -> Option<String> {
    let client = call.fields().document("client").ok().flatten()?;
    application(client).ok().flatten()
}

/// The name of the client's program in its metadata.
fn application(client: &RawDocument) -> Result<Option<String>, Failure> {
    let Some(application) = Fields::of("client", client).document("application")? else { return Ok(None) };
    Ok(Fields::of("application", application).text("name")?.map(str::to_owned))
}

fn compressor(name: &str) -> Option<Compressor> {
    Compressor::ALL.into_iter().find(|compressor| compressor.name() == name)
}

fn size(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
