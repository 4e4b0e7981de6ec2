//! Spans of `OpenTelemetry`: one for each command, with the attributes of MongoDB's driver, and the parent of what the engine does in it.

use cairndb::OpentelemetryOptions;
use cairndb::bson::raw::RawElement;
use cairndb::bson::{Bson, Document, RawArray, RawDocument};
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, ContextGuard, KeyValue};

use crate::ends::LocalEnd;
use crate::failure::Failure;
use crate::reply::Reply;

/// The parts of a command and its connection that a span shows.
#[derive(Clone, Copy)]
pub(crate) struct Traced<'a> {
    pub(crate) name: &'a str,
    pub(crate) database: &'a str,
    pub(crate) body: &'a RawDocument,
    pub(crate) connection: i32,
    pub(crate) address: &'a str,
    pub(crate) local: &'a LocalEnd,
}

/// Commands that say something of a login or a password, in MongoDB's drivers and here. They have no spans.
const SENSITIVE: [&str; 5] = ["saslStart", "saslContinue", "authenticate", "getnonce", "updateUser"];

/// The most bytes that the id of a session has in a span: those of drivers have 30, and a client could send anything.
const SESSION_BYTES_MAX: usize = 128;

/// The most levels of a command that is shown: of its own fields, of a statement, and of a document in it.
const SHOWN_LEVELS_MAX: usize = 200;

/// Makes the spans of a server.
#[derive(Debug)]
pub(crate) struct Spans {
    tracer: BoxedTracer,
    text_bytes_max: usize,
}

/// The span of a command that runs.
#[derive(Clone)]
pub(crate) struct OpenSpan {
    context: Context,
    /// Whether the command names a cursor.
    is_of_cursor: bool,
}

impl Spans {
    /// Returns `None` if there are to be no spans.
    pub(crate) fn of(options: &OpentelemetryOptions) -> Option<Self> {
        let make =
            || Self { tracer: options.tracer("cairndb-server"), text_bytes_max: options.text_bytes_max() };
        options.is_enabled().then(make)
    }

    /// Begins the span of a command. Returns `None` for a command that is part of a login.
    pub(crate) fn begin(&self, traced: Traced<'_>) -> Option<OpenSpan> {
        let Traced { name, database, body, connection, address, local } = traced;
        // A hello may bring the first step of a login.
        if SENSITIVE.contains(&name) || matches!(body.get("speculativeAuthenticate"), Ok(Some(_))) {
            return None;
        }
        // A malformed command has a span as well, so errors are left to the checks of the command. Of a getMore the collection is
        // a field of its own, and the argument is the cursor.
        let collection = body.get_str("collection").or_else(|_| body.get_str(name)).ok();
        let place = collection.map_or_else(|| database.to_owned(), |name| format!("{database}.{name}"));
        let mut attributes = vec![
            KeyValue::new("db.system", "cairndb"),
            KeyValue::new("db.system.name", "cairndb"),
            KeyValue::new("db.namespace", database.to_owned()),
            KeyValue::new("db.command.name", name.to_owned()),
            KeyValue::new("db.query.summary", format!("{name} {place}")),
            KeyValue::new("db.mongodb.server_connection_id", i64::from(connection)),
            KeyValue::new("client.address", address.to_owned()),
            KeyValue::new("server.type", "Standalone"),
        ];
        attributes.extend(of_server(local));
        attributes.extend(of_session(body));
        attributes.extend(collection.map(|name| KeyValue::new("db.collection.name", name.to_owned())));
        // So that the commands of one cursor can be found.
        let cursor = body.get_i64(name).ok().filter(|_| name == "getMore");
        let is_of_cursor = cursor.is_some();
        attributes.extend(cursor.map(|id| KeyValue::new("db.mongodb.cursor_id", id)));
        if self.text_bytes_max > 0 {
            attributes.push(KeyValue::new("db.query.text", text(body, self.text_bytes_max)));
        }
        // No parent: MongoDB's protocol carries none.
        let builder = self.tracer.span_builder(name.to_owned()).with_kind(SpanKind::Server);
        let span = builder.with_attributes(attributes).start(&self.tracer);
        Some(OpenSpan { context: Context::current_with_span(span), is_of_cursor })
    }
}

impl OpenSpan {
    /// Makes it the current span of this thread, until the guard is dropped.
    pub(crate) fn attach(&self) -> ContextGuard {
        self.context.clone().attach()
    }

    /// Ends the span of a command that was executed, with what its reply says. Absent, the client gets none.
    pub(crate) fn end(self, reply: Option<&Reply>) {
        let span = self.context.span();
        let reply = reply.and_then(|reply| RawDocument::from_bytes(reply.document()).ok());
        if let Some(reply) = reply {
            let cursor = reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id"));
            // A getMore has that of its request, which is not 0 at the end of the cursor.
            if let Ok(id) = cursor
                && !self.is_of_cursor
            {
                span.set_attribute(KeyValue::new("db.mongodb.cursor_id", id));
            }
            if reply.get_array("writeErrors").is_ok() {
                span.set_status(Status::error("some writes failed"));
            }
        }
        span.end();
    }

    /// Ends the span of a command that was rejected.
    pub(crate) fn fail(self, failure: &Failure) {
        let span = self.context.span();
        let exception = [
            KeyValue::new("exception.type", failure.name().to_owned()),
            KeyValue::new("exception.message", failure.message().to_owned()),
        ];
        // As text, which is what the conventions of OpenTelemetry say.
        span.set_attribute(KeyValue::new("db.response.status_code", failure.code().to_string()));
        span.set_attributes(exception.clone());
        span.add_event("exception", exception.to_vec());
        span.set_status(Status::error(failure.message().to_owned()));
        span.end();
    }
}

/// The server's address, in the names of OpenTelemetry's conventions.
fn of_server(local: &LocalEnd) -> Vec<KeyValue> {
    match local {
        LocalEnd::Tcp(address) => vec![
            KeyValue::new("server.address", address.ip().to_string()),
            KeyValue::new("server.port", i64::from(address.port())),
            KeyValue::new("network.transport", "tcp"),
        ],
        LocalEnd::Unix(path) => {
            vec![KeyValue::new("server.address", path.clone()), KeyValue::new("network.transport", "unix")]
        }
        LocalEnd::Stream => Vec::new(),
    }
}

/// The session of a command and its number in it, as MongoDB's drivers show them.
fn of_session(body: &RawDocument) -> Vec<KeyValue> {
    let id = body.get_document("lsid").ok().filter(|id| id.as_bytes().len() <= SESSION_BYTES_MAX);
    let id = id.and_then(|id| Document::try_from(id).ok());
    let shown = |id| Bson::Document(id).into_relaxed_extjson().to_string();
    let id = id.map(|id| KeyValue::new("db.mongodb.lsid", shown(id)));
    let number = body.get_i64("txnNumber").ok().map(|number| KeyValue::new("db.mongodb.txn_number", number));
    id.into_iter().chain(number).collect()
}

/// A command as JSON, cut to `bytes_max` bytes. Returns an empty text for one that is malformed or nested too deep.
fn text(body: &RawDocument, bytes_max: usize) -> String {
    let mut text = String::new();
    if write_fields(&mut text, body, bytes_max, SHOWN_LEVELS_MAX).is_none() {
        return String::new();
    }
    let cut = cut(&text, bytes_max).len();
    text.truncate(cut);
    text
}

/// Writes a document. What would come behind the cut is not looked at, so that a large command needs no more memory or time than
/// what is shown of it. Returns `None` where it cannot be shown.
fn write_fields(text: &mut String, document: &RawDocument, bytes_max: usize, levels: usize) -> Option<()> {
    text.push('{');
    let mut separator = "";
    for element in document.iter_elements() {
        if text.len() > bytes_max {
            break;
        }
        let element = element.ok()?;
        text.push_str(separator);
        write_text(text, element.key().as_str(), bytes_max);
        text.push(':');
        write_value(text, &element, bytes_max, levels)?;
        separator = ",";
    }
    text.push('}');
    Some(())
}

fn write_items(text: &mut String, array: &RawArray, bytes_max: usize, levels: usize) -> Option<()> {
    text.push('[');
    let mut separator = "";
    // As a document, whose elements say how long their values are.
    for element in RawDocument::from_bytes(array.as_bytes()).ok()?.iter_elements() {
        if text.len() > bytes_max {
            break;
        }
        text.push_str(separator);
        write_value(text, &element.ok()?, bytes_max, levels)?;
        separator = ",";
    }
    text.push(']');
    Some(())
}

fn write_value(text: &mut String, element: &RawElement<'_>, bytes_max: usize, levels: usize) -> Option<()> {
    let inside = levels.checked_sub(1)?;
    let value = element.value().ok()?;
    if let Some(document) = value.as_document() {
        return write_fields(text, document, bytes_max, inside);
    }
    if let Some(array) = value.as_array() {
        return write_items(text, array, bytes_max, inside);
    }
    if let Some(value) = value.as_str() {
        write_text(text, value, bytes_max);
    } else if element.size() > bytes_max || value.as_javascript_with_scope().is_some() {
        // Of a long value of another kind nothing is shown, nor of code whose scope may be nested.
        text.push_str("\"...\"");
    } else {
        text.push_str(&Bson::try_from(value).ok()?.into_relaxed_extjson().to_string());
    }
    Some(())
}

/// Writes a text in quotes, cut to about `bytes_max` bytes.
fn write_text(text: &mut String, value: &str, bytes_max: usize) {
    text.push_str(&Bson::String(cut(value, bytes_max).to_owned()).into_relaxed_extjson().to_string());
}

/// The first `bytes_max` bytes of a text, without a part of a character.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_server_is_named_as_by_the_drivers() {
        let named = |local| {
            let attributes = of_server(&local).into_iter();
            attributes.map(|KeyValue { key, value, .. }| format!("{key}={value}")).collect::<Vec<_>>()
        };
        let address = "[::1]:27017".parse().expect("an address");
        assert_eq!(
            named(LocalEnd::Tcp(address)),
            ["server.address=::1", "server.port=27017", "network.transport=tcp"]
        );
        assert_eq!(
            named(LocalEnd::Unix("/run/shop.sock".to_owned())),
            ["server.address=/run/shop.sock", "network.transport=unix"]
        );
        assert_eq!(named(LocalEnd::Stream), [""; 0]);
    }

    #[test]
    fn the_id_of_a_session_is_shown_if_it_can_be_one() {
        use cairndb::bson::{Binary, Uuid, rawdoc};
        let uuid = Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff").expect("a UUID");
        let id = || rawdoc! { "id": Binary::from(uuid) };
        let named = |body: cairndb::bson::RawDocumentBuf| {
            let attributes = of_session(&body).into_iter();
            attributes.map(|KeyValue { key, value, .. }| format!("{key}={value}")).collect::<Vec<_>>()
        };
        let session =
            r#"db.mongodb.lsid={"id":{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}}"#;
        assert_eq!(named(rawdoc! { "ping": 1, "lsid": id() }), [session]);
        let numbered = rawdoc! { "ping": 1, "lsid": id(), "txnNumber": 7_i64 };
        assert_eq!(named(numbered), [session, "db.mongodb.txn_number=7"]);
        assert_eq!(named(rawdoc! { "ping": 1, "lsid": { "id": "x".repeat(SESSION_BYTES_MAX) } }), [""; 0]);
        assert_eq!(named(rawdoc! { "ping": 1, "lsid": "none" }), [""; 0]);
    }

    #[test]
    fn a_command_is_shown_as_far_as_it_fits() {
        use cairndb::bson::rawdoc;
        let body = rawdoc! { "find": "a", "filter": { "b": [1, { "c": "d" }], "é": 2.5 }, "limit": 3_i64 };
        let whole = r#"{"find":"a","filter":{"b":[1,{"c":"d"}],"é":2.5},"limit":3}"#;
        for bytes_max in 0..whole.len() + 10 {
            let shown = text(&body, bytes_max);
            assert_eq!(shown, cut(whole, bytes_max), "{bytes_max}");
            assert!(shown.len() + 2 > bytes_max.min(whole.len()), "{bytes_max}");
        }
        let long = rawdoc! { "find": "x".repeat(100), "a": 1 };
        assert_eq!(text(&long, 12), r#"{"find":"xxx"#);
        let long = rawdoc! { "a": cairndb::bson::Binary { subtype: 0.into(), bytes: vec![0; 100] } };
        assert_eq!(text(&long, 90), r#"{"a":"..."}"#);
    }

    #[test]
    fn a_command_that_is_malformed_or_too_deep_is_not_shown() {
        use cairndb::bson::{RawDocumentBuf, rawdoc};
        for levels in [SHOWN_LEVELS_MAX, 100_000] {
            // Each level: a length, a type, an empty name, what is inside and a zero byte.
            let mut bytes = Vec::new();
            for level in (0..levels).rev() {
                bytes.extend(i32::try_from(5 + 7 * (level + 1)).expect("a length").to_le_bytes());
                bytes.extend([3, 0]);
            }
            bytes.extend([5, 0, 0, 0, 0]);
            bytes.extend(vec![0; levels]);
            let deep = RawDocumentBuf::from_bytes(bytes).expect("a document");
            let is_shown = !text(&deep, usize::MAX).is_empty();
            assert_eq!(is_shown, levels <= SHOWN_LEVELS_MAX, "{levels} levels");
        }
        let mut malformed = rawdoc! { "ping": true }.into_bytes();
        // The truth value.
        malformed[10] = 7;
        assert_eq!(text(RawDocument::from_bytes(&malformed).expect("its length is right"), 100), "");
    }
}
