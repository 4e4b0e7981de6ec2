//! The size of a collection and its indexes.

use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{Hint, IndexModel, IndexOptions};

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
}
