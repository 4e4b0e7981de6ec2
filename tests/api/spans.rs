//! Spans of `OpenTelemetry`: names and attributes as those of MongoDB's driver.

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, IndexModel, OpentelemetryOptions, UpdateOneModel};
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

/// A client whose spans are kept.
struct Traced {
    client: Client,
    things: Collection<Document>,
    exporter: InMemorySpanExporter,
}

impl Traced {
    fn new(text_bytes_max: usize) -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let mut tracing = OpentelemetryOptions::default().provided_by(provider);
        tracing.enabled = Some(true);
        tracing.query_text_max_length = Some(text_bytes_max);
        let client = Client::builder().tracing(tracing).in_memory(true).open("").expect("made");
        let things = client.database("app").collection("things");
        Self { client, things, exporter }
    }

    /// The spans since the last call, in the order of their ends.
    fn take(&self) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().expect("kept");
        self.exporter.reset();
        spans
    }

    fn take_one(&self) -> SpanData {
        let mut spans = self.take();
        assert_eq!(spans.len(), 1, "{spans:#?}");
        spans.remove(0)
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.as_str().into_owned())
}

/// A call of a verb.
type Work = fn(&Collection<Document>);

#[test]
fn each_verb_is_a_span_with_the_drivers_attributes() {
    let traced = Traced::new(0);
    let things = &traced.things;
    let verbs: [(&str, Work); 15] = [
        ("insert", |things| drop(things.insert_one(doc! { "_id": 1 }).run())),
        ("insert", |things| drop(things.insert_many([doc! { "_id": 2 }]).run())),
        ("find", |things| things.find(doc! {}).run().unwrap().for_each(drop)),
        ("find", |things| drop(things.find_one(doc! { "_id": 1 }).run())),
        ("update", |things| drop(things.update_one(doc! {}, doc! { "$set": { "a": 1 } }).run())),
        ("findAndModify", |things| drop(things.find_one_and_delete(doc! { "_id": 2 }).run())),
        ("count", |things| drop(things.count_documents(doc! {}).run())),
        ("distinct", |things| drop(things.distinct("a", doc! {}).run())),
        ("aggregate", |things| things.aggregate([doc! { "$match": {} }]).run().unwrap().for_each(drop)),
        ("delete", |things| drop(things.delete_many(doc! {}).run())),
        ("count", |things| drop(things.estimated_document_count().run())),
        ("listIndexes", |things| drop(things.list_indexes().run())),
        ("dropIndexes", |things| drop(things.drop_indexes().run())),
        ("truncate", |things| drop(things.truncate().run())),
        ("drop", |things| drop(things.drop().run())),
    ];
    for (operation, work) in verbs {
        work(things);
        let span = traced.take_one();
        assert_eq!(span.name, format!("{operation} app.things"));
        assert_eq!((span.span_kind.clone(), span.parent_span_id), (SpanKind::Client, SpanId::INVALID));
        let expected = [
            ("db.system.name", "cairndb"),
            ("db.namespace", "app"),
            ("db.collection.name", "things"),
            ("db.operation.name", operation),
            ("db.operation.summary", &format!("{operation} app.things")),
        ];
        for (name, value) in expected {
            assert_eq!(attribute(&span, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!((attribute(&span, "db.query.text"), &span.status), (None, &Status::Unset));
    }
    things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().unwrap();
    assert_eq!(traced.take_one().name, "createIndexes app.things");
    traced.client.database("app").create_collection("others").run().unwrap();
    assert_eq!(traced.take_one().name, "create app.others");
    things.rename("elsewhere").run().unwrap();
    assert_eq!(traced.take_one().name, "renameCollection app.things");
}

#[test]
fn an_error_is_told_with_its_code() {
    let traced = Traced::new(0);
    traced.things.insert_one(doc! { "_id": 1 }).run().unwrap();
    traced.take();
    let error = traced.things.insert_one(doc! { "_id": 1 }).run().unwrap_err();
    let span = traced.take_one();
    assert_eq!(attribute(&span, "db.response.status_code").as_deref(), Some("11000"));
    assert_eq!(attribute(&span, "exception.type").as_deref(), Some("Write"));
    assert_eq!(attribute(&span, "exception.message"), Some(error.to_string()));
    assert_eq!(span.status, Status::error(error.to_string()));
    // A rejected document of many is not an error of the storage, and a failure all the same.
    traced.things.insert_many([doc! { "_id": 1 }]).run().unwrap_err();
    assert!(matches!(traced.take_one().status, Status::Error { .. }));
    assert!(traced.things.find(doc! { "$nonsense": 1 }).run().is_err());
    assert_eq!(attribute(&traced.take_one(), "db.response.status_code").as_deref(), Some("2"));
}

#[test]
fn a_bulk_write_is_the_parent_of_its_writes() {
    let traced = Traced::new(0);
    let write = |id: i32| {
        let model = UpdateOneModel::builder().namespace(traced.things.namespace()).filter(doc! { "_id": id });
        model.update(doc! { "$set": { "a": 1 } }).build()
    };
    traced.client.bulk_write([write(1), write(2)]).run().unwrap();
    let spans = traced.take();
    let [first, second, bulk] = spans.as_slice() else { panic!("{spans:#?}") };
    assert_eq!(bulk.name, "bulkWrite admin.$cmd.bulkWrite");
    for write in [first, second] {
        assert_eq!((&*write.name, write.parent_span_id), ("update app.things", bulk.span_context.span_id()));
    }
    // Nothing is left open: the next span has no parent.
    traced.things.find_one(doc! {}).run().unwrap();
    assert_eq!(traced.take_one().parent_span_id, SpanId::INVALID);
}

#[test]
fn the_request_is_shown_if_asked_for_and_cut() {
    let traced = Traced::new(30);
    traced.things.find(doc! { "name": "Ada" }).sort(doc! { "name": 1 }).run().unwrap().for_each(drop);
    let text = attribute(&traced.take_one(), "db.query.text").unwrap();
    assert_eq!(text, r#"{"filter":{"name":"Ada"},"sort"#);
    // Within a character of two bytes.
    traced.things.delete_one(doc! { "name": "a\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}" }).run().unwrap();
    let text = attribute(&traced.take_one(), "db.query.text").unwrap();
    assert!(text.len() <= 30 && text.starts_with(r#"{"filter":{"name":"a"#), "{text}");
}

#[test]
fn there_are_no_spans_unless_they_are_asked_for() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let tracing = OpentelemetryOptions::default().provided_by(provider);
    let client = Client::builder().tracing(tracing).in_memory(true).open("").expect("made");
    client.database("app").collection("things").insert_one(doc! {}).run().unwrap();
    assert!(exporter.get_finished_spans().unwrap().is_empty());
}
