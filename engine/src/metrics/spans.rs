//! Spans of `OpenTelemetry`: one for each call of a verb, with the attributes of MongoDB's driver.

use std::fmt;
use std::sync::{Arc, LazyLock};

use base::error::Error;
use base::namespace::{Namespace, SystemCollection};
use bson::{Bson, Document};
use opentelemetry::global::{BoxedTracer, ObjectSafeTracerProvider};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, ContextGuard, InstrumentationScope, KeyValue};

use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;

/// The variable that decides whether there are spans, if the options do not say it.
const ENABLED_VARIABLE: &str = "OTEL_RUST_INSTRUMENTATION_CAIRNDB_ENABLED";
/// The variable that decides the length at which a request is shown, if the options do not say it.
const TEXT_VARIABLE: &str = "OTEL_RUST_INSTRUMENTATION_CAIRNDB_QUERY_TEXT_MAX_LENGTH";

/// The settings of spans of `OpenTelemetry`, for a client or a server. The fields are those of MongoDB's Rust driver.
///
/// A span has the attributes of MongoDB's drivers: `db.system.name` (`cairndb`), `db.namespace`, `db.collection.name`,
/// `db.operation.name`, `db.operation.summary`, and after an error `exception.message`, `exception.type` and
/// `db.response.status_code`. A bulk write is the parent of its writes, and a served command that of the operations in it.
///
/// ```
/// # #[cfg(feature = "opentelemetry")]
/// # fn main() -> cairndb::Result<()> {
/// use cairndb::{Client, OpentelemetryOptions, bson::doc};
///
/// let mut tracing = OpentelemetryOptions::default();
/// tracing.enabled = Some(true);
/// // Without a provider of its own the client uses the one of the process.
/// let client = Client::builder().tracing(tracing).in_memory(true).open("")?;
/// client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "opentelemetry"))]
/// # fn main() {}
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpentelemetryOptions {
    /// Whether there are spans. If absent, the environment variable `OTEL_RUST_INSTRUMENTATION_CAIRNDB_ENABLED` decides: `1`,
    /// `true` or `yes`.
    pub enabled: Option<bool>,
    /// The number of bytes of a request that a span shows as `db.query.text`, values included; 0 for none. If absent,
    /// the environment variable `OTEL_RUST_INSTRUMENTATION_CAIRNDB_QUERY_TEXT_MAX_LENGTH` decides, and without it
    /// there is none.
    pub query_text_max_length: Option<usize>,
    /// The source of tracers. If absent, it is the one of the process.
    pub tracer_provider: Option<Arc<dyn ObjectSafeTracerProvider + Send + Sync>>,
}

impl OpentelemetryOptions {
    /// Sets what makes tracers.
    pub fn provided_by<P>(mut self, provider: P) -> Self
    where
        P: TracerProvider + Send + Sync + 'static,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as Tracer>::Span: Send + Sync + 'static,
    {
        self.tracer_provider = Some(Arc::new(provider));
        self
    }

    /// Whether there are spans, after a look at the environment.
    #[doc(hidden)]
    pub fn is_enabled(&self) -> bool {
        static ENABLED: LazyLock<bool> =
            LazyLock::new(|| matches!(std::env::var(ENABLED_VARIABLE).as_deref(), Ok("1" | "true" | "yes")));
        // Read once: the environment does not change while a program runs.
        self.enabled.unwrap_or_else(|| *ENABLED)
    }

    /// The number of bytes of a request that a span shows.
    #[doc(hidden)]
    pub fn text_bytes_max(&self) -> usize {
        static LENGTH: LazyLock<usize> = LazyLock::new(|| {
            std::env::var(TEXT_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        });
        self.query_text_max_length.unwrap_or_else(|| *LENGTH)
    }

    /// A tracer of the provider.
    #[doc(hidden)]
    pub fn tracer(&self, name: &'static str) -> BoxedTracer {
        let scope = InstrumentationScope::builder(name).with_version(env!("CARGO_PKG_VERSION")).build();
        match &self.tracer_provider {
            Some(provider) => BoxedTracer::new(provider.boxed_tracer(scope)),
            None => BoxedTracer::new(opentelemetry::global::tracer_provider().boxed_tracer(scope)),
        }
    }
}

impl fmt::Debug for OpentelemetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpentelemetryOptions")
            .field("enabled", &self.enabled)
            .field("query_text_max_length", &self.query_text_max_length)
            .finish_non_exhaustive()
    }
}

/// Makes the spans of a client.
#[derive(Debug)]
pub(crate) struct Spans {
    tracer: BoxedTracer,
    text_bytes_max: usize,
}

/// The span of a call that runs. It is the current span of the thread until it ends.
pub(crate) struct OpenSpan {
    context: Context,
    // Dropped with the span: what runs in between are its children.
    _attached: ContextGuard,
    text_bytes_max: usize,
}

impl Spans {
    /// Returns `None` if there are to be no spans.
    pub(crate) fn of(options: &OpentelemetryOptions) -> Option<Self> {
        let make = || Self { tracer: options.tracer("cairndb"), text_bytes_max: options.text_bytes_max() };
        options.is_enabled().then(make)
    }

    /// Begins a span. Returns `None` for a collection of the system, in which a server keeps its users.
    pub(crate) fn begin(&self, namespace: &Namespace, verb: Verb) -> Option<OpenSpan> {
        if SystemCollection::ALL.iter().any(|system| system.namespace() == *namespace) {
            return None;
        }
        // MongoDB's word, so that one dashboard shows both.
        let operation = operation(verb);
        let summary = format!("{operation} {namespace}");
        let attributes = [
            KeyValue::new("db.system", "cairndb"),
            KeyValue::new("db.system.name", "cairndb"),
            KeyValue::new("db.namespace", namespace.db.clone()),
            KeyValue::new("db.collection.name", namespace.coll.clone()),
            KeyValue::new("db.operation.name", operation),
            KeyValue::new("db.operation.summary", summary.clone()),
        ];
        let builder = self.tracer.span_builder(summary).with_kind(SpanKind::Client);
        let span = builder.with_attributes(attributes).start(&self.tracer);
        let context = Context::current_with_span(span);
        // A bulk write calls other verbs, whose spans are to be below its own.
        let attached = context.clone().attach();
        Some(OpenSpan { context, _attached: attached, text_bytes_max: self.text_bytes_max })
    }
}

impl OpenSpan {
    /// Ends the span of a call. `error` is absent if it succeeded, or if its result says what was rejected.
    pub(crate) fn end(self, error: Option<&Error>, has_failed: bool, requested: &Requested<'_>) {
        let span = self.context.span();
        // Values may be secret, so they are shown only where that was asked for.
        if self.text_bytes_max > 0 {
            span.set_attribute(KeyValue::new("db.query.text", text(requested, self.text_bytes_max)));
        }
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("exception.message", error.to_string()));
            span.set_attribute(KeyValue::new("exception.type", kind(error)));
            if let Some(code) = error.code() {
                span.set_attribute(KeyValue::new("db.response.status_code", code.to_string()));
            }
            span.record_error(error);
            span.set_status(Status::error(error.to_string()));
        } else if has_failed {
            span.set_status(Status::error("some writes failed"));
        }
        span.end();
    }
}

/// The name of an error's kind, without what it holds.
fn kind(error: &Error) -> String {
    let shown = format!("{:?}", error.kind());
    // Of a tuple or a struct the name comes first.
    shown.chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// A request as JSON, cut to `bytes_max` bytes.
fn text(requested: &Requested<'_>, bytes_max: usize) -> String {
    let mut request = Document::new();
    let mut add = |name: &str, part: Option<Bson>| {
        if let Some(part) = part {
            request.insert(name, part);
        }
    };
    add("filter", requested.filter.cloned().map(Bson::Document));
    add("sort", requested.sort.cloned().map(Bson::Document));
    let stages = |stages: &[Document]| Bson::Array(stages.iter().cloned().map(Bson::Document).collect());
    add("pipeline", requested.pipeline.map(stages));
    let mut text = Bson::Document(request).into_relaxed_extjson().to_string();
    if text.len() > bytes_max {
        // Cut within a character, it would not be a text.
        let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The command by which MongoDB's drivers do what the verb does.
fn operation(verb: Verb) -> &'static str {
    match verb {
        Verb::Aggregate => "aggregate",
        Verb::BulkWrite => "bulkWrite",
        Verb::CountDocuments | Verb::EstimatedDocumentCount => "count",
        Verb::CreateCollection => "create",
        Verb::CreateIndexes => "createIndexes",
        Verb::DeleteMany | Verb::DeleteOne => "delete",
        Verb::Distinct => "distinct",
        Verb::Drop => "drop",
        Verb::DropIndexes => "dropIndexes",
        Verb::Find | Verb::FindOne => "find",
        Verb::FindOneAndDelete | Verb::FindOneAndReplace | Verb::FindOneAndUpdate => "findAndModify",
        Verb::InsertMany | Verb::InsertOne => "insert",
        Verb::ListIndexes => "listIndexes",
        // The driver has no method for it, and this is the command. A truncate is a command of CairnDB's own.
        Verb::Rename => "renameCollection",
        Verb::Truncate => "truncate",
        Verb::ReplaceOne | Verb::UpdateMany | Verb::UpdateOne => "update",
    }
}
