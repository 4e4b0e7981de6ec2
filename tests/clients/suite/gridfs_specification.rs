//! MongoDB's specification tests of `GridFS`, run against the embedded API, in a folder and in memory.
//!
//! They are data in the unified format, which brings operations, what each must return, and what must be stored in the end. What
//! the runner does not know is a panic, so that no test passes by being passed over.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};

use bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Database, ErrorKind, GridFsBucket};
use cairndb_clients::script::installed;
use cairndb_tests::scratch::Scratch;

/// The number of tests in the pinned version.
const TESTS: usize = 39;

#[test]
fn mongodb_s_tests_of_gridfs_pass_on_the_embedded_api() {
    let folder = std::path::PathBuf::from(installed("CAIRNDB_SPECIFICATIONS")).join("gridfs");
    let mut passed = 0;
    let files: Vec<_> =
        fs::read_dir(&folder).expect("the folder is there").collect::<Result<_, _>>().expect("listed");
    for file in files {
        let text = fs::read_to_string(file.path()).expect("a file of text");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let suite = Bson::try_from(json).expect("Extended JSON");
        let suite = suite.as_document().expect("a document");
        for test in documents(suite, "tests") {
            let name = format!("{}: {}", file.path().display(), test.get_str("description").expect("a name"));
            eprintln!("{name}");
            run(&Client::in_memory().expect("made"), suite, &test);
            let scratch = Scratch::new();
            let client = scratch.open();
            run(&client, suite, &test);
            assert!(client.verify().expect("verified").is_clean(), "{name}");
            passed += 1;
        }
    }
    assert_eq!(passed, TESTS);
}

/// The entities of a test, by the names that it uses.
struct Entities {
    bucket: GridFsBucket,
    collections: HashMap<String, Collection<Document>>,
    saved: HashMap<String, Bson>,
}

fn run(client: &Client, suite: &Document, test: &Document) {
    for data in documents(suite, "initialData") {
        fill(&collection(client, &data), &documents(&data, "documents"));
    }
    let mut entities = entities(client, suite);
    for operation in documents(test, "operations") {
        let done = operate(&entities, &operation);
        if let Ok(expected) = operation.get_document("expectError") {
            assert_eq!(*expected, doc! { "isClientError": true });
            let error = done.expect_err("the test expects an error");
            assert!(matches!(error.kind(), ErrorKind::GridFs(_)), "{error:?}");
            continue;
        }
        let result = done.unwrap_or_else(|error| panic!("{operation}: {error:?}"));
        if let Some(expected) = operation.get("expectResult") {
            assert_matches(&entities, &result, expected);
        }
        if let Ok(name) = operation.get_str("saveResultAsEntity") {
            entities.saved.insert(name.to_owned(), result);
        }
    }
    let outcome = if test.contains_key("outcome") { documents(test, "outcome") } else { Vec::new() };
    for data in outcome {
        let stored = collection(client, &data).find(doc! {}).sort(doc! { "_id": 1 }).run().expect("read");
        let stored: Vec<Document> = stored.collect::<Result<_, _>>().expect("documents");
        let (stored, expected) = (array(&stored), array(&documents(&data, "documents")));
        assert_matches(&entities, &stored, &expected);
    }
}

fn entities(client: &Client, suite: &Document) -> Entities {
    let (mut database, mut bucket): (Option<Database>, Option<GridFsBucket>) = (None, None);
    let mut collections = HashMap::new();
    for entity in documents(suite, "createEntities") {
        let (kind, value) = entity.iter().next().expect("one field");
        let value = value.as_document().expect("a document");
        let database_of = |database: &Option<Database>| database.clone().expect("a database comes first");
        match kind.as_str() {
            "client" => {}
            "database" => database = Some(client.database(value.get_str("databaseName").expect("a name"))),
            "bucket" => bucket = Some(database_of(&database).gridfs_bucket(None)),
            "collection" => {
                let found =
                    database_of(&database).collection(value.get_str("collectionName").expect("a name"));
                collections.insert(value.get_str("id").expect("an id").to_owned(), found);
            }
            other => panic!("an entity that is not known: {other}"),
        }
    }
    Entities { bucket: bucket.expect("every test has a bucket"), collections, saved: HashMap::new() }
}

fn collection(client: &Client, data: &Document) -> Collection<Document> {
    let name = |field| data.get_str(field).expect("a name");
    client.database(name("databaseName")).collection(name("collectionName"))
}

fn fill(collection: &Collection<Document>, documents: &[Document]) {
    collection.drop().run().expect("dropped");
    if !documents.is_empty() {
        collection.insert_many(documents).run().expect("inserted");
    }
}

fn operate(entities: &Entities, operation: &Document) -> cairndb::Result<Bson> {
    let arguments = operation.get_document("arguments").expect("arguments");
    let name = operation.get_str("name").expect("a name");
    match entities.collections.get(operation.get_str("object").expect("an object")) {
        Some(collection) => operate_on_collection(collection, name, arguments),
        None => operate_on_bucket(&entities.bucket, name, arguments),
    }
}

fn operate_on_bucket(bucket: &GridFsBucket, name: &str, arguments: &Document) -> cairndb::Result<Bson> {
    let text = |field: &str| arguments.get_str(field).expect("a text").to_owned();
    let id = || arguments.get("id").expect("an id").clone();
    match name {
        "upload" => return upload(bucket, arguments),
        "download" => return read(bucket.open_download_stream(id()).run()?),
        "downloadByName" => {
            let mut open = bucket.open_download_stream_by_name(text("filename"));
            if let Ok(revision) = arguments.get_i32("revision") {
                open = open.revision(revision);
            }
            return read(open.run()?);
        }
        "delete" => bucket.delete(id()).run()?,
        "deleteByName" => bucket.delete_by_name(text("filename")).run()?,
        "rename" => bucket.rename(id(), text("newFilename")).run()?,
        "renameByName" => bucket.rename_by_name(text("filename"), text("newFilename")).run()?,
        other => panic!("an operation that is not known: {other}"),
    }
    Ok(Bson::Null)
}

fn upload(bucket: &GridFsBucket, arguments: &Document) -> cairndb::Result<Bson> {
    let mut open = bucket.open_upload_stream(arguments.get_str("filename").expect("a name"));
    let mut source = Vec::new();
    for (name, value) in arguments {
        match name.as_str() {
            "filename" => {}
            "source" => source = bytes(value.as_document().expect("a source"), "$$hexBytes"),
            "chunkSizeBytes" => {
                let size = value.as_i32().and_then(|size| u32::try_from(size).ok());
                open = open.chunk_size_bytes(size.expect("a size"));
            }
            "metadata" => open = open.metadata(value.as_document().expect("a document").clone()),
            // No sums are computed at all, so there is nothing to leave out.
            "disableMD5" => assert_eq!(value, &Bson::Boolean(true)),
            other => panic!("an option that is not known: {other}"),
        }
    }
    let mut stream = open.run()?;
    stream.write_all(&source)?;
    stream.close()?;
    Ok(stream.id().clone())
}

/// The content, as a binary value.
fn read(mut stream: impl Read) -> cairndb::Result<Bson> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes }.into())
}

fn operate_on_collection(
    collection: &Collection<Document>,
    name: &str,
    arguments: &Document,
) -> cairndb::Result<Bson> {
    let part = |field: &str| arguments.get_document(field).expect("a document").clone();
    let number = |count: u64| i64::try_from(count).expect("it is small");
    match name {
        "deleteOne" => {
            let deleted = collection.delete_one(part("filter")).run()?.deleted_count;
            Ok(doc! { "deletedCount": number(deleted) }.into())
        }
        "updateOne" => {
            let updated = collection.update_one(part("filter"), part("update")).run()?;
            let (matched, modified) = (number(updated.matched_count), number(updated.modified_count));
            Ok(doc! { "matchedCount": matched, "modifiedCount": modified, "upsertedCount": 0 }.into())
        }
        "bulkWrite" => {
            let mut counts = [0; 2];
            for request in documents(arguments, "requests") {
                let update = request.get_document("updateOne").expect("updates are the only requests");
                let done = operate_on_collection(collection, "updateOne", update)?;
                let done = done.as_document().expect("a document");
                for (count, field) in counts.iter_mut().zip(["matchedCount", "modifiedCount"]) {
                    *count += done.get_i64(field).expect("a number");
                }
            }
            let [matched, modified] = counts;
            Ok(doc! { "matchedCount": matched, "modifiedCount": modified }.into())
        }
        "find" => {
            let sort = arguments.get_document("sort").cloned().unwrap_or_default();
            let found = collection.find(part("filter")).sort(sort).run()?;
            Ok(array(&found.collect::<Result<Vec<_>, _>>()?))
        }
        other => panic!("an operation that is not known: {other}"),
    }
}

/// Compares by the rules of the format: numbers by their value, and a document of a result may have more fields.
#[track_caller]
fn assert_matches(entities: &Entities, found: &Bson, expected: &Bson) {
    if let (Some(found), Some(expected)) = (as_number(found), as_number(expected)) {
        assert_eq!(found, expected);
        return;
    }
    match (found, expected) {
        (_, Bson::Document(operator)) if operator.keys().any(|name| name.starts_with("$$")) => {
            assert!(meets(entities, Some(found), operator), "{found} does not meet {operator}");
        }
        (Bson::Array(found), Bson::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{found:?} instead of {expected:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert_matches(entities, found, expected);
            }
        }
        (Bson::Document(found), Bson::Document(expected)) => {
            for (name, expected) in expected {
                match (found.get(name), expected.as_document()) {
                    (Some(found), _) => assert_matches(entities, found, expected),
                    (None, Some(operator)) if meets(entities, None, operator) => {}
                    (None, _) => panic!("{found} has no {name}, which must be {expected}"),
                }
            }
        }
        _ => assert_eq!(found, expected),
    }
}

/// Whether a value meets an operator of the format.
fn meets(entities: &Entities, found: Option<&Bson>, operator: &Document) -> bool {
    let (name, argument) = operator.iter().next().expect("one field");
    match (name.as_str(), found) {
        ("$$unsetOrMatches", None) => true,
        ("$$unsetOrMatches", Some(found)) => found == argument,
        ("$$type", Some(found)) => match argument.as_str().expect("a name") {
            "objectId" => matches!(found, Bson::ObjectId(_)),
            "date" => matches!(found, Bson::DateTime(_)),
            other => panic!("a type that is not known: {other}"),
        },
        ("$$matchesEntity", Some(found)) => {
            entities.saved.get(argument.as_str().expect("a name")) == Some(found)
        }
        ("$$matchesHexBytes", Some(Bson::Binary(found))) => {
            found.bytes == bytes(operator, "$$matchesHexBytes")
        }
        ("$$exists", found) => argument == &Bson::Boolean(found.is_some()),
        ("$$type" | "$$matchesEntity" | "$$matchesHexBytes", _) => false,
        (other, _) => panic!("an operator that is not known: {other}"),
    }
}

fn as_number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

fn bytes(document: &Document, field: &str) -> Vec<u8> {
    let digits = document.get_str(field).expect("hexadecimal digits");
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

#[track_caller]
fn documents(document: &Document, field: &str) -> Vec<Document> {
    let values = document.get_array(field).unwrap_or_else(|error| panic!("{field}: {error}"));
    values.iter().map(|value| value.as_document().expect("a document").clone()).collect()
}

fn array(documents: &[Document]) -> Bson {
    Bson::Array(documents.iter().cloned().map(Bson::Document).collect())
}
