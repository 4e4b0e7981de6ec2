//! Spans of `OpenTelemetry`: one for each command, with the attributes of MongoDB's driver, and the parent of what the engine does in it.

use cairndb::OpentelemetryOptions;
use cairndb::bson::{Bson, Document, RawDocument};
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, ContextGuard, KeyValue};

use crate::failure::Failure;

/// What a span shows of a command and the connection that sent it.
#[derive(Clone, Copy)]
pub(crate) struct Traced<'a> {
    pub(crate) name: &'a str,
    pub(crate) database: &'a str,
    pub(crate) body: &'a RawDocument,
    pub(crate) connection: i32,
    pub(crate) address: &'a str,
}

/// Commands that say something of a login, in MongoDB's drivers and here. They have no spans.
const SENSITIVE: [&str; 4] = ["saslStart", "saslContinue", "authenticate", "getnonce"];

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
        let Traced { name, database, body, connection, address } = traced;
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
        ];
        attributes.extend(collection.map(|name| KeyValue::new("db.collection.name", name.to_owned())));
        // So that the commands of one cursor can be found.
        let cursor = body.get_i64(name).ok().filter(|_| name == "getMore");
        attributes.extend(cursor.map(|id| KeyValue::new("db.mongodb.cursor_id", id)));
        if self.text_bytes_max > 0 {
            attributes.push(KeyValue::new("db.query.text", text(body, self.text_bytes_max)));
        }
        // No parent: MongoDB's protocol carries none.
        let builder = self.tracer.span_builder(name.to_owned()).with_kind(SpanKind::Server);
        let span = builder.with_attributes(attributes).start(&self.tracer);
        Some(OpenSpan { context: Context::current_with_span(span) })
    }
}

impl OpenSpan {
    /// Makes it the current span of this thread, until the guard is dropped.
    pub(crate) fn attach(&self) -> ContextGuard {
        self.context.clone().attach()
    }

    /// Ends the span.
    pub(crate) fn end(self, failure: Option<&Failure>) {
        let span = self.context.span();
        if let Some(failure) = failure {
            // As text, which is what the conventions of OpenTelemetry say.
            span.set_attribute(KeyValue::new("db.response.status_code", failure.code().to_string()));
            span.set_attribute(KeyValue::new("exception.type", failure.name().to_owned()));
            span.set_attribute(KeyValue::new("exception.message", failure.message().to_owned()));
            span.set_status(Status::error(failure.message().to_owned()));
        }
        span.end();
    }
}

/// A command as JSON, cut to `bytes_max` bytes.
fn text(body: &RawDocument, bytes_max: usize) -> String {
    // One that is malformed, or too deep, is not shown.
    let Ok(document) = Document::try_from(body) else { return String::new() };
    let mut text = Bson::Document(document).into_relaxed_extjson().to_string();
    if text.len() > bytes_max {
        // Cut within a character, it would not be a text.
        let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
