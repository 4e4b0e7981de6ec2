//! `hello` and its names of old: who is there, and what both sides can do.

use cairndb::bson::{Bson, DateTime, Document, RawDocument, doc};

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
    };
    if let Some(asked) = fields.array("compression")? {
        let asked = asked.into_iter().map(|name| Ok(name?.as_str().and_then(compressor)));
        let agreed: Vec<Compressor> =
            asked.collect::<Result<Vec<_>, Failure>>()?.into_iter().flatten().collect();
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
