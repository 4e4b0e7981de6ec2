//! The example of `docs/format.md`, against the bytes that the store holds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use bson::oid::ObjectId;
use bson::{Document, doc};
use query::operation::OperationContext;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::{Family, OpenMode, Store};

use crate::client::Client;
use crate::fixture::options;
use crate::options::{IndexModel, IndexOptions};

/// The values by family and key.
type Contents = BTreeMap<(String, String), String>;

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/linked/format.md")).expect("the page")
}

/// The bytes of a cell, without spaces and backquotes.
fn bytes_of(cell: &str) -> String {
    cell.replace(['`', ' '], "")
}

/// The rows of the tables between two headings, each with the line above its table.
fn rows<'a>(page: &'a str, from: &str, to: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let (_, rest) = page.split_once(from).expect("the heading");
    let (section, _) = rest.split_once(to).expect("the next heading");
    let mut caption = "";
    let mut rows = Vec::new();
    for line in section.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) {
            Some(cells) => rows.push((caption, cells.split('|').map(str::trim).collect())),
            None if line.starts_with('|') => {}
            None => caption = line,
        }
    }
    rows
}

/// What the page says is stored. For the catalog entry the page gives its beginning and its length.
fn documented(page: &str) -> Contents {
    let mut contents = Contents::new();
    let mut key: Option<(String, String)> = None;
    let mut is_key = false;
    for (caption, cells) in rows(page, "\n## Example\n", "\n## Keys\n") {
        let [first, bytes, _] = *cells.as_slice() else { panic!("three cells: {cells:?}") };
        let family = match caption {
            "The record:" => "records",
            "The entry in the unique index:" | "The entry in the plain index:" => "entries",
            "Family `meta`:" => {
                if first.starts_with('`') {
                    contents.insert(("meta".to_owned(), bytes_of(first)), bytes_of(bytes));
                }
                continue;
            }
            other => panic!("an unknown table: {other}"),
        };
        match first {
            "key" => {
                key = Some((family.to_owned(), bytes_of(bytes)));
                is_key = true;
            }
            "value" => {
                is_key = false;
                contents.insert(key.clone().expect("the key comes first"), bytes_of(bytes));
            }
            "" if bytes == "bytes" => {}
            "" if is_key => key.as_mut().expect("the key has begun").1.push_str(&bytes_of(bytes)),
            "" => {
                let value = contents.get_mut(key.as_ref().expect("the key comes first"));
                value.expect("the value has begun").push_str(&bytes_of(bytes));
            }
            other => panic!("an unknown part: {other}"),
        }
    }
    contents
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// Everything that the store's families hold.
fn stored(path: &Path) -> Contents {
    let store = Store::open(&options(path.to_owned(), OpenMode::ReadOnly)).expect("opened");
    let database = store.enter().expect("open");
    let snapshot = Snapshot::take(&database);
    let mut contents = Contents::new();
    for family in Family::ALL {
        let mut scan = Scan::open(
            &snapshot,
            family,
            (Vec::new(), None),
            CacheUse::Bypass,
            &OperationContext::unlimited(),
        );
        while scan.advance().expect("a step") {
            contents.insert((family.name().to_owned(), hex(scan.key())), hex(scan.value()));
        }
    }
    contents
}

#[test]
fn the_example_of_the_page_is_what_is_stored() {
    let page = page();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let client = Client::open(&path).expect("a new folder");
    let books = client.database("library").collection::<Document>("books");
    let unique = IndexOptions::builder().unique(true).build();
    let by_isbn = IndexModel::builder().keys(doc! { "isbn": 1 }).options(unique).build();
    let by_year = IndexModel::builder().keys(doc! { "year": -1 }).build();
    books.create_indexes([by_isbn, by_year]).run().expect("indexes");
    let id = ObjectId::parse_str("0123456789abcdef01234567").expect("an ObjectId");
    books.insert_one(doc! { "_id": id, "isbn": "a1", "year": 1 }).run().expect("a new document");
    client.close().expect("closed");

    let marker = hex(&fs::read(path.join("CAIRNDB")).expect("the marker"));
    let (_, shown) = page.split_once("The marker's bytes are `").expect("the marker's bytes");
    assert_eq!(bytes_of(shown.split_once('`').expect("an end").0), marker);

    let mut stored = stored(&path);
    let mut documented = documented(&page);
    let entry = ("meta".to_owned(), "6300000001".to_owned());
    let (start, more) = documented
        .remove(&entry)
        .and_then(|shown| {
            let (start, more) = shown.split_once("and")?;
            Some((start.to_owned(), more.strip_suffix("bytesmore")?.parse::<usize>().ok()?))
        })
        .expect("the catalog entry");
    let found = stored.remove(&entry).expect("the catalog entry");
    assert!(found.starts_with(&start) && found.len() == start.len() + 2 * more, "{found}");
    assert_eq!(stored, documented);
}
