//! `hello` and its names of old: who is there, and what both sides can do.

use std::time::Duration;

use cairndb::bson::{Bson, DateTime, Document, RawDocument, doc};
use tokio::time::timeout;

use crate::dispatch::call::Call;
use crate::dispatch::sasl;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::MESSAGE_BYTES_MAX;
use crate::frame::compressed::Compressor;
use crate::limits::{DOCUMENT_BYTES_MAX, SESSION_TIMEOUT, WRITE_BATCH_LEN_MAX};
use crate::reply::Reply;

/// MongoDB 7.0.
const WIRE_VERSION_MAX: i32 = 21;
/// How often the topology has changed, which has one server that is always the same.
const COUNTER: i64 = 0;
/// The longest that a client is kept waiting, whatever it asks for: it is noticed to be gone when it is answered.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// What a client may say of itself.
const CLIENT_BYTES_MAX: usize = 512;

pub(super) fn hello(call: &Call) -> Result<Reply, Failure> {
    let mut reply = doc! { "isWritablePrimary": true };
    reply.extend(shared_part(call)?);
    Ok(reply.into())
}

pub(super) fn is_master(call: &Call) -> Result<Reply, Failure> {
    let mut reply = doc! { "ismaster": true };
    if call.fields().boolean("helloOk")? == Some(true) {
        reply.insert("helloOk", true);
    }
    reply.extend(shared_part(call)?);
    Ok(reply.into())
}

/// Fields that are not known are tolerated: newer drivers ask more of servers that have it.
fn shared_part(call: &Call) -> Result<Document, Failure> {
    let fields = call.fields();
    if let Some(client) = fields.document("client")? {
        if client.as_bytes().len() > CLIENT_BYTES_MAX {
            let message = format!("the client's metadata takes more than {CLIENT_BYTES_MAX} bytes");
            return Err(Failure::new(187, "ClientMetadataDocumentTooLarge", message));
        }
        if !call.peer.introduce_itself(application(client)?) {
            let message = "The client metadata document may only be sent in the first hello";
            return Err(Failure::new(186, "ClientMetadataCannotBeMutated", message));
        }
    }
    let mut reply = doc! {
        "maxBsonObjectSize": size(DOCUMENT_BYTES_MAX),
        "maxMessageSizeBytes": size(MESSAGE_BYTES_MAX),
        "maxWriteBatchSize": WRITE_BATCH_LEN_MAX,
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": i64::try_from(SESSION_TIMEOUT.as_secs() / 60).unwrap_or(i64::MAX),
        "connectionId": call.peer.id,
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION_MAX,
        "readOnly": call.shared.client.is_read_only(),
        "topologyVersion": { "processId": call.shared.process, "counter": COUNTER },
    };
    if let Some(asked) = fields.array("compression")? {
        let mut agreed: Vec<Compressor> = Vec::new();
        for name in asked {
            // A client may name one as often as it likes.
            let found = name?.as_str().and_then(compressor).filter(|found| !agreed.contains(found));
            agreed.extend(found);
        }
        let names: Vec<Bson> = agreed.iter().map(|compressor| compressor.name().into()).collect();
        if !names.is_empty() {
            reply.insert("compression", names);
        }
        call.peer.agree_on(agreed);
    }
    if let Some(mechanisms) = sasl::mechanisms(fields)? {
        reply.insert("saslSupportedMechs", mechanisms);
    }
    if let Some(start) = fields.document("speculativeAuthenticate")?
        && let Some(started) = sasl::speculate(call, start)?
    {
        reply.insert("speculativeAuthenticate", started);
    }
    Ok(reply)
}

/// Waits for something new, if the client asked for it: it names the topology that it knows, and for how long to wait
/// for another one. There is never another one, but there may be another process.
pub(super) async fn wait(call: &Call) -> Result<(), Failure> {
    let Some(time) = waiting_time(call)? else { return Ok(()) };
    let mut stopping = call.shared.stopping.clone();
    let stopped = stopping.wait_for(|stopping| *stopping);
    if timeout(time.min(WAIT_MAX), stopped).await.is_err() {
        return Ok(());
    }
    // As MongoDB says it: clients then look for another server at once.
    let topology = doc! { "processId": call.shared.process, "counter": COUNTER + 1 };
    let failure = Failure::new(91, "ShutdownInProgress", "the server is stopping");
    Err(failure.beside("topologyVersion", topology))
}

/// How long to wait; none if the client asks for no waiting, or does not know this process yet.
fn waiting_time(call: &Call) -> Result<Option<Duration>, Failure> {
    let fields = call.fields();
    let (known, time) = (fields.document("topologyVersion")?, fields.integer("maxAwaitTimeMS")?);
    let (known, time) = match (known, time) {
        (Some(known), Some(time)) => (Fields::of("topologyVersion", known), time),
        (None, None) if call.command.allows_exhaust() => {
            let message = "A hello request with exhaust must specify 'maxAwaitTimeMS'";
            return Err(Failure::new(51_756, "Location51756", message));
        }
        (None, None) => return Ok(None),
        (Some(_), None) => {
            let message = "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'";
            return Err(Failure::new(31_368, "Location31368", message));
        }
        (None, Some(_)) => {
            let message = "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'";
            return Err(Failure::new(31_368, "Location31368", message));
        }
    };
    let process = known.value("processId")?.ok_or_else(|| known.missing("processId"))?;
    let process = process.as_object_id().ok_or_else(|| known.wrong_type("processId", process, "objectId"))?;
    let counter = known.integer("counter")?.ok_or_else(|| known.missing("counter"))?;
    if counter < 0 {
        return Err(Failure::new(
            31_372,
            "Location31372",
            "topologyVersion must have a non-negative counter",
        ));
    }
    let Ok(time) = u64::try_from(time) else {
        return Err(Failure::new(31_373, "Location31373", "maxAwaitTimeMS must be a non-negative integer"));
    };
    // To an answer that was not asked for, the client's knowledge is that of the answer before.
    if process != call.shared.process && !call.command.is_repeated() {
        return Ok(None);
    }
    if counter > COUNTER && process == call.shared.process {
        let message = format!(
            "Received a topology version with counter: {counter} which is greater than the server topology version counter: {COUNTER}"
        );
        return Err(Failure::new(31_382, "Location31382", message));
    }
    Ok(Some(Duration::from_millis(time)))
}

/// What the program behind the driver calls itself, if the command says it.
pub(super) fn application_of(call: &Call) -> Option<String> {
    let client = call.fields().document("client").ok().flatten()?;
    application(client).ok().flatten()
}

/// What the program behind the driver calls itself.
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
