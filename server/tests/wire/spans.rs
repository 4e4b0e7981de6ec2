//! Spans of `OpenTelemetry`: one for each command, and what the engine does in it below it.

use cairndb::bson::{Uuid, doc};
use cairndb::{Client, OpentelemetryOptions};
use cairndb_server::Server;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tokio::sync::oneshot;

use crate::peer::Peer;

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.as_str().into_owned())
}

/// Runs `work` beside a server, and returns the spans of both.
fn spans_of(work: impl FnOnce(&mut Peer)) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let mut tracing = OpentelemetryOptions::default().provided_by(provider);
    tracing.enabled = Some(true);
    let client = Client::builder().tracing(tracing.clone()).in_memory(true).open("").expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let builder = Server::builder(client).tcp("127.0.0.1:0".parse().expect("an address")).tracing(&tracing);
    let server = runtime.block_on(builder.bind()).expect("bound");
    let address = server.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = std::thread::spawn(move || {
        runtime.block_on(server.serve(async {
            let _ = stopped.await;
        }));
    });
    work(&mut Peer::connect(address));
    drop(stop);
    serving.join().expect("it ended");
    exporter.get_finished_spans().expect("kept")
}

#[test]
fn a_command_is_the_parent_of_what_the_engine_does() {
    let spans = spans_of(|peer| {
        peer.run(doc! { "insert": "a", "documents": [{ "_id": 1 }, { "_id": 2 }], "$db": "shop" });
    });
    let [engine, command] = spans.as_slice() else { panic!("{spans:#?}") };
    assert_eq!((&*command.name, command.span_kind.clone()), ("insert", SpanKind::Server));
    assert_eq!((&*engine.name, engine.parent_span_id), ("insert shop.a", command.span_context.span_id()));
    let expected = [
        ("db.system.name", "cairndb"),
        ("db.namespace", "shop"),
        ("db.collection.name", "a"),
        ("db.command.name", "insert"),
        ("db.query.summary", "insert shop.a"),
        ("db.mongodb.server_connection_id", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(attribute(command, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!((command.parent_span_id, &command.status), (SpanId::INVALID, &Status::Unset));
    assert!(attribute(command, "client.address").is_some_and(|address| address.starts_with("127.0.0.1:")));
    for (name, value) in
        [("server.address", "127.0.0.1"), ("network.transport", "tcp"), ("server.type", "Standalone")]
    {
        assert_eq!(attribute(command, name).as_deref(), Some(value), "{name}");
    }
    let port = attribute(command, "server.port").expect("a port").parse::<u16>();
    assert_ne!(attribute(command, "client.address"), port.map(|port| format!("127.0.0.1:{port}")).ok());
    assert_eq!(attribute(command, "db.mongodb.cursor_id"), None);
}

#[test]
fn the_session_and_the_cursor_that_is_opened_are_told() {
    let session = Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff").unwrap();
    let mut opened = 0;
    let spans = spans_of(|peer| {
        peer.run(doc! { "insert": "a", "documents": [{}, {}, {}], "lsid": { "id": session }, "$db": "shop" });
        let found = peer.run(doc! { "find": "a", "batchSize": 1, "$db": "shop" });
        opened = found.get_document("cursor").unwrap().get_i64("id").unwrap();
        // The first batch has all, so that no cursor is left.
        peer.run(doc! { "aggregate": "a", "pipeline": [], "cursor": {}, "$db": "shop" });
        peer.run(doc! { "getMore": opened, "collection": "a", "$db": "shop" });
    });
    let of = |name: &str| spans.iter().find(|span| span.name == name).expect("it has a span");
    let shown = attribute(of("insert"), "db.mongodb.lsid");
    assert_eq!(
        shown.as_deref(),
        Some(r#"{"id":{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}}"#)
    );
    assert_eq!(attribute(of("find"), "db.mongodb.lsid"), None);
    let opened = Some(opened.to_string());
    assert_eq!(attribute(of("find"), "db.mongodb.cursor_id"), opened);
    assert_eq!(attribute(of("aggregate"), "db.mongodb.cursor_id").as_deref(), Some("0"));
    // It was ended by the getMore, whose reply says 0.
    assert_eq!(attribute(of("getMore"), "db.mongodb.cursor_id"), opened);
}

#[test]
fn a_refusal_and_a_get_more_are_told() {
    let spans = spans_of(|peer| {
        peer.run(doc! { "insert": "a", "documents": [{ "_id": 1 }, { "_id": 2 }], "$db": "shop" });
        let found = peer.run(doc! { "find": "a", "batchSize": 1, "$db": "shop" });
        let id = found.get_document("cursor").unwrap().get_i64("id").unwrap();
        peer.run(doc! { "getMore": id, "collection": "a", "$db": "shop" });
        peer.run(doc! { "find": "a", "filter": { "$nonsense": 1 }, "$db": "shop" });
    });
    let named = |name: &str| spans.iter().filter(move |span| span.name == name).collect::<Vec<_>>();
    let get_more = named("getMore")[0];
    assert_eq!(attribute(get_more, "db.query.summary").as_deref(), Some("getMore shop.a"));
    assert!(attribute(get_more, "db.mongodb.cursor_id").is_some());
    let refused = named("find")[1];
    assert_eq!(attribute(refused, "db.response.status_code").as_deref(), Some("2"));
    assert_eq!(attribute(refused, "exception.type").as_deref(), Some("BadValue"));
    assert!(matches!(refused.status, Status::Error { .. }));
    let [event] = refused.events.iter().as_slice() else { panic!("{refused:#?}") };
    let told = event.attributes.iter().map(|told| (told.key.as_str(), told.value.as_str().into_owned()));
    let message = attribute(refused, "exception.message").unwrap();
    assert!(message.contains("$nonsense"), "{message}");
    let expected = [("exception.type", "BadValue".to_owned()), ("exception.message", message)];
    assert_eq!((&*event.name, told.collect::<Vec<_>>()), ("exception", expected.to_vec()));
}

#[test]
fn a_command_with_refused_writes_has_failed() {
    let spans = spans_of(|peer| {
        let twice = doc! { "insert": "a", "documents": [{ "_id": 1 }, { "_id": 1 }], "$db": "shop" };
        assert!(peer.run(twice).contains_key("writeErrors"));
    });
    let command = spans.iter().find(|span| span.span_kind == SpanKind::Server).expect("it has a span");
    assert_eq!(command.status, Status::error("some writes failed"));
    assert_eq!(attribute(command, "db.response.status_code"), None);
}

/// A hello that brings the first step of a login has no span, nor has any step, nor a command with a password.
#[test]
fn a_login_has_no_span() {
    let spans = spans_of(|peer| {
        peer.run(doc! { "updateUser": "ada", "pwd": "secret", "$db": "admin" });
        peer.run(doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": "secret", "$db": "admin" });
        let login = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": "secret", "db": "admin" };
        peer.run(doc! { "hello": 1, "speculativeAuthenticate": login, "$db": "admin" });
        peer.run(doc! { "hello": 1, "$db": "admin" });
    });
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["hello"]);
}
