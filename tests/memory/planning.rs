//! A plan costs memory in proportion to its request, however its lists and branches multiply.

use std::time::Instant;

use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{Collection, IndexModel};
use cairndb_tests::scratch::Scratch;

use crate::allocated;

/// Bytes allocated, freed or not, for each byte of a filter: of an empty collection nothing is read, so nearly all is planning.
const FACTOR: usize = 300;

/// A find by `filter` in an empty collection with `indexes`.
#[track_caller]
fn check(name: &str, indexes: &[Document], filter: &Document, sort: &Document) {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things: Collection<RawDocumentBuf> = client.database("test").collection("things");
    client.database("test").create_collection("things").run().expect("created");
    for keys in indexes {
        things.create_index(IndexModel::builder().keys(keys.clone()).build()).run().expect("built");
    }
    let request = RawDocumentBuf::try_from(filter).expect("small enough").as_bytes().len();
    let filter = filter.clone();
    let started = Instant::now();
    let (spent, found) = allocated(|| {
        let mut cursor = things.find(filter).sort(sort.clone()).run().expect("a cursor");
        cursor.advance().expect("read")
    });
    let took = started.elapsed().as_millis();
    eprintln!("{name}: {} KiB and {took} ms for {} KiB of filter", spent >> 10, request >> 10);
    assert!(!found);
    assert!(spent <= FACTOR * request, "{name}: {spent} bytes for a filter of {request}");
}

/// Each branch is merged of a scan for each value of `a`, and each of these scans tested its entries by a copy of the whole
/// filter: 60 values in each of 50 branches used 1.2 GB.
#[test]
fn branches_that_are_merged_cost_no_copies_of_the_filter() {
    for (branches, values) in [(50, 60), (100, 60), (50, 120)] {
        let branch = |b: i32| doc! { "a": { "$in": (0..values).collect::<Vec<i32>>() }, "b": b };
        let filter = doc! { "$or": (0..branches).map(branch).collect::<Vec<_>>() };
        let name = format!("{branches} branches of {values} values");
        check(&name, &[doc! { "a": 1, "c": 1, "b": 1 }], &filter, &doc! { "c": 1 });
    }
}

/// Each branch had its own copy of the bounds that the other conditions give: 500 branches beside 10,000 values used 1 GB.
#[test]
fn branches_share_the_bounds_of_the_other_conditions() {
    let values: Vec<i32> = (0..10_000).collect();
    let branches: Vec<Document> = (0..500).map(|b| doc! { "b": b }).collect();
    let filter = doc! { "a": { "$in": values }, "$or": branches };
    check("10,000 values beside 500 branches", &[doc! { "b": 1, "a": 1 }], &filter, &doc! {});
}

/// Each index had its own list of the same values: eight of them used 451 MB.
#[test]
fn indexes_share_the_bounds_on_the_same_field() {
    let names = ["b", "c", "d", "e", "f", "g", "h", "i"];
    let indexes: Vec<Document> = names.iter().map(|name| doc! { "a": 1, *name: 1 }).collect();
    let filter = doc! { "a": { "$in": (0..100_000).collect::<Vec<i32>>() } };
    check("100,000 values and eight indexes", &indexes, &filter, &doc! {});
}
