//! The size of a collection and its indexes.

use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{Client, ErrorKind, FileKind, Hint, IndexModel, IndexOptions};

use crate::{Fixture, refused};

/// The size of an empty collection or index.
const EMPTY: u64 = 4096;

fn person(id: i32) -> Document {
    doc! { "_id": id, "name": format!("{id:0100}"), "tags": [id, id + 1], "rare": id % 1000 == 0 }
}

fn bytes_of(document: &Document) -> u64 {
    RawDocumentBuf::try_from(document).expect("small").as_bytes().len() as u64
}

fn index(name: &str, keys: Document, options: IndexOptions) -> IndexModel {
    let mut options = options;
    options.name = Some(name.to_owned());
    IndexModel::builder().keys(keys).options(options).build()
}

#[test]
fn a_collection_without_documents_has_the_least_sizes() {
    let fixture = Fixture::with([person(1)]);
    fixture.things.delete_many(doc! {}).run().expect("removed");
    let stats = fixture.things.stats().run().expect("stats");
    assert_eq!((stats.count, stats.size, stats.average_size), (0, 0, None));
    assert_eq!((stats.storage_size, stats.total_index_size), (EMPTY, EMPTY));
    assert_eq!(stats.indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>(), ["_id_"]);
}

#[test]
fn a_collection_that_does_not_exist_has_no_stats() {
    let fixture = Fixture::new();
    refused(fixture.things.stats().run(), 26, "ns not found: test.things");
    assert!(fixture.client.list_database_names().run().expect("names").is_empty());
}

#[test]
fn sizes_are_those_of_documents_and_of_each_index() {
    let fixture = Fixture::with((0..3000).map(person));
    let things = &fixture.things;
    let rare = IndexOptions::builder().partial_filter_expression(doc! { "rare": true }).build();
    let hidden = IndexOptions::builder().hidden(true).build();
    for model in [
        index("by_name", doc! { "name": 1 }, IndexOptions::builder().unique(true).build()),
        index("rare", doc! { "name": -1 }, rare),
        index("hidden", doc! { "tags": 1 }, hidden),
    ] {
        things.create_index(model).run().expect("made");
    }
    let stats = things.stats().run().expect("stats");
    let bytes = bytes_of(&person(0));
    // All documents have the same size, so what is extrapolated is exact.
    assert_eq!((stats.count, stats.size, stats.average_size), (3000, 3000 * bytes, Some(bytes)));
    assert!(stats.storage_size >= stats.size, "{stats:?}");
    let size = |name: &str| {
        let found = stats.indexes.iter().find(|index| index.name == name);
        found.unwrap_or_else(|| panic!("{name} is missing: {stats:?}")).size
    };
    assert_eq!(stats.indexes.len(), 4, "{stats:?}");
    assert!((3000 * 100..3000 * 200).contains(&size("by_name")), "{stats:?}");
    // Three keys once counted as three thousand.
    assert_eq!(size("rare"), EMPTY, "{stats:?}");
    assert!(size("hidden") > EMPTY && size("_id_") > EMPTY, "{stats:?}");
    assert_eq!(stats.total_index_size, stats.indexes.iter().map(|index| index.size).sum::<u64>());
    // The index is there as the stats say, for a search that names it.
    let found =
        things.find(doc! { "rare": true }).hint(Hint::Name("rare".to_owned())).run().expect("a cursor");
    assert_eq!(found.count(), 3);
}

#[test]
fn the_command_tells_the_same() {
    let fixture = Fixture::with((0..50).map(person));
    let model = index("by_name", doc! { "name": 1 }, IndexOptions::default());
    fixture.things.create_index(model).run().expect("made");
    let stats = fixture.things.stats().run().expect("stats");
    let told =
        fixture.client.database("test").run_command(doc! { "collStats": "things" }).run().expect("told");
    let number = |name: &str| told.get_i64(name).ok().map(i64::cast_unsigned);
    assert_eq!(number("count"), Some(stats.count));
    assert_eq!(number("size"), Some(stats.size));
    assert_eq!(number("avgObjSize"), stats.average_size);
    assert_eq!(number("storageSize"), Some(stats.storage_size));
    assert_eq!(number("totalIndexSize"), Some(stats.total_index_size));
    assert_eq!(number("tableSize"), Some(stats.table_size));
    assert_eq!(told.get_bool("isInTables").ok(), Some(stats.is_in_tables));
}

#[test]
fn tables_are_told_apart_from_the_log() {
    let fixture = Fixture::with((0..1000).map(person));
    let sizes = || fixture.things.stats().run().expect("stats");
    let before = sizes();
    assert_eq!((before.table_size, before.is_in_tables), (0, false), "{before:?}");
    fixture.client.flush().expect("flushed");
    let flushed = sizes();
    assert!(flushed.is_in_tables, "{flushed:?}");
    // They are compressed, and `storage_size` is never less than the documents.
    assert!((1..flushed.size / 2).contains(&flushed.table_size), "{flushed:?}");
    // A twentieth of them may be in the log, and not one more.
    fixture.things.insert_many((1000..1051).map(person)).run().expect("inserted");
    assert!(sizes().is_in_tables, "{:?}", sizes());
    fixture.things.insert_many((1051..1060).map(person)).run().expect("inserted");
    assert!(!sizes().is_in_tables, "{:?}", sizes());
}

#[test]
fn a_folder_tells_its_files_and_how_it_was_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let told = |client: &Client| client.folder_stats().expect("told").expect("it is no store in memory");
    let client = Client::open(&path).expect("opened");
    let made = told(&client);
    assert_eq!((made.path.as_path(), made.format, made.was_closed_in_order), (path.as_path(), 7, false));
    client.close().expect("closed");
    let client = Client::open(&path).expect("opened");
    client.database("test").collection("things").insert_one(doc! { "_id": 1 }).run().expect("inserted");
    // It says how the folder was when it was opened.
    assert!(told(&client).was_closed_in_order);
    let reader = Client::builder().read_only(true).open(&path).expect("opened");
    assert!(!told(&reader).was_closed_in_order);
    client.flush().expect("flushed");
    let files = told(&client).files;
    let tables = files.iter().find(|files| files.kind == FileKind::Tables).expect("tables");
    // Tables that a compaction has replaced may be there for a moment.
    assert!(tables.bytes >= client.metrics().expect("metrics").storage.table_bytes);
    assert!(files.iter().all(|files| files.kind != FileKind::Other && files.disk_bytes >= files.bytes));
    let again = client.clone();
    client.close().expect("closed");
    assert!(again.folder_stats().is_err_and(|error| matches!(error.kind(), ErrorKind::Closed)));
    assert_eq!(Client::in_memory().expect("opened").folder_stats().expect("told"), None);
}
